"""Recorded steps: the same bits as ordinary ones, and nothing in them that a GPU could not record."""

import pytest
import torch
from conftest import play, toy_clip, toy_net
from tapes import RECORDED, TRAINING, Strict, Tape, federation, recorded

from fedcli.federation import state as states
from fedcli.federation.engines.in_process import InProcess
from fedcli.federation.engines.streams import Streams
from fedcli.federation.graphs import no_graph_reason
from fedcli.federation.server import Federation
from fedcli.methods import METHODS, resolve
from fedcli.models.layout import Layout

# One method of each kind of step; test_training.py records every method, with all options of training.
CASES = [
    (spec, {}, "affine-flip")
    for spec in ("fedprox", "scaffold", "fedism-plus", "promptfl", "fedminmax")
]
CASES += [(spec, {"teacher_view": "clean"}, "flip") for spec in ("kd", "fed-mas")] + [
    ("kd", {}, "none")
]


@pytest.mark.parametrize(("spec", "settings", "kind"), CASES)
def test_a_recording_comes_to_the_same_bits_and_no_step_waits_for_the_device(
    spec, settings, kind, monkeypatch
):
    shards = federation(kind)
    state, captures = recorded(
        monkeypatch, Strict, spec, settings=settings, shards=shards, dropout=0.0, until=2
    )
    usual = play(spec, settings, training=TRAINING, shards=shards, dropout=0.0, until=2)
    assert torch.equal(state.theta, usual.theta)
    assert states.equal(state.clients, usual.clients)
    assert captures >= 1


OF_EACH_IMAGE = ("adv", 1), ("kd", 1), ("fed-mas", 1), ("fairlora", 1)
BY_GROUP = [
    (spec, 2)
    for spec in ("fairfb", "fedminmax", "flexfair", "gifair", "group-dro", "reweigh", "feddg")
]


@pytest.mark.parametrize(
    ("spec", "captures"), [("fedprox", 1), ("fedism-plus", 1), *OF_EACH_IMAGE, *BY_GROUP]
)
def test_a_step_is_recorded_once_for_all_clients_and_again_only_where_it_reads_the_round(
    spec, captures, monkeypatch
):
    """Twice where the server sends nothing in the first round yet."""
    assert recorded(monkeypatch, Tape, spec, shards=federation())[1] == captures


def test_recordings_of_clients_that_alternate_are_kept(monkeypatch):
    """A client's first visit has no model of its own to look back at; half of them take part."""
    options = {"shards": federation(), "participation": 0.5, "rounds": 6, "seed": 0}
    assert recorded(monkeypatch, Tape, "moon", **options)[1] == 2


@pytest.mark.parametrize("spec", [name for name in METHODS if name not in RECORDED])
def test_a_method_that_cannot_be_recorded_says_why(spec):
    assert len(no_graph_reason(resolve(spec).local).split()) > 4


class Plugin(type(resolve("fedprox").local)):
    """A local half from outside fedcli."""


def test_a_method_from_outside_is_recorded_only_if_its_file_says_so(monkeypatch):
    assert "nothing says" in no_graph_reason(Plugin())
    monkeypatch.setattr(Plugin, "recordable", True)
    assert no_graph_reason(Plugin()) == ""
    assert "nothing says" in no_graph_reason(type("Another", (Plugin,), {})())  # it may do more


def test_clients_side_by_side_come_to_the_same_bits():
    """Without a GPU they take turns, each on a network of its own."""
    method = resolve("scaffold")
    shards = federation("flip")
    usual = play("scaffold", training=TRAINING, shards=shards)
    net = toy_net(extend=method.local.extend)
    clients = InProcess(method, net, Layout(net), shards, TRAINING)
    engine = Streams.of(clients, 3)
    together = Federation(clients, rounds=3, seed=1)
    result = len({id(worker.net) for worker in engine.workers})
    assert result == 3
    state = together.first()
    for _ in range(3):
        state = together.play(state, engine=engine).state
    assert torch.equal(state.theta, usual.theta)


def test_side_by_side_shares_what_never_trains():
    method = resolve("lora")
    net = toy_clip(extend=method.local.extend)
    clients = InProcess(method, net, Layout(net), federation(), TRAINING)
    parameters, copied = (
        set(map(id, worker.net.parameters())) for worker in Streams.of(clients, 2).workers
    )
    frozen = {id(p) for module in clients.layout.frozen for p in module.parameters()}
    assert frozen
    assert frozen <= copied
    assert not (parameters - frozen) & copied
