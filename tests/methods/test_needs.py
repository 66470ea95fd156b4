"""Needs that methods declare for their servers, against what their rules do with the models."""

from dataclasses import replace

import pytest
import torch

from fedcli.bench.checks import Subject
from fedcli.methods import METHODS, resolve
from fedcli.methods.contract import NEEDS

SHORTER = {"creff": {"features": 4, "steps": 5, "epochs": 5}}  # of the server's own training


def seen(name):
    """The word for what the rule's second round needs, by what it makes of other models with the same reports.

    A rule that needs sums gives the same model for the same weighted sum. One that needs scalars is affine in models.
    """
    subject = Subject(name, SHORTER.get(name, {}))
    rule = subject.method.aggregator
    calls = []
    kind = type(rule)
    aggregate = kind.aggregate

    def spy(self, theta, updates, memory):
        calls.append((theta, updates, dict(memory)))
        return aggregate(self, theta, updates, memory)

    kind.aggregate = spy
    try:
        subject.train(until=2)
    finally:
        kind.aggregate = aggregate
    theta, updates, memory = calls[-1]

    def made(models):
        return aggregate(rule, theta, replace(updates, theta=models), dict(memory))[0].double()

    stream = torch.Generator().manual_seed(0)
    a, b, shift = (0.01 * torch.randn(updates.theta.shape, generator=stream) for _ in range(3))
    a = updates.theta + a
    b = updates.theta + b
    shift = shift - updates.base.float() @ shift
    scale = (made(a) - made(b)).abs().max()
    if (
        made(updates.theta + shift) - made(updates.theta)
    ).abs().max() <= 1e-3 * scale:  # 0 of a constant rule
        return "sums"
    bend = made((a + b) / 2) - (made(a) + made(b)) / 2
    return "scalars" if bend.abs().max() < 1e-3 * scale else "updates"


CHOOSING = (
    "krum",
    "multi-krum",
    "dnc",
)  # by distances; of models that are near, always the same, so their rule is linear there
RULES = {type(method.aggregator): name for name, method in reversed(METHODS.items())}


@pytest.mark.parametrize("name", RULES.values())
def test_what_the_server_needs_is_what_its_rule_uses(name):
    needs = seen(name)
    expected = "updates" if name in CHOOSING and needs == "scalars" else needs
    assert METHODS[name].aggregator.needs == expected


@pytest.mark.parametrize("name", METHODS)
def test_a_method_needs_no_less_than_its_rule(name):
    """The word is that of the half that needs more."""
    method = METHODS[name]
    assert method.needs in NEEDS
    result = list(NEEDS).index(method.needs)
    assert result >= list(NEEDS).index(method.aggregator.needs)


def test_a_pair_needs_what_its_rule_needs():
    assert resolve("scaffold+fedheal").needs == "updates"
    assert resolve("moon+qffl").needs == "scalars"
