"""Clients side by side on the cores of one machine: a few processes, each with a network of its own.

A small network gains nothing from a second thread, but a second client can train beside the first. Workers are forked
once, so that they share the images. A client always comes to the same worker, which keeps what it has computed of the
client's images; the workers get about as many images each. A client's numbers depend on its task alone, so the
bits are those of the default engine with as many threads.
"""

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

import torch

from ...errors import FedcliError, UsageError
from ...processes import CAN_FORK, WorkerKilled, Workers, cores
from ..client import Report, Task
from .in_process import InProcess
from .wire import Arrays, Message, pack, to_arrays, to_tensors, unpack

MODELS_AT_ONCE = 6  # of model size: theta, what the method sends beside it, and what a client keeps
ROOM = 2**20  # bytes for all that is smaller

_clients: InProcess | None = None  # of a worker process, which is forked with it


class Pool:
    """Runs tasks on worker processes; reports come in task order. A context manager: it owns the processes.

    Attributes:
        worker_of: the worker of each client.
    """

    def __init__(self, clients: InProcess, jobs: int):
        if not CAN_FORK:
            raise UsageError("this system cannot fork processes that train clients", "leave --jobs out")
        if torch.get_num_threads() > 1:  # a forked process cannot take over the threads of another
            raise UsageError(
                f"--jobs {jobs} needs networks that train on one thread", "leave --threads out, or give --threads 1"
            )
        self.worker_of = shared_out({client: len(shard) for client, shard in clients.shards.items()}, jobs)
        model = clients.layout.flat.numel() * clients.layout.flat.element_size()
        self.workers = Workers(jobs, _begin, clients, block=MODELS_AT_ONCE * model + ROOM)

    def __call__(self, tasks: list[Task]) -> Iterator[Report]:
        try:
            waiting = deque(
                self.workers.submit(self.worker_of[task.client], _work_on, (pack(task), to_arrays(task.memory)))
                for task in tasks
            )
            while waiting:  # keeps no report that was read
                message, memory = waiting.popleft().result()
                yield unpack(Report, message, to_tensors(memory))
        except WorkerKilled:
            raise FedcliError(
                "a process that trains clients was killed",
                "it may have run out of memory; try fewer --jobs, and --resume",
            ) from None

    def ask(self, question: Callable[[], Any]) -> list[Any]:
        """The answer of every worker."""
        return [self.workers.submit(k, question).result() for k in range(len(self.workers.processes))]

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.workers.__exit__(kind, error, trace)


def usual_jobs(threads: int, clients: int, device: str) -> int:
    """Processes that train where the user names none: one for each core and client, where a network wants one thread.

    1 where this process is itself a worker, or cannot fork.
    """
    alone = multiprocessing.parent_process() is None
    return min(cores(), clients) if threads == 1 and alone and CAN_FORK and device == "cpu" else 1


def pays(clients: int, device: str) -> bool:
    """Whether several processes of one thread train a large network sooner than one process with all threads.

    Two processes of one thread do about 1.4 times as much as one of two, so they may leave some cores idle.
    """
    return cores() <= 2 * usual_jobs(1, clients, device) and cores() > 1


def shared_out(sizes: dict[str, int], jobs: int) -> dict[str, int]:
    """The worker of each client: the largest clients first, each to the worker with the fewest images so far."""
    images, workers = [0] * jobs, {}
    for client in sorted(sizes, key=lambda name: sizes[name], reverse=True):
        workers[client] = images.index(min(images))
        images[workers[client]] += sizes[client]
    return workers


def _begin(clients: InProcess) -> None:
    global _clients
    _clients = clients
    torch.set_num_threads(1)


def _work_on(sent: tuple[Message, Arrays]) -> tuple[Message, Arrays]:
    """Arrays and no tensors, in place of whose numbers torch would send a file handle for each."""
    assert _clients is not None
    message, memory = sent
    report = _clients.run_one(unpack(Task, message, to_tensors(memory)))
    return pack(report), to_arrays(report.memory)
