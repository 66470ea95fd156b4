import copy

import pytest
import torch
import torch.nn.functional as F
from conftest import play, toy_net, toy_shard
from torch import nn
from torch.testing import assert_close

from fedcli.federation.client import ClientTask, Training, run_client
from fedcli.methods import helpers, resolve
from fedcli.methods.contract import ClientRound
from fedcli.models.layout import Layout

FULL_BATCH = Training(optimizer="sgd", lr=0.1, weight_decay=0.0, batch_size=10_000)


def last_model(layout):
    """A last local model that is not the global one."""
    theta = layout.read()
    theta[: layout.trainable] += 0.3 * torch.randn(
        layout.trainable, generator=torch.Generator().manual_seed(5)
    )
    return theta


def turn(net, layout, memory, training=FULL_BATCH, spec="moon", **settings):
    task = ClientTask("north", 0, 2, 3, 0, layout.read(), {}, memory)
    method = resolve(spec, settings)
    return run_client(method, net, layout, toy_shard("north"), task, training)


def test_one_step_is_the_contrast_written_out():
    """Eqs. 3-4 with their exponentials, on three separate networks, by autograd."""
    net = toy_net(dropout=0.0)
    layout = Layout(net)
    previous = last_model(layout)
    old, anchor, live = (copy.deepcopy(toy_net(dropout=0.0)) for _ in range(3))
    Layout(old).load(previous)
    old.eval(), anchor.eval(), live.train()
    batch = next(toy_shard("north").in_order())
    params = list(live.parameters())

    z = live.features(batch.x)
    with torch.no_grad():
        z_global = anchor.features(batch.x)
        z_previous = old.features(batch.x)
    near = (F.cosine_similarity(z, z_global) / 0.4).exp()
    far = (F.cosine_similarity(z, z_previous) / 0.4).exp()
    loss = F.cross_entropy(live.head(z), batch.y) + 3.0 * -(near / (near + far)).log().mean()
    steps = [p - 0.1 * g for p, g in zip(params, torch.autograd.grad(loss, params), strict=True)]

    report = turn(net, layout, {"previous": previous}, mu=3.0, temperature=0.4)
    expected = torch.cat([p.detach().reshape(-1) for p in steps])
    assert_close(report.theta[: layout.trainable], expected, atol=1e-6, rtol=1e-5)
    assert_close(report.loss, loss.detach())


def test_a_projection_head_stands_between_features_and_classifier():
    local = resolve("moon", {"projection": 5}).local
    net = toy_net(extend=local.extend).eval()
    plain = toy_net().eval()
    x = next(toy_shard("north").in_order()).x
    linear, relu, last_linear = net.backbone.projection
    with torch.no_grad():
        assert_close(net.backbone.body(x), plain.features(x))
        expected = last_linear(relu(linear(plain.features(x))))
        assert torch.equal(net.features(x), expected)
        assert net.features(x).shape == (len(x), 5)
        assert net(x).shape == plain(x).shape
    result = len(play("moon", {"projection": 5}).theta)
    assert result > len(play("moon", rounds=1).theta)


def test_without_a_contrast_it_is_fedavg():
    result = play("moon", {"mu": 0.0}).theta
    assert torch.equal(result, play("fedavg").theta)


def test_a_first_visit_is_fedavg():
    expected = play("fedavg", rounds=1).theta
    assert torch.equal(play("moon", rounds=1).theta, expected)


@pytest.mark.parametrize("bn", ["aggregate", "freeze"])
def test_reference_models_leave_no_trace_in_batch_norm(bn):
    """One step of one full batch: the statistics are FedAvg's, not moved by the other two models."""
    training = Training(optimizer="sgd", lr=0.1, weight_decay=0.0, batch_size=10_000, bn=bn)
    ours, plain = (
        turn(net, layout, {"previous": last_model(layout)}, training, spec).theta[
            layout.trainable :
        ]
        for spec in ("moon", "fedavg")
        for net in [toy_net()]
        for layout in [Layout(net)]
    )
    assert torch.equal(ours, plain)


def test_reference_features_restore_numbers_and_the_mode_of_every_module():
    net = toy_net().train()
    norm = next(m for m in net.modules() if isinstance(m, nn.BatchNorm2d))
    norm.eval()  # as under --bn freeze
    layout = Layout(net)
    before = layout.read()
    modes = [m.training for m in net.modules()]
    client = ClientRound("north", 0, 2, 3, 0.1, before, {}, layout, toy_shard("north"), None, {})
    batch = next(toy_shard("north").in_order())
    (z,) = helpers.features_of(net, batch.x, client, last_model(layout))
    assert torch.equal(layout.read(), before)
    result = [m.training for m in net.modules()]
    assert result == modes
    assert not z.requires_grad
    assert not torch.equal(z, net.eval().features(batch.x))


def test_features_that_are_all_zero_do_no_harm():
    net = toy_net()
    layout = Layout(net)
    dead = layout.read()
    dead[
        layout.spans["backbone.1.bias"]
    ] = -1e6  # batch norm ends below zero, so the rectifier passes nothing
    layout.load(dead)
    assert turn(net, layout, {"previous": dead}).theta.isfinite().all()


def test_the_last_model_is_the_clients_own_whatever_the_server_makes_of_it():
    net = toy_net()
    layout = Layout(net)
    report = turn(net, layout, {}, spec="moon+fedheal")
    assert torch.equal(report.memory["previous"], report.theta)


def test_an_absent_client_keeps_its_last_model():
    early = play("moon", until=1, rounds=4, participation=0.5)
    participants = []
    late = play(
        "moon",
        state=early,
        until=2,
        rounds=4,
        participation=0.5,
        each=lambda p: participants.extend(p.clients),
    )
    for client, memory in early.clients.items():
        result = torch.equal(memory["previous"], late.clients[client]["previous"])
        assert result == (client not in participants)
    expected = {*early.clients, *participants}
    assert set(late.clients) == expected
