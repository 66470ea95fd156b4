"""Curves of one class's probabilities with pointwise 95 % bands over resampled patients."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...evaluation.binary import BENEFITS, BINS
from ...evaluation.bootstrap import LEVEL

GRID = np.linspace(0, 1, 101)
CLOSE = 1e-9  # of a share times a count, which is to equal a whole number
Curve = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]  # score, label, weights [n, b]


@dataclass(frozen=True)
class Band:
    """A curve y over x, with its bounds; NaN where it is not defined."""

    x: np.ndarray
    y: np.ndarray
    low: np.ndarray
    high: np.ndarray


def band(of: Curve, score: np.ndarray, label: np.ndarray, weights: np.ndarray) -> Band:
    """weights: how often each image is in each resample [n, B]."""
    x, y = of(score, label, np.ones((len(score), 1), np.int64))
    drawn = of(score, label, weights)[1]  # [T, B]
    known = np.isfinite(drawn).any(1)
    low, high = np.full(len(drawn), np.nan), np.full(len(drawn), np.nan)
    if known.any():
        low[known], high[known] = np.nanquantile(drawn[known], [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=1)
    return Band(x[:, 0] if x.ndim == 2 else x, y[:, 0], low, high)


def roc(score: np.ndarray, label: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sensitivity at the largest false positive rate up to each of GRID: [T, b]."""
    hits, alarms = _counts(score, label, weights)
    with np.errstate(invalid="ignore", divide="ignore"):  # 0 / 0 without an image of the class is the NaN that is meant
        rate = hits / hits[-1]
        at = [np.searchsorted(alarms[:, b], GRID * alarms[-1, b] + CLOSE, "right") - 1 for b in range(rate.shape[1])]
        sensitivity = np.stack([rate[places, b] for b, places in enumerate(at)], 1)
    return GRID, np.where(alarms[-1] > 0, sensitivity, np.nan)


def precision(score: np.ndarray, label: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Precision at the first threshold that reaches each sensitivity of GRID: [T, b]."""
    hits, alarms = _counts(score, label, weights)
    share = hits / np.maximum(hits + alarms, 1)
    at = [np.searchsorted(hits[1:, b], GRID * hits[-1, b] - CLOSE, "left") + 1 for b in range(hits.shape[1])]
    return GRID, np.stack([np.where(hits[-1, b] > 0, share[places, b], np.nan) for b, places in enumerate(at)], 1)


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
    """Weight of the class's images and of all others at or above each score that occurs, falling from none: [T, b]."""
    order = np.argsort(-score, kind="stable")
    last = np.append(np.flatnonzero(np.diff(score[order])), len(score) - 1)
    counts = weights[order].astype(np.int64)
    own = counts * label[order][:, None]
    hits, both = (np.pad(np.cumsum(table, axis=0)[last], ((1, 0), (0, 0))) for table in (own, counts))
    return hits, both - hits
