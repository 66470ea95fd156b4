"""Visits of a few clients, played and timed, from which the time of all clients in all rounds follows."""

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from ..data.shard import EVALUATION_BATCH, Batch, Shard
from ..federation.client import Report, Task
from ..federation.engines.in_process import Engine, InProcess
from ..federation.engines.pool import Pool, shared_out
from ..federation.state import RunState
from ..methods.mixins import SubsetTraining
from ..runs import resources
from ..runs.assembly import PlannedFederation
from ..runs.finished import part

REPEATS = 3  # of what is quick; the median counts
QUICK = 2.0  # seconds, after which nothing is measured again


class Visits:
    """Visits of the median and the largest client on parts of their images; where two rounds are quick, all of them.

    Attributes:
        seconds: of visits, by part of the round (see Task.part) and number of images.
        reports: of two clients, their last ones, by part of the round.
        steps: local steps in all.
        own_bytes: memory of the processes that this one does not share, where there are several and the system says.
        evaluates: whether a visit also goes through its images in order, EVALUATION_BATCH at once.
    """

    def __init__(self, federation: PlannedFederation, cohort: list[str], limit: float, jobs: int):
        self.federation, self.cohort, self.jobs = federation, cohort, jobs
        self.seconds: dict[str, dict[int, list[float]]] = {}
        self.reports: dict[str, list[Report]] = {}
        self.steps, self.own_bytes, self.evaluates = 0, 0, False
        self.slowdown = 1.0
        counts = federation.counts
        by_size = sorted(counts, key=lambda client: counts[client])
        names = list(dict.fromkeys([by_size[len(by_size) // 2], by_size[-1]]))
        batch = federation.plan.batch_size
        # the first visit is slow, and has none of what a method keeps between rounds
        state = self._play(federation.first(), names, batch, count=False)
        begin = time.perf_counter()
        state = self._play(state, names, batch)
        step = (time.perf_counter() - begin) / len(names)
        # before the visits here have left their traces in memory
        together = self._side_by_side(step / batch, limit) if jobs > 1 else None
        share = limit / 4  # seconds for parts of the images; the rest is for whole rounds
        more = batch * max(2, int(share / REPEATS / len(names) / step))
        for _ in range(REPEATS if step * len(names) * 3 < share else 1):
            state = self._play(state, names, batch)
            state = self._play(state, names, more)
        if 2 * self.seconds_in([cohort], processes=1) < limit:
            most = counts[by_size[-1]]
            self._play(self._play(federation.first(), cohort, most, count=False), cohort, most)
        if together:  # processes on one machine slow each other
            seconds, visits = together
            lines = {name: self.line(name) for _, name, _ in visits}
            alone = busiest(
                (worker, lines[name][0] + lines[name][1] * images)
                for worker, name, images in visits
            )
            self.slowdown = max(1.0, seconds / alone)

    @property
    def trained(self) -> list[Report]:
        """Reports of clients that trained."""
        return next(reports for name, reports in self.reports.items() if name != "measure")

    def seconds_in(self, cohorts: list[list[str]], processes: int | None = None) -> float:
        """Of all visits of these rounds, on the processes that there are."""
        processes = processes or self.jobs
        shares, lines = self._shares(), {name: self.line(name) for name in self.seconds}
        each = {
            client: sum(
                share * (lines[name][0] + lines[name][1] * images) for name, share in shares.items()
            )
            for client, images in self.federation.counts.items()
        }
        workers = shared_out(self.federation.counts, processes)
        return self.slowdown * sum(
            busiest((workers[c], each[c]) for c in cohort) for cohort in cohorts
        )

    def _shares(self) -> dict[str, float]:
        """Parts of a round, and the share of its clients that play each: a rule may select whom to train."""
        rule = self.federation.method.aggregator
        if "measure" not in self.seconds or not isinstance(rule, SubsetTraining):
            return dict.fromkeys(self.seconds, 1.0)
        measured, count = self.reports["measure"], len(self.cohort)
        columns = {
            name: torch.stack([measured[k % len(measured)].columns[name] for k in range(count)])
            for name in measured[0].columns
        }
        rows = torch.arange(count, device=measured[0].theta.device)
        selected = rule.select_clients(columns, rows)
        return {"measure": 1.0, "train": float(selected.sum()) / count}

    def line(self, name: str) -> tuple[float, float]:
        """Seconds of a visit and of each image, by least squares over the medians; neither is below zero."""
        medians = [
            (images, statistics.median(values))
            for images, values in sorted(self.seconds[name].items())
        ]
        images, seconds = zip(*medians, strict=True)
        if len(images) > 1:
            slope, intercept = np.polyfit(images, seconds, 1)
            if slope > 0 and intercept > 0:
                return float(intercept), float(slope)
        return 0.0, seconds[-1] / images[-1]

    def _play(
        self, state: RunState, names: list[str], images: int, *, count: bool = True
    ) -> RunState:
        """Play a round of these clients on at most so many images each."""
        clients, device = some_images(self.federation, names, images), self.federation.plan.device
        fresh: dict[str, list[Report]] = {}

        def engine(tasks: list[Task]) -> Iterator[Report]:
            for task in tasks:
                wait(device)
                begin = time.perf_counter()
                report = clients.run_one(task)
                wait(device)
                if count:
                    by_images = self.seconds.setdefault(task.part, {})
                    by_images.setdefault(len(clients.shards[task.client]), []).append(
                        time.perf_counter() - begin
                    )
                self.steps += report.steps
                fresh.setdefault(task.part, [])[1:] = [
                    report
                ]  # no more models than a round holds beside its table
                yield report

        state = next_state(self.federation, state, names, engine)
        self.reports = fresh
        watched = [
            shard
            for shard in (*clients.shards.values(), *clients.val.values())
            if isinstance(shard, _Watched)
        ]
        self.evaluates = self.evaluates or any(shard.evaluations for shard in watched)
        return state

    def _side_by_side(self, each: float, limit: float) -> tuple[float, list[tuple[int, str, int]]]:
        """Seconds of a round's visits on the processes, and process, part of the round and number of images of each:
        the whole round where it is quick, else the largest clients on parts of their images.

        each: seconds of an image, roughly.
        """
        counts = self.federation.counts
        whole = each * sum(counts[client] for client in self.cohort) < limit
        names = (
            self.cohort
            if whole
            else sorted(counts, key=lambda client: counts[client])[-self.jobs :]
        )
        smallest = self.federation.plan.batch_size
        images = max(counts.values()) if whole else max(smallest, int(limit / 4 / each))
        clients = some_images(self.federation, names, images)
        seconds, visits = 0.0, list[tuple[int, str, int]]()

        def clocked(tasks: list[Task]) -> list[Report]:
            nonlocal seconds
            reports: list[Report] = []
            seconds += seconds_of(lambda: reports.extend(pool(tasks)))
            visits.extend(
                (pool.worker_of[t.client], t.part, len(clients.shards[t.client])) for t in tasks
            )
            return reports

        with Pool(clients, self.jobs, len(names)) as pool:
            state = next_state(self.federation, self.federation.first(), names, clocked)
            seconds, visits = 0.0, []  # the first visits are slow
            next_state(self.federation, state, names, clocked)
            self.own_bytes = sum(pool.ask(resources.own))
        return seconds, visits


@dataclass(frozen=True)
class _Watched(Shard):
    """Some images of a shard, which notes whether it was gone through in order."""

    evaluations: list[int] = field(default_factory=list)

    @staticmethod
    def of(shard: Shard, images: int) -> "_Watched":
        """At most so many images, from all over the shard."""
        at = np.unique(np.linspace(0, len(shard) - 1, min(images, len(shard))).astype(int))
        return _Watched(**vars(part(shard, at)))

    def in_order(self, size: int = EVALUATION_BATCH) -> Iterator[Batch]:
        if size >= EVALUATION_BATCH:
            self.evaluations.append(size)
        return super().in_order(size)


def some_images(federation: PlannedFederation, names: list[str], images: int) -> InProcess:
    """These clients of the federation, with at most so many images each."""
    data, counts = federation.data, federation.counts
    shards: dict[str, Shard] = {c: _Watched.of(data.train[c], images) for c in names}
    val: dict[str, Shard] = {}
    for client, shard in data.val.items():
        if client in shards and len(shard):
            share = len(shards[client]) / counts[client]
            val[client] = _Watched.of(shard, max(1, round(share * len(shard))))
    return replace(
        federation.clients, shards=shards, val=val
    )  # and its steps, which are recorded once


def next_state(
    federation: PlannedFederation, state: RunState, roster: list[str], engine: Engine
) -> RunState:
    """After one more round of exactly these clients; a last round can be played again."""
    state = replace(state, round=min(state.round, federation.rounds - 1))
    return replace(federation, participation=1.0).play(state, roster, engine).state


def busiest(work: Iterable[tuple[int, float]]) -> float:
    """Seconds of the process that has most to do, of pairs of a process and seconds."""
    spent: dict[int, float] = defaultdict(float)
    for worker, seconds in work:
        spent[worker] += seconds
    return max(spent.values())


def wait(device: str) -> None:
    """Until the device is idle."""
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
    """So many CPU threads for torch within, by default as many as now; behind it as many as now, whatever sets them."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
