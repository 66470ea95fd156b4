"""FedNoRo: who is noisy, what such a client learns from, and how much it counts."""

import math

import pytest
import torch
from conftest import client_updates, flat_layout, play, toy_net, toy_shard
from tables_of_numbers import rows
from torch.testing import assert_close

from fedcli.methods import resolve
from fedcli.methods.contract import ClientRound
from fedcli.methods.fednoro import distances, distilled, noisy_clients
from fedcli.models.layout import Layout


def test_the_loss_of_a_noisy_client_by_hand():
    """p = (1/4, 3/4), q = (1/2, 1/2), label 0 and v = 1/2: halves of log 4 and of KL(q || p)."""
    logits = torch.tensor([[0.0, math.log(3)]])
    soft = torch.tensor([[0.5, 0.5]])
    kl = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    share = torch.tensor(0.5)
    loss = distilled(logits, torch.tensor([0]), soft, share)
    expected = pytest.approx(0.5 * math.log(4) + 0.5 * kl)
    assert loss.item() == expected
    adjusted = torch.tensor([[0.0, -math.inf]])
    share = torch.tensor(0.5)
    cut = distilled(adjusted, torch.tensor([0]), soft, share)
    assert cut.isfinite()  # a class that the client lacks


def test_clients_with_high_losses_in_their_classes_are_noisy():
    images = torch.full((6, 3), 10.0)
    images[0, 1:] = 0  # classes that a clean client lacks count as the lowest
    means = torch.tensor(
        rows("0.2 0.3 9.0; 0.3 0.2 0.2; 0.2 0.2 0.3; 1.9 2.1 1.8; 0.3 0.3 0.2; 2.0 1.8 2.1")
    )
    losses = means * images
    result = noisy_clients(losses, images).tolist()
    assert result == [
        False,
        False,
        False,
        True,
        False,
        True,
    ]


def test_nobody_is_noisy_where_nothing_tells_clients_apart():
    losses = torch.ones(4, 2)
    images = torch.ones(4, 2)
    assert not noisy_clients(losses, images).any()
    losses = torch.ones(1, 2)
    images = torch.ones(1, 2)
    assert not noisy_clients(losses, images).any()


def table(**changed):
    """Clients 0 and 1 clean, 2 and 3 noisy: 2 is at distance 5 + 2 of the nearest clean one, 3 at 10 + 4."""
    models = rows("0.0 0.0 0.0; 90.0 0.0 0.0; 3.0 4.0 2.0; 6.0 8.0 4.0")
    layout = flat_layout(2, 1)
    return client_updates(models, layout=layout, n=[4, 4, 4, 4], **changed)


def test_distances_are_sums_over_tensors_to_the_nearest_clean_client():
    result = distances(table(), torch.tensor([False, False, True, True])).tolist()
    expected = pytest.approx([0, 0, 0.5, 1])
    assert result == expected


def test_weights_in_the_second_stage_by_hand():
    noisy = torch.tensor([False, False, True, True])
    memory = {"noisy": noisy, "begun": torch.tensor(1)}
    _, weights = resolve("fednoro").aggregator.aggregate(torch.zeros(3), table(t=5), memory)
    raw = [1, 1, math.exp(-0.5), math.exp(-1)]
    expected = pytest.approx([w / sum(raw) for w in raw])
    assert weights.tolist() == expected
    memory["noisy"] = torch.ones(4, dtype=torch.bool)
    _, weights = resolve("fednoro").aggregator.aggregate(torch.zeros(3), table(t=5), memory)
    assert weights.tolist() == [0.25] * 4


def test_noisy_clients_are_looked_for_when_the_first_stage_ends():
    losses = torch.tensor(rows("0.1 0.2; 0.2 0.1; 5.0 5.0; 5.1 4.9"))
    images = torch.ones(4, 2)
    for t, is_stage_over in ((1, False), (2, True)):
        memory = {}
        updates = table(t=t, rounds=20, class_losses=losses, class_images=images)
        resolve("fednoro").aggregator.aggregate(torch.zeros(3), updates, memory)
        assert ("noisy" in memory) == is_stage_over
    assert memory["noisy"].tolist() == [False, False, True, True]
    assert memory["begun"] == 2


def test_a_first_stage_that_never_ends_is_logit_adjustment():
    ours = play("fednoro", {"warm_up": 1.0}, rounds=3)
    adjusted = play("logit-adjust", rounds=3)
    assert_close(ours.theta, adjusted.theta)


@pytest.mark.parametrize(("round", "remaining"), [(11, 1), (24, 2 / 3), (50, 0), (51, 0)])
def test_the_share_of_distillation_rises_from_the_first_round_of_the_second_stage(round, remaining):
    """Rounds of the released code count from 0: its share is least in round 10 and full in round 49."""
    _, _, client = at_a_noisy_client(round)
    expected = pytest.approx(0.8 * math.exp(-5 * remaining**2))
    assert client.scratch["share"].item() == expected


def at_a_noisy_client(round):
    net = toy_net(dropout=0.0)
    shard = toy_shard("north", 6)
    layout = Layout(net)
    shared = {"noisy": torch.tensor([True]), "begun": torch.tensor(10)}
    client = ClientRound(
        "north", 0, round, 100, 0.1, layout.read(), shared, layout, shard, None, {}
    )
    local = resolve("fednoro").local
    local.on_round_start(net, client)
    return local, net, client


def test_the_received_model_teaches_at_temperature_08():
    local, net, client = at_a_noisy_client(11)
    client.scratch["share"] = torch.tensor(0.5)
    batch = client.shard.batch(torch.arange(6))
    soft = (net.eval()(batch.x) / 0.8).softmax(1).detach()
    client.layout.params.mul_(1.5)  # the student is elsewhere by then
    net.train()
    adjusted = net(batch.x) + client.offset
    share = torch.tensor(0.5)
    expected = distilled(adjusted, batch.y, soft, share)
    assert_close(local.loss(net, batch, client), expected)


def test_buffers_count_in_distances():
    layout = Layout(toy_net())
    models = torch.zeros(3, len(layout.flat))
    models[1, layout.trainable] = 3.0
    models[2, layout.trainable - 1] = 6.0
    result = distances(client_updates(models, layout=layout), torch.tensor([False, True, True]))
    expected = pytest.approx([0, 0.5, 1])
    assert result.tolist() == expected
