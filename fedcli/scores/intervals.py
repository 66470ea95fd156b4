"""Intervals of the scores of one model, 95 %, from resampled patients, for all images and for each group.

The last round's model stands for the run, and its score is the interval's `value`. Clean and corrupted images are the
same patients, so a resample of their average takes the same patients of both; where every client answers for itself, a
resample of the mean over clients does. One patient alone has no interval: there is nothing to draw.
"""

import numpy as np

from ..metrics import Groupings, groupings_at
from .bca import BCA, PERCENTILE, bca_interval, without_each
from .bootstrap import LEVEL, bootstrap_all, interval
from .parts import Interval, Score
from .rounds import mean, with_average

RESAMPLES, SEED = 1000, 0
ALL = slice(None)
Tables = dict[str, list[np.ndarray]]  # version -> logits [N, C] of each model that answers


def intervals(
    tables: Tables,
    y: np.ndarray,
    units: np.ndarray | None,
    method: str = PERCENTILE,
    groupings: Groupings | None = None,
) -> dict[str, dict[str, Interval]]:
    """version -> metric -> interval, with the average of clean and corrupted where there are both.

    units: [N], the patient or lesion of each image; None draws images one by one. {} where there is no image.
    method: "percentile" or "bca". groupings: for metrics from outside the package.
    """
    if not len(y):
        return {}
    unit = about(units, len(y))
    drawn = _averaged({version: resampled(answers, y, units, None, groupings) for version, answers in tables.items()})
    left = (
        _averaged({v: left_out(answers, y, units, ALL, groupings) for v, answers in tables.items()})
        if method == BCA
        else {}
    )
    scores = with_average({version: [_scores(answers, y, ALL, groupings)] for version, answers in tables.items()})
    return {
        version: {
            m: _interval(scores[version][0].metrics[m], b, unit, left[version][m] if left else None)
            for m, b in columns.items()
        }
        for version, columns in drawn.items()
    }


def _averaged(versions: dict[str, dict[str, np.ndarray]]) -> dict[str, dict[str, np.ndarray]]:
    if "corrupted" not in versions:
        return versions
    clean, corrupted = versions["clean"], versions["corrupted"]
    return {**versions, "average": {metric: (clean[metric] + corrupted[metric]) / 2 for metric in clean}}


def group_intervals(
    answers: list[np.ndarray],
    y: np.ndarray,
    units: np.ndarray | None,
    groups: np.ndarray,
    values: list[str],
    method: str = PERCENTILE,
    groupings: Groupings | None = None,
) -> dict[str, dict[str, Interval]]:
    """metric -> value -> interval of that group's own images; groups: [N] index into values, -1 unknown."""
    if not len(y):
        return {}
    columns = resampled(answers, y, units, groups, groupings)  # each [B, G], of the groups up to the last with an image
    by_metric: dict[str, dict[str, Interval]] = {metric: {} for metric in columns}
    for g, value in enumerate(values):
        at = groups == g
        unit, scores = about(None if units is None else units[at], int(at.sum())), _scores(answers, y, at, groupings)
        left = left_out(answers, y, units, at, groupings) if method == BCA and at.any() else {}
        for metric, column in columns.items():
            drawn = column[:, g] if at.any() else np.zeros(0)
            by_metric[metric][value] = _interval(scores.metrics[metric], drawn, unit, left.get(metric))
    return by_metric


def resampled(
    answers: list[np.ndarray],
    y: np.ndarray,
    units: np.ndarray | None,
    groups: np.ndarray | None = None,
    groupings: Groupings | None = None,
) -> dict[str, np.ndarray]:
    """Each metric in every resample; of several models that answer, their mean, which takes equal draws of each."""
    drawn = bootstrap_all(answers, y, units, resamples=RESAMPLES, seed=SEED, groups=groups, groupings=groupings)
    return {metric: np.mean([columns[metric] for columns in drawn], axis=0) for metric in drawn[0]}


def left_out(
    answers: list[np.ndarray],
    y: np.ndarray,
    units: np.ndarray | None,
    at: np.ndarray | slice = ALL,
    groupings: Groupings | None = None,
) -> dict[str, np.ndarray]:
    """Each metric without each patient in turn; of several models that answer, their mean."""
    here, whose = groupings and groupings_at(groupings, at), None if units is None else units[at]
    each = [without_each(table[at], y[at], whose, here) for table in answers]
    return {metric: np.mean([columns[metric] for columns in each], axis=0) for metric in each[0]}


def _scores(answers: list[np.ndarray], y: np.ndarray, at: np.ndarray | slice, groupings: Groupings | None) -> Score:
    here = groupings and groupings_at(groupings, at)
    return mean([Score.of(table[at], y[at], here) for table in answers])


def _interval(
    value: float | None, resampled: np.ndarray, drawn: tuple[str, int], left: np.ndarray | None = None
) -> Interval:
    unit, units = drawn
    low, high = bounds(value, resampled, left) if units > 1 else (None, None)
    return Interval(value, low, high, LEVEL, RESAMPLES, unit, units, "" if left is None else BCA)


def bounds(value: float | None, resampled: np.ndarray, left: np.ndarray | None) -> tuple[float | None, float | None]:
    """Percentile bounds, or BCa where the scores without each patient are given."""
    return interval(resampled) if left is None else bca_interval(value, resampled, left)


def about(units: np.ndarray | None, images: int) -> tuple[str, int]:
    """The unit that is drawn, and how many of it there are."""
    return ("image", images) if units is None else ("patient or lesion", len(np.unique(units)))
