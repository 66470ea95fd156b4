import pytest
import torch
from conftest import client_updates, play, toy_shard, toy_shards
from tables_of_numbers import rows
from torch.testing import assert_close

from fedcli.methods import afl, resolve
from fedcli.methods.afl import project_to_simplex

assert afl  # importing registers


def test_two_rounds_by_hand():
    """Three clients, gamma 0.1. lambda starts at 1/3 each and weighs round 1 before it moves."""
    rule = resolve("afl", {"gamma": 0.1}).aggregator
    memory = {}
    table = client_updates([[3.0], [6.0], [9.0]], n=[10, 1, 1], loss_before=[0.5, 1.0, 3.0])
    theta, weights = rule.aggregate(torch.zeros(1), table, memory)
    expected = pytest.approx([1 / 3] * 3)
    assert weights.tolist() == expected
    assert theta.item() == pytest.approx(6.0)
    # 1/3 + 0.1 * loss = 0.38333, 0.43333, 0.63333, sum 1.45: each gives up 0.15 and the sum is 1
    updates = client_updates([[3.0], [6.0], [9.0]], t=2, loss_before=[0.1, 0.1, 0.1])
    theta, weights = rule.aggregate(theta, updates, memory)
    assert weights.tolist() == pytest.approx([0.23333333, 0.28333333, 0.48333333])
    expected = pytest.approx(3 * 0.23333333 + 6 * 0.28333333 + 9 * 0.48333333, abs=1e-5)
    assert theta.item() == expected


def test_projection_finds_the_nearest_point():
    # threshold (1.2 + 0.3 - 1) / 2 = 0.25 over the two largest; the third would be negative
    result = project_to_simplex(torch.tensor([0.3, 1.2, -0.2]))
    expected = torch.tensor([0.05, 0.95, 0.0])
    assert_close(result, expected)
    result = project_to_simplex(torch.tensor([0.2, 0.5, 0.3])).tolist()
    assert result == pytest.approx([0.2, 0.5, 0.3])
    result = project_to_simplex(torch.tensor([5.0, 0.0])).tolist()
    assert result == [1.0, 0.0]


def test_without_ascent_it_is_the_uniform_mean():
    weights = []
    play("afl", {"gamma": 0.0}, each=lambda played: weights.append(played.weights.tolist()))
    assert weights == [[0.25] * 4] * 3


def test_with_clients_of_one_size_and_no_ascent_it_is_fedavg():
    shards = toy_shards(**{c: toy_shard(c, 24) for c in ("north", "south", "east", "west")})
    result = play("afl", {"gamma": 0.0}, shards=shards).theta
    expected = play("fedavg", shards=shards).theta
    assert torch.equal(result, expected)


def test_released_rule_keeps_the_model_of_the_worst_client_and_no_memory():
    rule = resolve("afl", {"rule": "released"}).aggregator
    memory = {}
    table = client_updates(rows("1.0 2.0; 3.0 4.0; 5.0 6.0"), loss_before=[0.5, 0.9, 0.9])
    theta, weights = rule.aggregate(torch.zeros(2), table, memory)
    assert theta.tolist() == [3.0, 4.0]
    assert weights.tolist() == [0, 1, 0]
    assert memory == {}
    turned = client_updates(rows("5.0 6.0; 3.0 4.0"), rows=[2, 1], roster=3, loss_before=[0.9, 0.9])
    result = rule.aggregate(torch.zeros(2), turned, {})[0].tolist()
    assert result == [
        3.0,
        4.0,
    ]  # the first in the roster


def test_an_absent_client_gets_no_ascent_and_the_others_share_its_weight():
    rule = resolve("afl", {"gamma": 0.3}).aggregator
    memory = {}
    updates = client_updates([[0.0]] * 2, rows=[0, 2], roster=3, loss_before=[1.0, 1.0])
    rule.aggregate(torch.zeros(1), updates, memory)
    # 1/3 + 0.3, 1/3, 1/3 + 0.3, sum 1.6: each gives up 0.2
    expected = pytest.approx([0.4333333, 0.1333333, 0.4333333])
    assert memory["lambda"].tolist() == expected
    table = client_updates([[0.0]] * 2, rows=[1, 2], roster=3, t=2, loss_before=[0.0, 0.0])
    result = rule.aggregate(torch.zeros(1), table, memory)[1].tolist()
    assert result == pytest.approx([0.2352941, 0.7647059])


def test_when_all_lambda_is_with_the_absent_those_present_count_alike():
    memory = {"lambda": torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)}
    table = client_updates([[2.0], [4.0]], rows=[1, 2], roster=3, t=2, loss_before=[0.1, 0.1])
    result = resolve("afl").aggregator.aggregate(torch.zeros(1), table, memory)[0].tolist()
    assert result == [3.0]


def test_client_order_does_not_matter_and_two_equal_clients_count_twice():
    rule = resolve("afl", {"gamma": 0.2}).aggregator
    memory = {}
    memory_of_turned = {}
    for t in (1, 2):
        straight = client_updates([[1.0], [5.0], [5.0]], t=t, loss_before=[0.2, 1.0, 1.0])
        turned = client_updates(
            [[5.0], [5.0], [1.0]], t=t, rows=[2, 1, 0], loss_before=[1.0, 1.0, 0.2]
        )
        a, weights = rule.aggregate(torch.zeros(1), straight, memory)
        b, _ = rule.aggregate(torch.zeros(1), turned, memory_of_turned)
        assert_close(a, b)
    assert weights[1] == weights[2] > weights[0]


def test_losses_are_those_of_the_broadcast_model():
    losses = []
    play("afl", rounds=2, each=lambda played: losses.append(played.columns["loss_before"]))
    losses_of_fedavg = []
    play(
        "fedavg+afl",
        {"gamma": 0.0},
        rounds=1,
        each=lambda played: losses_of_fedavg.append(played.columns["loss_before"]),
    )
    assert torch.equal(losses[0], losses_of_fedavg[0])
    assert not torch.equal(losses[0], losses[1])


@pytest.mark.parametrize("base", ["", "fedprox+", "moon+"])
def test_winner_takes_all_trains_the_winner_alone_and_comes_to_the_same_model(base, monkeypatch):
    """MOON's clients remember their last model, so there everybody trains."""
    trained = []
    monkeypatch.setattr(
        afl.Agnostic, "measure_local", lambda self, net, client: trained.append(client.name)
    )
    spec = f"{base}afl"
    settings = {"rule": "released"}
    sent = []
    state = play(
        spec,
        settings,
        each=lambda played: sent.append((played.bytes_up, played.losses.isnan().sum().item())),
    )
    few = len(trained) == 3
    monkeypatch.setattr(afl.Agnostic, "trains_subset", False)
    trained.clear()
    assert torch.equal(play(spec, settings).theta, state.theta)
    assert len(trained) == 12
    assert few == (base != "moon+")
    for bytes_up, empty in sent:
        result = (True, 3) if few else (False, 0)
        expected = (bytes_up < 4 * len(state.theta), empty)
        assert expected == result
