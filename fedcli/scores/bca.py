"""Bias-corrected and accelerated bootstrap intervals, beside the percentile intervals of bootstrap.py.

Source: Efron, Better bootstrap confidence intervals, JASA 82, 1987; Efron and Tibshirani, An Introduction to the
Bootstrap, 1993, chapter 14. z0 counts ties half; the acceleration is of scores without one patient each.
Where all resamples lie on one side of the score z0 is infinite, and the percentile interval stands.
"""

import numpy as np

from .. import metrics
from ..metrics import apart
from .bootstrap import CHUNK, LEVEL, interval

PERCENTILE, BCA = METHODS = "percentile", "bca"


def without_each(
    logits: np.ndarray, y: np.ndarray, units: np.ndarray | None, groupings: metrics.Groupings | None = None
) -> dict[str, np.ndarray]:
    """Scores of logits [N, C] without each patient in turn: {metric: [U]}; None leaves images out one by one."""
    places = np.arange(len(y)) if units is None else np.unique(units, return_inverse=True)[1]  # [N]
    count = int(places.max(initial=-1)) + 1
    step, plan = max(1, CHUNK // max(len(y), 1)), metrics.plan(logits, y, groupings)
    parts = [
        metrics.weighted(plan, places[:, None] != np.arange(start, min(start + step, count)))
        for start in range(0, count, step)
    ]
    return {metric: np.concatenate([part[metric] for part in parts]) for metric in parts[0]} if parts else {}


def bca_interval(
    value: float | None, values: np.ndarray, without: np.ndarray, level: float = LEVEL
) -> tuple[float | None, float | None]:
    """Of resampled scores [B] of `value`, and the scores without each patient [U]; NaN are passed over."""
    from scipy.special import ndtr, ndtri

    known, left = values[~np.isnan(values)], without[~np.isnan(without)]
    if value is None or not len(known) or len(left) < 2:
        return interval(values, level)
    above = apart(known, value)
    bias = ndtri(((above < 0).mean() + (above <= 0).mean()) / 2)  # z0, Eq. 14.14
    if not np.isfinite(bias):
        return interval(values, level)
    off = apart(left.mean(), left)
    spread = (off**2).sum() ** 1.5
    acceleration = (off**3).sum() / (6 * spread) if spread else 0.0  # Eq. 14.15
    normal = bias + ndtri([(1 - level) / 2, (1 + level) / 2])
    low, high = np.quantile(known, ndtr(bias + normal / (1 - acceleration * normal)))  # Eq. 14.10
    return float(low), float(high)
