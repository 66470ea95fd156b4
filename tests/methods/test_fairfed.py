import json
from pathlib import Path

import pytest
import torch
from conftest import client_updates, play, toy_net, toy_shard
from torch.testing import assert_close

from fedcli.methods import fairfed, probes, resolve
from fedcli.methods.contract import ClientRound
from fedcli.models.layout import Layout

assert fairfed  # importing registers
CASE = json.loads((Path(__file__).parent.parent / "vectors" / "fairfed.json").read_text())
RULES = {"released": "code", "original": "canonical"}


def step(rule, memory, t, accuracy=CASE["acc"], n=CASE["n"], **rest):
    accuracy = torch.tensor(accuracy, dtype=torch.float64)
    theta = torch.zeros(len(n), 1)
    table = client_updates(theta, n=n, t=t, accuracy=accuracy, **rest)
    return rule.aggregate(torch.zeros(1), table, memory)[1]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("beta", ["0.1", "0.5", "1.0"])
def test_weights_of_the_second_round_are_those_of_the_reference(rule, beta):
    half = resolve("fairfed", {"rule": rule, "beta": beta}).aggregator
    memory = {}
    expected = pytest.approx([n / 2600 for n in CASE["n"]])
    assert step(half, memory, 1).tolist() == expected  # round 1: base weights
    expected = torch.tensor(CASE[RULES[rule]][beta], dtype=torch.float64)
    assert_close(step(half, memory, 2), expected, atol=1e-12, rtol=1e-12)


def test_the_weak_client_loses_by_the_original_and_gains_by_the_released_rule():
    weak = {
        r: step(resolve("fairfed", {"rule": r, "beta": 0.5}).aggregator, {}, 2)[3].item()
        for r in RULES
    }
    assert weak["original"] < 300 / 2600 < weak["released"]


def test_steps_add_up_over_rounds():
    """The mean accuracy goes by image count, not by the weights that have moved."""
    half = resolve("fairfed", {"beta": 0.5}).aggregator
    memory = {}
    # p = 0.75, 0.25; a = 0.8, 0.4: mean 0.7, gaps 0.1 and 0.3, mean gap 0.2: w +0.05, -0.05, three times
    result = step(half, memory, 2, [0.8, 0.4], [3.0, 1.0]).tolist()
    assert result == pytest.approx([0.80, 0.20])
    result = step(half, memory, 3, [0.8, 0.4], [3.0, 1.0]).tolist()
    assert result == pytest.approx([0.85, 0.15])
    result = step(half, memory, 4, [0.8, 0.4], [3.0, 1.0]).tolist()
    assert result == pytest.approx([0.90, 0.10])


def test_without_a_step_it_is_fedavg():
    assert_close(play("fairfed", {"beta": 0.0}).theta, play("fedavg").theta)
    expected = play("fedavg", rounds=1).theta
    assert torch.equal(play("fairfed", rounds=1).theta, expected)


def test_a_client_cut_to_zero_can_come_back():
    half = resolve("fairfed", {"beta": 1.0}).aggregator
    memory = {}
    assert step(half, memory, 2)[3] == 0
    accuracy = [0.9, 0.1, 0.9, 0.7]
    result = step(half, memory, 3, accuracy=accuracy)[3]
    assert result > 0


def test_an_absent_client_keeps_its_place_and_a_new_one_starts_at_the_base():
    half = resolve("fairfed", {"beta": 0.5}).aggregator
    memory = {}
    weights = step(
        half, memory, 2, [0.8, 0.4], [1.0, 1.0], rows=[0, 2], roster=3
    )  # p 1/2: gaps equal, no move
    expected = pytest.approx([0.5, 0.5])
    assert weights.tolist() == expected
    step(half, memory, 3, [0.8, 0.4], [3.0, 1.0], rows=[0, 2], roster=3)  # 0.75 + 0.05, 0.25 - 0.05
    lift = memory["lift"][0].item()
    assert lift == pytest.approx(0.80 / 0.75)
    later_weights = step(half, memory, 4, [0.5, 0.5], [1.0, 1.0], rows=[1, 2], roster=3)
    assert memory["lift"][0].item() == lift
    expected = pytest.approx([1.0 / 1.8, 0.8 / 1.8])
    assert later_weights.tolist() == expected  # lifts 1 and 0.20 / 0.25


def test_when_all_present_stand_at_zero_the_base_weighs():
    lift = torch.tensor([0.0, 0.0, 2.0], dtype=torch.float64)
    memory = {"lift": lift}
    rule = resolve("fairfed").aggregator
    weights = step(rule, memory, 1, [0.5, 0.5], [3.0, 1.0], rows=[0, 1], roster=3)
    assert weights.tolist() == [0.75, 0.25]


def test_client_order_does_not_matter():
    half = resolve("fairfed", {"beta": 0.3}).aggregator
    memory = {}
    memory_of_turned = {}
    for t in (1, 2, 3):
        straight = step(half, memory, t)
        accuracy = CASE["acc"][::-1]
        rows = [3, 2, 1, 0]
        turned = step(half, memory_of_turned, t, accuracy, CASE["n"][::-1], rows=rows)
        assert_close(straight, turned.flip(0))


def test_balanced_accuracy_is_the_mean_recall_over_the_classes_a_client_has():
    net = toy_net()
    shard = toy_shard("north", 30, absent=1)
    layout = Layout(net)
    client = ClientRound("north", 0, 1, 1, 0.1, layout.read(), {}, layout, shard, None, {})
    accuracy = probes.balanced_accuracy(net, client)
    predicted = net.eval()(next(shard.in_order()).x).argmax(1)
    recalls = [(predicted[shard.y == c] == c).double().mean().item() for c in (0, 2)]
    expected = pytest.approx(sum(recalls) / 2)
    assert accuracy.item() == expected
    assert 0 < accuracy < 1


def test_the_two_rules_differ_in_training():
    other = play("fairfed", {"rule": "released"}).theta
    assert not torch.equal(play("fairfed").theta, other)
