import json
from pathlib import Path

import pytest
import torch
from conftest import client_updates, flat_layout, play
from tables_of_numbers import rows
from torch.testing import assert_close

from fedcli.methods import qffl, resolve

assert qffl  # importing registers
CASE = json.loads((Path(__file__).parent.parent / "vectors" / "qffl.json").read_text())


def weights(settings, **table):
    theta = torch.zeros(4, 1)
    updates = client_updates(theta, **table)
    return resolve("qffl", settings).aggregator.aggregate(torch.zeros(1), updates, {})[1]


@pytest.mark.parametrize(("q", "expected"), list(zip(CASE["q"], CASE["weights"], strict=True)))
def test_released_weights_are_those_of_the_released_code(q, expected):
    loss = torch.tensor(CASE["loss"], dtype=torch.float64)
    settings = {"rule": "released", "q": q}
    shares = weights(settings, n=[9, 1, 1, 1], loss_before=loss)
    assert_close(shares, torch.tensor(expected, dtype=torch.float64), atol=1e-12, rtol=1e-12)


def test_the_default_counts_images_too():
    loss_before = [0.8, 0.5, 0.4, 1.6]
    shares = weights({"q": 1.0}, n=[1, 2, 1, 4], loss_before=loss_before)
    expected = pytest.approx([0.8 / 8.6, 1.0 / 8.6, 0.4 / 8.6, 6.4 / 8.6])
    assert shares.tolist() == expected


def test_q_fedavg_by_hand():
    """Two clients, lr 0.5 so L = 2, q = 1; Algorithm 2 line by line."""
    theta = torch.tensor([1.0, 1.0])
    table = client_updates(rows("0.0 1.0; 1.0 3.0"), lr=0.5, n=[9, 1], loss_before=[0.5, 2.0])
    after, weight = resolve("qffl", {"rule": "original"}).aggregator.aggregate(theta, table, {})
    # Dw = L (theta - theta_k): (2, 0) and (0, -4). Delta = F^q Dw: (1, 0) and (0, -8)
    # h = q F^(q-1) |Dw|^2 + L F^q: 4 + 1 = 5 and 16 + 4 = 20. theta - sum Delta / sum h
    expected = torch.tensor([1.0 - 1 / 25, 1.0 + 8 / 25])
    assert_close(after, expected)
    expected = pytest.approx([0.2, 0.8])
    assert weight.tolist() == expected


@pytest.mark.parametrize("q", [0.5, 2.0, 5.0])
def test_the_factorised_step_is_the_literal_one(q):
    torch.manual_seed(0)
    theta = torch.randn(6)
    local = torch.randn(3, 6)
    loss = torch.tensor([0.7, 0.2, 1.9])
    lr = 0.3
    updates = client_updates(local, lr=lr, loss_before=loss)
    after, _ = resolve("qffl", {"rule": "original", "q": q}).aggregator.aggregate(
        theta, updates, {}
    )
    dw = (theta - local) / lr
    h = q * loss ** (q - 1) * dw.square().sum(1) + loss**q / lr
    expected = theta - (loss**q) @ dw / h.sum()
    assert_close(after, expected)


def test_q_zero_is_the_base():
    result = play("qffl", {"q": 0.0}).theta
    assert torch.equal(result, play("fedavg").theta)


@pytest.mark.parametrize("rule", ["released", "original"])
def test_q_zero_is_the_uniform_mean_for_the_other_rules(rule):
    theta = rows("1.0 3.0; 2.0 -1.0; 6.0 1.0")
    loss_before = [0.1, 2.0, 0.4]
    table = client_updates(theta, n=[5, 1, 1], loss_before=loss_before)
    after, _ = resolve("qffl", {"q": 0.0, "rule": rule}).aggregator.aggregate(
        torch.zeros(2), table, {}
    )
    assert_close(after, torch.tensor([3.0, 1.0]))


def test_a_huge_q_follows_the_worst_client_without_running_out_of_range():
    loss_before = [1e-12, 1e-9, 3e-9, 2e-9]
    shares = weights({"q": 1e4}, loss_before=loss_before)
    expected = pytest.approx([0, 0, 1, 0], abs=1e-6)
    assert shares.tolist() == expected
    loss_before = [0.0, 0.0, 0.0, 0.0]
    result = weights({"q": 3.0}, loss_before=loss_before).tolist()
    assert result == [0.25] * 4


def test_the_literal_step_shortens_weights_and_not_statistics():
    """Two weights and two statistics: the last two are the plain F-weighted mean."""
    layout = flat_layout(4)
    layout.trainable = 2
    theta = rows("0.0 0.0 4.0 8.0; 2.0 2.0 0.0 0.0")
    table = client_updates(theta, layout=layout, loss_before=[1.0, 1.0])
    after, _ = resolve("qffl", {"rule": "original"}).aggregator.aggregate(
        torch.tensor([3.0, 3.0, 0, 0]), table, {}
    )
    result = after[2:].tolist()
    assert result == [2.0, 4.0]
    # D: (-3, -3) and (-1, -1), squares 18 and 2, s = 1 / (1 + 20 / 2 / 0.1)
    expected = torch.tensor([3 - 2 / 101, 3 - 2 / 101])
    assert_close(after[:2], expected)


def test_a_doubled_client_counts_double_and_order_does_not_matter():
    rule = resolve("qffl").aggregator
    theta = torch.zeros(1)
    loss_before = [0.2, 1.0, 1.0]
    twice = client_updates([[1.0], [5.0], [5.0]], n=[3, 2, 2], loss_before=loss_before)
    once = client_updates([[5.0], [1.0]], n=[4, 3], rows=[1, 0], loss_before=[1.0, 0.2])
    result = rule.aggregate(theta, twice, {})[0]
    expected = rule.aggregate(theta, once, {})[0]
    assert_close(result, expected)


def test_the_three_rules_differ():
    thetas = {
        tuple(play("qffl", {"rule": rule}).theta.tolist())
        for rule in ("paper", "released", "original")
    }
    assert len(thetas) == 3
