"""pFedMe, Algorithm 1: the personal model of a minibatch, and the step towards it."""

from dataclasses import replace

import pytest
import torch.nn.functional as F
from conftest import play, toy_net, toy_shard
from torch.testing import assert_close

from fedcli.errors import UsageError
from fedcli.federation.client import ClientTask, Training, run_client
from fedcli.methods import resolve
from fedcli.models.layout import Layout

SGD = Training(optimizer="sgd", lr=0.02, weight_decay=0.0, batch_size=10_000)


def test_two_minibatches_of_two_inner_steps_written_out():
    """theta begins at w, whatever the client kept, and goes on; each minibatch is anchored where w is by then."""
    net = toy_net(dropout=0.0)
    other = toy_net(dropout=0.0).train()
    shard = toy_shard("north")
    layout = Layout(net)
    theirs = Layout(other)
    start = layout.read()
    t = layout.trainable
    model = Layout(toy_net(seed=4)).read()
    memory = {"model": model}
    task = ClientTask("north", 0, 2, 3, 0, start, {}, memory)
    settings = {"strength": 3.0, "inner_steps": 2, "inner_lr": 0.1}
    training = replace(SGD, epochs=2)
    method = resolve("pfedme", settings)
    report = run_client(method, net, layout, shard, task, training)

    w = start[:t].clone()
    batch = next(shard.in_order())
    for _ in range(2):
        for _ in range(2):
            theirs.zero_grad()
            F.cross_entropy(other(batch.x), batch.y).backward()
            theirs.params.sub_(0.1 * (theirs.grad + 3.0 * (theirs.params - w)))
        w = w - 0.02 * 3.0 * (w - theirs.params)
    result = report.memory["model"][:t]
    assert_close(result, theirs.params, atol=1e-6, rtol=1e-4)
    assert_close(report.theta[:t], w, atol=1e-6, rtol=1e-4)


def test_near_the_minimum_of_the_envelope_a_step_of_w_is_a_step_of_gradient_descent():
    """A stiff envelope, solved well: lambda (w - theta) is the gradient at w, and the model is FedAvg's."""
    stiff = {"strength": 2000.0, "inner_steps": 40, "inner_lr": 2e-4}
    ours = play("pfedme", stiff, rounds=1, training=SGD, dropout=0.0)
    plain = play("fedavg", rounds=1, training=SGD, dropout=0.0)
    t = Layout(toy_net()).trainable
    assert_close(ours.theta[:t], plain.theta[:t], atol=2e-4, rtol=1e-2)


@pytest.mark.parametrize("steps", [1, 5])
def test_the_stronger_lambda_the_nearer_the_personal_model(steps):
    gaps = []
    for strength in (1.0, 5.0, 15.0):
        settings = {"strength": strength, "inner_steps": steps}
        state = play("pfedme", settings, rounds=3, training=SGD)
        gaps.append(
            sum((memory["model"] - state.theta)[:95].norm() for memory in state.clients.values())
        )
    assert gaps[0] > gaps[2]


def test_inner_steps_that_must_diverge_are_refused_with_a_length_that_does_not():
    with pytest.raises(UsageError, match="not below 2") as refused:
        resolve("pfedme", {"inner_lr": 0.2}).local.extend(toy_net())
    assert refused.value.hint == "--set inner_lr=0.05"
    resolve("pfedme", {"strength": 60.0, "inner_lr": 0.02}).local.extend(toy_net())
