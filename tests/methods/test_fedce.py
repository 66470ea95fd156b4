import json
from pathlib import Path

import pytest
import torch
from conftest import ROSTER, client_updates, flat_layout, play, toy_net, toy_shard
from made_plans import planned
from tables_of_numbers import rows as number_rows
from torch.testing import assert_close

from fedcli.errors import UsageError
from fedcli.federation.client import ClientTask, Training, run_client
from fedcli.methods import fedce, probes, resolve
from fedcli.methods.contract import ClientRound
from fedcli.methods.fedce import cosines
from fedcli.models.layout import Layout
from fedcli.runs.rules import check

assert fedce  # importing registers
CASE = json.loads((Path(__file__).parent.parent / "vectors" / "fedce.json").read_text())
TRAINING = Training(optimizer="sgd", lr=0.1, momentum=0.0, weight_decay=0.0, batch_size=8)


def updates(r):
    """[4, 8] of round r: weights and bias of each client; the weights of client 1 are scaled by round."""
    weight = torch.tensor(CASE["updates_weight"]).reshape(4, 6)
    weight[1] *= CASE["client1_scale_by_round"][r]
    return torch.cat([weight, torch.tensor(CASE["updates_bias"])], 1)


def test_weights_are_those_of_the_released_code_round_by_round():
    rule = resolve("fedce", {"mode": CASE["mode"]}).aggregator
    memory = {}
    theta = torch.zeros(8)
    past = torch.zeros(4, dtype=torch.float64)
    for r, case in enumerate(CASE["rounds"]):
        expected = {
            name: torch.tensor(case[name], dtype=torch.float64)
            for name in ("cos", "minus_val", "coef")
        }
        without_me = torch.tensor(CASE["minus_bacc"][r], dtype=torch.float64)
        table = client_updates(updates(r), t=r + 1, without_me=without_me)
        _, weights = rule.aggregate(theta, table, memory)
        assert_close(memory["cosine"] - past, expected["cos"], atol=1e-6, rtol=0)
        result = 1 - memory["without_me"] / (r + 1)
        assert_close(result, expected["minus_val"])
        assert_close(weights, expected["coef"], atol=1e-7, rtol=1e-6)
        past = memory["cosine"]


def test_two_clients_by_hand_in_both_modes():
    """Updates (1, 0) and (3, 4): the only other one is the other, cosine 0.6 for both; M is 1 and 1 in round 1.

    Round 2: updates (1, 0) and (0, 2), cosine 0, mean 0.3: G even. b = 0.2 and 0.6: M = 0.9 and 0.7."""
    for mode, fresh in (
        ("times", [0.9 / 1.6, 0.7 / 1.6]),
        ("plus", [(0.5 + 0.9 / 1.6) / 2, (0.5 + 0.7 / 1.6) / 2]),
    ):
        rule = resolve("fedce", {"mode": mode}).aggregator
        memory = {}
        updates = client_updates(number_rows("1.0 0.0; 3.0 4.0"), t=1, without_me=[0.0, 0.0])
        later_updates = client_updates(number_rows("1.0 0.0; 0.0 2.0"), t=2, without_me=[0.2, 0.6])
        result = rule.aggregate(torch.zeros(2), updates, memory)[1].tolist()
        assert result == pytest.approx([0.5, 0.5])
        theta, weights = rule.aggregate(torch.zeros(2), later_updates, memory)
        expected = pytest.approx([(0.5 + w) / 2 for w in fresh])
        assert weights.tolist() == expected  # the mean over both rounds
        expected = pytest.approx([weights[0].item(), 2 * weights[1].item()])
        assert theta.tolist() == expected
        original = resolve("fedce", {"mode": mode, "rule": "original"}).aggregator
        memory = {}
        original.aggregate(torch.zeros(2), updates, memory)
        result = original.aggregate(torch.zeros(2), later_updates, memory)[1].tolist()
        assert result == pytest.approx(fresh)


def test_cosines_are_those_of_the_vectors_and_leave_statistics_out():
    torch.manual_seed(0)
    layout = flat_layout(7)
    layout.trainable = 5
    theta = torch.randn(7)
    table = client_updates(torch.randn(4, 7), layout=layout)
    c = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)
    u = (table.theta - theta)[:, :5].double()
    expected = [torch.cosine_similarity(u[k], c @ u - c[k] * u[k], dim=0).item() for k in range(4)]
    result = cosines(theta, table, c).tolist()
    assert result == pytest.approx(expected)


def test_a_zero_update_has_cosine_zero_and_nothing_left_is_uniform():
    theta = number_rows("0.0 0.0; 1.0 0.0; 1.0 0.0")
    table = client_updates(theta, without_me=[0.0, 0.0, 0.0])
    third = torch.full((3,), 1 / 3, dtype=torch.float64)
    result = cosines(torch.zeros(2), table, third).tolist()
    assert result == pytest.approx([0, 1, 1])
    theta = [[1.0, 0.0]] * 2
    perfect = client_updates(theta, without_me=[1.0, 1.0])  # G and M add up to 0
    result = resolve("fedce").aggregator.aggregate(torch.zeros(2), perfect, {})[1].tolist()
    assert result == [
        0.5,
        0.5,
    ]
    theta = [[1.0, 0.0]]
    alone = client_updates(theta, without_me=[0.0])
    result = resolve("fedce").aggregator.aggregate(torch.zeros(2), alone, {})[1].tolist()
    assert result == [1.0]


def test_the_model_without_a_client_is_the_mean_of_the_others():
    """Play two rounds and score, for one client, the re-weighted mean of the other three local models."""
    tables = []
    accuracies = []
    rule = type(resolve("fedce").aggregator)
    aggregate = rule.aggregate

    def listen(self, theta, replies, memory):
        out = aggregate(self, theta, replies, memory)
        tables.append((replies.theta, out[1]))
        accuracies.append(replies["without_me"])
        return out

    rule.aggregate = listen
    try:
        play("fedce", rounds=2)
    finally:
        rule.aggregate = aggregate
    local, c = tables[0]
    net = toy_net()
    shard = toy_shard("south")
    layout = Layout(net)
    others = torch.tensor([0, 2, 3])
    layout.load((c[others] / c[others].sum()).float() @ local[others])
    visit = ClientRound("south", 1, 2, 2, 0.1, layout.read(), {}, layout, shard, None, {})
    assert accuracies[0].tolist() == [0.0] * 4
    expected = pytest.approx(probes.balanced_accuracy(net, visit).item())
    assert accuracies[1][1].item() == expected


def test_what_is_measured_is_that_mean_to_the_number(monkeypatch):
    net = toy_net()
    models = []
    layout = Layout(net)
    last = layout.read() + 1
    others = layout.read()
    layout.load(0.3 * last + 0.7 * others)
    shared = {"contribution": torch.tensor([0.3, 0.7])}
    memory = {"fedce_last": last}
    visit = ClientRound(
        "north", 0, 2, 2, 0.1, layout.read(), shared, layout, toy_shard("north"), None, memory
    )
    monkeypatch.setattr(
        probes, "balanced_accuracy", lambda *_: models.append(layout.read()) or torch.tensor(0.5)
    )
    resolve("fedce").aggregator.measure_global(net, visit)
    assert_close(models[0], others, atol=1e-6, rtol=1e-5)


def test_measuring_leaves_the_model_alone():
    net = toy_net()
    shard = toy_shard("north")
    layout = Layout(net)
    theta = layout.read()
    shared = {"contribution": torch.tensor([0.3, 0.7])}
    memory = {"fedce_last": torch.randn(len(theta))}
    visit = ClientRound("north", 0, 2, 2, 0.1, theta, shared, layout, shard, None, memory)
    resolve("fedce").aggregator.measure_global(net, visit)
    assert torch.equal(layout.read(), theta)


def test_a_lone_client_has_no_others_to_measure():
    assert play("fedce", roster=["north"]).theta.isfinite().all()


def test_the_original_measures_on_the_validation_part():
    net = toy_net()
    shard = toy_shard("north")
    val = toy_shard("other", 12)
    layout = Layout(net)
    theta = layout.read()
    shared = {"contribution": torch.tensor([0.0])}
    task = ClientTask("north", 0, 2, 2, 1, theta, shared, {"fedce_last": theta})
    visit = ClientRound("north", 0, 2, 2, 0.1, theta, {}, layout, shard, None, {})
    original = probes.balanced_accuracy(net, visit, val)
    expected = {
        "original": original,
        "released": probes.balanced_accuracy(net, visit),
    }
    assert expected["original"] != expected["released"]
    for (
        rule,
        value,
    ) in expected.items():  # with weight 0 the model without the client is the global one
        method = resolve("fedce", {"rule": rule})
        report = run_client(method, net, layout, shard, task, TRAINING, val=val)
        assert report.columns["without_me"] == value


def test_own_statistics_stay_own_while_measuring():
    training = Training(
        optimizer="sgd", lr=0.1, momentum=0.0, weight_decay=0.0, batch_size=8, bn="local"
    )
    plain, fedce = (
        play(name, rounds=1, training=training).clients["north"] for name in ("fedavg", "fedce")
    )
    assert torch.equal(plain["statistics"], fedce["statistics"])
    assert play("fedce", training=training).theta.isfinite().all()


def test_client_order_does_not_matter():
    rule = resolve("fedce").aggregator
    memory = {}
    memory_of_turned = {}
    for t, b in ((1, [0.0, 0.0, 0.0]), (2, [0.5, 0.2, 0.9])):
        u = torch.tensor(number_rows("1.0 0.2; 0.3 -1.0; 2.0 1.0")) * t
        _, straight = rule.aggregate(torch.zeros(2), client_updates(u, t=t, without_me=b), memory)
        without_me = b[::-1]
        rows = [2, 1, 0]
        theta = u.flip(0)
        _, turned = rule.aggregate(
            torch.zeros(2),
            client_updates(theta, t=t, rows=rows, without_me=without_me),
            memory_of_turned,
        )
        assert_close(straight, turned.flip(0))


def test_partial_participation_is_refused_by_name():
    with pytest.raises(UsageError, match="fedce"):
        check(planned("fedce", {}, TRAINING, 3, participation=0.5))


def test_modes_and_rules_differ_in_training():
    settings = [{}, {"mode": "plus"}, {"rule": "original"}]
    result = len({tuple(play("fedce", s).theta.tolist()) for s in settings})
    assert result == 3
    assert len(ROSTER) == 4
