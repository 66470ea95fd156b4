"""Several clients at once on one GPU: a few networks, each on a stream of its own.

One batch of small images leaves most of a GPU idle. Clients of a round do not depend on each other, so their work may
overlap; a client's numbers depend on its task alone, and reports come in task order, so the bits are those of the
default engine. What never trains is shared by all networks.
"""

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.torch_version import TorchVersion

from ...models.layout import Layout
from ..client import Report, Task
from ..steps import Steps
from .in_process import InProcess

MOST = 15  # workers: torch has 32 streams, and a worker needs one to train on and one to record on
OWN_NUMBERS = "2.12"  # the torch from which a recording has its random seed and offset to itself: before, all have one


@dataclass(frozen=True)
class Streams:
    """Runs a few tasks at a time, each on its worker's own stream; without a GPU one after another."""

    workers: list[InProcess]
    streams: list[Any]  # a CUDA stream for each worker, or None

    @classmethod
    def of(cls, first: InProcess, count: int) -> "Streams":
        """count workers, the given one among them; on a GPU no more than have streams of their own."""
        gpu = first.layout.flat.is_cuda
        workers = [
            first,
            *(_copied(first) for _ in range((min(count, MOST) if gpu else count) - 1)),
        ]
        if gpu and TorchVersion(torch.__version__) < TorchVersion(OWN_NUMBERS):
            name = first.training.optimizer
            workers = [
                replace(w, steps=Steps(w.method.local, w.net, w.layout, name)) for w in workers
            ]
        return cls(
            workers, [torch.cuda.Stream(first.layout.flat.device) if gpu else None for _ in workers]
        )

    def __call__(self, tasks: list[Task]) -> Iterable[Report]:
        for start in range(0, len(tasks), len(self.workers)):
            together = list(
                zip(tasks[start : start + len(self.workers)], self.workers, self.streams)
            )
            reports = [
                self._start(*work) for work in together
            ]  # the CPU does not wait for a stream
            for report, (_, _, stream) in zip(reports, together, strict=True):
                yield _arrived(report, stream)

    def _start(self, task: Task, worker: InProcess, stream: Any) -> Report:
        if stream is None:
            return worker.run_one(task)
        stream.wait_stream(torch.cuda.current_stream())
        for tensor in _tensors(task.theta, task.shared, task.memory):
            tensor.record_stream(stream)
        with torch.cuda.stream(stream):
            return worker.run_one(task)


def _arrived(report: Report, stream: Any) -> Report:
    if stream is not None:
        here = torch.cuda.current_stream()
        here.wait_stream(stream)
        for tensor in _tensors(report.theta, report.loss, report.columns, report.memory):
            tensor.record_stream(here)
    return report


def _tensors(*values: Any) -> Iterator[Tensor]:
    for value in values:
        yield from (
            (item for item in value.values() if item.is_cuda)
            if isinstance(value, dict)
            else (value,)
        )


def _copied(first: InProcess) -> InProcess:
    """A worker with a network of its own, but for what never trains."""
    shared = {
        id(module): module
        for module in (*first.layout.frozen, first.net.teacher)
        if module is not None
    }
    net = copy.deepcopy(first.net, shared)
    layout = Layout(net, tuple(first.layout.own_shapes))
    return InProcess(first.method, net, layout, first.shards, first.training, first.val)
