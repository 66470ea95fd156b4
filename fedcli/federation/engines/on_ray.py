"""Clients on the workers of a ray cluster: cores of one machine, or CPUs and GPUs of several.

A worker makes the clients by itself, from files that it finds under the same paths. What all
clients of a round receive, the model and what is broadcast with it, is put into ray's object store
once; a client always comes to the same worker, and its memory is sent beside its task. A task
depends on nothing else, so where a worker is lost, with its node or alone, the others do its tasks
again, to the same bits.

RAY_ADDRESS names a cluster; without it a cluster of this machine is started, and ended with the
engine.
"""

import importlib.util
import math
import os
import subprocess
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ... import console, extensions
from ...errors import FedcliError, UsageError
from ...system.processes import portable
from ..client import ClientReport, ClientTask
from . import Kind, register
from .in_process import InProcess
from .pool import shared_out
from .wire import Arrays, Message, pack, to_arrays, to_tensors, unpack

TOGETHER = 8  # clients in one call
AHEAD = 2  # calls that a worker has at once
INSTALL = "pip install 'fedcli[ray]'"
# of ray, read when it is imported: no report to its authors, no warning about unused GPUs
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
# of a process of its own: waits for a byte, or for the end of the process that would send it
WATCH = """
import sys
if not sys.stdin.buffer.read():
    print(sys.argv[1], file=sys.stderr)
"""
GONE = (
    "error: training was ended from outside, as ray does if the cluster's head or "
    "its own node is gone. Start the cluster again and go on with --resume"
)
Sent = tuple[Message, Arrays]  # a task or report, and beside it the client's memory
Running = dict[Any, tuple[Any, list[int]]]  # result to come -> its worker, indices of its tasks


class Ray(AbstractContextManager["Ray"]):
    """Runs tasks on ray actors, which it owns as a context manager; reports come in task order."""

    def __init__(self, clients: InProcess, at_most: int):
        """Start as many workers as there are free CPUs, or GPUs, for; at_most of them.

        Raises FedcliError, UsageError.
        """
        if clients.remake is None:
            raise UsageError(
                "--engine ray trains clients that are loaded from files", "choose another engine"
            )
        self.clients = clients
        self.device = str(clients.layout.flat.device)
        self.ray = _imported()
        self.started = not self.ray.is_initialized()
        self.watch = _watched()
        try:
            if self.started:
                _connect(self.ray)
            self.workers = self._begun(clients.remake, at_most)
            self.worker_of = self._shared_out(list(clients.shards))
        except BaseException:
            self.__exit__()
            raise

    def __call__(self, tasks: list[ClientTask]) -> Iterator[ClientReport]:
        theta = tasks[0].theta
        shared = tasks[0].shared
        alike = all(task.theta is theta and task.shared is shared for task in tasks)
        common = self.ray.put(pack(tasks[0])[1] if alike else {})  # in the object store
        # indices of tasks, rising, by worker
        pending: dict[Any, deque[int]] = {worker: deque() for worker in self.workers}
        for index, task in enumerate(tasks):
            pending[self.worker_of[task.client]].append(index)
        running: Running = {}
        finished: dict[int, ClientReport] = {}
        read = 0
        while read < len(tasks):
            # so far may workers run ahead of the reader
            limit = read + 2 * TOGETHER * AHEAD * len(self.workers)
            for worker, waiting in pending.items():
                calls = sum(other is worker for other, _ in running.values())
                for indices in _next(waiting, limit, calls):
                    sent = [_sent(tasks[index], alike) for index in indices]
                    running[worker.work_on.remote(common, sent)] = worker, indices
            result = self.ray.wait(list(running))[0][0]
            worker, indices = running.pop(result)
            answers = self._answers(result)
            if answers is None:
                self._replace(worker, indices, tasks, pending, running)
                continue
            for index, (message, memory) in zip(indices, answers, strict=True):
                tensors = to_tensors(memory, self.device)
                finished[index] = unpack(
                    ClientReport,
                    message,
                    tensors,
                    self.device,
                )
            del result, answers, message, memory, tensors
            while read in finished:  # keeps no report that was read
                yield finished.pop(read)
                read += 1

    def _answers(self, result: Any) -> list[Sent] | None:
        """The answers of a worker; None where it was lost. Raises the error of its training."""
        exceptions = self.ray.exceptions
        try:
            answers = self.ray.get(result)
        except (exceptions.RayActorError, exceptions.ObjectLostError):
            return None
        except exceptions.RayError as error:
            raise FedcliError(
                f"ray failed: {_first_line(error)}",
                "start the cluster again and go on with --resume",
            ) from None
        if isinstance(answers, Exception):
            raise answers
        return answers

    def _replace(
        self,
        worker: Any,
        indices: list[int],
        tasks: list[ClientTask],
        pending: dict[Any, deque[int]],
        running: Running,
    ) -> None:
        """Give a lost worker's clients, and its tasks that were not read, to the others.

        indices: of the tasks of the call that was lost. Raises FedcliError without another worker.
        """
        self.workers.remove(worker)
        if not self.workers:
            raise FedcliError(
                "the last worker of the ray cluster was lost",
                "start its nodes again and go on with --resume",
            )
        workers = console.counted(
            len(self.workers),
            "worker goes",
            "workers go",
        )
        console.warn(f"a worker of the ray cluster was lost: {workers} on with its clients")
        again = [*indices, *pending.pop(worker)]
        for result, (other, indices_of_call) in list(running.items()):
            if other is worker:
                del running[result]
                again += indices_of_call
        clients = [client for client, other in self.worker_of.items() if other is worker]
        self.worker_of |= self._shared_out(clients)
        for index in again:
            pending[self.worker_of[tasks[index].client]].append(index)
        for other, waiting in pending.items():
            pending[other] = deque(sorted(waiting))

    def _shared_out(self, clients: list[str]) -> dict[str, Any]:
        """The worker of each client."""
        sizes = {client: len(self.clients.shards[client]) for client in clients}
        indices = shared_out(sizes, len(self.workers))
        return {client: self.workers[index] for client, index in indices.items()}

    def _begun(
        self,
        remake: Callable[[str, int, int], InProcess],
        at_most: int,
    ) -> list[Any]:
        """The workers, with their clients loaded. Raises FedcliError where none can begin."""
        threads = torch.get_num_threads()
        on_gpu = self.device.startswith("cuda")
        cpus, gpus = self._room(threads)
        count = min(at_most, cpus)
        if not count or (on_gpu and not gpus):
            lacking = console.counted(threads, "CPU", "CPUs")
            if on_gpu and cpus:
                lacking = "GPU"
            raise FedcliError(
                f"the ray cluster has no free {lacking} for a worker",
                "end its other jobs, or add a node",
            )
        # workers of a GPU: none waits for what others leave of it
        sharing = math.ceil(count / gpus) if on_gpu else 1
        kind = self.ray.remote(num_cpus=threads, num_gpus=1 / sharing if on_gpu else 0)(Worker)
        workers = [kind.remote() for _ in range(count)]
        folder = str(Path.cwd())
        words = extensions.words()
        device = "cuda" if on_gpu else "cpu"
        results = []
        for worker in workers:
            result = worker.begin.remote(
                remake,
                folder,
                words,
                device,
                threads,
                sharing,
            )
            results.append(result)
        for result in results:
            if self._answers(result) is None:
                raise FedcliError(
                    "a worker of the ray cluster ended before it had its clients",
                    "its node may lack memory, or fedcli",
                )
        console.say(f"ray: {console.counted(count, 'worker', 'workers')}")
        return workers

    def _room(self, threads: int) -> tuple[int, int]:
        """Workers of so many threads that fit on free CPUs, and the free GPUs."""
        free = self.ray.available_resources()
        on_nodes = 0
        for node in self.ray.nodes():
            if node["Alive"]:
                on_nodes += node["Resources"].get("CPU", 0) // threads
        cpus = min(free.get("CPU", 0) // threads, on_nodes)
        return int(cpus), int(free.get("GPU", 0))

    def __exit__(self, *_: object) -> None:
        for worker in getattr(self, "workers", []):
            self.ray.kill(worker)
        if self.started:
            self.ray.shutdown()
        self.watch.communicate(b"done")


class Worker:
    """An actor: some clients of the federation, in a process on a free CPU or GPU."""

    def begin(
        self,
        remake: Callable[[str, int, int], InProcess],
        folder: str,
        words: frozenset[str],
        *place: Any,
    ) -> list | Exception:
        """Make the clients as the process in that folder did. Returns [], or the error.

        words: that may name code. place: device, threads, workers that share a GPU.
        """
        try:
            if not Path(folder).is_dir():
                raise FedcliError(
                    f"the node {os.uname().nodename} has no {folder}", "nodes need the same files"
                )
            os.chdir(folder)  # paths of a plan may be relative
            extensions.allow(words)
            self.clients = remake(*place)
        except Exception as error:
            return portable(extensions.fault(error) or error)
        return []

    def work_on(
        self,
        common: Arrays,
        sent: list[Sent],
    ) -> list[Sent] | Exception:
        """The reports on some tasks, which have these arrays in common; or the error."""
        device = str(self.clients.layout.flat.device)
        answers = []
        try:
            for (scalars, arrays), memory in sent:
                message = scalars, common or arrays
                task = unpack(
                    ClientTask,
                    message,
                    to_tensors(memory, device),
                    device,
                )
                report = self.clients.run_one(task)
                answers.append((pack(report), to_arrays(report.memory)))
        except Exception as error:
            return portable(extensions.fault(error) or error)
        return answers


def _next(waiting: deque[int], limit: int, calls: int) -> Iterator[list[int]]:
    """The next tasks of a worker with so many calls, removed from those that wait for it."""
    while waiting and calls < AHEAD and waiting[0] < limit:
        count = min(TOGETHER, len(waiting))
        yield [waiting.popleft() for _ in range(count)]
        calls += 1


def _sent(task: ClientTask, alike: bool) -> Sent:
    """A task as it is sent; without the arrays that all tasks have in common."""
    memory = to_arrays(task.memory)
    if not alike:
        return pack(task), memory
    scalars, _ = pack(replace(task, theta=task.theta[:0], shared={}))
    return (scalars, {}), memory


def _imported() -> Any:
    """The package. Raises UsageError where it is not installed."""
    if importlib.util.find_spec("ray") is None:
        raise UsageError("--engine ray needs ray, which is not installed", INSTALL)
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ray
        import ray.exceptions
    return ray


def _watched() -> subprocess.Popen:
    """A process that prints a sentence where this one is ended at once, as ray may.

    It is sent a byte before the usual end.
    """
    command = [sys.executable, "-IS", "-c", WATCH, GONE]
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        start_new_session=True,
    )


def _connect(ray: Any) -> None:
    """Join the cluster of RAY_ADDRESS, or start one. Raises FedcliError, UsageError."""
    address = os.environ.get("RAY_ADDRESS", "")
    if address.startswith("ray://"):
        raise UsageError(
            f"RAY_ADDRESS={address} is for ray's client",
            "run fedcli on a node, with RAY_ADDRESS=HOST:6379",
        )
    settings: dict[str, Any] = {} if address else {"include_dashboard": False}
    try:
        ray.init(
            address=address or "local",
            logging_level="ERROR",
            log_to_driver=False,
            **settings,
        )
    except Exception as error:  # ray names no class for all of them
        location = f"at {address}" if address else "on this machine"
        raise FedcliError(
            f"no ray cluster {location}: {_first_line(error)}", "see `ray status`, and RAY_ADDRESS"
        ) from error


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:200]


register("ray", Kind(lambda clients, count, _at_most: Ray(clients, count), anywhere=True))
