"""Clients on the workers of a ray cluster: the cores of one machine, or the CPUs and GPUs of several.

A worker makes the clients by itself, from files that it finds under the same paths. What all clients of a round
receive, the model and what is broadcast with it, is put into ray's object store once; a client always comes to the same
worker, and what it keeps is sent beside its task. A task depends on nothing else, so where a worker is lost, with its
node or alone, the others do its tasks again, to the same bits.

RAY_ADDRESS names a cluster; without it a cluster of this machine is started, and ended with the engine.
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
from ..client import Report, Task
from . import Kind, register
from .in_process import InProcess
from .pool import shared_out
from .wire import Arrays, Message, pack, to_arrays, to_tensors, unpack

TOGETHER, AHEAD = 8, 2  # clients in one call, and calls that a worker has at once
INSTALL = "pip install 'fedcli[ray]'"
SETTINGS = {  # of ray, read when it is imported: no report to its authors, no warning about GPUs that nobody asked for
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
WATCH = """
import sys
if not sys.stdin.buffer.read():
    print(sys.argv[1], file=sys.stderr)
"""  # of a process of its own: waits for a byte, or for the end of the process that would send it
GONE = (
    "error: training was ended from outside, as ray does where the cluster's head or its own node is gone."
    " Start the cluster again and go on with --resume"
)
Sent = tuple[Message, Arrays]  # a task or report, and beside it what the client keeps
Running = dict[
    Any, tuple[Any, list[int]]
]  # result to come -> its worker, and the places of its tasks


class Ray(AbstractContextManager["Ray"]):
    """Runs tasks on ray actors; reports come in task order. A context manager: it owns the actors."""

    def __init__(self, clients: InProcess, at_most: int):
        """Start as many workers as there are free CPUs, or GPUs, for; at_most of them. Raises FedcliError."""
        if clients.remake is None:
            raise UsageError(
                "--engine ray trains clients that are loaded from files", "choose another engine"
            )
        self.clients, self.device = clients, str(clients.layout.flat.device)
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

    def __call__(self, tasks: list[Task]) -> Iterator[Report]:
        first = tasks[0]
        alike = all(task.theta is first.theta and task.shared is first.shared for task in tasks)
        common = self.ray.put(pack(first)[1] if alike else {})  # in the object store
        pending: dict[Any, deque[int]] = {
            worker: deque() for worker in self.workers
        }  # places in tasks, rising
        for k, task in enumerate(tasks):
            pending[self.worker_of[task.client]].append(k)
        running: Running = {}
        finished: dict[int, Report] = {}
        read = 0
        while read < len(tasks):
            limit = read + 2 * TOGETHER * AHEAD * len(
                self.workers
            )  # so far may workers run ahead of the reader
            for worker, places in pending.items():
                for taken in _next(
                    places, limit, sum(other is worker for other, _ in running.values())
                ):
                    sent = [_sent(tasks[k], alike) for k in taken]
                    running[worker.work_on.remote(common, sent)] = worker, taken
            result = self.ray.wait(list(running))[0][0]
            worker, taken = running.pop(result)
            answers = self._answers(result)
            if answers is None:
                self._replace(worker, taken, tasks, pending, running)
                continue
            for k, (message, memory) in zip(taken, answers, strict=True):
                finished[k] = unpack(Report, message, to_tensors(memory, self.device), self.device)
            del result, answers
            while read in finished:  # keeps no report that was read
                yield finished.pop(read)
                read += 1

    def _answers(self, result: Any) -> list[Sent] | None:
        """Answers that a worker returned; None where it was lost. Raises what went wrong in training."""
        lost = self.ray.exceptions
        try:
            answers = self.ray.get(result)
        except (lost.RayActorError, lost.ObjectLostError):
            return None
        except lost.RayError as error:
            what = f"ray failed: {_first_line(error)}"
            raise FedcliError(what, "start the cluster again and go on with --resume") from None
        if isinstance(answers, Exception):
            raise answers
        return answers

    def _replace(
        self,
        worker: Any,
        taken: list[int],
        tasks: list[Task],
        pending: dict[Any, deque[int]],
        running: Running,
    ) -> None:
        """Give a lost worker's clients to the others, and those of its tasks that were not read. Raises FedcliError."""
        self.workers.remove(worker)
        if not self.workers:
            what = "the last worker of the ray cluster was lost"
            raise FedcliError(what, "start its nodes again and go on with --resume")
        left = console.counted(len(self.workers), "worker goes", "workers go")
        console.warn(f"a worker of the ray cluster was lost: {left} on with its clients")
        again = [*taken, *pending.pop(worker)]
        for result in [result for result, (other, _) in running.items() if other is worker]:
            again += running.pop(result)[1]
        self.worker_of |= self._shared_out(
            [client for client, other in self.worker_of.items() if other is worker]
        )
        for k in again:
            pending[self.worker_of[tasks[k].client]].append(k)
        for other, places in pending.items():
            pending[other] = deque(sorted(places))

    def _shared_out(self, clients: list[str]) -> dict[str, Any]:
        sizes = {client: len(self.clients.shards[client]) for client in clients}
        return {
            client: self.workers[k] for client, k in shared_out(sizes, len(self.workers)).items()
        }

    def _begun(self, remake: Callable[[str, int, int], InProcess], at_most: int) -> list[Any]:
        threads, on_gpu = torch.get_num_threads(), self.device.startswith("cuda")
        free = self.ray.available_resources()
        nodes = [
            node["Resources"].get("CPU", 0) // threads for node in self.ray.nodes() if node["Alive"]
        ]
        cpus, gpus = int(min(free.get("CPU", 0) // threads, sum(nodes))), int(free.get("GPU", 0))
        count = min(at_most, cpus)
        if not count or (on_gpu and not gpus):
            what = "GPU" if on_gpu and cpus else console.counted(threads, "CPU", "CPUs")
            raise FedcliError(
                f"the ray cluster has no free {what} for a worker",
                "end its other jobs, or add a node",
            )
        sharing = (
            math.ceil(count / gpus) if on_gpu else 1
        )  # workers of a GPU: none waits for what others leave of it
        kind = self.ray.remote(num_cpus=threads, num_gpus=1 / sharing if on_gpu else 0)(Worker)
        workers = [kind.remote() for _ in range(count)]
        folder, words, device = str(Path.cwd()), extensions.words(), "cuda" if on_gpu else "cpu"
        begun = [
            worker.begin.remote(remake, folder, words, device, threads, sharing)
            for worker in workers
        ]
        for result in begun:
            if self._answers(result) is None:
                what = "a worker of the ray cluster ended before it had its clients"
                raise FedcliError(what, "its node may lack memory, or fedcli")
        console.say(f"ray: {console.counted(count, 'worker', 'workers')}")
        return workers

    def __exit__(self, *_: object) -> None:
        for worker in getattr(self, "workers", []):
            self.ray.kill(worker)
        if self.started:
            self.ray.shutdown()
        self.watch.communicate(b"done")


class Worker:
    """An actor: some clients of the federation, in a process that ray starts wherever a CPU or GPU is free."""

    def begin(
        self,
        remake: Callable[[str, int, int], InProcess],
        folder: str,
        words: frozenset[str],
        *place: Any,
    ) -> list | Exception:
        """Make the clients as the process in that folder did. Returns [], or what went wrong.

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

    def work_on(self, common: Arrays, sent: list[Sent]) -> list[Sent] | Exception:
        """The reports on some tasks, which have these arrays in common; or what went wrong."""
        device = str(self.clients.layout.flat.device)
        try:
            made = []
            for (scalars, arrays), memory in sent:
                message = scalars, common or arrays
                report = self.clients.run_one(
                    unpack(Task, message, to_tensors(memory, device), device)
                )
                made.append((pack(report), to_arrays(report.memory)))
        except Exception as error:
            return portable(extensions.fault(error) or error)
        return made


def _next(places: deque[int], limit: int, calls: int) -> Iterator[list[int]]:
    """Tasks that a worker with so many calls is given next, taken from the places of its tasks."""
    while places and calls < AHEAD and places[0] < limit:
        yield [places.popleft() for _ in range(min(TOGETHER, len(places)))]
        calls += 1


def _sent(task: Task, alike: bool) -> Sent:
    """A task as it is sent; without what all tasks have in common."""
    lean = replace(task, theta=task.theta[:0], shared={}) if alike else task
    scalars, arrays = pack(lean)
    return (scalars, {} if alike else arrays), to_arrays(task.memory)


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
    """Says a sentence where this process is ended at once, as ray may; send it a byte before the end."""
    return subprocess.Popen(
        [sys.executable, "-IS", "-c", WATCH, GONE], stdin=subprocess.PIPE, start_new_session=True
    )


def _connect(ray: Any) -> None:
    """Join the cluster of RAY_ADDRESS, or start one. Raises FedcliError, UsageError."""
    address = os.environ.get("RAY_ADDRESS", "")
    if address.startswith("ray://"):
        what = f"RAY_ADDRESS={address} is for ray's client"
        raise UsageError(what, "run fedcli on a node, with RAY_ADDRESS=HOST:6379")
    own: dict[str, Any] = {} if address else {"include_dashboard": False}
    try:
        ray.init(address=address or "local", logging_level="ERROR", log_to_driver=False, **own)
    except Exception as error:  # ray names no class for all of them
        at = f"at {address}" if address else "on this machine"
        raise FedcliError(
            f"no ray cluster {at}: {_first_line(error)}", "see `ray status`, and RAY_ADDRESS"
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


register("ray", Kind(lambda clients, count, at_most: Ray(clients, count), anywhere=True))
