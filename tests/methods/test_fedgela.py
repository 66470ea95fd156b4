"""FedGELA: the simplex, its scaling by class shares, and that it never moves."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from conftest import ROSTER, make_chain, play, toy_net, toy_shard, toy_shards
from group_clients import client_of
from made_plans import planned, train
from torch.testing import assert_close

from fedcli.errors import UsageError
from fedcli.federation.client import ClientTask, Training, run_client
from fedcli.federation.state import read_tensors
from fedcli.methods import resolve
from fedcli.methods.fedgela import SimplexHead, simplex
from fedcli.models.layout import Layout
from fedcli.models.network import Network


def test_corners_are_unit_vectors_as_far_from_each_other_as_they_can_be():
    corners = simplex(7, 4).double()
    expected = torch.full((4, 4), -1 / 3).double().fill_diagonal_(1)
    assert_close(corners @ corners.T, expected, atol=1e-6, rtol=0)
    expected = torch.zeros(7).double()
    assert_close(corners.sum(0), expected, atol=1e-6, rtol=0)


def test_two_classes_are_opposite_ways():
    corners = simplex(5, 2)
    assert_close(corners[0], -corners[1])


def test_logits_by_hand():
    """Features (1, 2) under a norm that is still the identity, corners along the axes, T = 0.5."""
    head = SimplexHead(2, 2, 0.5).eval()
    head.norm.eps = 0.0
    head.corners.data = torch.eye(2)
    result = head(torch.tensor([[1.0, 2.0]])).tolist()
    assert result == [[2.0, 4.0]]


def of_classes(y):
    shard = toy_shard("north", len(y))
    shard.y[:] = torch.tensor(y)
    return shard


def test_a_clients_loss_by_hand():
    """Three images are of class 0, one of class 1: e = (9/4, 3/4, 0), and class 2 keeps the logit 0."""
    local = resolve("fedgela").local
    net = toy_net(dropout=0.0)
    shard = of_classes([0, 0, 1, 0])
    client = client_of(net, shard)
    local.on_round_start(net, client)
    result = client.scratch["shares"].tolist()
    assert result == [2.25, 0.75, 0.0]
    batch = next(client.shard.in_order())
    net.forward = lambda x: torch.tensor([[1.0, 2.0, 3.0]]).expand(len(x), 3)
    total = math.exp(2.25) + math.exp(1.5) + 1
    expected = math.log(total) - (3 * 2.25 + 1.5) / 4
    result = local.loss(net, batch, client).item()
    assert result == pytest.approx(expected)


def test_corners_stand_still_under_momentum_and_weight_decay_and_the_rest_moves():
    training = Training(optimizer="sgd", lr=0.1, momentum=0.9, weight_decay=0.1, batch_size=8)
    state = play("fedgela", training=training)
    net = toy_net(extend=resolve("fedgela").local.extend)
    layout = Layout(net)
    span = layout.spans["head.corners"]
    assert_close(state.theta[span], layout.read()[span], atol=1e-6, rtol=0)
    result = (state.theta - layout.read()).abs().max()
    assert result > 0.01


def test_features_train_under_still_corners_which_take_no_part_in_a_cut_of_the_norm():
    """Three steps over all images with much weight decay, and one that is cut, against plain loops."""
    local = resolve("fedgela").local
    shard = toy_shard("north", 20)

    def trained(training):
        net = toy_net(dropout=0.0, extend=local.extend)
        layout = Layout(net)
        task = ClientTask("north", 0, 1, 3, 1, layout.read(), {}, {})
        return (
            run_client(resolve("fedgela"), net, layout, shard, task, training).theta,
            task.theta,
            layout,
        )

    theta, start, layout = trained(
        Training(optimizer="sgd", lr=0.1, weight_decay=0.5, batch_size=20, epochs=3)
    )
    net = toy_net(dropout=0.0, extend=local.extend).train()
    other = Layout(net)
    span = layout.spans["head.corners"]
    batch = next(shard.in_order())
    shares = 3 * shard.class_counts / shard.class_counts.sum()
    for _ in range(3):
        other.zero_grad()
        F.cross_entropy(net(batch.x) * shares, batch.y).backward()
        other.params.sub_(0.1 * (other.grad + 0.5 * other.params))
        other.flat[span] = start[span]
    moving = slice(layout.trainable)
    assert_close(theta[moving], other.read()[moving], atol=1e-5, rtol=1e-4)
    theta, start, _ = trained(
        Training(optimizer="sgd", lr=0.1, weight_decay=0.0, batch_size=20, clip_norm=0.01)
    )
    result = (theta - start)[moving].norm().item()
    expected = pytest.approx(0.1 * 0.01, rel=1e-3)
    assert result == expected


def test_the_own_model_has_the_clients_shares_in_its_corners_and_scores_its_classes_by_them():
    state = play("fedgela", rounds=1)
    net = toy_net(extend=resolve("fedgela").local.extend)
    layout = Layout(net)
    span = layout.spans["head.corners"]
    for client in ROSTER:
        counts = toy_shard(client).class_counts
        corners = state.clients[client]["model"][span].view(3, -1)
        expected = pytest.approx((3 * counts / counts.sum()).tolist(), rel=1e-4)
        assert corners.norm(dim=1).tolist() == expected


def test_of_even_classes_it_is_fedavg_under_the_same_fixed_classifier(monkeypatch):
    """Six images of each class at every client: no scale makes a difference."""
    shards = toy_shards(**{client: of_classes([0, 1, 2] * 6) for client in ROSTER})
    ours = play("fedgela", shards=shards, rounds=2)
    kind = type(resolve("fedgela").local)
    monkeypatch.setattr(kind, "loss", kind.__bases__[0].loss)  # plain cross-entropy
    assert_close(ours.theta, play("fedgela", shards=shards, rounds=2).theta)


def test_more_classes_than_features_are_refused():
    net = Network(torch.nn.Flatten(), 2, 3)
    with pytest.raises(UsageError, match="2 for 3 classes"):
        resolve("fedgela").local.extend(net)


def test_another_run_starts_with_its_classifier_too(tmp_path):
    data = make_chain(tmp_path)
    training = Training(optimizer="sgd", lr=0.1)
    plan = planned("fedgela", {}, training, 1, model="cnn")
    run = train(data, plan, work=tmp_path)
    weights = str(run.parent)
    again = planned("fedgela", {}, replace(training, lr=1e-30), 1, model="cnn", weights=weights)
    before, after = (
        read_tensors(path.parent / "models" / "00001.h5")
        for path in (run, train(data, again, work=tmp_path))
    )
    for name in ("model/head.corners", "model/head.norm.weight"):
        assert_close(after[name], before[name])
