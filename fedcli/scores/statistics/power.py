"""Power of a test set of this size, before anything is trained: widths of intervals and detectable gaps.

Of a share such as sensitivity: half the width of its 95 % Wilson interval, and the smallest difference between two
groups that a two-sided test at 5 % finds with a power of 80 % (normal approximation, Fleiss, Statistical Methods for
Rates and Proportions, 1981, chapter 3). Of an AUC: half the width by the standard error of Hanley and McNeil,
Radiology 143, 1982. Each patient counts once: images of one patient say less than as many of different ones.
"""

from collections.abc import Iterator
from itertools import combinations
from math import sqrt
from typing import Any

import numpy as np

from ..clinical.binary import Z, wilson

POWER = 0.8416212335729143  # the normal quantile of a power of 80 %
SHARE, AREA = 0.8, 0.8  # assumed where nothing else is asked
Facts = dict[str, Any]  # numbers by name


def widths(
    label: np.ndarray, units: np.ndarray, place: np.ndarray, names: list[str], share: float
) -> Iterator[Facts]:
    """Of each group with an image: images, patients, those of the class and others, and half the widths of intervals;
    None of none. label: [N], whether an image is of the class."""
    for k, name in enumerate(names):
        at = place == k
        if at.any():
            positives, negatives = (
                len(np.unique(units[at & (label == value)])) for value in (1, 0)
            )
            yield {
                "group": name,
                "images": int(at.sum()),
                "patients": len(np.unique(units[at])),
                "positives": positives,
                "negatives": negatives,
                "sensitivity": half_width(positives, share),
                "specificity": half_width(negatives, share),
                "auc": half_area(positives, negatives, AREA),
            }


def detectable(known: list[Facts], share: float) -> Iterator[Facts]:
    """Of two groups each, as of widths(): the smallest gaps that would be seen."""
    for a, b in combinations(known, 2):
        yield {
            "first": a["group"],
            "second": b["group"],
            "sensitivity": smallest_gap(a["positives"], b["positives"], share),
            "specificity": smallest_gap(a["negatives"], b["negatives"], share),
        }


def half_width(count: int, share: float) -> float | None:
    """Half of Wilson's interval of a share of `count`."""
    low, high = wilson(round(count * share), count)
    return None if low is None or high is None else (high - low) / 2


def half_area(positives: int, negatives: int, area: float) -> float | None:
    """Half the interval of an AUC."""
    if not positives or not negatives:
        return None
    q1, q2 = area / (2 - area), 2 * area * area / (1 + area)
    variance = (
        area * (1 - area) + (positives - 1) * (q1 - area**2) + (negatives - 1) * (q2 - area**2)
    )
    return Z * sqrt(variance / (positives * negatives))


def smallest_gap(first: int, second: int, share: float) -> float | None:
    """The smallest difference from a share in the first group that is seen; None where none below 1 is."""
    if not first or not second:
        return None
    gap = (Z + POWER) * sqrt(share * (1 - share) * (1 / first + 1 / second))
    return gap if gap < 1 else None
