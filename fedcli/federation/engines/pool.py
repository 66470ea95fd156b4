"""Clients side by side on the cores of one machine: a few processes, each with its network.

A small network gains nothing from a second thread, but a second client can train beside the first.
Workers are forked once, so that they share the images; where processes are not forked (see
system/shared_blocks.py), each loads them, and all goes through pipes. A client always comes to the
same worker, which keeps what it has computed of the client's images; the workers get about as many
images each. A client's numbers depend on its task alone, so the bits are those of the default
engine with as many threads.

What all clients of a round receive is written to shared memory once, where every worker reads it,
and a worker writes a trained model straight into the server's table. Only what a client keeps, or
reports beside its model, is copied more.
"""

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ...errors import FedcliError, UsageError
from ...system import shared_blocks
from ...system.memory import keep_freed
from ...system.processes import WorkerKilled, Workers, cores
from ...system.shared_blocks import SharedBlock, Stored, anonymous
from ..client import ClientReport, ClientTask
from .in_process import InProcess
from .wire import Arrays, Message, Scalars, pack, to_arrays, to_tensors, unpack

MODELS_AT_ONCE = 6  # of model size: theta, what the method sends beside it, and what a client keeps
ROOM = 2**20  # bytes for all that is smaller

_clients: InProcess | None = None  # of a worker process, which is forked with it
_received = SharedBlock(None)  # the arrays that all clients of a round receive
_table: Tensor | None = None  # [K, P] the models of a round
_call: tuple[int, Arrays] = 0, {}  # the call whose arrays are in that block, and these


class WorkerPool(AbstractContextManager["WorkerPool"]):
    """Runs tasks on worker processes, which it owns as a context manager.

    Reports come in task order.
    """

    def __init__(self, clients: InProcess, jobs: int, at_most: int):
        """at_most: tasks of a call; those beyond send their models as arrays."""
        if torch.get_num_threads() > 1:  # a forked process cannot take over the threads of another
            raise UsageError(
                f"--jobs {jobs} needs networks that train on one thread",
                "leave --threads out, or give --threads 1",
            )
        images = {client: len(shard) for client, shard in clients.shards.items()}
        self.worker_of = shared_out(images, jobs)
        numbers = clients.layout.flat.numel()
        block = MODELS_AT_ONCE * 4 * numbers + ROOM
        self.received = SharedBlock(anonymous(block))
        # [K, P] in shared memory, the models of the last call; None where the system refuses it
        self.table: Tensor | None = None
        memory = anonymous(at_most * 4 * numbers)
        if memory is not None:
            self.table = torch.frombuffer(memory, dtype=torch.float32).view(at_most, numbers)
        begin: tuple[Any, ...] = _begin, clients, self.received, self.table
        if not shared_blocks.FORKS:
            if clients.remake is None:
                raise UsageError(
                    f"--jobs {jobs} trains clients that are loaded from files", "give --jobs 1"
                )
            begin = _begin_anew, clients.remake
        self.workers = Workers(jobs, *begin, block=block)
        self._calls = 0
        self._waiting = deque[Future[Any]]()

    def __call__(self, tasks: list[ClientTask]) -> Iterator[ClientReport]:
        # a call that was left early: its tasks read what the next one would overwrite
        wait(self._waiting)
        self._calls += 1
        waiting = deque(self._submitted(tasks))
        self._waiting = waiting
        try:
            for index, task in enumerate(tasks):  # keeps no report that was read
                yield self._report(index, task, *waiting.popleft().result())
        except WorkerKilled:
            raise FedcliError(
                "a process that trains clients was killed",
                "it may have run out of memory; try fewer --jobs, and --resume",
            ) from None

    def _submitted(self, tasks: list[ClientTask]) -> Iterator[Future[Any]]:
        theta = tasks[0].theta
        shared = tasks[0].shared
        alike = all(task.theta is theta and task.shared is shared for task in tasks)
        stored = None
        if alike:
            _, arrays_of_all = pack(tasks[0])
            stored = self.received.put(arrays_of_all)
        for index, task in enumerate(tasks):
            scalars, arrays = pack(task)
            sent = (self._calls, stored) if stored else arrays
            worker = self.worker_of[task.client]
            memory = to_arrays(task.memory)
            yield self.workers.submit(worker, _work_on, index, scalars, sent, memory)

    def _report(
        self,
        index: int,
        task: ClientTask,
        message: Message,
        memory: Arrays,
    ) -> ClientReport:
        scalars, arrays = message
        table = None
        if "theta" not in arrays:  # a measured model is the task's, a trained one lies in the table
            table = None if task.part == "measure" else self.table
            theta = task.theta if table is None else table[index]
            arrays["theta"] = theta.numpy()
        report = unpack(ClientReport, (scalars, arrays), to_tensors(memory))
        return replace(report, table=table)

    def ask(self, question: Callable[[], Any]) -> list[Any]:
        """The answer of every worker."""
        count = len(self.workers.processes)
        return [self.workers.submit(worker, question).result() for worker in range(count)]

    def __exit__(self, *error: Any) -> None:
        self.workers.__exit__(*error)


def usual_jobs(threads: int, clients: int, device: str) -> int:
    """Processes that train where the user names none.

    One for each core and client, where a network trains on one thread; 1 where this process is
    itself a worker.
    """
    is_worker = multiprocessing.parent_process() is not None
    if threads != 1 or is_worker or device != "cpu":
        return 1
    return min(cores(), clients)


def pays(clients: int, device: str) -> bool:
    """Tell whether processes of one thread train a large network sooner than one with all threads.

    Two processes of one thread do about 1.4 times as much as one of two, so they may leave some
    cores idle.
    """
    return device == "cpu" and 1 < cores() <= 2 * usual_jobs(1, clients, device)


def shared_out(sizes: dict[str, int], jobs: int) -> dict[str, int]:
    """The worker of each client: the largest first, each to the worker with the fewest images."""
    images_of = [0] * jobs  # by worker
    worker_of = {}
    for client in sorted(sizes, key=lambda name: sizes[name], reverse=True):
        worker = images_of.index(min(images_of))
        worker_of[client] = worker
        images_of[worker] += sizes[client]
    return worker_of


def _begin(
    clients: InProcess,
    received: SharedBlock,
    table: Tensor | None,
) -> None:
    global _clients, _received, _table
    _clients = clients
    _received = received
    _table = table
    torch.set_num_threads(1)
    keep_freed()


def _begin_anew(remake: Callable[[str, int, int], InProcess]) -> None:
    """Begin without a fork: this process loads its clients, and shares no memory."""
    _begin(remake("cpu", 1, 1), SharedBlock(None), None)


def _work_on(
    index: int,
    scalars: Scalars,
    sent: tuple[int, Stored] | Arrays,
    memory: Arrays,
) -> tuple[Message, Arrays]:
    """Train the client of a task, by its index in the call.

    Returns the report, without a model that the server has in the task or the table, and the
    memory.

    sent: the task's arrays, or the call that has them in the block that all workers read. Arrays
        and no tensors, in place of whose numbers torch would send a file handle for each.
    """
    global _call
    assert _clients is not None
    if not isinstance(sent, dict):
        call, stored = sent
        if call != _call[0]:
            _call = call, _received.get(stored, in_place=True)
        sent = _call[1]
    row = None
    if _table is not None and index < len(_table):
        row = _table[index]
    task = unpack(ClientTask, (scalars, sent), to_tensors(memory))
    report = _clients.run_one(replace(task, out=row))
    scalars_of_report, arrays = pack(report)
    if report.theta is task.theta or report.theta is row:
        del arrays["theta"]
    return (scalars_of_report, arrays), to_arrays(report.memory)
