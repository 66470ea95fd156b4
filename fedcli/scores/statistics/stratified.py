"""A gap between two groups at the same distribution of something else, such as of image quality.

Source: direct standardisation over strata, with what a difference between two rates loses by it:
Kitagawa, "Components of a difference between two rates", JASA 50, 1955. Images of group g in
stratum s get the weight

    w = (n_s / n) / (n_gs / n_g)        n: images of any known group, n_g: of g, n_gs: of g in s

so that strata have the same shares in both groups as in all test images. Every metric is a function
of weighted images and so has a standardised form. Strata without an image of both groups are left
out. In a resample of the patients (bootstrap.py) weights are made anew. The gap that is left, and
what it lost, have percentile intervals. How we differ: the two groups are the best and the worst of
the metric over all kept rounds, and stay so in resamples, so that the interval of the gap itself
lies too high: of five equal groups it excludes 0 in about a third of cases. Chosen anew in each
resample the gap would be above 0 in all of them. Within a stratum quality may still differ, and
what else differs between groups, such as their classes, is not held equal: the part that is
explained is an association, no effect.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ... import metrics
from ...metrics import better_low
from ..groups import SMALL
from .bootstrap import draw, interval

STRATA = 4  # quarters
RESAMPLES = 1000
STEP = 100  # resamples at a time
Array = np.ndarray
Number = tuple[float, float | None, float | None]  # a value with its interval
Models = Sequence[metrics.Plan]  # of the images of one group


@dataclass(frozen=True)
class Explained:
    """The gap between two groups as it is, at the same distribution, and the difference of both.

    All are on the 0..1 scale. left_out: images of the two in strata that one of them has no image
    of.
    """

    better: str
    worse: str
    gap: Number
    standardised: Number
    explained: Number
    left_out: int


def strata(values: Array, count: int = STRATA) -> Array:
    """Quantile groups 0 to count - 1 of values [N], as large as ties allow: int64 [N]."""
    edges = np.quantile(values, np.arange(1, count) / count)
    return np.searchsorted(edges, values, "left")


def scores(
    answers: Sequence[Array],
    y: Array,
    members: Array,
    metric: str,
) -> float:
    """A metric of some images, the mean over answers [N, C]; NaN where it has no meaning."""
    values = _values(_plans(answers, y, members), None, metric)
    return float(np.mean(values))


def _plans(answers: Sequence[Array], y: Array, members: Array) -> Models:
    return [metrics.plan(logits[members], y[members]) for logits in answers]


def _values(models: Models, weights: Array | None, metric: str) -> list[Array]:
    """A metric by each model, under weights [n, B]: [B]."""
    value = metrics.get(metric).value
    with np.errstate(invalid="ignore", divide="ignore"):
        return [value(plan, weights) for plan in models]


def standard_weights(side: Array, stratum: Array, counts: Array) -> Array:
    """Weights of the images of two groups at which both have the same strata: [N, B].

    side: [N], 0 and 1 of the two, 2 of any other known group, -1 of none. counts: [N, B], of each
    image.
    """
    count = stratum.max(initial=0) + 1
    inside = np.eye(count)[stratum].T  # [S, N]
    better = _counts_where(side == 0, counts)
    worse = _counts_where(side == 1, counts)
    cells = np.stack([better, worse])  # [2, N, B]
    n_gs = inside @ cells  # [2, S, B]
    is_shared = (n_gs > 0).all(0)
    n_s = inside @ _counts_where(side >= 0, counts) * is_shared  # [S, B]
    n = n_s.sum(0)
    share = n_s / np.maximum(n, 1)  # n_s / n
    n_g = n_gs.sum(1, keepdims=True)
    factor = share * n_g / np.maximum(n_gs, 1)  # (n_s / n) / (n_gs / n_g), [2, S, B]
    factors = factor[:, stratum]  # [2, N, B]
    return better * factors[0] + worse * factors[1]


def _counts_where(members: Array, counts: Array) -> Array:
    return np.where(members[:, None], counts, 0)


def explained(
    answers: Sequence[Array],
    y: Array,
    units: Array,
    grouping: metrics.Grouping,
    stratum: Array,
    metric: str,
    seed: int,
) -> Explained | None:
    """The gap of the best and the worst group of SMALL patients or more, and its explained part.

    None where fewer than two have the score, or no stratum has images of both.
    answers: logits [N, C], over which scores are means. units: [N], patients. stratum: [N].
    """
    codes, names = grouping
    large = _large(codes, units, len(names))
    ranked = _ranked(answers, y, large, metric)
    if len(ranked) < 2:
        return None
    better = ranked[0]
    worse = ranked[-1]
    side = np.where(codes < 0, -1, 2)
    side[codes == better] = 0
    side[codes == worse] = 1
    shared = np.intersect1d(stratum[side == 0], stratum[side == 1])
    if not len(shared):
        return None
    of_two = (side == 0) | (side == 1)
    lone = of_two & ~np.isin(stratum, shared)
    pair = _Pair(answers, y, side, stratum, metric)
    weights = np.ones((len(y), 1))
    gap, standardised = pair.gaps(weights)[:, 0].tolist()
    times = draw(units, RESAMPLES, seed).T.astype(np.float64)  # [N, B]
    parts = [pair.gaps(counts) for counts in np.split(times, RESAMPLES // STEP, 1)]
    gaps, standardised_gaps = np.concatenate(parts, 1)  # each [B]
    explained_gaps = gaps - standardised_gaps
    return Explained(
        names[better],
        names[worse],
        (gap, *interval(gaps)),
        (standardised, *interval(standardised_gaps)),
        (gap - standardised, *interval(explained_gaps)),
        int(lone.sum()),
    )


def _large(codes: Array, units: Array, count: int) -> dict[int, Array]:
    """Group -> its images, bool [N], of the groups of SMALL patients or more."""
    groups = {}
    for code in range(count):
        members = codes == code
        if len(np.unique(units[members])) >= SMALL:
            groups[code] = members
    return groups


def _ranked(
    answers: Sequence[Array], y: Array, groups: Mapping[int, Array], metric: str
) -> list[int]:
    """The groups that have the score, the best first."""
    values = {}
    for code, members in groups.items():
        value = scores(answers, y, members, metric)
        if np.isfinite(value):
            values[code] = value
    return sorted(
        values,
        key=lambda code: values[code],
        reverse=not better_low(metric),
    )


class _Pair:
    """Two groups of images that a metric compares, as they are and at the same distribution."""

    def __init__(
        self,
        answers: Sequence[Array],
        y: Array,
        side: Array,
        stratum: Array,
        metric: str,
    ):
        self.side = side
        self.stratum = stratum
        self.metric = metric
        self.better = np.flatnonzero(side == 0)
        self.worse = np.flatnonzero(side == 1)
        self.models_of_better = _plans(answers, y, self.better)
        self.models_of_worse = _plans(answers, y, self.worse)

    def gaps(self, counts: Array) -> Array:
        """The gap under counts [N, B] of the images, and the standardised one: [2, B]."""
        standardised = standard_weights(self.side, self.stratum, counts)
        return np.stack([self._gap(counts), self._gap(standardised)])

    def _gap(self, weights: Array) -> Array:
        """The better group's score less the worse one's, above 0 for any metric: [B]."""
        of_better = _values(
            self.models_of_better,
            weights[self.better],
            self.metric,
        )
        of_worse = _values(
            self.models_of_worse,
            weights[self.worse],
            self.metric,
        )
        sign = -1 if better_low(self.metric) else 1
        return (np.mean(of_better, 0) - np.mean(of_worse, 0)) * sign
