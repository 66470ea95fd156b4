"""Measurements of a client on its own images: by hand, in eval mode, and without a trace in the network."""

import pytest
import torch
import torch.nn.functional as F
from conftest import toy_net, toy_shard
from torch.testing import assert_close

from fedcli.methods import probes
from fedcli.methods.contract import ClientRound
from fedcli.models.layout import Layout


@pytest.fixture
def client():
    net = toy_net()
    layout = Layout(net)
    return net, ClientRound(
        "north", 0, 1, 3, 0.1, layout.read(), {}, layout, toy_shard("north"), None, {}
    )


def test_the_mean_loss_is_over_images_and_not_over_batches(client):
    net, visit = client
    batch = next(visit.shard.in_order())
    expected = F.cross_entropy(net.eval()(batch.x), batch.y)
    assert_close(probes.mean_loss(net, visit), expected)


def test_balanced_accuracy_is_over_the_classes_that_the_client_has(client):
    net, visit = client
    visit.shard = toy_shard("north", absent=2)
    batch = next(visit.shard.in_order())
    right = net.eval()(batch.x).argmax(1) == batch.y
    expected = sum(right[batch.y == c].double().mean() for c in (0, 1)) / 2
    expected = pytest.approx(expected.item())
    assert probes.balanced_accuracy(net, visit).item() == expected


def test_the_gradient_is_that_of_the_mean_loss_and_is_not_left_behind(client):
    net, visit = client
    loss, gradient = probes.gradient(net, visit, batch_size=7)
    assert_close(loss, probes.mean_loss(net, visit))
    visit.layout.zero_grad()
    batch = next(visit.shard.in_order())
    F.cross_entropy(net(batch.x), batch.y).backward()
    assert_close(gradient, visit.layout.grad, rtol=1e-4, atol=1e-6)


def test_ascent_goes_rho_along_the_gradient_and_back(client):
    net, visit = client
    loss, loss_after = probes.ascend(net, visit, 0.05)
    assert torch.equal(visit.layout.read(), visit.theta)
    _, gradient = probes.gradient(net, visit)
    alpha = 0.05 / gradient.norm().item()
    visit.layout.params.add_(gradient, alpha=alpha)
    assert_close(loss_after, probes.mean_loss(net, visit))
    assert loss_after > loss
