"""Sums and differences of scores: what rounding sets apart is equal, and what has no meaning is
passed over.
"""

import numpy as np
from numpy import ndarray
from numpy.typing import ArrayLike

# scores no further apart are equal, as sums of shares are in another order: no two shares are so
# close
CLOSE = 1e-12
STEP = 16  # rows that are added one after another, in all blocks of so many at once


def apart(a: ArrayLike, b: ArrayLike) -> ndarray:
    """a - b of scores on the 0..1 scale, and 0 where rounding alone sets them apart.

    It serves every comparison of scores.
    """
    difference = np.subtract(a, b)
    return np.where(np.abs(difference) <= CLOSE, 0.0, difference)


def mean_of_known(values: ndarray) -> ndarray:
    """Mean over the first axis of what is not NaN: [K, ...] -> [...]; NaN where all is NaN."""
    defined = ~np.isnan(values)
    sums = np.where(defined, values, 0).sum(0)
    return sums / defined.sum(0)


def gap(column: ndarray) -> ndarray:
    """Best minus worst group [B, G] -> [B]; NaN where fewer than two groups have the score."""
    defined = ~np.isnan(column)
    best = np.where(defined, column, -np.inf).max(1)
    worst = np.where(defined, column, np.inf).min(1)
    several = defined.sum(1) > 1
    return np.where(several, best - worst, np.nan)


def total(weights: ndarray) -> ndarray:
    """The sum over images [N, b] -> [b], faster than NumPy's sum() over a first axis."""
    return np.einsum("nb->b", weights)


def add_up(rows: ndarray) -> None:
    """Running sums over the first axis, in place.

    Several times as fast as NumPy's cumsum(), which takes rows one by one.
    """
    if len(rows) <= 2 * STEP:
        np.cumsum(rows, axis=0, dtype=rows.dtype, out=rows)
        return
    whole = len(rows) // STEP * STEP
    blocks = rows[:whole].reshape(-1, STEP, rows.shape[1])  # a view
    for k in range(1, STEP):
        blocks[:, k] += blocks[:, k - 1]
    before = blocks[:, -1].copy()
    add_up(before)
    blocks[1:] += before[:-1, None]
    for k in range(whole, len(rows)):
        rows[k] += rows[k - 1]
