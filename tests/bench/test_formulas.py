"""Costs of methods in passes of the network."""

import pytest

from fedcli.bench.engine import formula, measurable
from fedcli.bench.passes import PASSES
from fedcli.errors import UsageError
from fedcli.methods import METHODS, resolve
from fedcli.methods.contract import Local


@pytest.mark.parametrize("name", METHODS)
def test_every_half_says_what_it_costs_or_why_that_is_not_known(name):
    for half in (METHODS[name].local, METHODS[name].aggregator):
        assert half.cost != Local.cost, (
            f"say cost = ... in {type(half).__name__}, see methods/contract.py"
        )
        assert isinstance(half.cost, str) or half.cost.keys() <= set(PASSES)


def test_a_pair_costs_what_its_halves_do():
    expected = {"step": 1, "look": 2, "gradient": 1, "forward": 1}
    assert formula(resolve("moon+saga")) == expected
    expected = {"step": 2, "look": 0, "gradient": 1, "forward": 1}
    assert formula(resolve("fedism-plus")) == expected


@pytest.mark.parametrize(
    ("name", "reason"), [("lora", "little"), ("kd", "teacher"), ("crt", "finished run")]
)
def test_a_method_without_a_formula_says_why_and_is_not_measured(name, reason):
    with pytest.raises(UsageError, match=reason):
        formula(resolve(name))
    assert name not in measurable()
