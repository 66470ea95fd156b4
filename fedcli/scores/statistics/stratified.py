"""A gap between two groups at the same distribution of something else, such as of image quality: a stratified gap.

Source: direct standardisation over strata, with what a difference between two rates loses by it: Kitagawa, "Components
of a difference between two rates", JASA 50, 1955. Images of group g in stratum s get the weight

    w = (n_s / n) / (n_gs / n_g)        n: images of any group that are known, n_g: of g, n_gs: of g in s

so that strata have the same shares in both groups as in all test images. Every metric is a function of weighted images
and so has a standardised form. Strata without an image of both groups are left out. In a resample of the patients
(bootstrap.py) weights are made anew. The gap that is left, and what it lost, have percentile intervals.
How we differ: the two groups are the best and the worst of the metric over all kept rounds, and stay so in resamples,
so that the interval of the gap itself lies too high: of five equal groups it excludes 0 in about a third of cases. Chosen
anew in each resample the gap would be above 0 in all of them.
Within a stratum quality may still differ, and what else differs between groups, such as their classes, is not held
equal: the part that is explained is an association, no effect.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ... import metrics
from ...metrics import better_low
from ..groups import SMALL
from .bootstrap import draw, interval

STRATA, RESAMPLES, STEP = 4, 1000, 100  # quarters; resamples in all, and at a time
Number = tuple[float, float | None, float | None]  # a value with its interval


@dataclass(frozen=True)
class Explained:
    """The gap between two groups as it is, at the same distribution, and the difference, on the 0..1 scale.

    left_out: images of the two in strata that one of them has no image of.
    """

    better: str
    worse: str
    gap: Number
    standardised: Number
    explained: Number
    left_out: int


def strata(values: np.ndarray, count: int = STRATA) -> np.ndarray:
    """Quantile groups 0 to count - 1 of values [N], as large as ties allow: int64 [N]."""
    edges = np.quantile(values, np.arange(1, count) / count)
    return np.searchsorted(edges, values, "left")


def scores(answers: Sequence[np.ndarray], y: np.ndarray, members: np.ndarray, metric: str) -> float:
    """A metric of some images, the mean over answers [N, C]; NaN where it has no meaning."""
    return float(
        np.mean([_of(metrics.plan(table[members], y[members]), None, metric) for table in answers])
    )


def _of(plan: metrics.Plan, weights: np.ndarray | None, metric: str) -> np.ndarray:
    """[B] of weights [n, B]."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return metrics.get(metric).value(plan, weights)


def standard_weights(place: np.ndarray, stratum: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Weights of the images of two groups at which both have the same strata: [N, B].

    place: [N], 0 and 1 of the two, 2 of any other known group, -1 of none. counts: [N, B], of each image.
    """
    cell = np.stack([np.where((place == g)[:, None], counts, 0) for g in (0, 1)])  # [2, N, B]
    inside = np.eye(stratum.max(initial=0) + 1)[stratum].T  # [S, N]
    own = inside @ cell  # [2, S, B], n_gs
    whole = (
        inside @ np.where((place >= 0)[:, None], counts, 0) * (own > 0).all(0)
    )  # [S, B], n_s of what both have
    share = whole / np.maximum(whole.sum(0), 1)  # n_s / n
    factor = (
        share * own.sum(1, keepdims=True) / np.maximum(own, 1)
    )  # (n_s / n) / (n_gs / n_g), [2, S, B]
    return cell[0] * factor[0][stratum] + cell[1] * factor[1][stratum]


def explained(
    answers: Sequence[np.ndarray],
    y: np.ndarray,
    units: np.ndarray,
    grouping: metrics.Grouping,
    stratum: np.ndarray,
    metric: str,
    seed: int,
) -> Explained | None:
    """Of the best and the worst group that have SMALL images or more; None where fewer than two have the score, or no
    stratum has images of both.

    answers: logits [N, C], over which scores are means. units: [N], patients. stratum: [N].
    """
    groups, names = grouping
    sizes = [int((groups == g).sum()) for g in range(len(names))]
    known = {
        g: scores(answers, y, groups == g, metric) for g in range(len(names)) if sizes[g] >= SMALL
    }
    ranked = sorted(
        (g for g in known if np.isfinite(known[g])),
        key=lambda g: known[g],
        reverse=not better_low(metric),
    )
    if len(ranked) < 2:
        return None
    pair = ranked[0], ranked[-1]
    place = np.where(groups < 0, -1, 2)
    place[groups == pair[0]], place[groups == pair[1]] = 0, 1
    both = np.intersect1d(stratum[place == 0], stratum[place == 1])
    if not len(both):
        return None
    left_out = int(((place < 2) & (place >= 0) & ~np.isin(stratum, both)).sum())
    times = draw(units, RESAMPLES, seed).T  # [N, B]
    parts = [np.ones((len(y), 1)), *np.split(times.astype(np.float64), RESAMPLES // STEP, 1)]
    members = [np.flatnonzero(place == g) for g in (0, 1)]
    plans = [[metrics.plan(table[at], y[at]) for table in answers] for at in members]
    columns = []
    for counts in parts:
        weights = counts, standard_weights(place, stratum, counts)
        each = [
            [
                np.mean([_of(plan, w[at], metric) for plan in of], 0)
                for at, of in zip(members, plans)
            ]
            for w in weights
        ]
        columns.append([(one - other) * (-1 if better_low(metric) else 1) for one, other in each])
    raw, left = (float(column[0]) for column in columns[0])
    drawn = [np.concatenate([some[k] for some in columns[1:]]) for k in (0, 1)]
    return Explained(
        names[pair[0]],
        names[pair[1]],
        (raw, *interval(drawn[0])),
        (left, *interval(drawn[1])),
        (raw - left, *interval(drawn[0] - drawn[1])),
        left_out,
    )
