"""Recorded steps: the same bits as ordinary ones, and nothing in them that a GPU could not record."""

import pytest
import torch
from conftest import ROSTER, play, toy_clip, toy_net, toy_shard
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fedcli.data.shard import Shard
from fedcli.federation import graphs
from fedcli.federation.client import Training
from fedcli.federation.engines import in_process
from fedcli.federation.engines.in_process import InProcess
from fedcli.federation.engines.streams import Streams
from fedcli.federation.graphs import local_steps, no_graph_reason
from fedcli.federation.server import Federation
from fedcli.methods import METHODS, resolve
from fedcli.models.layout import Layout

TRAINING = Training(optimizer="sgd", lr=0.1, momentum=0.9, weight_decay=0.01, epochs=2, batch_size=8)
RECORDED = [name for name, method in METHODS.items() if not no_graph_reason(method.local)]
HOST = "_local_scalar_dense", "nonzero", "masked_select", "unique", "bincount", "lift_fresh"  # what waits for numbers


class Tape(TorchDispatchMode):
    """Stands in for a CUDA graph: notes every operation of a step, and repeats them on the same tensors.

    As in a graph, no line of Python runs again, so that numbers and tensors are those of the step that was recorded.
    """

    def __init__(self):
        super().__init__()
        self.operations = []

    def capture(self, step):
        with torch.random.fork_rng(devices=[]):
            step()  # as a warm-up does: what it moves must be put back
            self.record(step)

    def record(self, step):
        with self:
            step()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.operations.append((func, args, kwargs or {}, out))
        return out

    @torch.no_grad()
    def replay(self):
        for func, args, kwargs, out in self.operations:
            for old, new in zip(tree_leaves(out), tree_leaves(func(*args, **kwargs))):
                if isinstance(old, torch.Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)  # where the operations after it look


class Strict(Tape):
    """Refuses a step in which the host would wait for the device, or send it numbers."""

    def record(self, step):
        with NoHost():
            super().record(step)


class NoHost(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        assert name not in HOST, f"{name} waits for the device"
        assert name != "index" or all(at is None or at.dtype is not torch.bool for at in args[1]), (
            "an index by bools waits"
        )
        return func(*args, **(kwargs or {}))


def federation(kind="none") -> dict[str, Shard]:
    """The toy clients over one pool, as a run has them: a last batch of one or two images, no whole batch, two."""
    counts = {"north": 9, "south": 18, "east": 16, "west": 5}
    parts = {client: toy_shard(client, counts[client]) for client in ROSTER}
    pool, start, out = torch.cat([part.images for part in parts.values()]), 0, {}
    for client, part in parts.items():
        rows = torch.arange(start, start := start + len(part))
        out[client] = Shard(pool, rows, part.y, part.ids, part.groups, part.classes, 1, kind)
    return out


def recorded(monkeypatch, graph, spec, **options):
    """Play with every step recorded; the state, and how often a step was recorded."""
    made = []

    def on(method, net, layout, optimizer):
        made.append(local_steps(method, net, layout, optimizer, graph))
        return made[-1]

    with monkeypatch.context() as patch:
        patch.setattr(in_process, "local_steps", on)
        state = play(spec, training=TRAINING, **options)
    return state, made[0].recorder.captures


CASES = [(spec, {}, "flip") for spec in RECORDED]
CASES += [(spec, {"teacher_view": "clean"}, "flip") for spec in ("kd", "fed-mas")] + [("kd", {}, "none")]


@pytest.mark.parametrize("spec, settings, kind", CASES)
def test_every_method_comes_to_the_same_bits(spec, settings, kind, monkeypatch):
    shards = federation(kind)
    state, captures = recorded(monkeypatch, Tape, spec, settings=settings, shards=shards, dropout=0.0, until=2)
    usual = play(spec, settings, training=TRAINING, shards=shards, dropout=0.0, until=2)
    assert torch.equal(state.theta, usual.theta)
    for client in ROSTER:
        mine, other = state.clients.get(client, {}), usual.clients.get(client, {})
        assert mine.keys() == other.keys() and all(torch.equal(mine[k], other[k]) for k in mine)
    assert captures >= 1


@pytest.mark.parametrize("spec", RECORDED)
def test_no_step_waits_for_the_device(spec, monkeypatch):
    recorded(monkeypatch, Strict, spec, shards=federation("affine-flip"), until=2)


@pytest.mark.parametrize("spec, captures", [("fedprox", 1), ("fedism-plus", 3)])
def test_a_step_is_recorded_once_for_all_clients_and_again_only_where_it_reads_the_round(spec, captures, monkeypatch):
    assert recorded(monkeypatch, Tape, spec, shards=federation())[1] == captures


@pytest.mark.parametrize("spec", [name for name in METHODS if name not in RECORDED])
def test_a_method_that_cannot_be_recorded_says_why(spec):
    assert len(no_graph_reason(resolve(spec).local).split()) > 4


class Plugin(type(resolve("fedprox").local)):
    """A local half from outside fedcli."""


def test_a_method_from_outside_is_recorded_only_if_its_file_says_so(monkeypatch):
    assert "nothing says" in no_graph_reason(Plugin())
    monkeypatch.setattr(graphs, "RECORDED", {Plugin})
    assert no_graph_reason(Plugin()) == ""


def test_clients_side_by_side_come_to_the_same_bits():
    """Without a GPU they take turns, each on a network of its own."""
    method, shards = resolve("scaffold"), federation("flip")
    usual = play("scaffold", training=TRAINING, shards=shards)
    net = toy_net(extend=method.local.extend)
    clients = InProcess(method, net, Layout(net), shards, TRAINING)
    engine, together = Streams.of(clients, 3), Federation(clients, rounds=3, seed=1)
    assert len({id(worker.net) for worker in engine.workers}) == 3
    state = together.first()
    for _ in range(3):
        state = together.play(state, engine=engine).state
    assert torch.equal(state.theta, usual.theta)


def test_side_by_side_shares_what_never_trains():
    method = resolve("lora")
    net = toy_clip(extend=method.local.extend)
    first = InProcess(method, net, Layout(net), federation(), TRAINING)
    own, other = (set(map(id, worker.net.parameters())) for worker in Streams.of(first, 2).workers)
    frozen = {id(p) for module in first.layout.frozen for p in module.parameters()}
    assert frozen and frozen <= other and not (own - frozen) & other
