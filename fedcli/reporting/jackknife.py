"""Scores of runs without each test patient in turn, for BCa intervals of a difference (evaluation/bca.py).

The difference of two systems is a mean over pairs of runs. A patient of a test set is left out of all pairs that were
scored on it; the other pairs, of other folds or splits, stay.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .. import metrics
from ..metrics import gap
from ..scores.bca import without_each
from ..scores.resampled import Columns, mean
from .answers import Answers, answers
from .sampler import grouping
from .systems import Scored

AVERAGE = "average"


class Jackknife:
    """Of runs, each run's made once."""

    def __init__(self) -> None:
        self._scores: dict[Path, dict[str, Columns]] = {}
        self._groups: dict[tuple[Path, str], dict[str, tuple[Columns, Columns]]] = {}

    def scores(self, run: Scored) -> dict[str, Columns]:
        """version -> metric -> [U], the mean over kept rounds (and over the models that answer)."""
        if run.path not in self._scores:
            known = answers(run.path)
            made = {
                version: mean([without_each(table, known.y, known.units) for table in tables])
                for version, tables in known.tables.items()
            }
            self._scores[run.path] = made | ({AVERAGE: mean(list(made.values()))} if len(made) == 2 else {})
        return self._scores[run.path]

    def groups(self, run: Scored, name: str) -> dict[str, tuple[Columns, Columns]]:
        """version -> (metric -> [U, G] of each group, metric -> [U] the gap between best and worst)."""
        if (run.path, name) not in self._groups:
            known = answers(run.path).of(name)
            group_of, values = grouping(run, name)
            made = {}
            for version, tables in known.tables.items():
                each = [_by_group(known, table, group_of, len(values)) for table in tables]
                made[version] = mean(each), mean([{m: gap(c) for m, c in columns.items()} for columns in each])
            self._groups[run.path, name] = made
        return self._groups[run.path, name]

    def group(self, run: Scored, name: str, value: str, version: str, metric: str) -> np.ndarray:
        """[U] of one group, by its name."""
        return self.groups(run, name)[version][0][metric][:, grouping(run, name)[1].index(value)]


def _by_group(known: Answers, table: np.ndarray, group_of: np.ndarray, count: int) -> Columns:
    """metric -> [U, G]: a patient who has no image of a group leaves its score as it is."""
    patients = int(known.units.max(initial=-1)) + 1
    parts = []
    for g in range(count):
        at = group_of == g
        whole = metrics.weighted(metrics.plan(table[at], known.y[at]), np.ones((int(at.sum()), 1), bool))
        without = without_each(table[at], known.y[at], known.units[at])
        columns = {metric: np.full(patients, value[0]) for metric, value in whole.items()}
        for metric, left in without.items():
            columns[metric][np.unique(known.units[at])] = left
        parts.append(columns)
    return {metric: np.stack([part[metric] for part in parts], 1) for metric in parts[0]}


def of_mean(values: Sequence[float], left: Sequence[np.ndarray], sets: Sequence[int]) -> np.ndarray:
    """The mean over runs, or over pairs of their differences, without each patient of each test set, one after another.

    values: of each run or pair; left: the same without each patient of its test set; sets: its number.
    """
    parts = []
    for number in sorted(set(sets)):
        own = [left[k] if at == number else np.full(1, values[k]) for k, at in enumerate(sets)]
        parts.append(np.sum(np.broadcast_arrays(*own), axis=0) / len(values))
    return np.concatenate(parts)
