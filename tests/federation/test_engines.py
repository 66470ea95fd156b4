"""Engines by their names: what may be asked for, what suits, and what is refused."""

import pytest
import torch
from conftest import toy_net, toy_shards
from pool_clients import clients_of

from fedcli.errors import UsageError
from fedcli.federation.client import Training
from fedcli.federation.engines import ENGINES, InProcess, Kind, chosen, named, open_engine, parsed
from fedcli.federation.engines.pool import WorkerPool
from fedcli.federation.server import Federation
from fedcli.methods import resolve
from fedcli.models.layout import Layout


def clients():
    net = toy_net()
    training = Training(optimizer="sgd", lr=0.1, batch_size=8)
    return InProcess(resolve("fedavg"), net, Layout(net), toy_shards(), training)


@pytest.mark.parametrize(
    ("name", "device", "sentence"),
    [
        ("pol:4", "cpu", "'pol:4' is unknown"),
        ("pool", "cpu", "needs the number"),
        ("pool:0", "cpu", "needs the number"),
        ("pool:two", "cpu", "needs the number"),
        ("in-process:2", "cpu", "takes no number"),
        ("pool:2", "cuda:1", "is for cpu, not for cuda:1"),
        ("streams:2", "cpu", "is for cuda, not for cpu"),
    ],
)
def test_what_cannot_run_is_refused(name, device, sentence):
    with pytest.raises(UsageError, match=sentence) as error:
        parsed(name, device)
    assert error.value.hint


def test_short_forms_name_the_same_engines():
    assert named(None, 3, "cpu") == "pool:3"
    assert named(None, 2, "cuda:1") == "streams:2"
    assert named("in-process", None, "cpu") == "in-process"
    assert named(None, None, "cpu") is None
    with pytest.raises(UsageError, match="--engine and --jobs name different engines"):
        named("ray", 3, "cpu")


def test_one_client_at_once_needs_no_other_engine():
    assert chosen("pool:1", clients=8, device="cuda") == ("in-process", 1)
    assert chosen("pool:4", clients=1, device="cpu") == ("in-process", 1)
    assert chosen("pool:4", clients=3, device="cpu") == ("pool", 3)
    mine = clients()
    with open_engine("in-process", mine, 4) as engine:
        assert engine is mine


def test_a_pool_is_opened_by_its_name_and_closed():
    with open_engine("pool:2", clients_of(resolve("fedavg")), at_most=4) as engine:
        assert isinstance(engine, WorkerPool)
        assert len(engine.workers.processes) == 2
    for process in engine.workers.processes:
        assert not process.is_alive()


def test_an_engine_of_ones_own_is_one_entry(monkeypatch):
    class Backwards:
        """Plays the last client first."""

        def __init__(self, clients, count, at_most):
            self.clients = clients

        def __call__(self, tasks):
            return [self.clients.run_one(task) for task in tasks[::-1]][::-1]

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    monkeypatch.setitem(ENGINES, "backwards", Kind(Backwards))
    federation = Federation(clients(), rounds=2)
    start = federation.first()
    usual = federation.play(start)
    with open_engine("backwards:2", federation.clients, federation.cohort_size) as engine:
        played = federation.play(start, engine=engine)
    assert isinstance(engine, Backwards)
    assert torch.equal(played.state.theta, usual.state.theta)
