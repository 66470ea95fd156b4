"""Intervals of a mean over the runs of a system, from resamples in which every run sees the same patients.

The mean of the runs' bounds would be as wide as that of one run; the mean over runs in each resample is what varies
with the patients that were drawn.
"""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from ..evaluation import intervals, resampled
from ..evaluation.bca import BCA
from ..evaluation.parts import Interval
from .answers import answers
from .sampler import grouping
from .systems import Scored

Bounds = tuple[float, float]
Draws = tuple[dict[str, np.ndarray], dict[str, np.ndarray]]  # metric -> resamples [B], and without each patient [U]


def can(runs: Sequence[Scored]) -> bool:
    """Whether each run's answers to single images are there; else the mean of the bounds has to do."""
    return all((run.path.parent / "predictions.h5").is_file() and not answers(run.path).counted for run in runs)


def bounds(runs: Sequence[Scored], version: str, metric: str, each: Sequence[Interval | None]) -> Bounds | None:
    """Low and high of the mean score of all images over runs. each: the interval of each run."""
    return _bounds(runs, metric, each, lambda run, left: _overall(run.path, version, left))


def group_bounds(
    runs: Sequence[Scored], attribute: str, value: str, version: str, metric: str, each: Sequence[Interval | None]
) -> Bounds | None:
    """Low and high of the mean score of one group over runs."""
    return _bounds(runs, metric, each, lambda run, left: _of_group(run, attribute, value, version, left))


def _bounds(runs, metric, each, draws_of) -> Bounds | None:  # type: ignore[no-untyped-def]
    known = [estimate for estimate in each if estimate and estimate.low is not None and estimate.high is not None]
    if len(known) < len(runs):
        return None
    left = all(estimate.method == BCA for estimate in known)
    draws = [draws_of(run, left) for run in runs] if len(runs) > 1 and can(runs) else []
    if not all(metric in drawn for drawn, _ in draws) or not draws:  # counts, and metrics of one's own
        return _mean([estimate.low for estimate in known]), _mean([estimate.high for estimate in known])
    value = _mean([estimate.value for estimate in known])
    columns = [np.mean([part[metric] for part in parts], axis=0) for parts in zip(*draws, strict=True) if parts[0]]
    low, high = intervals.bounds(value, columns[0], columns[1] if left else None)
    return None if low is None or high is None else (low, high)


def _mean(values: Sequence[float | None]) -> float:
    return float(np.mean([value for value in values if value is not None]))


@lru_cache(maxsize=1024)
def _overall(path: Path, version: str, left: bool) -> Draws:
    kept = {} if left else resampled.read(path.parent, last=True)
    if kept:
        return _averaged([each for name, each in kept.items() if version in (name, "average")]), {}
    answered = answers(path)
    versions = list(answered.last) if version == "average" else [version]
    parts = [_draws(answered.last[v], answered.y, answered.units, left) for v in versions]
    return _averaged([drawn for drawn, _ in parts]), _averaged([without for _, without in parts])


def _of_group(run: Scored, attribute: str, value: str, version: str, left: bool) -> Draws:
    """Of the images of one group."""
    places, values = grouping(run, attribute)
    group = values.index(value)
    kept = {} if left else _kept_groups(run.path).get((sorted(run.scores.groups).index(attribute), group), {})
    if version in kept:
        return kept[version], {}
    answered, at = answers(run.path).of(attribute), places == group
    tables = [table[at] for table in answered.last[version]]
    return _draws(tables, answered.y[at], answered.units[at], left)


@lru_cache(maxsize=1024)
def _kept_groups(path: Path) -> dict[tuple[int, int], dict[str, dict[str, np.ndarray]]]:
    return resampled.read_groups(path.parent)


def _draws(tables: list[np.ndarray], y: np.ndarray, units: np.ndarray, left: bool) -> Draws:
    return intervals.resampled(tables, y, units), intervals.left_out(tables, y, units) if left else {}


def _averaged(versions: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {metric: np.mean([columns[metric] for columns in versions], axis=0) for metric in versions[0]}
