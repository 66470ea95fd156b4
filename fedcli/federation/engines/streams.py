"""Several clients at once on one GPU: a few networks, each on a stream of its own.

One batch of small images leaves most of a GPU idle. Clients of a round do not depend on each other,
so their work may overlap; a client's numbers depend on its task alone, and reports come in task
order, so the bits are those of the default engine. What never trains is shared by all networks.
"""

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.torch_version import TorchVersion

from ...models.layout import Layout
from ..client import ClientReport, ClientTask
from ..graphs import local_steps
from .in_process import InProcess

MOST = 15  # workers: torch has 32 streams, and a worker needs one to train on and one to record on
# the torch from which a recording has its random seed and offset to itself: before, all have one,
# so that steps that draw random numbers on the GPU are not recorded
OWN_NUMBERS = "2.12"


@dataclass(frozen=True)
class Streams:
    """Runs a few tasks at a time, each on its worker's stream; without a GPU one after another."""

    workers: list[InProcess]
    streams: list[Any]  # a CUDA stream for each worker, or None

    @classmethod
    def of(cls, clients: InProcess, count: int) -> "Streams":
        """Engine of count workers, the given one among them.

        On a GPU there are no more than have streams of their own.
        """
        device = clients.layout.flat.device
        on_gpu = clients.layout.flat.is_cuda
        if on_gpu:
            count = min(count, MOST)
        workers = [clients]
        for _ in range(count - 1):
            workers.append(_copied(clients))
        is_old = TorchVersion(torch.__version__) < TorchVersion(OWN_NUMBERS)
        if on_gpu and is_old and count > 1:
            workers = [_recorded_without_draws(worker) for worker in workers]
        streams = [torch.cuda.Stream(device) if on_gpu else None for _ in workers]
        return cls(workers, streams)

    def __call__(self, tasks: list[ClientTask]) -> Iterable[ClientReport]:
        count = len(self.workers)
        for start in range(0, len(tasks), count):
            reports = []
            for task, worker, stream in zip(
                tasks[start : start + count], self.workers, self.streams
            ):
                reports.append(self._start(task, worker, stream))  # does not wait for a stream
            for report, stream in zip(reports, self.streams):
                yield _arrived(report, stream)

    def _start(
        self,
        task: ClientTask,
        worker: InProcess,
        stream: Any,
    ) -> ClientReport:
        if stream is None:
            return worker.run_one(task)
        stream.wait_stream(torch.cuda.current_stream())
        for tensor in _tensors(task.theta, task.shared, task.memory):
            tensor.record_stream(stream)
        with torch.cuda.stream(stream):
            return worker.run_one(task)


def _arrived(report: ClientReport, stream: Any) -> ClientReport:
    """The report, once the current stream may read its tensors."""
    if stream is not None:
        current = torch.cuda.current_stream()
        current.wait_stream(stream)
        for tensor in _tensors(report.theta, report.loss, report.columns, report.memory):
            tensor.record_stream(current)
    return report


def _tensors(*values: Any) -> Iterator[Tensor]:
    """These tensors, and those of these dicts that are on a GPU."""
    for value in values:
        if isinstance(value, dict):
            for item in value.values():
                if item.is_cuda:
                    yield item
        else:
            yield value


def _recorded_without_draws(worker: InProcess) -> InProcess:
    steps = local_steps(
        worker.method,
        worker.net,
        worker.layout,
        worker.training.optimizer,
        may_draw=False,
    )
    return replace(worker, steps=steps)


def _copied(clients: InProcess) -> InProcess:
    """A worker with a network of its own, but for what never trains."""
    shared = {}
    for module in (*clients.layout.frozen, clients.net.teacher):
        if module is not None:
            shared[id(module)] = module
    net = copy.deepcopy(clients.net, shared)
    layout = Layout(net, tuple(clients.layout.own_shapes))
    return InProcess(
        clients.method,
        net,
        layout,
        clients.shards,
        clients.training,
        clients.val,
    )
