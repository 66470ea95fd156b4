"""Costs of a training besides its clients: seconds of the server, of scores, of writing, and bytes by purpose."""

import statistics
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from .. import metrics
from ..data.shard import EVALUATION_BATCH
from ..federation.client import Report, Task
from ..federation.state import Tensors
from ..runs import folder as folders
from ..runs.assembly import PlannedFederation
from ..runs.finished import KEPT, has_own_tests, logits, part, save_model
from ..runs.scoring import Scoring, curve
from .measuring import next_state, seconds_of, times

FLOAT = 4  # bytes


def server(
    federation: PlannedFederation, reports: dict[str, list[Report]], clients: int, available: int
) -> tuple[float, int]:
    """Seconds of the server in a round, and bytes of the models [K, P] it was measured with.

    Where they would take more than half the memory, fewer are measured and the seconds scaled.
    reports: recorded ones that stand for the clients', by part of the round.
    """
    if federation.single_site:
        return 0.0, 0
    model = federation.layout.size * FLOAT
    count = max(1, min(clients, available // 2 // model)) if available else clients
    state = federation.first()

    def replay(tasks: list[Task]) -> Iterator[Report]:
        for k, task in enumerate(tasks):
            known = reports[task.part]
            yield replace(known[k % len(known)], client=task.client, row=task.row)

    def play() -> None:
        nonlocal state
        state = next_state(federation, state, federation.data.roster[:count], replay)

    seconds = times(play, federation.device)
    return statistics.median(seconds[1:] or seconds) * clients / count, count * model


def evaluation(federation: PlannedFederation, scoring: Scoring, also: bool) -> float:
    """Seconds of all curves and validation.

    also: play a forward pass in any case, as a visit has one, for its memory.
    """
    plan, data = federation.plan, federation.data
    due = sum(scoring.due(t) for t in range(1, plan.rounds + 1))
    if not (due or scoring.whole is not None or also):
        return 0.0
    shard = max([*data.test.values(), *data.train.values()], key=len)
    shard = part(shard, np.arange(min(len(shard), EVALUATION_BATCH)))
    tables: list[np.ndarray] = []
    each = min(times(lambda: tables.append(logits(federation.net, shard, federation.method.local)))) / len(shard)

    def scored(y: np.ndarray, score: Callable[[np.ndarray, np.ndarray], object]) -> float:
        repeated = np.resize(tables[0], (len(y), tables[0].shape[1]))  # [N, C]
        return each * len(y) + statistics.median(times(lambda: score(repeated, y)))

    total = 0.0
    if due:
        answers = len(data.roster) if plan.single_site and not has_own_tests(data) else 1
        total += due * answers * sum(scored(test.y.cpu().numpy(), curve) for test in data.test.values())
    if scoring.whole is not None:
        score = curve if scoring.whole.multi_label else metrics.balanced_accuracy
        total += plan.rounds * scored(scoring.whole.y.cpu().numpy(), score)
    return total


def writing(federation: PlannedFederation, report: Report) -> float:
    """Seconds for the lines of all rounds and for the models that are kept; states have a share of their own."""
    memories = dict.fromkeys(federation.data.roster, report.memory)
    line = {"weights": [1.0] * len(federation.data.roster), "loss": 1.0}
    with tempfile.TemporaryDirectory() as folder, Path(folder, "lines").open("w") as file:
        lines = 2 * federation.rounds * statistics.median(times(lambda: folders.append(file, line)))
        model = Path(folder, "models", "model.h5"), federation.layout, report.theta, memories, federation.counts
        return lines + seconds_of(lambda: save_model(*model)) * min(KEPT + 1, federation.rounds)


def between_rounds(federation: PlannedFederation, reports: list[Report], scoring: Scoring) -> int:
    """Bytes that clients keep, and the best model with what they keep to themselves."""
    each = max(_bytes(report.memory) for report in reports)
    if federation.single_site:
        each += federation.layout.size * FLOAT
    kept = len(federation.data.roster) * each
    return kept + (federation.layout.size * FLOAT + kept if scoring.whole is not None else 0)


def images(federation: PlannedFederation) -> int:
    """Bytes of the pixels in memory, each pool counted once."""
    data = federation.data
    pools = {id(s.images): s.images for s in (*data.train.values(), *data.val.values(), *data.test.values())}
    return sum(pool.numel() * pool.element_size() for pool in pools.values())


def _bytes(tensors: Tensors) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
