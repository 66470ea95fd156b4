import json
from pathlib import Path

import pytest
import torch
from conftest import client_updates, flat_layout, play
from tables_of_numbers import rows
from torch.testing import assert_close

from fedcli.methods import resolve

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "fedheal.json").read_text())


def test_released_rule_gives_the_released_masks_weights_and_models():
    case = VECTORS["t03"]
    rule = resolve("fedheal", {"tau": case["tau"], "beta": case["beta"]}).aggregator
    layout = flat_layout(*case["layer_sizes"])
    theta = torch.tensor(case["w0"], dtype=torch.float32)
    memory = {}
    for r in case["rounds"]:
        rounds = len(case["rounds"])
        table = client_updates(theta + torch.tensor(r["delta"]), layout=layout, rounds=rounds)
        mask = rule.consistent(theta, table, dict(memory))
        assert mask.int().tolist() == r["mask_code"]
        theta, weights = rule.aggregate(theta, table, memory)
        expected = torch.tensor(r["weights_code"], dtype=torch.float64)
        assert_close(weights, expected, atol=1e-7, rtol=1e-6)
        assert_close(theta, torch.tensor(r["global_code"]), atol=1e-6, rtol=1e-6)


def test_paper_rule_by_hand():
    """Two clients, two coordinates, two rounds, tau 0.6, beta 0.5; every step worked out from Eqs. 5-12."""
    rule = resolve("fedheal", {"rule": "paper", "tau": 0.6, "beta": 0.5}).aggregator
    theta = torch.zeros(2)
    memory = {}
    # round 1: each coordinate agrees with itself (1 of 1), all kept. d = 3^2+4^2 = 25 and 0+5^2 = 25: shares 1/2, 1/2
    updates = client_updates(rows("3.0 4.0; 0.0 -5.0"), t=1)
    theta, weights = rule.aggregate(theta, updates, memory)
    assert weights.tolist() == [0.5, 0.5]
    assert_close(theta, torch.tensor([1.5, -0.5]))
    # round 2: client 0 moves (-1, +2): first coordinate turned, 1 of 2 < 0.6, dropped; kept d = 4.
    # client 1 moves (0, -4): zero counts as a rise, as in round 1; both kept; d = 16.
    # shares 1/5 and 4/5; pull = 0.5*0.25 + 0.5*share = 0.225 and 0.525 (round 1: pull 0.5*0.5 = 0.25)
    # p = 0.5 + pull = 0.725 and 1.025, normalised by 1.75
    updates = client_updates(theta + torch.tensor(rows("-1.0 2.0; 0.0 -4.0")), t=2)
    theta, weights = rule.aggregate(theta, updates, memory)
    expected = torch.tensor([0.725 / 1.75, 1.025 / 1.75], dtype=torch.float64)
    assert_close(weights, expected)
    expected = torch.tensor([1.5 + 0.0, -0.5 + (0.725 * 2 - 1.025 * 4) / 1.75])
    assert_close(theta, expected)


@pytest.mark.parametrize("rule", ["released", "paper"])
@pytest.mark.parametrize(("tau", "past"), [(0.3, 10), (0.1, 30), (0.4, 5), (0.7, 10)])
def test_a_share_exactly_at_tau_is_no_matter_of_rounding(rule, tau, past):
    need = resolve("fedheal", {"rule": rule, "tau": tau}).aggregator.needed(
        past if rule == "released" else past - 1
    )
    at_tau = round(tau * past)
    expected = at_tau + 1 if rule == "released" else at_tau - 1
    assert need == expected  # released: more than tau; paper: this round counts too


def test_without_filter_and_pull_it_is_the_uniform_mean():
    table = client_updates(rows("1.0 3.0; 2.0 -1.0; 6.0 1.0"), n=[5, 1, 1])
    theta, weights = resolve("fedheal", {"tau": 0.0, "beta": 0.0}).aggregator.aggregate(
        torch.zeros(2), table, {}
    )
    expected = torch.full((3,), 1 / 3, dtype=torch.float64)
    assert_close(weights, expected)
    assert_close(theta, torch.tensor([3.0, 1.0]))


def test_filter_alone_keeps_the_base_weights():
    theta = rows("1.0 3.0; 2.0 -1.0")
    table = client_updates(theta, n=[3, 1])
    _, weights = resolve("fedheal", {"parts": "fphl"}).aggregator.aggregate(
        torch.zeros(2), table, {}
    )
    assert weights.tolist() == [0.75, 0.25]


def test_first_round_of_the_filter_alone_is_fedavg():
    result = play("fedheal", {"parts": "fphl"}, rounds=1).theta
    expected = play("fedavg", rounds=1).theta
    assert_close(result, expected, atol=1e-6, rtol=1e-5)


def test_weights_alone_differ_from_both():
    both = play("fedheal", rounds=4).theta
    fael = play("fedheal", {"parts": "fael"}, rounds=4).theta
    assert not torch.equal(both, fael)


def test_a_coordinate_that_nobody_keeps_stays_put():
    rule = resolve("fedheal", {"tau": 0.9}).aggregator
    memory = {}
    theta = torch.zeros(1)
    updates = client_updates([[1.0], [2.0]])
    theta, _ = rule.aggregate(theta, updates, memory)
    updates = client_updates(theta - torch.tensor([[1.0], [2.0]]), t=2)
    after, _ = rule.aggregate(theta, updates, memory)
    assert torch.equal(after, theta)


def test_when_nobody_moves_weights_stay():
    rule = resolve("fedheal").aggregator
    memory = {}
    theta = torch.zeros(2)
    updates = client_updates(rows("1.0 0.0; 3.0 0.0"))
    theta, weights = rule.aggregate(theta, updates, memory)
    updates = client_updates(theta.expand(2, -1), t=2)
    _, weights_after = rule.aggregate(theta, updates, memory)
    assert_close(weights, weights_after)


def test_absent_clients_keep_their_history():
    rule = resolve("fedheal").aggregator
    memory = {}
    theta = torch.zeros(2)
    updates = client_updates(rows("1.0 1.0; 2.0 2.0"), rows=[0, 2], roster=3)
    rule.aggregate(theta, updates, memory)
    updates = client_updates(rows("1.0 1.0; 5.0 2.0"), rows=[1, 2], roster=3, t=2)
    rule.aggregate(theta, updates, memory)
    assert memory["seen"].tolist() == [1, 1, 2]
    assert memory["rounds"].tolist() == [2, 2, 3]


def test_a_run_that_goes_on_for_more_rounds_than_it_began_with_counts_on():
    """Past 255 rounds a count no longer fits the type that 250 rounds needed."""
    rule = resolve("fedheal", {"parts": "fphl"}).aggregator
    history = torch.tensor([[255, 255], [255, 255]], dtype=torch.uint8)
    memory = {"rises": history, "seen": torch.tensor([255, 255])}
    theta = torch.zeros(2)
    updates = client_updates(rows("1.0 1.0; 2.0 2.0"), t=256, rounds=300)
    model, _ = rule.aggregate(theta, updates, memory)
    assert memory["rises"].whole().tolist() == [[256, 256], [256, 256]]
    assert_close(model, torch.tensor([1.5, 1.5]))


def test_an_absent_client_keeps_its_weight_and_the_others_share_what_they_had():
    rule = resolve("fedheal", {"rule": "paper"}).aggregator
    memory = {}
    theta = rows("1.0 1.0; 5.0 2.0")
    table = client_updates(theta, rows=[0, 2], roster=3)
    for _ in range(2):
        rule.aggregate(torch.zeros(2), table, memory)
        assert memory["p"][1] == 1 / 3
        assert memory["p"].sum() == pytest.approx(1)
    assert memory["p"][2] > 1 / 3 > memory["p"][0]


def test_history_of_twenty_resnet18_clients_fits_in_250_megabytes():
    layout = flat_layout(11_200_000)
    memory = {}
    theta = torch.ones(1, 11_200_000)
    table = client_updates(theta, layout=layout, roster=20, rounds=200)
    resolve("fedheal").aggregator.aggregate(torch.zeros(11_200_000), table, memory)
    assert sum(m.nbytes for m in memory.values()) < 250e6


def test_client_order_does_not_matter():
    a = rows("1.0 3.0; 2.0 -1.0")
    b = rows("-1.0 1.0; 2.0 2.0")
    rule = resolve("fedheal").aggregator
    theta = torch.zeros(2)
    memory = {}
    memory_of_turned = {}
    for t, (x, y) in enumerate((a, b), 1):
        updates = client_updates([x, y], t=t)
        straight, _ = rule.aggregate(theta, updates, memory)
        updates = client_updates([y, x], t=t)
        turned, _ = rule.aggregate(theta, updates, memory_of_turned)
        assert_close(straight, turned)
