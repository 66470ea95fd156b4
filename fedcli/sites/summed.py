"""Sites whose models the server never sees one by one: --engine flower-secagg:DIR.

The job masks each update at its site and adds them, see secagg.py. A report then holds the mean of all
clients' models in place of its own, which gives the same global model under a rule that takes no more than that mean.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace

import numpy as np
import torch

from ..errors import UsageError
from ..federation.client import Absent, Report, Task
from ..federation.engines.wire import Message
from ..methods.contract import Local
from ..methods.registry import Method
from ..runs.assembly import PlannedFederation
from .engine import Sites
from .sockets import open_job
from .transport.relay import SUM

WARNING = (
    "models were added by secure aggregation, which quantizes updates with random rounding: a second run gives other"
    " numbers, and losses are means over the clients"
)
LOSS, UPDATE = "loss", "update"


class SummedSites(Sites):
    """Asks all sites of a round for one sum."""

    def __call__(self, tasks: list[Task]) -> Iterator[Report | Absent]:
        counts = self.federation.counts
        self.sum = {"clients": [task.client for task in tasks], "largest": max(counts[task.client] for task in tasks)}
        return super().__call__(tasks)

    def _message(self, task: Task) -> Message:
        scalars, arrays = super()._message(task)
        return {**scalars, SUM: self.sum}, arrays

    def _report(self, task: Task, answer: Message | str) -> Report:
        if not isinstance(answer, str) and "error" not in answer[0]:
            scalars, arrays = answer
            own = {"theta": np.zeros(0, np.float32), LOSS: np.zeros((), np.float32)}
            if set(arrays) == {UPDATE, LOSS} and arrays[UPDATE].shape == task.theta.shape:
                moved = task.theta.cpu().double() + torch.from_numpy(np.array(arrays[UPDATE], np.float64))
                own = {"theta": moved.float().numpy(), LOSS: np.array(arrays[LOSS], np.float32)}
            answer = scalars, own
        report = super()._report(task, answer)
        return replace(report, n=self.federation.counts[task.client])


def check(method: Method, min_clients: int) -> None:
    """Raises UsageError for what needs more than the mean of the clients' models."""
    if not method.aggregator.of_mean:
        what = f"the server of {method.name} needs more than the mean of the clients' models by training images"
        raise UsageError(f"{what}, and secure aggregation gives that mean alone", "train without it, or another method")
    if type(method.local).post_aggregate is not Local.post_aggregate:
        what = f"{method.name} takes more from its clients than their models"
        raise UsageError(f"{what}, which secure aggregation does not carry", "train without it, or another method")
    if min_clients:
        what = "secure aggregation needs all clients of a round: the masks of an absent one would not cancel"
        raise UsageError(what, "leave --min-clients out")


def open_summed(federation: PlannedFederation, where: str, timeout: float) -> AbstractContextManager[Sites]:
    """The engine of --engine flower-secagg:DIR. Raises SiteError, UsageError."""
    check(federation.method, federation.min_clients)
    if federation.cohort_size < 2:
        raise UsageError("a sum over one client hides nothing", "let more clients take part in a round")
    return open_job(federation, where, timeout, SummedSites)
