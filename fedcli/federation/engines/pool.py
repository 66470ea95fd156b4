"""Clients side by side on the cores of one machine: a few processes, each with a network of its own.

A small network gains nothing from a second thread, but a second client can train beside the first. Workers are forked
once, so that they share the images. A client always comes to the same worker, which keeps what it has computed of the
client's images; the workers get about as many images each. A client's numbers depend on its task alone, so the
bits are those of the default engine with as many threads.

What all clients of a round receive is written to shared memory once, where every worker reads it, and a worker writes
a trained model straight into the server's table. Only what a client keeps, or reports beside its model, is copied more.
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
from ...system.memory import keep_freed
from ...system.processes import WorkerKilled, Workers, cores
from ...system.shared_blocks import Block, Stored, anonymous
from ..client import Report, Task
from .in_process import InProcess
from .wire import Arrays, Message, Scalars, pack, to_arrays, to_tensors, unpack

MODELS_AT_ONCE = 6  # of model size: theta, what the method sends beside it, and what a client keeps
ROOM = 2**20  # bytes for all that is smaller

_clients: InProcess | None = None  # of a worker process, which is forked with it
_received = Block(None)  # what all clients of a round receive
_table: Tensor | None = None  # [K, P] the models of a round
_call: tuple[int, Arrays] = 0, {}  # whose arrays are in that block, and they themselves


class Pool(AbstractContextManager["Pool"]):
    """Runs tasks on worker processes; reports come in task order. A context manager: it owns the processes."""

    def __init__(self, clients: InProcess, jobs: int, at_most: int):
        """at_most: tasks of a call; those beyond send their models as arrays."""
        if torch.get_num_threads() > 1:  # a forked process cannot take over the threads of another
            what = f"--jobs {jobs} needs networks that train on one thread"
            raise UsageError(what, "leave --threads out, or give --threads 1")
        self.worker_of = shared_out(
            {client: len(shard) for client, shard in clients.shards.items()}, jobs
        )
        size = clients.layout.flat.numel()
        block = MODELS_AT_ONCE * 4 * size + ROOM
        self.received, table = Block(anonymous(block)), anonymous(at_most * 4 * size)
        # [K, P] in shared memory, the models of the last call; None where the system refuses so much
        self.table = (
            None
            if table is None
            else torch.frombuffer(table, dtype=torch.float32).view(at_most, size)
        )
        self.workers = Workers(jobs, _begin, clients, self.received, self.table, block=block)
        self._calls, self._waiting = 0, deque[Future[Any]]()

    def __call__(self, tasks: list[Task]) -> Iterator[Report]:
        wait(
            self._waiting
        )  # a call that was left early: its tasks read what the next one would overwrite
        self._calls += 1
        self._waiting = waiting = deque(self._submitted(tasks))
        try:
            for place, task in enumerate(tasks):  # keeps no report that was read
                yield self._report(place, task, *waiting.popleft().result())
        except WorkerKilled:
            what = "a process that trains clients was killed"
            raise FedcliError(
                what, "it may have run out of memory; try fewer --jobs, and --resume"
            ) from None

    def _submitted(self, tasks: list[Task]) -> Iterator[Future[Any]]:
        theta, shared = tasks[0].theta, tasks[0].shared
        alike = all(task.theta is theta and task.shared is shared for task in tasks)
        stored = self.received.put(pack(tasks[0])[1]) if alike else None
        for place, task in enumerate(tasks):
            scalars, arrays = pack(task)
            sent = (self._calls, stored) if stored else arrays
            worker = self.worker_of[task.client]
            yield self.workers.submit(
                worker, _work_on, place, scalars, sent, to_arrays(task.memory)
            )

    def _report(self, place: int, task: Task, message: Message, memory: Arrays) -> Report:
        scalars, arrays = message
        table = None
        if "theta" not in arrays:  # a measured model is the task's, a trained one lies in the table
            table = None if task.part == "measure" else self.table
            arrays["theta"] = (task.theta if table is None else table[place]).numpy()
        return replace(unpack(Report, (scalars, arrays), to_tensors(memory)), table=table)

    def ask(self, question: Callable[[], Any]) -> list[Any]:
        """The answer of every worker."""
        return [
            self.workers.submit(k, question).result() for k in range(len(self.workers.processes))
        ]

    def __exit__(self, *error: Any) -> None:
        self.workers.__exit__(*error)


def usual_jobs(threads: int, clients: int, device: str) -> int:
    """Processes that train where the user names none: one for each core and client, where a network wants one thread.

    1 where this process is itself a worker.
    """
    alone = multiprocessing.parent_process() is None
    return min(cores(), clients) if threads == 1 and alone and device == "cpu" else 1


def pays(clients: int, device: str) -> bool:
    """Tell whether several processes of one thread train a large network sooner than one process with all threads.

    Two processes of one thread do about 1.4 times as much as one of two, so they may leave some cores idle.
    """
    return device == "cpu" and 1 < cores() <= 2 * usual_jobs(1, clients, device)


def shared_out(sizes: dict[str, int], jobs: int) -> dict[str, int]:
    """The worker of each client: the largest clients first, each to the worker with the fewest images so far."""
    images, workers = [0] * jobs, {}
    for client in sorted(sizes, key=lambda name: sizes[name], reverse=True):
        workers[client] = images.index(min(images))
        images[workers[client]] += sizes[client]
    return workers


def _begin(clients: InProcess, received: Block, table: Tensor | None) -> None:
    global _clients, _received, _table
    _clients, _received, _table = clients, received, table
    torch.set_num_threads(1)
    keep_freed()


def _work_on(
    place: int, scalars: Scalars, sent: tuple[int, Stored] | Arrays, memory: Arrays
) -> tuple[Message, Arrays]:
    """Train the client of a task, the place-th of its call. Returns the report, without a model that the server has in
    the task or the table, and the memory.

    sent: the task's arrays, or the call that has them in the block that all workers read. Arrays and no tensors, in
    place of whose numbers torch would send a file handle for each.
    """
    global _call
    assert _clients is not None
    if not isinstance(sent, dict):
        call, stored = sent
        if call != _call[0]:
            _call = call, _received.get(stored, in_place=True)
        sent = _call[1]
    row = _table[place] if _table is not None and place < len(_table) else None
    task = replace(unpack(Task, (scalars, sent), to_tensors(memory)), out=row)
    report = _clients.run_one(task)
    message = pack(report)
    if report.theta is task.theta or report.theta is row:
        del message[1]["theta"]
    return message, to_arrays(report.memory)
