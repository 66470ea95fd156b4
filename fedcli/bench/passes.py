"""Passes of a network that a method makes, by kind, from what its halves state as their `cost`;
without torch.
"""

from collections.abc import Iterable, Mapping
from typing import Any

PASSES = "step", "look", "gradient", "forward"  # of the network, as in the `cost` of methods
NOT_STATED = {"step": 1}  # the passes of a method that cannot state any


def summed(halves: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The passes of a method's two halves together, by kind."""
    passes = dict.fromkeys(PASSES, 0)
    for half in halves:
        for kind in PASSES:
            passes[kind] += half.get(kind, 0)
    return passes


def passes_of(method: Any) -> dict[str, int]:
    """The passes of a method, by kind; those of plain training where a half cannot state them."""
    costs = [half.cost for half in (method.local, method.aggregator)]
    if any(isinstance(cost, str) for cost in costs):
        return summed([NOT_STATED])
    return summed(costs)
