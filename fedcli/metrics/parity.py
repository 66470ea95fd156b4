"""Metrics between groups of patients: how differently the groups' images are decided.

Decisions are the most likely class. With the selection rate S, true positive rate T and false positive rate F of each
group: the largest minus the smallest S; the larger of the ranges of T and F; and the mean over groups of
|(F_rest - F_g) + (T_rest - T_g)| / 2, where rest are all other groups together. The first two are fairlearn's, the
third is AIF360's with each group privileged in turn. We differ where a group has no image of a class or none of
another: such a rate is left out and named, where fairlearn takes 0, and where fewer than two groups have one of T and
F, equalized odds is the range of the other. For more than two classes they are the mean over classes against all
others. Of several labels per image a decision is whether an image has a label, and they are the mean over labels.
"""

import numpy as np

from ..labels import UNKNOWN, YES
from .metric import GROUPS, metric, names, registered


def decided(
    guess: np.ndarray, y: np.ndarray, groups: np.ndarray, classes: int, count: int
) -> np.ndarray:
    """Decisions [N] and labels [N] as tables int64 [G, C, C]: images of each group by true and predicted class.

    count: of groups; groups: [N] in -1 .. count - 1.
    """
    tables, at = np.zeros((count, classes, classes), np.int64), groups >= 0
    np.add.at(tables, (groups[at], y[at], guess[at]), 1)
    return tables


def decided_labels(
    predicted: np.ndarray, y: np.ndarray, groups: np.ndarray, count: int
) -> np.ndarray:
    """The same of several labels per image: decisions bool [N, L], labels [N, L] -> int64 [G, L, 2, 2]."""
    tables = np.zeros((count, y.shape[1], 2, 2), np.int64)
    images, labels = np.nonzero((y != UNKNOWN) & (groups >= 0)[:, None])
    cell = (
        groups[images],
        labels,
        (y == YES)[images, labels].astype(int),
        predicted[images, labels].astype(int),
    )
    np.add.at(tables, cell, 1)
    return tables


@metric(
    "demographic_parity_difference",
    "demographic parity difference",
    "largest minus smallest share of images predicted positive, over groups",
    needs=(GROUPS,),
    better="low",
)
def demographic_parity(table: np.ndarray) -> float | None:
    """table: [G, truly, guessed], images of each group by a class against all others; as of those below."""
    return _range(_rates(table.sum(1)))


@metric(
    "equalized_odds_difference",
    "equalized odds difference",
    "the larger of the ranges over groups of the true and the false positive rate",
    needs=(GROUPS,),
    better="low",
)
def equalized_odds(table: np.ndarray) -> float | None:
    odds = _rates(table)  # [G, 2]
    ranges = _range(odds[:, 0]), _range(odds[:, 1])
    return max((width for width in ranges if width is not None), default=None)


@metric(
    "average_odds_difference",
    "average odds difference",
    "mean over groups of the average distance of both rates from those of all other groups",
    needs=(GROUPS,),
    better="low",
)
def average_odds(table: np.ndarray) -> float | None:
    both = (_rates(table.sum(0) - table) - _rates(table)).sum(
        1
    ) / 2  # [G], NaN where one of four rates is undefined
    distances = np.abs(both[np.isfinite(both)])
    return float(distances.mean()) if len(distances) else None


def parity(tables: np.ndarray) -> dict[str, float | None]:
    """The differences of decisions under their names.

    tables: as decided() or decided_labels() makes them. Of class 1 for two classes, else each name
    ends in `_ovr_macro`: the mean over the classes or labels of which it is defined. None where it is defined of none.
    """
    if tables.ndim == 4:
        each = parity_of_labels(tables)
    elif (classes := tables.shape[1]) == 2:
        return _parity(tables)
    else:
        each = [_parity(_against_all(tables, c)) for c in range(classes)]
    columns = {
        name: [number for one in each if (number := one[name]) is not None]
        for name in names(GROUPS)
    }
    return {
        f"{name}_ovr_macro": float(np.mean(known)) if known else None
        for name, known in columns.items()
    }


def parity_of_labels(tables: np.ndarray) -> list[dict[str, float | None]]:
    """Of each label by itself; tables: as decided_labels() makes them."""
    return [_parity(table) for table in tables.swapaxes(0, 1)]


def _parity(table: np.ndarray) -> dict[str, float | None]:
    return {difference.name: difference.of(table) for difference in registered(GROUPS)}


def _against_all(tables: np.ndarray, c: int) -> np.ndarray:
    """Tables [G, 2, 2] of one class against all others, from those of all classes [G, C, C]."""
    hits, true, guessed = tables[:, c, c], tables[:, c].sum(1), tables[:, :, c].sum(1)  # [G] each
    rest = tables.sum((1, 2)) - true - guessed + hits
    return np.stack([np.stack([rest, guessed - hits], 1), np.stack([true - hits, hits], 1)], 1)


def _rates(table: np.ndarray) -> np.ndarray:
    """Share that was guessed to be of the class, over the last axis: [..., 2] -> [...]; NaN where there is no image."""
    total = table.sum(-1)
    return np.where(total > 0, table[..., 1] / np.maximum(total, 1), np.nan)


def _range(rates: np.ndarray) -> float | None:
    known = rates[np.isfinite(rates)]
    return float(known.max() - known.min()) if len(known) > 1 else None


def undefined_rates(tables: np.ndarray, values: list[str], classes: list[str]) -> list[str]:
    """Names the rates that the differences had to leave out; for two classes, those of class 1. tables: as parity()."""
    several = tables.ndim == 4
    having = (
        tables.sum(3)[..., 1] if several else tables.sum(2)
    )  # [G, C] images of each class, or with each label
    lacking = tables.sum(3)[..., 0] if several else having.sum(1, keepdims=True) - having
    rates = {"true positive": having, "false positive": lacking}
    out = []
    for g, value in enumerate(values):
        if not several and not having[g].any():
            out.append(f"every rate of {value}")
            continue
        for c in [1] if len(classes) == 2 and not several else range(len(classes)):
            out += [
                f"{rate} rate of {classes[c]} in {value}"
                for rate, images in rates.items()
                if not images[g, c]
            ]
    return out
