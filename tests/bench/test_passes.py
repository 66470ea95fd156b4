"""Passes of a method by kind, as its halves state them."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from fedcli.bench.passes import NOT_STATED, PASSES, passes_of, summed
from fedcli.methods import METHODS, resolve


def of_costs(local, aggregator):
    """A method whose halves state these costs."""
    return SimpleNamespace(
        local=SimpleNamespace(cost=local),
        aggregator=SimpleNamespace(cost=aggregator),
    )


def test_both_halves_count_and_what_neither_makes_is_0():
    passes = summed([{"step": 1, "look": 1}, {"look": 2, "forward": 1}])
    assert passes == {"step": 1, "look": 3, "gradient": 0, "forward": 1}


def test_without_a_half_there_is_no_pass():
    assert summed([]) == dict.fromkeys(PASSES, 0)


@pytest.mark.parametrize(
    ("local", "aggregator"),
    [("unknown", "unknown"), ("it has a teacher", {}), ({"step": 2}, "unknown")],
)
def test_a_method_of_which_a_half_states_nothing_is_taken_for_plain_training(local, aggregator):
    passes = passes_of(of_costs(local, aggregator))
    assert passes == summed([NOT_STATED])
    assert passes == passes_of(METHODS["fedavg"])


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_makes_a_pass_and_none_of_another_kind(name):
    passes = passes_of(METHODS[name])
    assert passes.keys() == set(PASSES)
    assert min(passes.values()) >= 0
    assert sum(passes.values()) >= 1


def test_a_plan_of_trainings_needs_no_torch():
    code = "import fedcli.bench.passes, sys; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("name", "settings", "kind", "expected"),
    [
        ("pfedme", {"inner_steps": 2}, "step", 2),
        ("fedrep", {"head_epochs": 10}, "gradient", 10),
        ("local-finetune", {"tune_epochs": 0}, "gradient", 0),
        ("per-fedavg", {"tune_epochs": 3}, "gradient", 3),
        ("ifca", {"clusters": 4}, "forward", 4),
    ],
)
def test_passes_follow_the_options_that_decide_their_number(name, settings, kind, expected):
    assert passes_of(resolve(name, settings))[kind] == expected
