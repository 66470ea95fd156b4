import math

import pytest
import torch
import torch.nn.functional as F
from conftest import client_updates, play, toy_net, toy_shard
from group_clients import client_of
from tables_of_numbers import rows
from torch.testing import assert_close

from fedcli.methods import resolve
from fedcli.methods.fediic import contrast, separated


def test_the_contrast_within_a_client_by_hand():
    """Four vectors of two classes with a share of 1/4 each: temperature 1/4, so -log(e^4 / (e^4 + 2))."""
    z = torch.tensor(rows("1.0 0.0; 1.0 0.0; 0.0 1.0; 0.0 1.0"), dtype=torch.float64)
    share = torch.full((4,), 0.25).double()
    loss = contrast(z, torch.tensor([0, 0, 1, 1]), share)
    expected = pytest.approx(-math.log(math.exp(4) / (math.exp(4) + 2)), rel=1e-5)
    assert loss.item() == expected
    share = torch.full((4,), 0.01).double()
    rare = contrast(z, torch.tensor([0, 0, 1, 1]), share)  # the temperature stays at 0.07
    expected = pytest.approx(2 * math.exp(-1 / 0.07), rel=1e-2)
    assert rare.item() == expected


def test_the_temperature_of_two_classes_is_the_root_of_their_shares_product():
    """Shares 1/2 and 1/8: 1/2 and 1/8 within a class, 1/4 between them, where vectors agree by 0.6."""
    z = torch.tensor(rows("1.0 0.0; 1.0 0.0; 0.6 0.8; 0.6 0.8"), dtype=torch.float64)
    share = torch.tensor([1 / 2, 1 / 2, 1 / 8, 1 / 8]).double()
    loss = contrast(z, torch.tensor([0, 0, 1, 1]), share)
    terms = [
        -math.log(math.exp(cosine) / (math.exp(cosine) + 2 * math.exp(0.6 / 0.25)))
        for cosine in (1 / 0.5, 1 / 0.125)
    ]
    expected = pytest.approx(sum(terms) / 2)
    assert loss.item() == expected


def test_prototypes_move_until_no_two_of_them_agree():
    near = torch.tensor(rows("1.0 0.1 0.0; 1.0 -0.1 0.0; 1.0 0.0 0.1"))
    unit = separated(near, 1000)
    assert_close(unit.norm(dim=1), torch.ones(3))
    result = (unit @ unit.T - torch.eye(3)).max()
    assert result <= 1e-6
    assert_close(separated(near, 0), F.normalize(near, dim=1))
    result = separated(near[:1], 5).shape
    assert result == (1, 3)


def prepared(settings, shared=None, absent=None):
    net = toy_net(dropout=0.0)
    shard = toy_shard("north", 6, absent=absent)
    local = resolve("fediic", settings).local
    local.extend(net)
    client = client_of(net, shard, shared)
    local.on_round_start(net, client)
    net.train()
    return local, net, shard, client


def test_margins_follow_the_share_and_the_loss_of_a_class():
    """Losses 16, 1 and 1: the first margin is lowered by log 2; a class without images is taken out."""
    class_difficulty = torch.tensor([16.0, 1.0, 1.0], dtype=torch.float64)
    shared = {"class_difficulty": class_difficulty}
    _, _, shard, client = prepared({}, shared, absent=2)
    p = shard.class_counts / len(shard)
    margins = client.scratch["margins"]
    expected = pytest.approx(math.log(p[0] / 2), abs=1e-4)
    assert margins[0].item() == expected
    expected = pytest.approx(math.log(p[1]), abs=1e-4)
    assert margins[1].item() == expected
    assert margins[2] == -torch.inf


def test_without_contrasts_and_difficulty_it_is_logit_adjustment():
    settings = {"k1": 0.0, "k2": 0.0, "d": 0.0}
    local, net, shard, client = prepared(settings)
    batch = shard.batch(torch.arange(6))
    shares = (shard.class_counts / len(shard)).log()
    expected = F.cross_entropy(net(batch.x) + shares, batch.y)
    assert_close(local.loss(net, batch, client), expected)


def test_the_loss_is_the_sum_of_its_three_parts():
    settings = {"k1": 3.0, "k2": 0.5, "d": 0.0}
    local, net, shard, client = prepared(settings)
    batch = shard.batch(torch.arange(6))
    share = shard.class_counts / len(shard)
    y = batch.y.repeat(2)
    z = F.normalize(net.projector(net.features(torch.cat([batch.x, batch.x]))), dim=1)
    supervised = F.cross_entropy(net(batch.x) + share.log(), batch.y)
    inter = F.cross_entropy(z @ client.scratch["prototypes"].T / 0.1, y)
    expected = supervised + 3.0 * contrast(z, y, share[y]) + 0.5 * inter
    assert_close(local.loss(net, batch, client), expected, atol=1e-4, rtol=1e-3)


def test_the_server_divides_the_sums_of_all_clients():
    class_images = torch.tensor(rows("2.0 0.0; 2.0 0.0"))
    class_losses = torch.tensor(rows("3.0 0.0; 5.0 0.0"))
    theta = torch.zeros(2, 1)
    table = client_updates(
        theta,
        class_images=class_images,
        class_losses=class_losses,
    )
    shared = {}
    resolve("fediic").local.post_aggregate(torch.zeros(1), table, table.base, shared)
    expected = pytest.approx([2.0, 1.0], abs=1e-4)
    assert shared["class_difficulty"].tolist() == expected  # nobody has the second class


def test_a_class_that_is_away_for_a_round_keeps_its_margin():
    """A loss of 0 would raise its logit by 11.5 at the client that comes back with it."""
    class_images = torch.tensor([[2.0, 0, 2]])
    class_losses = torch.ones(1, 3)
    theta = torch.zeros(1, 1)
    table = client_updates(theta, class_images=class_images, class_losses=class_losses)
    class_difficulty = torch.tensor([16.0, 16.0, 1.0]).double()
    shared = {"class_difficulty": class_difficulty}
    resolve("fediic").local.post_aggregate(torch.zeros(1), table, table.base, shared)
    expected = pytest.approx([0.5, 16.0, 0.5], abs=1e-4)
    assert shared["class_difficulty"].tolist() == expected
    _, _, shard, client = prepared({}, shared)
    share = shard.class_counts[1] / len(shard)
    expected = pytest.approx(math.log(share / 2), abs=1e-4)
    result = client.scratch["margins"][1].item()
    assert result == expected


def test_difficulty_is_known_from_the_second_round_on():
    state = play("fediic", rounds=2)
    assert (state.shared["class_difficulty"] > 0).all()
    assert state.theta.isfinite().all()
