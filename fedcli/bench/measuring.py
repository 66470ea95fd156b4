"""Visits of a few clients, played and timed: the time of all clients in all rounds follows."""

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from ..data.shard import EVALUATION_BATCH, Batch, Shard
from ..federation.client import ClientReport, ClientTask
from ..federation.engines.in_process import Engine, InProcess
from ..federation.engines.pool import WorkerPool, shared_out
from ..federation.state import RunState
from ..methods.mixins import SubsetTraining
from ..runs import resources
from ..runs.assembly import PlannedFederation
from ..runs.finished import part

REPEATS = 3  # of what is quick; the median counts
QUICK = 2.0  # seconds, after which nothing is measured again


class Visits:
    """Visits of the median and the largest client on parts of their images.

    Where two rounds are quick, visits of all clients.

    Attributes:
        seconds: of visits, by part of the round (see Task.part) and number of images.
        reports: of two clients, their last ones, by part of the round.
        steps: local steps in all.
        own_bytes: memory of the processes that this one does not share, where there are several and
            the system says.
        evaluates: whether a visit also goes through its images in order, EVALUATION_BATCH at once.
    """

    def __init__(
        self,
        federation: PlannedFederation,
        cohort: list[str],
        limit: float,
        jobs: int,
    ):
        self.federation = federation
        self.cohort = cohort
        self.jobs = jobs
        self.seconds: dict[str, dict[int, list[float]]] = {}
        self.reports: dict[str, list[ClientReport]] = {}
        self.steps = 0
        self.own_bytes = 0
        self.evaluates = False
        self.slowdown = 1.0
        counts = federation.counts
        by_size = sorted(counts, key=lambda client: counts[client])
        median = by_size[len(by_size) // 2]
        largest = by_size[-1]
        names = list(dict.fromkeys([median, largest]))
        batch = federation.plan.batch_size
        # the first visit is slow, and has none of what a method keeps between rounds
        state = self._play(federation.first(), names, batch, count=False)
        begin = time.perf_counter()
        state = self._play(state, names, batch)
        step = (time.perf_counter() - begin) / len(names)
        # before the visits of this process have left their traces in memory
        together = self._side_by_side(step / batch, limit) if jobs > 1 else None
        share = limit / 4  # seconds for parts of the images; the rest is for whole rounds
        batches = max(2, int(share / REPEATS / len(names) / step))
        repeats = REPEATS if step * len(names) * 3 < share else 1
        for _ in range(repeats):
            state = self._play(state, names, batch)
            state = self._play(state, names, batch * batches)
        if 2 * self.seconds_in([cohort], processes=1) < limit:
            state = self._play(
                federation.first(),
                cohort,
                counts[largest],
                count=False,
            )
            self._play(state, cohort, counts[largest])
        if together:  # processes on one machine slow each other
            alone = busiest(self._alone(together.visits))
            self.slowdown = max(1.0, together.seconds / alone)

    @property
    def trained(self) -> list[ClientReport]:
        """Reports of clients that trained."""
        return next(reports for name, reports in self.reports.items() if name != "measure")

    def _alone(self, visits: "list[_Visit]") -> Iterator[tuple[int, float]]:
        """Process and seconds of each visit, as if no other process slowed it."""
        lines = {name: self.line(name) for name in self.seconds}
        for visit in visits:
            yield visit.process, _seconds(lines[visit.part], visit.images)

    def seconds_in(
        self,
        cohorts: list[list[str]],
        processes: int | None = None,
    ) -> float:
        """Seconds of all visits of these rounds, on the processes that there are."""
        counts = self.federation.counts
        shares = self._shares()
        lines = {name: self.line(name) for name in self.seconds}
        seconds: dict[str, float] = {}
        for client, images in counts.items():
            parts = [share * _seconds(lines[name], images) for name, share in shares.items()]
            seconds[client] = sum(parts)
        process_of = shared_out(counts, processes or self.jobs)
        rounds = []
        for cohort in cohorts:
            visits = [(process_of[client], seconds[client]) for client in cohort]
            rounds.append(busiest(visits))
        return self.slowdown * sum(rounds)

    def _shares(self) -> dict[str, float]:
        """Parts of a round, and the share of its clients that play each: a rule may select some."""
        rule = self.federation.method.aggregator
        if "measure" not in self.seconds or not isinstance(rule, SubsetTraining):
            return dict.fromkeys(self.seconds, 1.0)
        count = len(self.cohort)
        measured = self.reports["measure"]
        reports = [measured[k % len(measured)] for k in range(count)]
        columns = {}
        for name in measured[0].columns:
            columns[name] = torch.stack([report.columns[name] for report in reports])
        rows = torch.arange(count, device=measured[0].theta.device)
        selected = rule.select_clients(columns, rows)
        return {"measure": 1.0, "train": float(selected.sum()) / count}

    def line(self, name: str) -> tuple[float, float]:
        """Seconds of a visit and of each image, by least squares over the medians.

        Neither is below zero.
        """
        images = []
        seconds = []
        for count, values in sorted(self.seconds[name].items()):
            images.append(count)
            seconds.append(statistics.median(values))
        if len(images) > 1:
            slope, intercept = np.polyfit(images, seconds, 1)
            if slope > 0 and intercept > 0:
                return float(intercept), float(slope)
        return 0.0, seconds[-1] / images[-1]

    def _play(
        self,
        state: RunState,
        names: list[str],
        images: int,
        *,
        count: bool = True,
    ) -> RunState:
        """Play a round of these clients on at most so many images each."""
        clients = some_images(self.federation.clients, names, images)
        device = self.federation.plan.device
        reports: dict[str, list[ClientReport]] = defaultdict(list)

        def engine(tasks: list[ClientTask]) -> Iterator[ClientReport]:
            for task in tasks:
                wait(device)
                begin = time.perf_counter()
                report = clients.run_one(task)
                wait(device)
                if count:
                    seconds = time.perf_counter() - begin
                    by_images = self.seconds.setdefault(task.part, {})
                    visits = by_images.setdefault(len(clients.shards[task.client]), [])
                    visits.append(seconds)
                self.steps += report.steps
                # two of them: no more models than a round holds beside its table
                reports[task.part][1:] = [report]
                yield report

        state = next_state(self.federation, state, names, engine)
        self.reports = dict(reports)
        for shard in (*clients.shards.values(), *clients.val.values()):
            if isinstance(shard, _Watched) and shard.evaluations:
                self.evaluates = True
        return state

    def _side_by_side(
        self,
        seconds_of_image: float,
        limit: float,
    ) -> "_Together":
        """A round's visits on the processes: the whole round where it is quick.

        Else those of the largest clients on parts of their images.
        """
        counts = self.federation.counts
        names = self.cohort
        images = max(counts.values())
        if seconds_of_image * sum(counts[client] for client in names) >= limit:
            names = sorted(counts, key=lambda client: counts[client])[-self.jobs :]
            fitting = int(limit / 4 / seconds_of_image)
            images = max(self.federation.plan.batch_size, fitting)
        clients = some_images(self.federation.clients, names, images)
        together = _Together()

        def clocked(tasks: list[ClientTask]) -> list[ClientReport]:
            reports: list[ClientReport] = []
            together.seconds += seconds_of(lambda: reports.extend(pool(tasks)))
            for task in tasks:
                process = pool.worker_of[task.client]
                image_count = len(clients.shards[task.client])
                together.visits.append(_Visit(process, task.part, image_count))
            return reports

        with WorkerPool(clients, self.jobs, len(names)) as pool:
            state = next_state(
                self.federation,
                self.federation.first(),
                names,
                clocked,
            )
            together = _Together()  # the first visits are slow
            next_state(self.federation, state, names, clocked)
            self.own_bytes = sum(pool.ask(resources.own))
        return together


class _Visit(NamedTuple):
    """A visit of a client. part: of the round, see Task.part."""

    process: int
    part: str
    images: int


@dataclass
class _Together:
    """Visits of a round that several processes play, and its seconds; they are added one by one."""

    seconds: float = 0.0
    visits: list[_Visit] = field(default_factory=list)


def _seconds(line: tuple[float, float], images: int) -> float:
    of_visit, of_image = line
    return of_visit + of_image * images


@dataclass(frozen=True)
class _Watched(Shard):
    """Some images of a shard, which notes whether it was gone through in order."""

    evaluations: list[int] = field(default_factory=list)

    @staticmethod
    def of(shard: Shard, images: int) -> "_Watched":
        """At most so many images, from all over the shard."""
        count = min(images, len(shard))
        indices = np.unique(np.linspace(0, len(shard) - 1, count).astype(int))
        return _Watched(**vars(part(shard, indices)))

    def in_order(self, size: int = EVALUATION_BATCH) -> Iterator[Batch]:
        if size >= EVALUATION_BATCH:
            self.evaluations.append(size)
        return super().in_order(size)


def some_images(
    clients: InProcess,
    names: list[str],
    images: int,
) -> InProcess:
    """These clients, with at most so many images each."""
    shards: dict[str, Shard] = {}
    for name in names:
        shards[name] = _Watched.of(clients.shards[name], images)
    val: dict[str, Shard] = {}
    for client, shard in clients.val.items():
        if client in shards and len(shard):
            share = len(shards[client]) / len(clients.shards[client])
            val[client] = _Watched.of(shard, max(1, round(share * len(shard))))
    remake = clients.remake and partial(_some_anew, clients.remake, names, images)
    # and its steps, which are recorded once
    return replace(clients, shards=shards, val=val, remake=remake)


def _some_anew(
    remake: Callable[[str, int, int], InProcess],
    names: list[str],
    images: int,
    *place: Any,
) -> InProcess:
    """These clients in another process, with the same images."""
    return some_images(remake(*place), names, images)


def next_state(
    federation: PlannedFederation,
    state: RunState,
    roster: list[str],
    engine: Engine,
) -> RunState:
    """The state after one more round of exactly these clients.

    After the last round the first one follows, from a fresh state: a rule may add up over rounds.
    """
    if state.round >= federation.rounds:
        state = federation.first()
    whole = replace(federation, participation=1.0)
    return whole.play(state, roster, engine).state


def busiest(work: Iterable[tuple[int, float]]) -> float:
    """Seconds of the process that has most to do, of pairs of a process and seconds."""
    seconds_of_process: dict[int, float] = defaultdict(float)
    for process, seconds in work:
        seconds_of_process[process] += seconds
    return max(seconds_of_process.values())


def wait(device: str) -> None:
    """Wait until the device is idle."""
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


def seconds_of(work: Callable[[], object], device: str = "cpu") -> float:
    """Seconds of some work, from an idle device to an idle device."""
    wait(device)
    begin = time.perf_counter()
    work()
    wait(device)
    return time.perf_counter() - begin


def times(work: Callable[[], object], device: str = "cpu") -> list[float]:
    """Seconds of some work, the first time and, where it is quick, REPEATS times more."""
    seconds: list[float] = []
    while len(seconds) < 1 + REPEATS and sum(seconds) <= QUICK:
        seconds.append(seconds_of(work, device))
    return seconds


@contextmanager
def threads(count: int | None = None) -> Iterator[None]:
    """Give torch so many CPU threads inside, by default as many as now.

    After it as many as now, whatever sets them inside.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
