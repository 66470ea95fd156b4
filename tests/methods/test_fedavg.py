import torch
from conftest import ROSTER, client_updates, play, toy_shards
from tables_of_numbers import rows
from torch.testing import assert_close

from fedcli.methods import resolve


def test_models_are_averaged_by_sample_count():
    updates = client_updates(rows("1.0 0.0; 0.0 4.0"), n=[3, 1])
    theta, weights = resolve("fedavg").aggregator.aggregate(torch.zeros(2), updates, {})
    assert theta.tolist() == [0.75, 1.0]
    assert weights.tolist() == [0.75, 0.25]


def test_one_client_gets_its_own_model_back():
    updates = client_updates([[1.0, -2.0]], n=[7])
    theta, _ = resolve("fedavg").aggregator.aggregate(torch.zeros(2), updates, {})
    assert theta.tolist() == [1.0, -2.0]


def test_a_doubled_client_counts_double():
    rule = resolve("fedavg").aggregator
    theta = rows("1.0 0.0; 1.0 0.0; 0.0 3.0")
    updates = client_updates(theta, n=[2, 2, 1])
    twice, _ = rule.aggregate(torch.zeros(2), updates, {})
    theta = rows("1.0 0.0; 0.0 3.0")
    updates = client_updates(theta, n=[4, 1])
    double, _ = rule.aggregate(torch.zeros(2), updates, {})
    assert_close(twice, double)


def test_training_learns():
    losses = []
    play("fedavg", rounds=8, each=lambda played: losses.append(played.losses.mean().item()))
    assert losses[-1] < 0.8 * losses[0]


def test_the_order_of_the_roster_changes_nothing_but_rounding():
    turned = ROSTER[::-1]
    result = play("fedavg", shards=toy_shards()).theta
    expected = play("fedavg", roster=turned).theta
    assert_close(result, expected, atol=1e-5, rtol=1e-4)
