"""APFL: a mixture of two models, beside a global track that is FedAvg's."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from conftest import ROSTER, play, toy_net, toy_shard
from torch.testing import assert_close

from fedcli.federation.client import ClientTask, Training, run_client
from fedcli.methods import resolve
from fedcli.models.layout import Layout

SGD = Training(optimizer="sgd", lr=0.1, weight_decay=0.0, batch_size=10_000)


@pytest.mark.parametrize("settings", [{}, {"adaptive": True}])
def test_the_global_track_is_fedavg_bit_for_bit(settings):
    state = play("apfl", settings, dropout=0.3)
    plain = play("fedavg", dropout=0.3)
    assert torch.equal(state.theta, plain.theta)


def gradient(theta, shard, statistics=None):
    """dL/dtheta [T] over the whole shard in train mode, as autograd says; moves the statistics where they are given."""
    net = toy_net(dropout=0.0).train()
    layout = Layout(net)
    layout.params.copy_(theta)
    layout.buffers.copy_(layout.buffers if statistics is None else statistics)
    F.cross_entropy(net(next(shard.in_order()).x), shard.y).backward()
    if statistics is not None:
        statistics.copy_(layout.buffers)
    return layout.grad.clone()


def test_two_steps_from_two_different_models_written_out():
    """v <- v - lr alpha g(alpha v + (1 - alpha) w), alpha in the first step; the model is the mixture of both.

    Its statistics are its own, and go on with its passes.
    """
    start = Layout(toy_net()).read()
    personal = Layout(toy_net(seed=4)).read()
    shard = toy_shard("north")
    net = toy_net(dropout=0.0)
    layout = Layout(net)
    t = layout.trainable
    memory = {"own_part": personal[:t], "model": personal, "alpha": torch.tensor(0.25)}
    task = ClientTask(
        "north",
        0,
        2,
        3,
        0,
        start,
        {},
        memory,
    )
    method = resolve("apfl", {"solver": "sgd", "adaptive": True})
    training = replace(SGD, epochs=2)
    report = run_client(method, net, layout, shard, task, training)

    v = personal[:t]
    w = start[:t]
    alpha = torch.tensor(0.25)
    statistics = personal[t:].clone()
    for step in range(2):
        theta = alpha * v + (1 - alpha) * w
        g = gradient(theta, shard, statistics)
        moved = (alpha - 0.1 * ((v - w) @ g)).clamp(0, 1)
        v = v - 0.1 * alpha * g
        w = w - 0.1 * gradient(w, shard)
        alpha = alpha if step else moved
    assert_close(report.memory["own_part"], v, atol=1e-6, rtol=1e-5)
    assert_close(report.memory["alpha"], alpha)
    result = report.memory["model"][t:]
    assert_close(result, statistics, atol=1e-5, rtol=1e-5)
    result = report.memory["model"][:t]
    expected = alpha * v + (1 - alpha) * w
    assert_close(result, expected, atol=1e-6, rtol=1e-5)


def test_alpha_0_is_the_clients_own_copy_of_fedavg():
    state = play("apfl", {"alpha": 0.0}, rounds=1, training=SGD)
    net = toy_net()
    layout = Layout(net)
    task = ClientTask(ROSTER[0], 0, 1, 1, 1, layout.read(), {}, {})
    shard = toy_shard(ROSTER[0])
    alone = run_client(resolve("fedavg"), net, layout, shard, task, SGD).theta
    result = state.clients[ROSTER[0]]["model"][: layout.trainable]
    assert_close(result, alone[: layout.trainable])


def test_alpha_moves_once_in_a_round_and_stays_within_0_and_1():
    fixed = play("apfl", rounds=2)
    for memory in fixed.clients.values():
        assert memory["alpha"] == 0.5
    training = Training(optimizer="sgd", lr=0.5, batch_size=8)
    moved = play("apfl", {"adaptive": True}, rounds=3, training=training)
    for memory in moved.clients.values():
        assert 0 <= memory["alpha"] <= 1
    assert any(memory["alpha"] != 0.5 for memory in moved.clients.values())
