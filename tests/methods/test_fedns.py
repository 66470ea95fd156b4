"""FedNS: noisy clients by the norm of the classifier's gradient."""

import pytest
import torch
from conftest import client_updates, play, toy_net, toy_shard, toy_shards
from group_clients import client_of
from torch.testing import assert_close

from fedcli.data.shard import with_images
from fedcli.methods import resolve
from fedcli.methods.fedns import below_cut


def test_the_lower_cluster_weighs_a_twelfth_by_hand():
    norms = torch.tensor([5.0, 1.0, 6.0])
    table = client_updates(torch.eye(3), n=(2, 3, 1), gradient_norm=norms)
    theta, weights = resolve("fedns").aggregator.aggregate(torch.zeros(3), table, {})
    total = 1.2 * 2 + 0.1 * 3 + 1.2
    expected = pytest.approx([2.4 / total, 0.3 / total, 1.2 / total])
    assert weights.tolist() == expected
    assert theta.tolist() == expected


def test_clusters_are_those_with_the_least_squares_of_numbers_that_count():
    numbers = torch.tensor([-1.0, 1.0, 1.2, 4.0, 5.0, 6.0])
    result = below_cut(numbers, numbers >= 0).tolist()
    assert result == [False, True, True, False, False, False]
    for alike in ([2.0], [2.0, 2.0, 2.0]):
        assert not below_cut(torch.tensor(alike), torch.ones(len(alike), dtype=torch.bool)).any()


def test_a_client_of_a_later_round_is_compared_with_those_of_earlier_ones():
    rule = resolve("fedns").aggregator
    memory = {}
    first = client_updates(
        torch.eye(2), rows=[0, 1], roster=3, gradient_norm=torch.tensor([5.0, 6.0])
    )
    rule.aggregate(torch.zeros(2), first, memory)
    second = client_updates(
        torch.eye(2), rows=[0, 2], roster=3, gradient_norm=torch.tensor([5.0, 1.0])
    )
    _, weights = rule.aggregate(torch.zeros(2), second, memory)
    assert weights.tolist() == pytest.approx([12 / 13, 1 / 13])
    assert memory["gradient_norms"].tolist() == [5.0, 6.0, 1.0]


def test_the_norm_is_that_of_the_derivative():
    net = toy_net(dropout=0.0)
    shard = toy_shard("north", 6)
    client = client_of(net, shard)
    rule = resolve("fedns", {"batch": 4}).aggregator
    rule.measure_local(net, client)
    norms = []
    net.eval()
    for batch in shard.in_order(4):
        loss = -net(batch.x).log_softmax(1).sum(1).mean()
        norms.append(torch.autograd.grad(loss, net.head.weight)[0].abs().sum())
    assert_close(client.report["gradient_norm"].float(), torch.stack(norms).mean())


def test_a_client_is_measured_once():
    net = toy_net(dropout=0.0)
    client = client_of(net, toy_shard("north", 6))
    rule = resolve("fedns").aggregator
    rule.measure_local(net, client)
    first = client.report["gradient_norm"].clone()
    with torch.no_grad():
        net.head.weight.mul_(3)
    rule.measure_local(net, client)
    assert torch.equal(client.report["gradient_norm"], first)


def test_equal_weights_and_equal_clients_are_fedavg():
    plain = play("fedavg", rounds=2).theta
    assert_close(play("fedns", {"alpha": 0.5, "beta": 0.5}, rounds=2).theta, plain)


def test_flat_images_make_a_client_noisy_under_any_base():
    flat = toy_shard("south", 8)
    images = torch.full_like(flat.images[flat.rows], 118)
    shards = toy_shards(south=with_images(flat, images, "cpu"))
    weights = []
    play(
        "fedprox+fedns",
        rounds=2,
        shards=shards,
        each=lambda played: weights.append(played.weights.tolist()),
    )
    row = list(shards).index("south")
    assert min(weights[1]) == weights[1][row]
