"""FCU: one client forgets, then the others train on."""

import pytest
import torch
import torch.nn.functional as F
from conftest import (
    ROSTER,
    client_updates,
    flat_layout,
    play,
    toy_federation,
    toy_net,
    toy_shard,
    toy_shards,
)
from group_clients import client_of
from torch.testing import assert_close

from fedcli.errors import UsageError
from fedcli.federation.steps import with_own
from fedcli.methods import resolve
from fedcli.methods.fcu import drawn_anew, low_from


def test_low_frequencies_by_hand_on_two_columns():
    """The transform of [3, 1] is 4 and 2; a shifted one has the mean in the second place."""
    before = torch.tensor([[3.0, 1.0], [3.0, 1.0]])
    after = torch.tensor([[5.0, 1.0], [5.0, 1.0]])
    assert_close(low_from(before, after, 1.0), after)
    assert_close(low_from(before, after, 0.0), before)


def test_the_phases_are_those_before():
    before = torch.tensor([[1.0, -2.0], [0.5, 3.0]])
    assert_close(low_from(before, -before, 1.0), before)
    kernel = torch.randn(4, 3, 2, 2, generator=torch.Generator().manual_seed(0))
    assert_close(low_from(kernel, kernel, 0.7), kernel)


def test_half_of_the_frequencies_of_a_larger_matrix():
    stream = torch.Generator().manual_seed(1)
    before, after = torch.randn(2, 8, 8, generator=stream)
    mixed = torch.fft.fft2(low_from(before, after, 0.5).double()).abs()
    inner = torch.fft.fftshift(torch.fft.fft2(after.double()).abs())[3:6, 3:6]
    outer = torch.fft.fftshift(torch.fft.fft2(before.double()).abs())[0, 1:]
    shifted = torch.fft.fftshift(mixed)
    assert_close(shifted[3:6, 3:6], inner, atol=1e-4, rtol=1e-4)
    assert_close(shifted[0, 1:], outer, atol=1e-4, rtol=1e-4)


def test_the_client_that_leaves_trains_away_from_the_features_that_it_received():
    local = resolve("fcu", {"leave": "north"}).local
    net = toy_net(dropout=0.0)
    shard = toy_shard("north", 6)
    client = client_of(net, shard)
    local.on_round_start(net, client)
    assert torch.equal(client.layout.read(), client.theta)
    assert not torch.equal(client.memory["random"], client.theta)
    batch = with_own(shard.batch(torch.arange(6)), client)
    net.eval()
    loss = local.loss(net, batch, client)
    z = net.features(batch.x)
    client.layout.load(client.memory["random"])
    z1 = net.features(batch.x)
    likeness = torch.stack([torch.ones(6), F.cosine_similarity(z, z1)], dim=1)
    target = torch.ones(6, dtype=torch.int64)
    assert_close(loss, F.cross_entropy(2 * likeness, target))


def test_a_network_stays_as_it_is_while_another_is_drawn():
    net = toy_net(dropout=0.0)
    for parameter in net.backbone.parameters():
        parameter.requires_grad_(False)
    client = client_of(net, toy_shard("north", 6))
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    drawn = drawn_anew(net, client)
    assert not torch.equal(drawn, client.theta)
    for name, tensor in net.state_dict().items():
        assert torch.equal(tensor, before[name]), name


def test_the_random_network_is_drawn_once():
    local = resolve("fcu", {"leave": "north"}).local
    net = toy_net(dropout=0.0)
    client = client_of(net, toy_shard("north", 6))
    local.on_round_start(net, client)
    drawn = client.memory["random"]
    client.round = 2
    local.on_round_start(net, client)
    assert client.memory["random"] is drawn


def test_others_train_plainly_and_nobody_unlearns_after_its_rounds():
    shard = toy_shard("north", 6)
    plain = resolve("fedavg").local
    for name, played in (("south", 1), ("north", 3)):
        local = resolve("fcu", {"leave": name, "forget": 2}).local
        net = toy_net(dropout=0.0)
        client = client_of(net, shard)
        client.round = played
        local.on_round_start(net, client)
        batch = with_own(shard.batch(torch.arange(6)), client)
        assert not client.scratch
        assert_close(local.loss(net, batch, client), plain.loss(net, batch, client))


def test_where_nothing_may_change_the_model_stays_until_the_others_train_on():
    models = [toy_federation(resolve("fcu"), shards=toy_shards(), rounds=3, seed=1).first().theta]
    weights = []

    def record(played):
        models.append(played.state.theta)
        weights.append(played.weights.tolist())

    play("fcu", {"leave": ROSTER[1], "low": 0.0, "forget": 2}, rounds=3, each=record)
    for model in models[1:3]:
        assert_close(model, models[0])
    assert not torch.allclose(models[3], models[0], atol=1e-4)
    assert weights[0] == [0.0, 1.0, 0.0, 0.0]
    assert weights[2][1] == 0
    assert min(weights[2][:1] + weights[2][2:]) > 0


def test_vectors_return_to_the_finished_run():
    rule = resolve("fcu", {"forget": 1}).aggregator
    trains = torch.tensor([1.0, 0.0])
    updates = client_updates(
        torch.ones(2, 3), layout=flat_layout(3), trains=trains, rows=[0, 1], roster=2
    )
    theta, weights = rule.aggregate(torch.zeros(3), updates, {})
    assert theta.tolist() == [0.0, 0.0, 0.0]
    assert weights.tolist() == [1.0, 0.0]


def test_a_client_that_is_not_there_is_refused():
    with pytest.raises(UsageError, match="no client 'nowhere'"):
        play("fcu", {"leave": "nowhere"}, rounds=1)


def test_a_run_warns_where_nobody_is_named():
    assert "the first one does" in resolve("fcu").aggregator.warning(4, False)
    assert not resolve("fcu", {"leave": "north"}).aggregator.warning(4, False)


def test_a_run_warns_where_no_round_is_left_for_the_others():
    warning = resolve("fcu", {"leave": "north", "forget": 2}).aggregator.warning
    assert warning(2, False) == "2 rounds with forget=2: the others do not train on"
    assert warning(3, False) == ""
