import torch
import torch.nn.functional as F
from conftest import play, toy_net, toy_shard
from group_clients import client_of
from torch.testing import assert_close

from fedcli.methods import resolve
from fedcli.runs.rules import takes_prior
from fedcli.runs.train_options import TrainOptions


def loss(alpha, absent=2):
    net = toy_net(dropout=0.0)
    shard = toy_shard("north", 6, absent=absent)
    client = client_of(net, shard)
    local = resolve("fedrs", {"alpha": alpha}).local
    local.on_round_start(net, client)
    batch = shard.batch(torch.arange(6))
    return local.loss(net, batch, client), net(batch.x), batch.y


def test_logits_of_a_missing_class_are_scaled():
    result, logits, y = loss(0.25)
    expected = F.cross_entropy(logits * torch.tensor([1.0, 1.0, 0.25]), y)
    assert_close(result, expected)


def test_a_class_of_one_image_is_not_missing():
    net = toy_net(dropout=0.0)
    shard = toy_shard("north", 6)
    shard.y[:] = torch.tensor([0, 0, 0, 0, 0, 1])
    client = client_of(net, shard)
    resolve("fedrs", {"alpha": 0.2}).local.on_round_start(net, client)
    assert_close(client.scratch["scale"], torch.tensor([1.0, 1.0, 0.2]))


def test_by_the_released_rule_a_class_counts_by_its_share_of_the_commonest():
    net = toy_net(dropout=0.0)
    shard = toy_shard("north", 6)
    shard.y[:] = torch.tensor([0, 0, 0, 0, 1, 1])
    client = client_of(net, shard)
    resolve("fedrs", {"alpha": 0.2, "rule": "released"}).local.on_round_start(net, client)
    assert_close(client.scratch["scale"], torch.tensor([1.0, 0.6, 0.2]))


def test_where_nothing_is_missing_or_scaled_it_is_fedavg():
    result, logits, y = loss(1.0)
    assert_close(result, F.cross_entropy(logits, y))
    expected = play("fedavg", rounds=2).theta
    assert_close(play("fedrs", {"alpha": 1.0}, rounds=2).theta, expected)


def test_a_smaller_alpha_pushes_the_missing_class_less():
    gradients = []
    for alpha in (0.0, 0.5):
        net = toy_net(dropout=0.0)
        shard = toy_shard("north", 6, absent=2)
        client = client_of(net, shard)
        local = resolve("fedrs", {"alpha": alpha}).local
        local.on_round_start(net, client)
        local.loss(net, shard.batch(torch.arange(6)), client).backward()
        gradients.append(float(net.head.bias.grad[2]))
    assert gradients[0] == 0.0 < gradients[1]


def test_no_prior_is_added_since_it_would_undo_the_restriction():
    """A prior gives missing classes no probability, and what remains is FedAvg."""
    for rule in ("paper", "released"):
        method = resolve("fedrs", {"rule": rule})
        assert not takes_prior(TrainOptions(), method)
