"""CCVR: Gaussians of all clients together, and a classifier from draws of them."""

import torch
from conftest import client_updates, play, toy_clip, toy_shard
from tables_of_numbers import rows
from torch.testing import assert_close

from fedcli.federation.client import Training
from fedcli.methods import resolve
from fedcli.methods.ccvr import of_all
from fedcli.methods.contract import ClientRound
from fedcli.methods.creff import head_index
from fedcli.models.layout import Layout

QUICK = {"features": 40, "epochs": 3}


def reports(*shards):
    """(reports of these clients stacked by name, features of all, labels of all, layout)"""
    net = toy_clip(extend=resolve("ccvr").local.extend)
    layout = Layout(net)
    columns = []
    features_and_labels = []
    for k, shard in enumerate(shards):
        client = ClientRound("a", k, 1, 1, 0.1, layout.read(), {}, layout, shard, None, {})
        resolve("ccvr").aggregator.measure_global(net, client)
        columns.append(client.report)
        features_and_labels.append((net.features(next(shard.in_order()).x).detach(), shard.y))
    stacked = {}
    for name in columns[0]:
        stacked[name] = torch.stack([column[name] for column in columns])
    return stacked, *(torch.cat(part) for part in zip(*features_and_labels, strict=True)), layout


def test_mean_and_covariance_are_those_of_all_images_together():
    columns, z, y, _ = reports(toy_shard("north", 12), toy_shard("south", 9), toy_shard("east", 1))
    mean, covariance, present = of_all(*(column.double() for column in columns.values()))
    assert present.all()
    for c in range(3):
        theirs = z[y == c].double()
        assert_close(mean[c], theirs.mean(0), rtol=1e-4, atol=1e-6)
        assert_close(covariance[c], theirs.T.cov(), rtol=1e-3, atol=1e-6)


def test_virtual_features_have_that_mean_and_covariance():
    mean = torch.tensor([[1.0, -2.0]]).double()
    root = torch.tensor(rows("2.0 0.0; 1.0 0.5")).double()
    features = resolve("ccvr", {"features": 10000}).aggregator.draws(
        mean, (root @ root.T)[None], 3
    )[0]
    assert_close(features.mean(0), mean[0], atol=0.1, rtol=0)
    assert_close(features.T.cov(), root @ root.T, atol=0.2, rtol=0)


def test_a_class_of_one_image_is_drawn_as_that_image_and_one_of_none_is_left_out():
    n = torch.tensor([[1.0, 0.0]]).double()
    means = torch.tensor([rows("3.0 4.0; 0.0 0.0")]).double()
    covariances = torch.zeros(1, 2, 2, 2).double()
    mean, covariance, present = of_all(n, means, covariances)
    features = resolve("ccvr", QUICK).aggregator.draws(mean, covariance, 1)
    assert (features[0] == mean[0]).all()
    assert present.tolist() == [True, False]


def test_the_classifier_tells_two_gaussians_apart_and_nothing_else_of_the_model_moves():
    """N((2, 0), 1) against N((-2, 0), 1): the first number decides, the second says nothing."""
    net = torch.nn.Module()
    net.head = torch.nn.Linear(2, 2)
    net.kept = torch.nn.Linear(1, 1)
    layout = Layout(net)
    means = torch.tensor([rows("2.0 0.0; -2.0 0.0")])
    eyes = torch.eye(2).expand(1, 2, 2, 2)
    class_images = torch.tensor([[50, 50]])
    columns = {
        "class_images": class_images,
        "class_means": means,
        "class_covariances": eyes,
    }
    updates = client_updates(layout.read()[None], layout=layout, **columns)
    theta, weights = resolve("ccvr", {"head_lr": 0.1}).aggregator.aggregate(
        layout.read(), updates, {}
    )
    weight, bias = theta[head_index(layout)].split([2, 1], dim=1)  # [C, D], [C, 1]
    slope, other_slope = (weight[0] - weight[1]).tolist()
    assert slope > 1.5
    assert abs(other_slope) < 0.2 * slope
    result = abs(bias[0] - bias[1]).item()
    assert result < 0.2 * slope
    assert weights.tolist() == [1.0]
    assert all(
        theta[span].equal(layout.read()[span])
        for name, span in layout.spans.items()
        if "kept" in name
    )


def test_local_steps_change_nothing():
    """Whatever the learning rate, decay or number of epochs: the server takes no client's model."""
    states = [
        play("ccvr", QUICK, rounds=1, training=Training(lr=lr, epochs=n))
        for lr, n in ((0.1, 1), (0.5, 2))
    ]
    assert torch.equal(states[0].theta, states[1].theta)
