"""What must hold for every registered name."""

import re
from functools import cache

import pytest
import torch
from conftest import ROSTER, play, toy_shard
from torch import Tensor
from torch.utils._pytree import tree_map

from fedcli import options
from fedcli.errors import UsageError
from fedcli.federation import state as states
from fedcli.federation.client import Training
from fedcli.federation.engines.in_process import InProcess
from fedcli.federation.server import Played
from fedcli.methods import METHODS, resolve
from fedcli.methods.mixins import LinearHeadOnly, scored_model
from fedcli.runs.train import Plan

BASES = [name for name, m in METHODS.items() if isinstance(m.aggregator, type(METHODS["fedavg"].aggregator))]
ADDONS = [name for name, m in METHODS.items() if type(m.local) is type(METHODS["fedavg"].local) and name not in BASES]
PAIRS = [
    f"{base}+{addon}"
    for base in BASES
    for addon in ADDONS
    if METHODS[base].local.head == "linear" or not isinstance(METHODS[addon].aggregator, LinearHeadOnly)
]
every = pytest.mark.parametrize("spec", [*METHODS, *PAIRS])
# Every method, every base under one rule, every rule over one base. The halves of a pair share no state, so what holds
# for these holds for the other pairs, which are only played.
MOST = [*METHODS, *(pair for pair in PAIRS if pair.endswith("+fedheal") or pair.startswith("scaffold+"))]
most = pytest.mark.parametrize("spec", MOST)
OTHERS = [pair for pair in PAIRS if pair not in MOST]

ROUNDS = 3
# two or three steps: where all take equally many, FedNova is FedAvg
SHARDS = {client: toy_shard(client, 9 + 4 * k) for k, client in enumerate(ROSTER)}
SHORTER = {"creff": {"features": 4, "steps": 5, "epochs": 5}}  # of the server's own training


def train(spec, **options):
    """The state after three rounds on few images."""
    settings = {key: value for name in spec.split("+") for key, value in SHORTER.get(name, {}).items()}
    return play(spec, settings, **{"rounds": ROUNDS, "shards": SHARDS} | options)


@cache
def played(spec) -> list[Played]:
    """The result of each round of a training."""
    rounds: list[Played] = []
    train(spec, each=rounds.append)
    return rounds


def assert_same(state, expected):
    """Two states are equal to the bit."""
    for part in ("theta", "shared", "server", "clients"):
        assert tree_map(Tensor.tolist, getattr(state, part)) == tree_map(Tensor.tolist, getattr(expected, part))


@most
def test_finite_after_all_rounds_and_unlike_fedavg(spec):
    state = played(spec)[-1].state
    own = [memory["model"] for memory in state.clients.values() if "model" in memory]  # Ditto's are what differs
    scored = scored_model(resolve(spec).aggregator, state.theta, state.server)  # CReFF's is what differs
    assert all(theta.isfinite().all() for theta in (state.theta, scored, *own))
    assert spec == "fedavg" or not torch.equal(own[0] if own else scored, played("fedavg")[-1].state.theta)


@pytest.mark.parametrize("spec", OTHERS)
def test_every_other_pair_trains(spec):
    assert train(spec, until=1).theta.isfinite().all()


@most
def test_resumes_to_the_same_bits_from_disk(spec, tmp_path):
    _, before, end = (each.state for each in played(spec))
    states.save(tmp_path, before, ROSTER)
    assert_same(train(spec, state=states.restore(states.saved(tmp_path)[-1], ROSTER, "cpu")), end)


@most
def test_a_round_can_be_played_again_from_the_old_state(spec):
    first, second, _ = (each.state for each in played(spec))
    assert_same(train(spec, state=first, until=2), second)


@most
def test_survives_one_image_and_a_class_nobody_has(spec):
    shards = {c: toy_shard(c, 12, absent=2) for c in ROSTER} | {"east": toy_shard("east", 1, absent=2)}
    assert train(spec, shards=shards, until=2).theta.isfinite().all()


@every
def test_partial_participation_is_refused_by_name_where_it_cannot_work(spec):
    model = "clip-tiny" if resolve(spec).local.model else "cnn"
    partial = Plan(spec, {}, Training(), rounds=2, participation=0.5, model=model)
    if resolve(spec).aggregator.full_participation:
        with pytest.raises(UsageError, match=re.escape(f"{spec} needs every client")):
            partial.check()
    else:
        partial.check()


@pytest.mark.parametrize("spec", [spec for spec in MOST if not resolve(spec).aggregator.full_participation])
def test_partial_participation_works(spec):
    assert train(spec, rounds=4, participation=0.5).theta.isfinite().all()


@most
def test_adam_momentum_and_several_epochs_work(spec):
    training = Training(optimizer="adam", lr=0.01, weight_decay=5e-4, epochs=2, batch_size=16, bn="local")
    assert train(spec, training=training, until=2).theta.isfinite().all()


@most
def test_reported_columns_have_the_same_shapes_every_round(spec):
    first, second, third = ({name: column.shape for name, column in each.columns.items()} for each in played(spec))
    assert first == second == third


@pytest.mark.parametrize("name", METHODS)
def test_the_module_names_its_source(name):
    text = METHODS[name].documentation
    assert "Source:" in text and ("arXiv" in text or "doi" in text.lower())


@pytest.mark.parametrize("name", METHODS)
def test_every_option_has_a_meaning_and_refuses_what_is_no_value(name):
    for half in (METHODS[name].local, METHODS[name].aggregator):
        for option in options.describe(half):
            assert option.meaning, f"{name}.{option.name} says nothing"
            with pytest.raises(UsageError, match=option.name):
                resolve(name, {option.name: "no such value"})


@most
def test_clients_may_run_in_any_order(spec, monkeypatch):
    """An engine that runs clients backwards but reports in task order gives the same bits."""
    backwards = lambda self, tasks: [self.run_one(task) for task in reversed(tasks)][::-1]  # noqa: E731
    monkeypatch.setattr(InProcess, "__call__", backwards)
    first, second, _ = (each.state for each in played(spec))
    assert_same(train(spec, state=first, until=2), second)


@every
def test_recorded_settings_build_the_same_method(spec):
    """A run is resumed from its name and settings: halves that differ in an option of one name stay distinct."""
    method = resolve(spec)
    assert resolve(spec, method.settings) == method
