"""An estimate of the time and memory of a training, from a few measured steps.

Two clients train on a few batches and on more of them, which gives the cost of a visit and of an image;
the server step is measured with as many clients as a round has, unless their models do not fit into
memory. What is not measured is counted: images, models [K, P], and what clients keep between rounds.
Where clients train on several processes, their visits are distributed as in the run, and a round on such processes
shows how far they slow each other.
Nothing is written but a few lines into a temporary folder.
"""

import time
from dataclasses import dataclass, replace
from pathlib import Path

from ..data import manifest
from ..federation.engines import chosen
from ..federation.server import cohort
from ..runs import chosen_engine, precision, resources
from ..runs.assembly import PlannedFederation, assemble, open_parent, probe
from ..runs.rules import check
from ..runs.scoring import Scoring
from ..runs.train import STATE_SHARE
from ..runs.train_options import ON_CPU, Execution, TrainOptions
from . import costs
from .measuring import Visits

SECONDS = 15.0  # that measuring may take in all, where ten batches do not take longer


@dataclass(frozen=True)
class Estimate:
    """Time and memory that a training will need.

    Attributes:
        seconds_per_round: in the mean over the rounds, scores at their end included.
        total_seconds: of the whole run, loading and writing included.
        peak_bytes: resident in all processes, shared memory counted once, or allocated on the GPU.
        free_bytes: that this process could use in all; 0 where the system does not say.
        measured_steps: local steps that were played.
        processes: that train clients side by side.
        seconds: of the whole run by what takes them.
        bytes: of the peak, what is known by name.
    """

    seconds_per_round: float
    rounds: int
    total_seconds: float
    peak_bytes: int
    free_bytes: int
    measured_steps: int
    processes: int
    seconds: dict[str, float]
    bytes: dict[str, int]

    @property
    def fits(self) -> bool:
        """Tell whether the peak is within what is there, as far as that is known."""
        return not self.free_bytes or self.peak_bytes <= self.free_bytes


def estimate(source: Path, plan: TrainOptions, execution: Execution = ON_CPU, *, limit: float = SECONDS) -> Estimate:
    """Measure a few steps of a plan.

    source: a partition or corruption manifest.
    limit: seconds that measuring may take in all, where ten batches do not take longer.
    Raises what train() would raise before its first round.
    """
    method, device = check(plan), execution.device
    body = manifest.verify(source, "partition", "corruption").body
    settle_threads = chosen_engine.prepare(plan, execution, len(body["roster"]))
    resources.restart(device)
    free = resources.free(device)
    available = free and free + resources.in_use(device)
    begin = time.perf_counter()
    if plan.precision == "auto":
        plan = replace(plan, precision=precision.fastest(*probe(source, plan, device))[0])
    federation = assemble(source, plan, method, open_parent(plan, method), device)
    settle_threads(federation)
    scoring = Scoring(federation)
    loading, loaded = time.perf_counter() - begin, resources.peak(device)
    resources.restart(device)
    held_before = resources.in_use(device)

    cohorts = _cohorts(federation)
    count = federation.cohort_size
    engine, jobs = chosen(execution.engine, count, device)
    jobs = jobs if engine == "pool" else 1
    visits = Visits(federation, cohorts[0], limit, jobs)
    visit_bytes = max(0, resources.peak(device) - held_before)
    server, table_bytes = costs.server(federation, visits.reports, count, available)
    seconds = {
        "loading": loading,
        "clients": visits.seconds_in(cohorts),
        "server": server * plan.rounds,
        "evaluation": costs.evaluation(federation, scoring, visits.evaluates),
        "writing": costs.writing(federation, visits.trained[0]),
    }
    seconds["writing"] += STATE_SHARE * sum(seconds.values())
    total, model_bytes = sum(seconds.values()), federation.layout.size * costs.FLOAT
    known = {"images": costs.images(federation), "models of a round": count * model_bytes}
    known["kept between rounds"] = costs.between_rounds(federation, visits.trained, scoring)
    missing = known["models of a round"] - table_bytes + known["kept between rounds"]
    if jobs > 1:
        known["training processes"] = visits.own_bytes or jobs * (visit_bytes + model_bytes)  # in the processes
        missing += known["training processes"] - visit_bytes  # which was measured in this one
    return Estimate(
        seconds_per_round=(total - loading) / plan.rounds, rounds=plan.rounds, total_seconds=total,
        peak_bytes=max(loaded, resources.peak(device) + missing), free_bytes=available,
        measured_steps=visits.steps, processes=jobs, seconds=seconds, bytes=known,
    )  # fmt: skip


def _cohorts(federation: PlannedFederation) -> list[list[str]]:
    """Who takes part in each round."""
    plan, roster = federation.plan, federation.data.roster
    drawn = (cohort(len(roster), plan.participation, seed=plan.seed, round=t) for t in range(1, plan.rounds + 1))
    return [[roster[row] for row in rows] for rows in drawn]


def span(seconds: float) -> str:
    """A time for a person, such as "35 min" or "3 h 20 min"."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
