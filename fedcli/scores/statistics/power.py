"""Power of a test set before anything is trained: widths of intervals and detectable gaps.

Of a share such as sensitivity: half the width of its 95 % Wilson interval, and the smallest
difference between two groups that a two-sided test at 5 % finds with a power of 80 % (normal
approximation, Fleiss, Statistical Methods for Rates and Proportions, 1981, chapter 3). Of an AUC:
half the width by the standard error of Hanley and McNeil, Radiology 143, 1982. Each patient counts
once: images of one patient say less than as many of different ones.
"""

from collections.abc import Iterator
from itertools import combinations
from math import sqrt
from typing import Any

import numpy as np

from .shares import Z, wilson

POWER = 0.8416212335729143  # the normal quantile of a power of 80 %
SHARE = 0.8  # assumed where nothing else is asked
AREA = 0.8  # likewise
Array = np.ndarray
Facts = dict[str, Any]  # numbers by name


def widths(
    label: Array, units: Array, codes: Array, names: list[str], share: float
) -> Iterator[Facts]:
    """The sizes of each group with an image, and half the widths of its intervals.

    A width is None where there is no patient. label: [N], whether an image is of the class. codes:
    [N], the group of each image.
    """
    for code, name in enumerate(names):
        members = codes == code
        if not members.any():
            continue
        positives = _patients(units, members & (label == 1))
        negatives = _patients(units, members & (label == 0))
        images = int(members.sum())
        patients = _patients(units, members)
        yield {
            "group": name,
            "images": images,
            "patients": patients,
            "positives": positives,
            "negatives": negatives,
            "sensitivity": half_width(positives, share),
            "specificity": half_width(negatives, share),
            "auc": half_area(positives, negatives, AREA),
        }


def _patients(units: Array, members: Array) -> int:
    return len(np.unique(units[members]))


def detectable(groups: list[Facts], share: float) -> Iterator[Facts]:
    """The smallest gaps that would be seen between any two groups, which are as of widths()."""
    for a, b in combinations(groups, 2):
        yield {
            "first": a["group"],
            "second": b["group"],
            "sensitivity": smallest_gap(a["positives"], b["positives"], share),
            "specificity": smallest_gap(a["negatives"], b["negatives"], share),
        }


def half_width(count: int, share: float) -> float | None:
    """Half of Wilson's interval of a share of `count`."""
    low, high = wilson(round(count * share), count)
    if low is None or high is None:
        return None
    return (high - low) / 2


def half_area(positives: int, negatives: int, area: float) -> float | None:
    """Half the interval of an AUC."""
    if not positives or not negatives:
        return None
    q1 = area / (2 - area)
    q2 = 2 * area * area / (1 + area)
    square = area**2
    of_positives = (positives - 1) * (q1 - square)
    of_negatives = (negatives - 1) * (q2 - square)
    variance = area * (1 - area) + of_positives + of_negatives
    pairs = positives * negatives
    return Z * sqrt(variance / pairs)


def smallest_gap(count: int, other: int, share: float) -> float | None:
    """The smallest difference from a share that is seen; None where it would leave 0 to 1.

    count: patients of the group with that share. other: patients of the other group.
    """
    if not count or not other:
        return None
    inverse_counts = 1 / count + 1 / other
    variance = share * (1 - share) * inverse_counts
    gap = (Z + POWER) * sqrt(variance)
    largest = max(share, 1 - share)
    return gap if gap <= largest else None
