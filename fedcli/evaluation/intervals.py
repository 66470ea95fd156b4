"""How sure the scores of one model are: 95 % intervals from resampled patients, for all images and for each group.

The last round's model stands for the run, and its score is the interval's `value`. Clean and corrupted images are the
same patients, so a resample of their average takes the same patients of both; where every client answers for itself, a
resample of the mean over clients does. One patient alone has no interval: there is nothing to draw.
"""

import numpy as np

from .bootstrap import LEVEL, bootstrap, interval
from .parts import Interval, Score
from .rounds import mean, with_average

RESAMPLES, SEED = 1000, 0
ALL = slice(None)
Tables = dict[str, list[np.ndarray]]  # version -> logits [N, C] of each model that answers


def intervals(tables: Tables, y: np.ndarray, units: np.ndarray | None) -> dict[str, dict[str, Interval]]:
    """version -> metric -> interval, with the average of clean and corrupted where there are both.

    units: [N], the patient or lesion of each image; None draws images one by one. {} where there is no image.
    """
    if not len(y):
        return {}
    unit = about(units, len(y))
    drawn = {version: _resampled(answers, y, units) for version, answers in tables.items()}
    if "corrupted" in drawn:
        drawn["average"] = {m: (drawn["clean"][m] + drawn["corrupted"][m]) / 2 for m in drawn["clean"]}
    scores = with_average({version: [_scores(answers, y)] for version, answers in tables.items()})
    return {
        version: {m: _interval(scores[version][0].metrics[m], b, unit) for m, b in columns.items()}
        for version, columns in drawn.items()
    }


def group_intervals(
    answers: list[np.ndarray], y: np.ndarray, units: np.ndarray | None, groups: np.ndarray, values: list[str]
) -> dict[str, dict[str, Interval]]:
    """metric -> value -> interval of that group's own images; groups: [N] index into values, -1 unknown."""
    if not len(y):
        return {}
    columns = _resampled(answers, y, units, groups)  # each [B, G], of the groups up to the last with an image
    by_metric: dict[str, dict[str, Interval]] = {metric: {} for metric in columns}
    for g, value in enumerate(values):
        at = groups == g
        unit, scores = about(None if units is None else units[at], int(at.sum())), _scores(answers, y, at)
        for metric, column in columns.items():
            drawn = column[:, g] if at.any() else np.zeros(0)
            by_metric[metric][value] = _interval(scores.metrics[metric], drawn, unit)
    return by_metric


def _resampled(
    answers: list[np.ndarray], y: np.ndarray, units: np.ndarray | None, groups: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Each metric in every resample; of several models that answer, their mean, which takes equal draws of each."""
    drawn = [bootstrap(table, y, units, resamples=RESAMPLES, seed=SEED, groups=groups) for table in answers]
    return {metric: np.mean([columns[metric] for columns in drawn], axis=0) for metric in drawn[0]}


def _scores(answers: list[np.ndarray], y: np.ndarray, at: np.ndarray | slice = ALL) -> Score:
    return mean([Score.of(table[at], y[at]) for table in answers])


def _interval(value: float | None, resampled: np.ndarray, drawn: tuple[str, int]) -> Interval:
    unit, units = drawn
    low, high = interval(resampled) if units > 1 else (None, None)
    return Interval(value, low, high, LEVEL, RESAMPLES, unit, units)


def about(units: np.ndarray | None, images: int) -> tuple[str, int]:
    """What is drawn, and how many of it there are."""
    return ("image", images) if units is None else ("patient or lesion", len(np.unique(units)))
