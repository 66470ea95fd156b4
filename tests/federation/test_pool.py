"""Clients on several processes: the same bits, errors that reach the user, no process left behind."""

import os
import signal
from dataclasses import dataclass, replace

import pytest
import torch
from conftest import ROSTER, make_chain, play
from made_plans import planned, train
from pool_clients import TRAINING, clients_of

from fedcli import extensions
from fedcli.errors import FedcliError, UsageError
from fedcli.federation.client import ClientTask
from fedcli.federation.engines import pool as pool_engine
from fedcli.federation.engines.pool import WorkerPool, shared_out, usual_jobs
from fedcli.federation.server import Federation
from fedcli.federation.state import equal
from fedcli.methods import METHODS, resolve
from fedcli.methods.fedavg import Mean
from fedcli.methods.row_table import RowTable
from fedcli.runs import chosen_engine, resources
from fedcli.runs.assembly import assemble
from fedcli.runs.rules import check
from fedcli.system import shared_blocks
from fedcli.system.processes import WorkerError


@pytest.fixture(autouse=True)
def _own_threads():
    """A test leaves as many threads as it found: several processes are refused beside more than one."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def engine_clients(method=None):
    return clients_of(method or resolve("fedavg"))


def pool(spec, jobs=2):
    clients = engine_clients(resolve(spec))
    return Federation(clients, rounds=3, seed=1), WorkerPool(clients, jobs, len(ROSTER))


@pytest.mark.parametrize("spec", ["scaffold", "fedbn", "ditto", "fed-mas", "fedism-plus"])
def test_bits_are_those_of_one_process(spec):
    federation, engine = pool(spec)
    state = federation.first()
    usual = play(spec, training=TRAINING)
    with engine:
        for _ in range(3):
            state = federation.play(state, engine=engine).state
    assert torch.equal(state.theta, usual.theta)
    for client in ROSTER:
        mine = state.clients.get(client, {})
        other = usual.clients.get(client, {})
        assert mine.keys() == other.keys()
        for k in mine:
            assert torch.equal(mine[k], other[k])


def test_workers_receive_the_class_counts_of_all_clients():
    adjusted = replace(TRAINING, prior="logit-adjust-all")
    clients = replace(engine_clients(), training=adjusted, steps=None)
    federation = Federation(clients, rounds=3, seed=1)
    first = federation.first()
    expected = federation.play(first).state
    with WorkerPool(clients, 2, len(ROSTER)) as engine:
        pooled = federation.play(first, engine=engine).state
    assert torch.equal(pooled.theta, expected.theta)


@dataclass(frozen=True)
class KeepsUpdates(Mean):
    """Returns and keeps parts of the table of the round."""

    def aggregate(self, theta, updates, memory):
        previous = memory.get("last", updates.theta[1])
        memory["last"] = updates.theta[1]
        rows = RowTable.of(memory.get("rows", RowTable(tuple(updates.theta.shape), theta.dtype)))
        memory["rows"] = rows.replaced({updates.round % 4: updates.theta[1]})
        return (
            updates.theta[0] if updates.round == 2 else (updates.theta[0] + previous) / 2
        ), updates.base


FORKED = pytest.mark.skipif(not shared_blocks.FORKS, reason="of forked processes")


@FORKED
@pytest.mark.parametrize("memory", [True, False], ids=["shared memory", "refused"])
def test_what_a_rule_keeps_of_the_models_is_its_own(monkeypatch, memory):
    if not memory:
        monkeypatch.setattr(pool_engine, "anonymous", lambda size: None)
    _, engine = pool("fedavg")
    method = replace(resolve("fedavg"), aggregator=KeepsUpdates())
    usual = Federation(replace(engine_clients(), method=method, steps=None), rounds=3, seed=1)
    pooled = usual.first()
    expected = usual.first()
    with engine:
        for _ in range(3):
            pooled = usual.play(pooled, engine=engine).state
            expected = usual.play(expected).state
    assert (engine.table is not None) == memory
    assert torch.equal(pooled.theta, expected.theta)
    assert equal(pooled.server, expected.server)


@pytest.mark.parametrize(("spec", "settings"), [("afl", {"rule": "released"}), ("fedavg", {})])
def test_clients_that_only_measure_or_train_alone_leave_the_same_bits(spec, settings):
    method = resolve(spec, settings)
    single = spec == "fedavg"
    clients = engine_clients(method)
    together = Federation(clients, rounds=3, seed=1, single_site=single)
    pooled = together.first()
    expected = together.first()
    with WorkerPool(engine_clients(method), 2, len(ROSTER)) as engine:
        for _ in range(3):
            pooled = together.play(pooled, engine=engine).state
            expected = together.play(expected).state
    assert torch.equal(pooled.theta, expected.theta)
    for client, state in expected.clients.items():
        assert equal(pooled.clients[client], state)


@FORKED
def test_more_tasks_than_the_table_has_rows_are_answered():
    federation = Federation(engine_clients(), rounds=3, seed=1)
    tasks = federation.tasks(federation.first(), ROSTER, {})
    with WorkerPool(federation.clients, 2, 1) as engine:
        reports = [(report.theta.clone(), report.table is None) for report in engine(tasks)]
    result = [alone for _, alone in reports]
    assert result == [False, True, True, True]
    for (theta, _), task in zip(reports, tasks):
        assert torch.equal(theta, federation.clients.run_one(task).theta)


def test_a_call_that_is_left_early_does_not_reach_into_the_next():
    federation, engine = pool("fedavg")
    tasks = federation.tasks(federation.first(), ROSTER, {})
    next_tasks = [replace(task, theta=theta) for theta in [tasks[0].theta + 1] for task in tasks]
    with engine:
        next(iter(engine(tasks)))
        thetas = [report.theta.clone() for report in engine(next_tasks)]
    alone = engine_clients()
    for theta, task in zip(thetas, next_tasks, strict=True):
        assert torch.equal(theta, alone.run_one(task).theta)


@pytest.mark.parametrize("worker", [0, 1])
def test_a_killed_worker_is_told_in_a_sentence(worker):
    """Also where tasks larger than a pipe wait for it, whose other end its neighbours were forked with."""
    federation, engine = pool("fedavg")
    task = ClientTask(
        "north", 0, 1, 3, 1, federation.first().theta, {"large": torch.zeros(300_000)}, {}
    )
    tasks = [
        replace(task, client=client) for client in ROSTER if engine.worker_of[client] == worker
    ] * 4
    with pytest.raises(FedcliError, match="was killed"), engine:
        reports = engine(tasks)
        os.kill(engine.workers.processes[worker].pid, signal.SIGKILL)
        list(reports)


def test_an_interruption_ends_the_workers_and_what_waits_for_them():
    federation, engine = pool("fedavg")
    task = ClientTask(
        "north", 0, 1, 3, 1, federation.first().theta, {"large": torch.zeros(300_000)}, {}
    )
    with pytest.raises(KeyboardInterrupt), engine:
        next(iter(engine([replace(task, client=client) for client in ROSTER] * 4)))
        raise KeyboardInterrupt
    for process in engine.workers.processes:
        assert not process.is_alive()


class Odd(Exception):
    def __init__(self, reason, detail):  # which does not unpickle
        super().__init__(f"{reason} and {detail}")


@FORKED
def test_what_goes_wrong_in_a_worker_is_told_with_the_client_it_was(monkeypatch):
    def fails(self, net, batch, client):
        raise Odd("this", "that")

    monkeypatch.setattr(METHODS["fedavg"].local.__class__, "gradient", fails)
    monkeypatch.setattr(extensions, "_loaded", {})  # no code of a user's that could be at fault
    federation, engine = pool("fedavg")
    with (
        engine,
        pytest.raises(
            WorkerError, match="Odd: this and that, while training client north in round 1 of 3"
        ),
    ):
        federation.play(federation.first(), engine=engine)


def test_clients_that_cannot_be_made_anew_are_refused_where_processes_are_not_forked(monkeypatch):
    monkeypatch.setattr(shared_blocks, "FORKS", False)
    clients = replace(engine_clients(), remake=None)
    with pytest.raises(UsageError, match="loaded from files"):
        WorkerPool(clients, 2, len(ROSTER))


@pytest.mark.long
@pytest.mark.parametrize("spec", ["scaffold", "ditto"])
def test_processes_that_begin_anew_leave_the_same_bits(spec, monkeypatch):
    monkeypatch.setattr(shared_blocks, "FORKS", False)
    test_bits_are_those_of_one_process(spec)


def test_several_processes_of_several_threads_are_refused(tmp_path):
    with pytest.raises(UsageError, match="on one thread"):
        train(
            make_chain(tmp_path),
            planned("fedavg", {}, TRAINING, rounds=1),
            work=tmp_path,
            engine="pool:2",
            threads=2,
        )


@pytest.fixture
def four_cores(monkeypatch):
    for module in (pool_engine, chosen_engine):
        monkeypatch.setattr(module, "cores", lambda: 4)
    torch.set_num_threads(4)


@pytest.mark.parametrize(
    ("engine", "clients", "threads"),
    [
        (None, 2, 1),
        (None, 1, 4),
        ("in-process", 8, 4),
        ("pool:2", 8, 1),
        ("pool:2", 1, 4),
        ("pool:1", 8, 4),
    ],
)
def test_a_large_network_trains_on_one_thread_where_clients_train_side_by_side(
    four_cores, engine, clients, threads
):
    plan = planned("fedavg", {}, TRAINING, rounds=1, model="resnet18", engine=engine)
    chosen_engine.prepare(plan, clients)
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize(
    ("free", "threads"), [(10**6, 4), (10**12, 1), (0, 1)]
)  # 0: the system does not say
def test_one_process_trains_where_memory_is_short(four_cores, tmp_path, monkeypatch, free, threads):
    monkeypatch.setattr(resources, "free", lambda device: free)
    plan = planned("fedavg", {}, TRAINING, rounds=1, model="resnet10", engine=None)
    settle = chosen_engine.prepare(plan, 2)
    federation = assemble(make_chain(tmp_path), plan, check(plan))
    before = {name: tensor.clone() for name, tensor in federation.net.state_dict().items()}
    settle(federation)
    assert torch.get_num_threads() == threads
    for name, tensor in federation.net.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_workers_get_about_as_many_images_each():
    worker_of = shared_out({"a": 10, "b": 9, "c": 8, "d": 7, "e": 1}, 2)
    images = [0, 0]
    for client, size in zip("abcde", (10, 9, 8, 7, 1)):
        images[worker_of[client]] += size
    assert sorted(images) == [17, 18]


def test_several_processes_only_where_one_thread_is_best():
    assert usual_jobs(threads=2, clients=8, device="cpu") == 1
    assert usual_jobs(threads=1, clients=1, device="cpu") == 1
    assert usual_jobs(threads=1, clients=8, device="cuda") == 1
