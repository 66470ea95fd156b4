"""How sure the scores of one model are: 95 % intervals from resampled patients, for all images and for each group.

The last round's model stands for the run. Clean and corrupted images are the same patients, so a resample of their
average takes the same patients of both; where every client answers for itself, a resample of the mean over clients does.
"""

from typing import Any

import numpy as np

from .statistics import LEVEL, bootstrap, interval

RESAMPLES, SEED = 1000, 0
Tables = dict[str, list[np.ndarray]]  # version -> logits [N, C] of each model that answers


def intervals(tables: Tables, y: np.ndarray, units: np.ndarray | None) -> dict[str, Any]:
    """version -> metric -> interval, with the average of clean and corrupted where there are both.

    units: [N], the patient or lesion of each image; None draws images one by one. {} where there is no image.
    """
    if not len(y):
        return {}
    about = _about(units, len(y))
    found = {version: _resampled(answers, y, units) for version, answers in tables.items()}
    if "corrupted" in found:
        found["average"] = {m: (found["clean"][m] + found["corrupted"][m]) / 2 for m in found["clean"]}
    return {v: {metric: _interval(b) | about for metric, b in columns.items()} for v, columns in found.items()}


def group_intervals(
    answers: list[np.ndarray], y: np.ndarray, units: np.ndarray | None, groups: np.ndarray, values: list[str]
) -> dict[str, Any]:
    """metric -> value -> interval of that group's own images; groups: [N] index into values, -1 unknown."""
    if not len(y):
        return {}
    columns = _resampled(answers, y, units, groups)  # each [B, G], of the groups up to the last with an image
    parts = {value: groups == g for g, value in enumerate(values)}
    about = {value: _about(None if units is None else units[at], int(at.sum())) for value, at in parts.items()}
    none = {"low": None, "high": None}
    return {
        metric: {
            value: (_interval(column[:, g]) if parts[value].any() else none) | about[value]
            for g, value in enumerate(values)
        }
        for metric, column in columns.items()
    }


def _resampled(
    answers: list[np.ndarray], y: np.ndarray, units: np.ndarray | None, groups: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Each metric in every resample; of several models that answer, their mean, which takes equal draws of each."""
    found = [bootstrap(table, y, units, resamples=RESAMPLES, seed=SEED, groups=groups) for table in answers]
    return {metric: np.mean([columns[metric] for columns in found], axis=0) for metric in found[0]}


def _interval(values: np.ndarray) -> dict[str, float | None]:
    low, high = interval(values)
    return {"low": low, "high": high}


def _about(units: np.ndarray | None, images: int) -> dict[str, Any]:
    unit, count = ("image", images) if units is None else ("patient or lesion", len(np.unique(units)))
    return {"level": LEVEL, "resamples": RESAMPLES, "unit": unit, "units": count}
