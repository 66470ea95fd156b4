"""All pairs of methods, and a few that cover the others."""

from itertools import product

from fedcli.methods import METHODS
from fedcli.methods.contract import Aggregator, Local
from fedcli.methods.mixins import LinearHeadOnly

AVERAGE = type(METHODS["fedavg"].aggregator)
PLAIN = type(METHODS["fedavg"].local)
BASES = [name for name, method in METHODS.items() if isinstance(method.aggregator, AVERAGE)]
ADDONS = [
    name for name, method in METHODS.items() if type(method.local) is PLAIN and name not in BASES
]


def fit(base: str, addon: str) -> bool:
    if METHODS[base].local.head == "linear":
        return True
    return not isinstance(METHODS[addon].aggregator, LinearHeadOnly)


PAIRS = [f"{base}+{addon}" for base in BASES for addon in ADDONS if fit(base, addon)]


def overridden(half, contract: type) -> set[str]:
    """The hooks of the contract that a half has for itself."""
    return {
        name
        for name, hook in vars(contract).items()
        if callable(hook) and getattr(type(half), name) is not hook
    }


def covered(pair: str) -> set:
    """Combinations that training this pair tries: its base, its rule, and each hook of the one beside each of the other."""
    base, rule = pair.split("+")
    local = overridden(METHODS[base].local, Local)
    server = overridden(METHODS[rule].aggregator, Aggregator)
    return {base, rule, *product(local, server)}


def hooks(pair: str) -> set:
    """Each hook of the one beside each of the other."""
    return covered(pair) - {*pair.split("+")}


def covering(pairs: list[str], covered=covered) -> list[str]:
    """Few of these pairs, in which every base, every rule and every two hooks of base and rule occur."""
    chosen: list[str] = []
    uncovered = set().union(*map(covered, pairs))
    while uncovered:
        chosen.append(max(pairs, key=lambda pair: len(covered(pair) & uncovered)))
        uncovered -= covered(chosen[-1])
    return chosen
