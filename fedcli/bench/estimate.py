"""An estimate of the time and memory of a training, from a few measured steps.

Two clients train on a few batches and on more of them, which gives the cost of a visit and of an
image; the server step is measured with as many clients as a round has, unless their models do not
fit into memory. What is not measured is counted: images, models [K, P], and what clients keep
between rounds. Where clients train on several processes, their visits are distributed as in the
run, and a round on such processes shows how far they slow each other.
Nothing is written but a few lines into a temporary folder.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from .. import metrics
from ..data import manifest
from ..data.shard import EVALUATION_BATCH, Shard
from ..federation.client import ClientReport, ClientTask
from ..federation.engines import chosen
from ..federation.server import cohort
from ..runs import chosen_engine, precision, resources
from ..runs import folder as folders
from ..runs.assembly import PlannedFederation, assemble, open_parent, probe
from ..runs.finished import KEPT, has_own_tests, logits, part, save_model
from ..runs.rules import check
from ..runs.scoring import Scoring, curve
from ..runs.train import STATE_SHARE
from ..runs.train_options import TrainOptions
from .measuring import Visits, next_state, seconds_of, times

SECONDS = 15.0  # that measuring may take in all, where ten batches do not take longer


@dataclass(frozen=True)
class Estimate:
    """Time and memory that a training will need."""

    seconds_per_round: float  # in the mean over the rounds, scores at their end included
    rounds: int
    total_seconds: float  # of the whole run, loading and writing included
    peak_bytes: int  # in all processes, shared memory counted once, or allocated on the GPU
    free_bytes: int  # that this process could use in all; 0 where the system does not say
    measured_steps: int  # local steps that were played
    processes: int  # that train clients side by side
    seconds: dict[str, float]  # of the whole run by what takes them
    bytes: dict[str, int]  # of the peak, what is known by name

    @property
    def fits(self) -> bool:
        """Tell whether the peak is within what is there, as far as that is known."""
        return not self.free_bytes or self.peak_bytes <= self.free_bytes


def estimate(
    source: Path,
    plan: TrainOptions,
    *,
    limit: float = SECONDS,
) -> Estimate:
    """Measure a few steps of a plan.

    source: a partition or corruption manifest.
    limit: seconds that measuring may take in all, where ten batches do not take longer.
    Raises what train() would raise before its first round.
    """
    method = check(plan)
    device = plan.device
    body = manifest.verify(source, "partition", "corruption").body
    settle_threads = chosen_engine.prepare(plan, len(body["roster"]))
    resources.restart(device)
    available = resources.free(device)  # 0 where the system does not say
    if available:
        available += resources.in_use(device)
    begin = time.perf_counter()
    if plan.precision == "auto":
        fastest, *_ = precision.fastest(*probe(source, plan))
        plan = replace(plan, precision=fastest)
        resources.be_deterministic(device, 0, fastest)
    federation = assemble(source, plan, method, open_parent(plan, method))
    settle_threads(federation)
    scoring = Scoring(federation)
    loading = time.perf_counter() - begin
    loaded = resources.peak(device)
    resources.restart(device)
    held_before = resources.in_use(device)

    cohorts = _cohorts(federation)
    count = federation.cohort_size
    engine, jobs = chosen(plan.engine, count, device)
    if engine != "pool":
        jobs = 1
    visits = Visits(federation, cohorts[0], limit, jobs)
    visit_bytes = max(0, resources.peak(device) - held_before)
    server, table_bytes = server_cost(
        federation,
        visits.reports,
        count,
        available,
    )
    seconds = {
        "loading": loading,
        "clients": visits.seconds_in(cohorts),
        "server": server * plan.rounds,
        "evaluation": evaluation_cost(federation, scoring, visits.evaluates),
        "writing": writing_cost(federation, visits.trained[0]),
    }
    seconds["writing"] += STATE_SHARE * sum(seconds.values())
    total = sum(seconds.values())
    model_bytes = federation.layout.size * FLOAT
    round_bytes = count * model_bytes
    client_bytes = bytes_between_rounds(federation, visits.trained, scoring)
    parts = {"images": bytes_of_images(federation)}
    parts["models of a round"] = round_bytes
    parts["kept between rounds"] = client_bytes
    missing = round_bytes - table_bytes + client_bytes
    if jobs > 1:
        process_bytes = visits.own_bytes or jobs * (visit_bytes + model_bytes)
        parts["training processes"] = process_bytes
        missing += process_bytes - visit_bytes  # which was measured in this one
    return Estimate(
        seconds_per_round=(total - loading) / plan.rounds,
        rounds=plan.rounds,
        total_seconds=total,
        peak_bytes=max(loaded, resources.peak(device) + missing),
        free_bytes=available,
        measured_steps=visits.steps,
        processes=jobs,
        seconds=seconds,
        bytes=parts,
    )


def _cohorts(federation: PlannedFederation) -> list[list[str]]:
    """The clients of each round."""
    plan = federation.plan
    roster = federation.data.roster
    cohorts = []
    for t in range(1, plan.rounds + 1):
        rows = cohort(len(roster), plan.participation, seed=plan.seed, round=t)
        cohorts.append([roster[row] for row in rows])
    return cohorts


def span(seconds: float) -> str:
    """A time for a person, such as "35 min" or "3 h 20 min"."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


FLOAT = 4  # bytes


def server_cost(
    federation: PlannedFederation,
    reports: dict[str, list[ClientReport]],
    clients: int,
    available: int,
) -> tuple[float, int]:
    """Seconds of the server in a round, and bytes of the models [K, P] it was measured with.

    Where they would take more than half the memory, fewer are measured and the seconds scaled.
    reports: recorded ones that stand for the clients', by part of the round.
    """
    if federation.single_site:
        return 0.0, 0
    model_bytes = federation.layout.size * FLOAT
    count = clients
    if available:
        fitting = available // 2 // model_bytes
        count = max(1, min(clients, fitting))
    state = federation.first()

    def replay(tasks: list[ClientTask]) -> Iterator[ClientReport]:
        for k, task in enumerate(tasks):
            recorded = reports[task.part]
            report = recorded[k % len(recorded)]
            yield replace(report, client=task.client, row=task.row)

    def play() -> None:
        nonlocal state
        state = next_state(
            federation,
            state,
            federation.data.roster[:count],
            replay,
        )

    seconds = times(play, federation.plan.device)
    median = statistics.median(seconds[1:] or seconds)
    return median * clients / count, count * model_bytes


def evaluation_cost(
    federation: PlannedFederation,
    scoring: Scoring,
    in_any_case: bool,
) -> float:
    """Seconds of all curves and validation.

    in_any_case: play a forward pass, as a visit has one, for its memory.
    """
    plan = federation.plan
    data = federation.data
    whole = scoring.whole
    due = sum(scoring.due(t) for t in range(1, plan.rounds + 1))
    if not (due or in_any_case or whole is not None):
        return 0.0
    shard = max([*data.test.values(), *data.train.values()], key=len)
    shard = part(shard, np.arange(min(len(shard), EVALUATION_BATCH)))
    tables: list[np.ndarray] = []
    local = federation.method.local
    passes = times(lambda: tables.append(logits(federation.net, shard, local)))
    seconds_of_image = min(passes) / len(shard)

    def scored(shard: Shard, score: Callable[[np.ndarray, np.ndarray], object]) -> float:
        y = shard.y.cpu().numpy()
        repeated = np.resize(tables[0], (len(y), tables[0].shape[1]))  # [N, C]
        seconds = statistics.median(times(lambda: score(repeated, y)))
        return seconds_of_image * len(y) + seconds

    total = 0.0
    if due:
        answers = 1
        if plan.single_site and not has_own_tests(data):
            answers = len(data.roster)
        total += due * answers * sum(scored(test, curve) for test in data.test.values())
    if whole is not None:
        score = curve if whole.multi_label else metrics.balanced_accuracy
        total += plan.rounds * scored(whole, score)
    return total


def writing_cost(federation: PlannedFederation, report: ClientReport) -> float:
    """Seconds for the lines of all rounds and for the models that are kept.

    States have a share of their own.
    """
    memories = dict.fromkeys(federation.data.roster, report.memory)
    line = {"weights": [1.0] * len(federation.data.roster), "loss": 1.0}
    with tempfile.TemporaryDirectory() as folder, Path(folder, "lines").open("w") as file:
        seconds_of_line = statistics.median(times(lambda: folders.append(file, line)))
        path = Path(folder, "models", "model.h5")
        model = path, federation.layout, report.theta, memories, federation.counts
        seconds_of_model = seconds_of(lambda: save_model(*model))
    models = min(KEPT + 1, federation.rounds)
    return 2 * federation.rounds * seconds_of_line + seconds_of_model * models


def bytes_between_rounds(
    federation: PlannedFederation, reports: list[ClientReport], scoring: Scoring
) -> int:
    """Bytes that clients keep, and the best model with what they keep to themselves."""
    model_bytes = federation.layout.size * FLOAT
    of_client = max(_memory_bytes(report) for report in reports)
    if federation.single_site:
        of_client += model_bytes
    of_all = len(federation.data.roster) * of_client
    if scoring.whole is None:
        return of_all
    return of_all + model_bytes + of_all


def _memory_bytes(report: ClientReport) -> int:
    return sum(tensor.nbytes for tensor in report.memory.values())


def bytes_of_images(federation: PlannedFederation) -> int:
    """Bytes of the pixels in memory, each pool counted once."""
    data = federation.data
    pools = {}
    for shard in (*data.train.values(), *data.val.values(), *data.test.values()):
        pools[id(shard.images)] = shard.images.nbytes
    return sum(pools.values())
