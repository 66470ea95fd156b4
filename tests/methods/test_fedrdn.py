"""FedRDN: training images normalised as another client's, test images as their own client's."""

import pytest
import torch
from conftest import ROSTER, client_updates, play, toy_net, toy_shard, toy_shards
from group_clients import client_of
from torch.testing import assert_close

from fedcli.data.shard import with_images
from fedcli.data.transforms import normalised, to_pixels
from fedcli.errors import UsageError
from fedcli.federation.steps import with_own
from fedcli.methods import resolve
from fedcli.methods.fedrdn import TABLE, statistics
from fedcli.models.layout import Layout


def net_of(local):
    net = toy_net(dropout=0.0)
    local.extend(net)
    return net


def test_statistics_are_means_over_images_by_hand():
    """One image is half black and half white, the other is grey: its deviation is 0."""
    halves = torch.tensor([0, 255]).repeat_interleave(32).reshape(1, 8, 8)
    images = torch.stack([halves, torch.full((1, 8, 8), 127.5)]).to(torch.uint8)
    shard = with_images(toy_shard("north", 2), images, "cpu")
    mean, deviation = statistics(client_of(toy_net(), shard)).flatten().tolist()
    assert mean == pytest.approx((0.5 + 127 / 255) / 2)
    assert deviation == pytest.approx(0.5 * (64 / 63) ** 0.5 / 2)


def test_the_layer_is_nothing_before_it_is_measured_and_stays_with_the_client():
    local = resolve("fedrdn").local
    net = net_of(local)
    x = torch.rand(2, 1, 8, 8)
    assert_close(net.backbone[0](normalised(x)), normalised(x))
    layout = Layout(net, local.personal_tensors(net))
    assert layout.size == Layout(toy_net()).size
    assert len(layout.read_own()) == 2


@pytest.mark.parametrize("rule", ["paper", "released"])
def test_the_network_sees_a_training_image_normalised_by_a_drawn_client(rule):
    local = resolve("fedrdn", {"rule": rule}).local
    net = net_of(local)
    table = torch.tensor([[[0.5], [0.25]], [[0.1], [0.5]], [[0.0], [0.0]]])  # the third is absent
    shard = toy_shard("north", 40)
    client = client_of(net, shard, {TABLE: table})
    local.on_round_start(net, client)
    batch = with_own(shard.batch(torch.arange(40)), client)
    seen = []
    net.backbone[0].register_forward_hook(lambda layer, given, result: seen.append(result))
    local.loss(net, batch, client)
    pixels = to_pixels(batch.x)
    pairs = {"paper": [(0, 0), (1, 1)], "released": [(0, 0), (0, 1), (1, 0), (1, 1)]}[rule]
    views = [(pixels - table[j, 0, 0]) / table[k, 1, 0] for j, k in pairs]
    met = set()
    for i, image in enumerate(seen[0]):
        fits = [torch.allclose(image, view[i], atol=1e-4) for view in views]
        assert any(fits)
        met.add(fits.index(True))
    assert len(met) == len(pairs)


def test_the_server_keeps_the_numbers_of_absent_clients():
    local = resolve("fedrdn").local
    shared = {}
    for rows, value in (([0, 2], 1.0), ([1, 2], 2.0)):
        sent = torch.full((2, 2, 1), value)
        updates = client_updates(torch.zeros(2, 1), rows=rows, roster=4, **{TABLE: sent})
        local.post_aggregate(torch.zeros(1), updates, updates.base, shared)
    assert shared[TABLE][:, 0, 0].tolist() == [1.0, 2.0, 2.0, 0.0]


def test_clients_with_the_same_images_train_as_with_their_own_numbers_alone():
    shard = toy_shard("north", 8)
    alike = toy_shards(**dict.fromkeys(ROSTER, shard))
    whole = play("fedrdn", rounds=2, shards=alike).theta
    alone = play(
        "fedrdn", rounds=2, shards=alike, each=lambda played: played.state.shared.pop(TABLE)
    ).theta
    assert_close(whole, alone)
    other = play("fedavg", rounds=2, shards=alike).theta
    assert not torch.allclose(whole, other, atol=1e-3)


def test_each_client_keeps_its_own_numbers():
    state = play("fedrdn", rounds=1)
    own = {client: tuple(memory["own"].tolist()) for client, memory in state.clients.items()}
    assert len(set(own.values())) == len(ROSTER)
    for client, shard in toy_shards().items():
        expected = statistics(client_of(toy_net(), shard)).flatten()
        assert own[client] == pytest.approx(expected.tolist())


def test_a_frozen_backbone_is_refused():
    net = toy_net()
    net.backbone.requires_grad_(False)
    with pytest.raises(UsageError, match="frozen backbone"):
        resolve("fedrdn").local.extend(net)
