"""Adversarial debiasing: the gradient behind the reversal layer."""

import pytest
import torch
import torch.nn.functional as F
from conftest import play, toy_net, toy_shard
from group_clients import client_of, of_group
from torch.testing import assert_close

from fedcli.federation.steps import with_own
from fedcli.methods import resolve
from fedcli.methods.adv import Reversed


def test_the_layer_turns_the_gradient_round():
    x = torch.tensor([1.0, -2.0], requires_grad=True)
    y = Reversed.apply(x, torch.tensor(0.5))
    (y * torch.tensor([3.0, 4.0])).sum().backward()
    assert y.tolist() == [1.0, -2.0]
    expected = [-1.5, -2.0]
    assert x.grad.tolist() == expected


@pytest.mark.parametrize(
    ("settings", "t", "strength"), [({}, 1, 0.0), ({"schedule": "constant", "strength": 3}, 1, 3.0)]
)
def test_the_strength_grows_from_0_or_stays(settings, t, strength):
    local = resolve("adv", settings).local
    net = toy_net(extend=local.extend)
    client = client_of(net, toy_shard("north", 4))
    client.round, client.rounds = t, 10
    local.on_round_start(net, client)
    assert client.scratch["strength"].item() == strength
    client.round = 6  # p = 1/2: 2 / (1 + exp(-5)) - 1
    local.on_round_start(net, client)
    expected = pytest.approx(strength or 0.98661, abs=1e-4)
    assert client.scratch["strength"].item() == expected


def test_features_climb_and_the_adversary_descends_its_loss():
    """Against the gradients of both losses by themselves; unknown groups are in neither."""
    local = resolve("adv", {"schedule": "constant", "strength": 0.5}).local
    net = toy_net(dropout=0.0, extend=local.extend)
    values = [0, 1, -1, 1, 0, -1]
    shard = of_group(toy_shard("north", 6), values)
    client = client_of(net, shard)
    local.on_round_start(net, client)
    batch = with_own(shard.batch(torch.arange(6)), client)
    local.loss(net, batch, client).backward()
    gradients = {name: p.grad.clone() for name, p in net.named_parameters()}
    features = net.features(batch.x)
    images_with_group = torch.tensor([0, 1, 3, 4])
    guess = (
        F.cross_entropy(
            net.adversary(features)[images_with_group], torch.tensor([0, 1, 1, 0]), reduction="sum"
        )
        / 6
    )
    label = F.cross_entropy(net.head(features), batch.y)
    names, parameters = zip(*net.named_parameters(), strict=True)
    of_guess = torch.autograd.grad(guess, parameters, retain_graph=True, allow_unused=True)
    of_label = torch.autograd.grad(label, parameters, allow_unused=True)
    for name, g, y in zip(names, of_guess, of_label, strict=True):
        factor = 1.0 if name.startswith("adversary") else -0.5
        expected = sum(f * part for f, part in ((factor, g), (1.0, y)) if part is not None)
        assert_close(gradients[name], expected)


def test_without_strength_the_classifier_is_fedavgs():
    """The adversary trains beside it, from features as they are."""
    theta = play("adv", {"strength": 0.0}, rounds=2).theta
    plain = play("fedavg", rounds=2).theta
    result = theta[: 4 * 9 + 8 + 51]
    expected = plain[: 4 * 9 + 8 + 51]
    assert_close(result, expected)  # convolution, norm, classifier
