import pytest
import torch
import torch.nn.functional as F
from conftest import ROSTER, play, toy_net, toy_shard, toy_shards
from torch.testing import assert_close

from fedcli.federation.client import ClientTask, Training, run_client
from fedcli.methods import ditto, resolve  # noqa: F401 - importing registers
from fedcli.models.layout import Layout

SGD = Training(optimizer="sgd", lr=0.1, weight_decay=0.0, batch_size=8)
ADAM = Training(optimizer="adam", lr=0.01, weight_decay=5e-4, epochs=2, batch_size=16, bn="local")


@pytest.mark.parametrize("training", [SGD, ADAM])
@pytest.mark.parametrize("spec", ["ditto", "ditto+fedheal"])
def test_the_global_track_is_the_base_bit_for_bit(spec, training):
    """Batch norm and dropout included: the personal track leaves neither statistics nor random numbers behind."""
    ours, plain = (
        play(s, training=training, dropout=0.3) for s in (spec, spec.replace("ditto", "fedavg"))
    )
    assert torch.equal(ours.theta, plain.theta)
    for memory in ours.clients.values():
        assert not torch.equal(memory["model"], ours.theta)


def test_two_personal_steps_are_equation_1_written_out():
    """v <- v - lr (g(v) + lambda (v - w_t)) by autograd from a v that is not w_t; w goes its own way."""
    net = toy_net(dropout=0.0)
    other = toy_net(seed=4, dropout=0.0)
    layout = Layout(net)
    theirs = Layout(other)
    start = layout.read()
    mine = theirs.read()
    training = Training(optimizer="sgd", lr=0.1, weight_decay=0.0, batch_size=10_000, epochs=2)
    task = ClientTask("north", 0, 2, 3, 0, start, {}, {"model": mine})
    method = resolve("ditto", {"strength": 0.6, "solver": "sgd"})
    report = run_client(method, net, layout, toy_shard("north"), task, training)

    other.train()
    batch = next(toy_shard("north").in_order())
    t = layout.trainable
    for _ in range(2):
        theirs.zero_grad()
        F.cross_entropy(other(batch.x), batch.y).backward()
        theirs.params.sub_(0.1 * (theirs.grad + 0.6 * (theirs.params - start[:t])))
    assert_close(report.memory["model"], theirs.read(), atol=1e-6, rtol=1e-5)  # statistics as well
    assert torch.equal(task.memory["model"], mine)
    assert report.memory["model"] is not mine


def test_without_a_pull_the_personal_model_is_that_of_a_client_training_alone():
    settings = {"strength": 0.0, "solver": "sgd"}
    state = play("ditto", settings, training=SGD, dropout=0.3)
    for row, client in enumerate(ROSTER):
        net = toy_net(dropout=0.3)
        layout = Layout(net)
        alone = layout.read()
        for t in (1, 2, 3):
            task = ClientTask(client, row, t, 3, 1, alone, {}, {})
            shard = toy_shards()[client]
            alone = run_client(resolve("fedavg"), net, layout, shard, task, SGD).theta
        assert torch.equal(state.clients[client]["model"], alone)


@pytest.mark.parametrize("solver", ["adam", "sgd"])
def test_the_stronger_the_pull_the_nearer_the_personal_model(solver):
    training = Training(optimizer="sgd", lr=0.02, weight_decay=0.0, batch_size=8)
    gaps = []
    for strength in (0.0, 1.0, 10.0):
        settings = {"strength": strength, "solver": solver}
        state = play("ditto", settings, rounds=6, training=training)
        gaps.append(
            sum((memory["model"] - state.theta)[:95].norm() for memory in state.clients.values())
        )
    assert gaps[0] > gaps[1] > gaps[2]


def test_an_absent_client_keeps_its_model_and_a_new_one_starts_from_the_global():
    early = play("ditto", rounds=4, until=1, participation=0.5)
    late = play("ditto", rounds=4, until=2, participation=0.5, state=early)
    participants = []
    play(
        "ditto",
        rounds=4,
        until=2,
        participation=0.5,
        state=early,
        each=lambda played: participants.extend(played.clients),
    )
    for client in early.clients:
        result = torch.equal(early.clients[client]["model"], late.clients[client]["model"])
        assert result == (client not in participants)
    expected = {*early.clients, *participants}
    assert set(late.clients) == expected
