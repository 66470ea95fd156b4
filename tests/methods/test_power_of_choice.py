"""Power-of-Choice: who trains, and by what chance a client is a candidate."""

from dataclasses import replace

import torch
from conftest import client_updates, play, toy_net, toy_shard
from tables_of_numbers import rows

from fedcli.methods import resolve
from fedcli.methods.contract import ClientRound
from fedcli.models.layout import Layout


def rule(**settings):
    return resolve("power-of-choice", settings).aggregator


def columns(keys, losses):
    candidate_key = torch.tensor(keys, dtype=torch.float64)
    return {
        "candidate_key": candidate_key,
        "loss_before": torch.tensor(losses),
    }


def test_of_three_candidates_the_two_with_the_highest_losses_train_and_count_alike():
    """The largest keys are candidates 0, 2 and 3; the loss of client 1 is not looked at."""
    half = rule(candidates=0.75, chosen=0.5)
    keys = [-0.1, -9.0, -0.3, -0.2]
    column = columns(keys, [1.0, 7.0, 3.0, 2.0])
    result = half.select_clients(column, torch.arange(4)).tolist()
    assert result == [False, False, True, True]
    updates = client_updates(rows("1.0; 2.0; 3.0; 5.0"), n=[9, 9, 1, 2], **column)
    theta, weights = half.aggregate(torch.zeros(1), updates, {})
    assert weights.tolist() == [0, 0, 0.5, 0.5]
    assert theta.tolist() == [4.0]


def test_all_candidates_and_all_chosen_is_the_plain_mean_and_the_fewest_is_one():
    keys = [-0.1, -0.2, -0.3]
    column = columns(keys, [1.0, 1.0, 1.0])
    assert rule(candidates=1.0, chosen=1.0).select_clients(column, torch.arange(3)).all()
    result = rule(candidates=0.01, chosen=0.01).select_clients(column, torch.arange(3)).tolist()
    assert result == [
        True,
        False,
        False,
    ]


def test_a_client_is_drawn_in_proportion_to_its_images():
    """One candidate a round: the client of 6 images in about three of four rounds, each round anew."""
    net = toy_net()
    layout = Layout(net)
    chosen = []
    clients = [
        ClientRound(
            name, k, 1, 3, 0.1, layout.read(), {}, layout, toy_shard(name, n), None, {}, seed=1
        )
        for k, (name, n) in enumerate((("small", 2), ("large", 6)))
    ]
    for t in range(100):
        keys = []
        for client in clients:
            now = replace(client, round=t, report={})
            rule().measure_global(net, now)
            keys.append(now.report["candidate_key"])
        chosen.append(torch.stack(keys).argmax())
    assert 0.62 < torch.stack(chosen).double().mean() < 0.88


def test_only_the_chosen_train():
    trained = []
    play(
        "power-of-choice",
        {"candidates": 1.0},
        rounds=2,
        each=lambda played: trained.append(played.weights.tolist()),
    )
    for weights in trained:
        assert sorted(weights) == [0, 0, 0, 1]
