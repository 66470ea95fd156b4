"""Hostile clients who act on the updates of the honest ones of their round."""

from dataclasses import replace

import pytest
import torch
from conftest import ROSTER, play, toy_federation, toy_shards
from torch.testing import assert_close

from fedcli.data.corruption import joint
from fedcli.data.corruption.attack import KINDS, Attack
from fedcli.federation.engines import open_engine
from fedcli.methods import resolve

KINDS_OF_ALL = [name for name, kind in KINDS.items() if kind.joint]


def attacked(kind, clients, strength=0.5):
    shards = toy_shards()
    for name in clients:
        attack = Attack(kind, strength, client=name)
        shards[name] = replace(shards[name], attack=attack)
    return shards


def trained_models(federation, start):
    """The models [K, P] that the clients train, before any attack of several."""
    tasks = federation.tasks(start, ROSTER, {})
    return torch.stack([federation.clients.run_one(task).theta for task in tasks])


def sent_to_rule(federation, start, monkeypatch):
    """The models [K, P] that the server's rule gets in the first round."""
    kind = type(federation.method.aggregator)
    aggregate = kind.aggregate
    tables = []

    def spy(self, theta, updates, memory):
        tables.append(updates.theta.clone())
        return aggregate(self, theta, updates, memory)

    monkeypatch.setattr(kind, "aggregate", spy)
    federation.play(start, ROSTER)
    return tables[0]


@pytest.mark.parametrize("kind", KINDS_OF_ALL)
def test_the_hostile_ones_send_what_follows_from_the_honest_ones(kind, monkeypatch):
    hostile = ROSTER[-2:]
    federation = toy_federation(resolve("fedavg"), shards=attacked(kind, hostile), rounds=2)
    start = federation.first()
    theta = start.theta
    trained = trained_models(federation, start)
    table = sent_to_rule(federation, start, monkeypatch)
    t = federation.layout.trainable
    honest = len(ROSTER) - 2
    assert torch.equal(table[:honest], trained[:honest])
    assert torch.equal(table[honest:, t:], trained[honest:, t:])  # statistics are honest
    moved = (trained[:honest, :t] - theta[:t]).double()
    update = {"alie": joint.alie, "ipm": joint.ipm, "min-max": joint.min_max}[kind](moved, 0.5)
    for row in table[honest:, :t]:
        assert_close(row, (theta[:t] + update).float())


def test_where_all_are_hostile_their_own_updates_are_the_honest_ones(monkeypatch):
    federation = toy_federation(resolve("fedavg"), shards=attacked("ipm", ROSTER), rounds=2)
    start = federation.first()
    theta = start.theta
    trained = trained_models(federation, start)
    t = federation.layout.trainable
    table = sent_to_rule(federation, start, monkeypatch)
    mean = (trained[:, :t] - theta[:t]).mean(0)
    for row in table[:, :t]:
        assert_close(row, theta[:t] - 0.5 * mean)


def test_engines_and_a_round_played_again_have_the_same_bytes():
    shards = attacked("min-max", ROSTER[-1:])
    federation = toy_federation(resolve("median"), shards=shards, rounds=2)
    start = federation.first()
    with open_engine("pool:2", federation.clients, 4) as pool:
        played = [federation.play(start, ROSTER, engine) for engine in (None, pool)]
    assert torch.equal(played[0].state.theta, played[1].state.theta)
    assert not torch.equal(played[0].state.theta, play("median", rounds=1).theta)
    replayed = federation.play(start, ROSTER)
    assert torch.equal(replayed.state.theta, played[0].state.theta)


def test_a_client_that_was_not_selected_neither_attacks_nor_counts(monkeypatch):
    """Power-of-choice measures all, and trains those with the largest losses."""
    method = resolve("power-of-choice")
    federation = toy_federation(method, shards=attacked("ipm", ROSTER[:-1]), rounds=2)
    start = federation.first()
    table = sent_to_rule(federation, start, monkeypatch)
    moved = [row for row in table if not torch.equal(row, start.theta)]
    assert len(moved) == 1
    assert federation.play(start, ROSTER).state.theta.isfinite().all()


def test_clients_alone_attack_nobody():
    shards = attacked("alie", ROSTER[-1:])
    models = []
    for of_clients in (shards, toy_shards()):
        federation = toy_federation(resolve("fedavg"), shards=of_clients, rounds=2)
        alone = replace(federation, single_site=True)
        state = alone.play(alone.first(), ROSTER).state
        models.append([state.clients[name]["model"] for name in ROSTER])
    for with_attack, without in zip(*models, strict=True):
        assert torch.equal(with_attack, without)
