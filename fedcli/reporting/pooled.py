"""Intervals of a mean over the runs of a system, from resamples in which every run sees the same patients.

The mean of the runs' bounds would be as wide as that of one run; the mean over runs in each resample is what varies
with the patients that were drawn. Runs of other folds or splits have other patients: each test set is drawn by itself,
and a patient is left out (BCa) of the runs of its own test set alone.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from ..io.files import sha256
from ..scores import intervals, resampled
from ..scores.bca import BCA
from ..scores.parts import Interval
from .answers import answers
from .jackknife import of_mean
from .sampler import grouping
from .systems import Scored

Bounds = tuple[float, float]
Draws = tuple[dict[str, np.ndarray], dict[str, np.ndarray]]  # metric -> resamples [B], and without each patient [U]


def can(runs: Sequence[Scored]) -> bool:
    """Whether each run's answers to single images are there; else the mean of the bounds has to do."""
    return all((run.path.parent / "predictions.h5").is_file() and not answers(run.path).counted for run in runs)


def bounds(runs: Sequence[Scored], version: str, metric: str, each: Sequence[Interval | None]) -> Bounds | None:
    """Low and high of the mean score of all images over runs. each: the interval of each run."""

    def draws(run: Scored, left: bool) -> Draws:
        return _overall(run.path, sha256(run.path), version, left)

    return _bounds(runs, metric, each, draws, lambda run: intervals.ALL)


def group_bounds(
    runs: Sequence[Scored], attribute: str, value: str, version: str, metric: str, each: Sequence[Interval | None]
) -> Bounds | None:
    """Low and high of the mean score of one group over runs."""

    def draws_of(run: Scored, left: bool) -> Draws:
        return _of_group(run, attribute, value, version, left)

    return _bounds(runs, metric, each, draws_of, lambda run: _members(run, attribute, value))


def _bounds(runs, metric, each, draws_of, images_of) -> Bounds | None:  # type: ignore[no-untyped-def]
    known = [estimate for estimate in each if estimate and estimate.low is not None and estimate.high is not None]
    if len(known) < len(runs):
        return None
    left = all(estimate.method == BCA for estimate in known)
    draws = [draws_of(run, left) for run in runs] if len(runs) > 1 and can(runs) else []
    if not all(metric in drawn for drawn, _ in draws) or not draws:  # counts, and metrics of one's own
        return _mean([estimate.low for estimate in known]), _mean([estimate.high for estimate in known])
    values, sets = [estimate.value for estimate in known], _sets(runs, images_of)
    # test sets of one size get equal draws, place by place: shifted, those of one say nothing of another's
    drawn = np.mean([np.roll(columns[metric], k) for k, (columns, _) in zip(sets, draws, strict=True)], axis=0)
    without = of_mean(values, [columns[metric] for _, columns in draws], sets) if left else None
    low, high = intervals.bounds(_mean(values), drawn, without)
    return None if low is None or high is None else (low, high)


def _sets(runs: Sequence[Scored], images_of: Callable[[Scored], np.ndarray | slice]) -> list[int]:
    """The number of each run's test set; sets are the same where images and patients are."""
    keys = []
    for run in runs:
        answered, at = answers(run.path), images_of(run)
        keys.append((answered.id[at].tobytes(), answered.units[at].tobytes()))
    numbers = {key: k for k, key in enumerate(dict.fromkeys(keys))}
    return [numbers[key] for key in keys]


def _mean(values: Sequence[float | None]) -> float:
    return float(np.mean([value for value in values if value is not None]))


@lru_cache(maxsize=1024)
def _overall(path: Path, _: str, version: str, left: bool) -> Draws:
    kept = {} if left else resampled.read(path.parent, last=True)
    if kept:
        return _averaged([each for name, each in kept.items() if version in (name, "average")]), {}
    answered = answers(path)
    versions = list(answered.last) if version == "average" else [version]
    parts = [_draws(answered.last[v], answered.y, answered.units, left) for v in versions]
    return _averaged([drawn for drawn, _ in parts]), _averaged([without for _, without in parts])


def _of_group(run: Scored, attribute: str, value: str, version: str, left: bool) -> Draws:
    """Of the images of one group."""
    of_group = sorted(run.scores.groups).index(attribute), grouping(run, attribute)[1].index(value)
    kept = {} if left else _kept_groups(run.path, sha256(run.path)).get(of_group, {})
    if version in kept:
        return kept[version], {}
    answered, at = answers(run.path).of(attribute), _members(run, attribute, value)
    tables = [table[at] for table in answered.last[version]]
    return _draws(tables, answered.y[at], answered.units[at], left)


def _members(run: Scored, attribute: str, value: str) -> np.ndarray:
    """Whether each image is of a group: bool [N]."""
    places, values = grouping(run, attribute)
    return places == values.index(value)


@lru_cache(maxsize=1024)
def _kept_groups(path: Path, _: str) -> dict[tuple[int, int], dict[str, dict[str, np.ndarray]]]:
    return resampled.read_groups(path.parent)


def _draws(tables: list[np.ndarray], y: np.ndarray, units: np.ndarray, left: bool) -> Draws:
    return intervals.resampled(tables, y, units), intervals.left_out(tables, y, units) if left else {}


def _averaged(versions: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {metric: np.mean([columns[metric] for columns in versions], axis=0) for metric in versions[0]}
