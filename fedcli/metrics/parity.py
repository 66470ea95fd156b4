"""Metrics between groups of patients: how differently the groups' images are decided.

Decisions are the most likely class. With the selection rate S, true positive rate T and false
positive rate F of each
group: the largest minus the smallest S; the larger of the ranges of T and F; and the mean over
groups of |(F_rest - F_g) + (T_rest - T_g)| / 2, where rest are all other groups together. The first
two are fairlearn's, the third is AIF360's with each group privileged in turn. We differ where a
group has no image of a class or none of
another: such a rate is left out and named, where fairlearn takes 0, and where fewer than two groups
have one of T and F, equalized odds is the range of the other. For more than two classes they are
the mean over classes against all others. Of several labels per image a decision is whether an image
has a label, and they are the mean over labels.
"""

import numpy as np
from numpy import ndarray

from ..labels import UNKNOWN, YES
from .metric import GROUPS, OF_EACH, Scores, metric, names, registered

CLASS_RATES = "true positive rate", "false positive rate"
TRUE_POSITIVE, FALSE_POSITIVE = CLASS_RATES


def decided(
    guess: ndarray,
    y: ndarray,
    groups: ndarray,
    classes: int,
    count: int,
) -> ndarray:
    """Decisions [N] and labels [N] as tables int64 [G, C, C]: images of each group by true and
    predicted class.

    count: of groups; groups: [N] in -1 .. count - 1.
    """
    tables = np.zeros((count, classes, classes), np.int64)
    grouped = groups >= 0
    cell = groups[grouped], y[grouped], guess[grouped]
    np.add.at(tables, cell, 1)
    return tables


def decided_labels(predicted: ndarray, y: ndarray, groups: ndarray, count: int) -> ndarray:
    """Decisions bool [N, L] and labels [N, L] as tables int64 [G, L, 2, 2] of several labels."""
    tables = np.zeros((count, y.shape[1], 2, 2), np.int64)
    grouped = (groups >= 0)[:, None]
    is_known = y != UNKNOWN
    images, labels = np.nonzero(is_known & grouped)
    has_label = (y == YES)[images, labels]
    truth = has_label.astype(int)
    decision = predicted[images, labels].astype(int)
    cell = groups[images], labels, truth, decision
    np.add.at(tables, cell, 1)
    return tables


@metric(
    "demographic_parity_difference",
    "demographic parity difference",
    "largest minus smallest share of images predicted positive, over groups",
    needs=(GROUPS,),
    better="low",
)
def demographic_parity(table: ndarray) -> float | None:
    """The range over groups of the share that is predicted to be of a class.

    table: [G, truly, guessed], images of each group by a class against all others; as of those
    below.
    """
    return _range(_rates(table.sum(1)))


@metric(
    "equalized_odds_difference",
    "equalized odds difference",
    "the larger of the ranges over groups of the true and the false positive rate",
    needs=(GROUPS,),
    better="low",
)
def equalized_odds(table: ndarray) -> float | None:
    odds = _rates(table)  # [G, 2]
    true_positive = _range(odds[:, 1])
    false_positive = _range(odds[:, 0])
    ranges = _defined([true_positive, false_positive])
    return max(ranges, default=None)


@metric(
    "average_odds_difference",
    "average odds difference",
    "mean over groups of the average distance of both rates from the rates of all other groups",
    needs=(GROUPS,),
    better="low",
)
def average_odds(table: ndarray) -> float | None:
    rest = table.sum(0) - table  # images of all other groups
    differences = _rates(rest) - _rates(table)  # [G, 2]
    both = differences.sum(1) / 2  # [G], NaN where one of four rates is undefined
    distances = np.abs(both[np.isfinite(both)])
    if not len(distances):
        return None
    return float(distances.mean())


def parity(tables: ndarray) -> Scores:
    """The differences of decisions under their names.

    tables: as decided() or decided_labels() makes them. Of class 1 for two classes, else each name
    ends in `_ovr_macro`: the mean over the classes or labels of which it is defined. None where it
    is defined of none.
    """
    if tables.ndim == 4:
        by_class = parity_of_labels(tables)
    elif tables.shape[1] == 2:
        return _parity(tables)
    else:
        classes = range(tables.shape[1])
        by_class = [_parity(_against_all(tables, c)) for c in classes]
    means: Scores = {}
    for name in names(GROUPS):
        values = _defined([differences[name] for differences in by_class])
        means[name + OF_EACH] = float(np.mean(values)) if values else None
    return means


def parity_of_labels(tables: ndarray) -> list[Scores]:
    """The differences of each label by itself; tables: as decided_labels() makes them."""
    return [_parity(table) for table in tables.swapaxes(0, 1)]


def _parity(table: ndarray) -> Scores:
    return {difference.name: difference.of(table) for difference in registered(GROUPS)}


def _against_all(tables: ndarray, c: int) -> ndarray:
    """Tables [G, 2, 2] of one class against all others, from those of all classes [G, C, C]."""
    hits = tables[:, c, c]  # [G]
    true = tables[:, c].sum(1)  # [G]
    guessed = tables[:, :, c].sum(1)  # [G]
    rest = tables.sum((1, 2)) - true - guessed + hits
    negatives = np.stack([rest, guessed - hits], 1)
    positives = np.stack([true - hits, hits], 1)
    return np.stack([negatives, positives], 1)


def _rates(table: ndarray) -> ndarray:
    """Share that was guessed to be of the class, over the last axis: [..., 2] -> [...]; NaN where
    there is no image.
    """
    total = table.sum(-1)
    shares = table[..., 1] / np.maximum(total, 1)
    return np.where(total > 0, shares, np.nan)


def _range(rates: ndarray) -> float | None:
    finite = rates[np.isfinite(rates)]
    if len(finite) < 2:
        return None
    return float(finite.max() - finite.min())


def _defined(values: list[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def undefined_rates(
    tables: ndarray,
    values: list[str],
    classes: list[str],
) -> list[str]:
    """The rates that the differences had to leave out, by name; for two classes, those of class 1.

    tables: as parity().
    """
    several = tables.ndim == 4
    if several:
        having = tables.sum(3)[..., 1]  # [G, L] images with each label
        lacking = tables.sum(3)[..., 0]
    else:
        having = tables.sum(2)  # [G, C] images of each class
        lacking = having.sum(1, keepdims=True) - having
    columns = list(range(len(classes)))
    if len(classes) == 2 and not several:
        columns = [1]
    texts = []
    for g, value in enumerate(values):
        if not several and not having[g].any():
            texts.append(f"every rate of {value}")
            continue
        for c in columns:
            if not having[g, c]:
                texts.append(f"{TRUE_POSITIVE} of {classes[c]} in {value}")
            if not lacking[g, c]:
                texts.append(f"{FALSE_POSITIVE} of {classes[c]} in {value}")
    return texts
