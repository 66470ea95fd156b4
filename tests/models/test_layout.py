from dataclasses import replace

import pytest
import torch
from conftest import toy_net, toy_shard
from torch import nn
from torch.testing import assert_close

from fedcli.federation.client import Training
from fedcli.federation.steps import Optimizer
from fedcli.models.layout import Layout


def test_the_network_is_a_view_of_theta():
    net = toy_net()
    layout = Layout(net)
    layout.load(torch.zeros(layout.size))
    for p in net.parameters():
        assert not p.any()
    net.head.bias.data.fill_(3.0)
    result = layout.read()[layout.spans["head.bias"]].tolist()
    assert result == [3.0, 3.0, 3.0]


def test_trainable_tensors_come_first_and_buffers_last():
    net = toy_net()
    layout = Layout(net)
    expected = sum(p.numel() for p in net.parameters())
    assert layout.trainable == expected
    assert layout.size - layout.trainable == 8  # running mean and variance of four channels
    result = list(layout.spans)[-2:]
    assert result == ["backbone.1.running_mean", "backbone.1.running_var"]


def test_gradients_land_in_one_vector_and_match_autograd():
    net = toy_net(dropout=0.0)
    other = toy_net(dropout=0.0)
    layout = Layout(net)
    batch = next(toy_shard("north").in_order())
    nn.functional.cross_entropy(net(batch.x), batch.y).backward()
    nn.functional.cross_entropy(other(batch.x), batch.y).backward()
    expected = torch.cat([p.grad.reshape(-1) for p in other.parameters()])
    assert_close(layout.grad, expected)


@pytest.mark.parametrize(
    ("name", "kind", "momentum"),
    [("sgd", torch.optim.SGD, 0.0), ("sgd", torch.optim.SGD, 0.9), ("adam", torch.optim.Adam, 0.0)],
)
def test_one_flat_step_equals_torchs_steps_over_the_tensors(name, kind, momentum):
    net = toy_net(dropout=0.0)
    other = toy_net(dropout=0.0)
    layout = Layout(net)
    batch = next(toy_shard("north").in_order())
    flat = Optimizer(layout, name)
    flat.begin(Training(optimizer=name, lr=0.1, momentum=momentum, weight_decay=0.01))
    plain = kind(
        other.parameters(),
        lr=0.1,
        weight_decay=0.01,
        **({"momentum": momentum} if momentum else {}),
    )
    for _ in range(3):
        layout.zero_grad()
        nn.functional.cross_entropy(net(batch.x), batch.y).backward()
        flat.step()
        plain.zero_grad()
        nn.functional.cross_entropy(other(batch.x), batch.y).backward()
        plain.step()
    expected = torch.cat([p.detach().reshape(-1) for p in other.parameters()])
    assert_close(layout.params, expected)


@pytest.mark.parametrize("personal", [(), ("backbone.1.weight", "head.bias")])
@pytest.mark.parametrize(("name", "kind"), [("sgd", torch.optim.SGD), ("adam", torch.optim.Adam)])
def test_the_backbone_may_have_a_smaller_learning_rate(name, kind, personal):
    net = toy_net(dropout=0.0)
    other = toy_net(dropout=0.0)
    layout = Layout(net, personal)
    batch = next(toy_shard("north").in_order())
    flat = Optimizer(layout, name)
    training = Training(optimizer=name, lr=0.1, weight_decay=0.01, backbone=0.1)
    flat.begin(replace(training, momentum=0.9 if name == "sgd" else 0.0))
    groups = [
        {"params": list(other.backbone.parameters()), "lr": 0.01},
        {"params": list(other.head.parameters()), "lr": 0.1},
    ]
    plain = kind(groups, weight_decay=0.01, **({"momentum": 0.9} if name == "sgd" else {}))
    for _ in range(3):
        layout.zero_grad()
        nn.functional.cross_entropy(net(batch.x), batch.y).backward()
        flat.step()
        plain.zero_grad()
        nn.functional.cross_entropy(other(batch.x), batch.y).backward()
        plain.step()
    expected = dict(other.named_parameters())
    for key, parameter in net.named_parameters():
        assert_close(parameter, expected[key])
    if name == "adam":
        assert flat.kept()["optimizer_steps"] == 3


def test_a_smaller_rate_of_the_backbone_leaves_the_head_as_it_was():
    flats = []
    for share in (1.0, 0.5):
        net = toy_net(dropout=0.0)
        layout = Layout(net)
        batch = next(toy_shard("north").in_order())
        flat = Optimizer(layout, "adam")
        flat.begin(Training(lr=0.1, backbone=share))
        layout.zero_grad()
        nn.functional.cross_entropy(net(batch.x), batch.y).backward()
        flat.step()
        flats.append(layout.params.clone())
    head = slice(layout.spans["head.weight"].start, None)
    assert torch.equal(flats[0][head], flats[1][head])
    assert not torch.equal(flats[0], flats[1])


def test_personal_tensors_stay_out_of_theta_but_are_trained():
    net = toy_net()
    layout = Layout(
        net,
        personal=tuple(
            f"backbone.1.{k}" for k in ("weight", "bias", "running_mean", "running_var")
        ),
    )
    for name in layout.spans:
        assert not name.startswith("backbone.1")
    personal_values = layout.read_own()
    assert len(personal_values) == 16  # weight, bias, mean, variance of four channels
    net.backbone[1].weight.grad.fill_(1.0)
    optimizer = Optimizer(layout, "sgd")
    optimizer.begin(Training(optimizer="sgd", lr=1.0, momentum=0.0, weight_decay=0.0))
    optimizer.step()
    result = net.backbone[1].weight.tolist()
    assert result == [0.0] * 4
    layout.load_own(personal_values)
    result = net.backbone[1].weight.tolist()
    assert result == [1.0] * 4
    assert torch.equal(layout.read_own(), personal_values)


def test_frozen_parameters_do_not_travel():
    net = toy_net()
    net.head.bias.requires_grad_(False)
    assert "head.bias" not in Layout(net).spans
