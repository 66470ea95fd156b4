"""Curves of one class's probabilities with pointwise 95 % bands over resampled patients."""

from collections.abc import Callable

import numpy as np
from pandas import DataFrame

from ..scores.clinical.binary import BENEFITS, BINS
from ..scores.statistics.bootstrap import LEVEL, draw
from ..seeds import derive

RESAMPLES = 500
GRID = np.linspace(0, 1, 101)
CLOSE = 1e-9  # of a share times a count, which is to equal a whole number
Curve = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]  # score, label, weights [n, b]


def band(of: Curve, score: np.ndarray, label: np.ndarray, units: np.ndarray) -> DataFrame:
    """A curve y over x with its bounds low and high over resamples of the patients, NaN where it is not defined."""
    x, y = of(score, label, np.ones((len(score), 1), np.int64))
    weights = draw(units, RESAMPLES, derive("bands", 0)).T  # [n, B] counts of each image
    drawn = of(score, label, weights)[1]  # [T, B]
    known = np.isfinite(drawn).any(1)
    low, high = np.full(len(drawn), np.nan), np.full(len(drawn), np.nan)
    if known.any():
        low[known], high[known] = np.nanquantile(drawn[known], [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=1)
    return DataFrame({"x": x[:, 0] if x.ndim == 2 else x, "y": y[:, 0], "low": low, "high": high})


def roc(score: np.ndarray, label: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sensitivity at the largest false positive rate up to each of GRID: [T, b]."""
    curves = np.full((len(GRID), weights.shape[1]), np.nan)
    for b, (hits, alarms) in enumerate(zip(*_counts(score, label, weights), strict=True)):
        if hits[-1] > 0 and alarms[-1] > 0:
            at = np.searchsorted(alarms, GRID * alarms[-1] + CLOSE, "right") - 1
            curves[:, b] = hits[at] / hits[-1]
    return GRID, curves


def precision(score: np.ndarray, label: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Precision at the first threshold that reaches each sensitivity of GRID: [T, b]."""
    curves = np.full((len(GRID), weights.shape[1]), np.nan)
    for b, (hits, alarms) in enumerate(zip(*_counts(score, label, weights), strict=True)):
        if hits[-1] > 0:
            at = np.searchsorted(hits[1:], GRID * hits[-1] - CLOSE, "left") + 1
            curves[:, b] = hits[at] / np.maximum(hits[at] + alarms[at], 1)
    return GRID, curves


def reliability(score: np.ndarray, label: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean probability and share of the class in each bin: [BINS, b] both."""
    place = np.searchsorted(np.arange(1, BINS) / BINS, score)
    inside = (place == np.arange(BINS)[:, None]).astype(float)  # [BINS, n]
    with np.errstate(invalid="ignore", divide="ignore"):  # an empty bin has no share
        images = inside @ weights
        return (inside * score) @ weights / images, (inside * label) @ weights / images


def benefit(score: np.ndarray, label: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Net benefit of the model at each threshold probability: [T, b]."""
    above = score >= BENEFITS[:, None]  # [T, n]
    hits, alarms = (above & (label == 1)).astype(float) @ weights, (above & (label == 0)).astype(float) @ weights
    return BENEFITS, (hits - alarms * (BENEFITS / (1 - BENEFITS))[:, None]) / weights.sum(0)


def _counts(score: np.ndarray, label: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weight of the class's images and of all others at or above each score that occurs, falling from none: [b, T]."""
    order = np.argsort(-score, kind="stable")
    last = np.append(np.flatnonzero(np.diff(score[order])), len(score) - 1)
    counts = np.ascontiguousarray(weights[order].T, np.int32)  # [b, n]; sums along rows read memory in order
    hits, alarms = np.zeros((2, len(counts), len(last) + 1), np.int32)
    hits[:, 1:] = np.cumsum(counts * label[order].astype(np.int32), 1, np.int32)[:, last]
    alarms[:, 1:] = np.cumsum(counts, 1, np.int32)[:, last] - hits[:, 1:]
    return hits, alarms
