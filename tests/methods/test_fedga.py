import json
from pathlib import Path

import pytest
import torch
from conftest import ROSTER, client_updates, play, toy_net, toy_shard
from made_plans import planned
from torch.testing import assert_close

from fedcli.errors import UsageError
from fedcli.federation.client import ClientTask, Training, run_client
from fedcli.methods import fedga, probes, resolve
from fedcli.methods.contract import ClientRound
from fedcli.models.layout import Layout
from fedcli.runs.rules import check

assert fedga  # importing registers
CASE = json.loads((Path(__file__).parent.parent / "vectors" / "fedga.json").read_text())
TRAINING = Training(optimizer="sgd", lr=0.1, momentum=0.0, weight_decay=0.0, batch_size=8)


def step(rule, memory, t, gap, rounds=10, **rest):
    theta = torch.zeros(len(gap), 1)
    table = client_updates(
        theta,
        t=t,
        rounds=rounds,
        gap=torch.tensor(gap, dtype=torch.float64),
        **rest,
    )
    return rule.aggregate(torch.zeros(1), table, memory)[1]


def test_released_weights_are_those_of_the_released_code():
    rule = resolve("fedga", {"rule": "released"}).aggregator
    memory = {}
    gap = [0.0] * 4
    result = step(rule, memory, 1, gap).tolist()
    assert result == [0.25] * 4
    for r, expected in zip(CASE["rounds"], CASE["weights"], strict=True):
        weights = step(rule, memory, r + 1, CASE["gap_raw"], rounds=CASE["T"])
        assert_close(weights, torch.tensor(expected, dtype=torch.float64), atol=1e-12, rtol=1e-12)


def test_original_weights_by_hand():
    """Two clients, T = 10: round 2 steps by 0.2 * 9/10 / 2 = 0.09, round 3 by 0.2 * 8/10 / 2 = 0.08."""
    rule = resolve("fedga").aggregator
    memory = {}
    result = step(rule, memory, 1, [0.0, 0.0]).tolist()
    assert result == [0.5, 0.5]
    # 0.5 + 0.09, 0.5 - 0.09 * 1/2, not centred: sum 1.045
    gap = [0.4, -0.2]
    result = step(rule, memory, 2, gap).tolist()
    expected = pytest.approx([0.59 / 1.045, 0.455 / 1.045])
    assert result == expected
    before = memory["weights"].tolist()
    after = [before[0] + 0.08 * 0.25, before[1] + 0.08]
    expected = pytest.approx([w / sum(after) for w in after])
    result = step(rule, memory, 3, [0.1, 0.4]).tolist()
    assert result == expected


def test_released_cuts_after_dividing_and_original_before():
    far = {"step": 20.0}
    gap = [1.0, -1.0, -1.0, -1.0]
    released = resolve("fedga", {**far, "rule": "released"}).aggregator
    memory = {}
    # d/K = 20 * 0.05 / 4 = 0.25 at round 1; centred gap 1.5, -0.5 -> 1, -1/3: 0.5, 1/6, 1/6, 1/6
    expected = pytest.approx([1 / 2, 1 / 6, 1 / 6, 1 / 6])
    result = step(released, memory, 1, gap).tolist()
    assert result == expected
    for _ in range(3):  # 3/4 and 1/12; 1 and 0; 5/4 and -1/12, cut and not divided again
        weights = step(released, memory, 1, gap)
    expected = pytest.approx([1.25, 0.0, 0.0, 0.0])
    assert memory["weights"].tolist() == expected
    assert weights[0] == 1
    original = resolve("fedga", far).aggregator
    memory = {}
    result = step(original, memory, 1, gap).tolist()
    assert result == [1, 0, 0, 0]  # d/K = 1: cut at 0 and at 1


def test_clients_whose_gap_is_largest_gain_and_order_does_not_matter():
    for rule in ("original", "released"):
        half = resolve("fedga", {"rule": rule}).aggregator
        gap = [0.1, 0.5, 0.3]
        straight = step(half, {}, 2, gap)
        rows = [2, 1, 0]
        gap = [0.3, 0.5, 0.1]
        turned = step(half, {}, 2, gap, rows=rows)
        assert_close(straight, turned.flip(0))
        assert straight.argmax() == 1
        assert straight.argmin() == 0


@pytest.mark.parametrize("rule", ["original", "released"])
def test_gaps_of_zero_and_steps_of_zero_leave_weights_uniform(rule):
    result = step(resolve("fedga", {"rule": rule}).aggregator, {}, 2, [0.0, 0.0]).tolist()
    assert result == [
        0.5,
        0.5,
    ]
    result = step(
        resolve("fedga", {"rule": rule, "step": 0.0}).aggregator, {}, 2, [0.3, 0.1]
    ).tolist()
    assert result == [0.5, 0.5]
    released = resolve("fedga", {"rule": "released"}).aggregator
    gap = [0.3, 0.3, 0.3]
    result = step(released, {}, 2, gap).tolist()
    expected = pytest.approx([1 / 3] * 3)
    assert result == expected


def test_with_clients_of_one_size_and_no_step_it_is_fedavg():
    shards = {c: toy_shard(c, 24) for c in ROSTER}
    result = play("fedga", {"step": 0.0}, shards=shards).theta
    expected = play("fedavg", shards=shards).theta
    assert torch.equal(result, expected)


def test_the_gap_is_what_averaging_cost_on_the_clients_own_images():
    """Against the losses of last round's local model and of this round's global model."""
    net = toy_net()
    columns = []
    layout = Layout(net)
    after_round_1 = play("fedga", rounds=2, until=1)
    shard = toy_shard("south")

    def loss(theta):
        layout.load(theta)
        client = ClientRound("south", 1, 1, 2, 0.1, theta, {}, layout, shard, None, {})
        return probes.mean_loss(net, client)

    play("fedga", rounds=2, state=after_round_1, each=lambda played: columns.append(played.columns))
    net2 = toy_net()
    start = Layout(net2).read()
    task = ClientTask("south", 1, 1, 2, 1, start, {}, {})
    report = run_client(resolve("fedavg"), net2, Layout(net2), shard, task, TRAINING)
    expected = loss(after_round_1.theta) - loss(report.theta)
    assert_close(columns[0]["gap"][1], expected)
    result = columns[0]["validation_images"].tolist()
    assert result == [0] * 4  # no validation part: training images, and it says so


def test_the_original_measures_on_the_validation_part_and_the_released_rule_does_not():
    net = toy_net()
    shard = toy_shard("north")
    val = toy_shard("other", 12)
    layout = Layout(net)
    task = ClientTask("north", 0, 1, 2, 1, layout.read(), {}, {})
    columns = {}
    for rule in ("original", "released"):
        method = resolve("fedga", {"rule": rule})
        report = run_client(method, net, layout, shard, task, TRAINING, val=val)
        layout.load(report.theta)
        client = ClientRound("north", 0, 1, 2, 0.1, report.theta, {}, layout, shard, None, {})
        original = probes.mean_loss(net, client, val)
        losses = {
            "original": original,
            "released": probes.mean_loss(net, client),
        }
        assert report.memory["fedga_loss"] == losses[rule]
        columns[rule] = report.columns
    assert columns["original"]["validation_images"] == 12
    assert "validation_images" not in columns["released"]


def test_an_empty_validation_part_counts_as_none():
    net = toy_net()
    shard = toy_shard("north")
    layout = Layout(net)
    empty = type(shard)(shard.images, shard.rows[:0], shard.y[:0], shard.ids[:0], {}, 3, 1)
    task = ClientTask("north", 0, 1, 2, 1, layout.read(), {}, {})
    report = run_client(resolve("fedga"), net, layout, shard, task, TRAINING, val=empty)
    assert report.memory["fedga_loss"].isfinite()
    assert report.columns["validation_images"] == 0


def test_partial_participation_is_refused_by_name():
    with pytest.raises(UsageError, match="fedga"):
        check(planned("fedga", {}, TRAINING, 3, participation=0.5))
