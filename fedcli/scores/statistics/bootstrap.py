"""Scores in resamples of the test patients and without each of them in turn, the intervals of these, and p.

A resample is a weight of each image, a patient who is left out a weight of zero: one function scores both.

Source: the bootstrap and its percentile interval are Efron and Tibshirani, An Introduction to the Bootstrap, 1993,
chapters 6 and 13, with whole patients drawn (Davison and Hinkley, Bootstrap Methods and their Application, 1997,
section 3.8). The bias-corrected and accelerated (BCa) interval is Efron, Better bootstrap confidence intervals, JASA
82, 1987, and chapter 14 of the book: z0 counts ties half; the acceleration is of scores without one patient each. Where
all resamples lie on one side of the score z0 is infinite, and the percentile interval stands.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

import numpy as np

from ... import metrics
from ...errors import FedcliError
from ...metrics import Groupings, Plan, apart, groupings_at, needs_every_class
from ...metrics.ranking import wide
from ...seeds import derive
from ..groups import Patients
from .significance import sign_floor

PERCENTILE, BCA = "percentile", "bca"
LEVEL = 0.95
CHUNK = (
    2**19
)  # image weights at a time, 2 MiB: they stay in a cache, and memory does not grow with resamples
KEPT = 2**26  # bytes of draws that are kept for the next run on the same test images
Columns = dict[str, np.ndarray]  # metric -> [B], or of groups [B, G]


def draw(units: np.ndarray | int, resamples: int, seed: int) -> np.ndarray:
    """Counts of each image in each resample: int16 [B, N].

    units: [N], the patient of each image; all images of a patient are drawn together, as many patients as there are,
        with replacement. A number stands for that many images of a patient each.
    Equal arguments give equal draws, which is what pairs two models on the same images.
    """
    parts = list(draws(units, resamples, seed))
    return np.concatenate(parts, 1).T.astype(np.int16)


def draws(units: np.ndarray | int, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """The transposed draws [N, b] a few at a time; how many at a time changes no number.

    They are integers wide enough for the number of pairs of images that a resample can hold, twice.
    """
    places = (
        np.arange(units) if isinstance(units, int) else np.unique(units, return_inverse=True)[1]
    )  # [N]
    if not len(places):
        raise FedcliError("there is no image to draw", "evaluate on a test set with images")
    count = int(places.max()) + 1
    most = count * int(np.bincount(places).max())  # images of a resample
    dtype = wide(most)
    step, alone = max(1, CHUNK // len(places)), count == len(places) and isinstance(units, int)
    drawn = _times(count, resamples, seed, step)
    for times in _kept(count, resamples, seed, step) if count * resamples <= KEPT else drawn:
        yield times.astype(dtype) if alone else times.astype(dtype)[places]


def _times(count: int, resamples: int, seed: int, step: int) -> Iterator[np.ndarray]:
    """Counts of each of so many patients in each resample: [U, b], `step` resamples at a time."""
    chance = np.random.default_rng(derive("bootstrap", seed))
    for start in range(0, resamples, step):
        b = min(step, resamples - start)
        drawn = chance.integers(count, size=(b, count)) + count * np.arange(b)[:, None]
        times = np.bincount(drawn.ravel(), minlength=b * count).reshape(b, count)  # [b, U]
        yield np.ascontiguousarray(times.T, np.min_scalar_type(times.max()))


@lru_cache(maxsize=1)
def _kept(count: int, resamples: int, seed: int, step: int) -> tuple[np.ndarray, ...]:
    """The same, remembered: runs that are compared have one test set, and drawing takes as long as scoring."""
    return tuple(_times(count, resamples, seed, step))


def bootstrap_all(
    tables: Sequence[np.ndarray],
    y: np.ndarray,
    units: np.ndarray | None = None,
    *,
    resamples: int = 1000,
    seed: int,
    groups: np.ndarray | None = None,
    groupings: Groupings | None = None,
) -> list[Columns]:
    """Scores of each of several models' logits [N, C] against labels y, [N] or [N, C], in resamples of the patients,
    which are drawn once: {metric: float64 [B]}.

    units: [N], the patient of each image; None draws images one by one.
    groups: [N], -1 for none; then each metric is [B, G], of the images of each group 0..G-1, in the same resamples.
    groupings: of all attributes, for metrics from outside the package.

    A class that a resample holds no image of is left out of that resample's score, as `metrics.score` leaves a class
    out that the test set holds no image of; a score without meaning there (an AUC of one class, a group without an
    image) is NaN in that resample and `interval` passes over it. A score that needs every class is NaN in all resamples
    where the images have one of a single patient: resamples cannot show how another patient of it would be answered.
    """
    ordered = (
        groupings is None or not metrics.own()
    )  # a function from outside the package sees images in their order
    members = _members(
        groups, np.argsort(y, kind="stable") if ordered and y.ndim == 1 else np.arange(len(y))
    )
    plans = []
    for at in members:
        of_images = groupings and groupings_at(groupings, at)
        plans.append([metrics.plan(logits[at], y[at], of_images) for logits in tables])
    drawn = _scored(plans, members, draws(len(y) if units is None else units, resamples, seed))
    for at, of_models in zip(members, drawn, strict=True):
        if not Patients.of(y[at], None if units is None else units[at]).has_interval:
            _leave_out(of_models)
    if groups is None:
        return drawn[0]
    return [
        {name: np.stack([part[name] for part in parts], 1) for name in parts[0]}
        for parts in zip(*drawn)
    ]


def _leave_out(of_models: Sequence[Columns]) -> None:
    """Put NaN in place of the scores that need every class."""
    for columns in of_models:
        for metric in columns:
            if needs_every_class(metric):
                columns[metric] = np.full_like(columns[metric], np.nan)


def without_each(
    logits: np.ndarray, y: np.ndarray, units: np.ndarray | None, groupings: Groupings | None = None
) -> Columns:
    """Scores of logits [N, C] without each patient in turn: {metric: [U]}; None leaves images out one by one."""
    places = np.arange(len(y)) if units is None else np.unique(units, return_inverse=True)[1]  # [N]
    count, step = int(places.max(initial=-1)) + 1, max(1, CHUNK // max(len(y), 1))
    kept = (
        places[:, None] != np.arange(start, min(start + step, count))
        for start in range(0, count, step)
    )
    return _scored([[metrics.plan(logits, y, groupings)]], [slice(None)], kept)[0][0]


def _scored(
    plans: Sequence[Sequence[Plan]],
    members: Sequence[np.ndarray | slice],
    weights: Iterable[np.ndarray],
) -> list[list[Columns]]:
    """Scores of each part of the images by each model, under weights [N, b] that come a few sets at a time.

    plans: of each part, of each model. members: the images of each part.
    """
    parts: list[list[list[Columns]]] = [[[] for _ in models] for models in plans]
    for some in weights:
        for models, at, of_models in zip(plans, members, parts, strict=True):
            counts = some[at]
            for plan, scores in zip(models, of_models, strict=True):
                scores.append(metrics.resampled(plan, counts))
    return [[_joined(scores) for scores in of_models] for of_models in parts]


def _joined(scores: Sequence[Columns]) -> Columns:
    return {
        name: np.concatenate([some[name] for some in scores])
        for name in (scores[0] if scores else ())
    }


def _members(groups: np.ndarray | None, order: np.ndarray) -> list[np.ndarray]:
    """The images of each group in this order: class after class, the weights of a class lie together."""
    if groups is None:
        return [order]
    return [order[groups[order] == g] for g in range(max(int(groups.max(initial=-1)) + 1, 1))]


def mean(columns: Sequence[Columns]) -> Columns:
    """Of each metric over several models, or versions of the images."""
    return {metric: np.mean([table[metric] for table in columns], axis=0) for metric in columns[0]}


Bounds = tuple[float | None, float | None]


def interval(values: np.ndarray, level: float = LEVEL) -> Bounds:
    """Percentile interval of resampled values [B]; NaN are passed over, (None, None) where nothing else is there."""
    known = values[~np.isnan(values)]
    if not len(known):
        return None, None
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def bca_interval(
    value: float | None, values: np.ndarray, without: np.ndarray, level: float = LEVEL
) -> Bounds:
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


def bounds(value: float | None, resampled: np.ndarray, left: np.ndarray | None) -> Bounds:
    """Percentile bounds, or BCa where the scores without each patient are given."""
    return interval(resampled) if left is None else bca_interval(value, resampled, left)


def bootstrap_p(differences: np.ndarray, units: int) -> float | None:
    """Two-sided p of a resampled difference [B]: twice the smaller share on either side of zero, zero on both.

    One is added to both counts, so that B resamples give no p below 2 / (B + 1).
    units: patients that differ at all; p is no less than their sign_floor, for resamples of few patients hold the same
        ones again and again and cannot show how others would differ.
    """
    known = apart(differences[~np.isnan(differences)], 0.0)
    if not len(known):
        return None
    fewer = min((known <= 0).sum(), (known >= 0).sum())
    return min(1.0, max(2 * (int(fewer) + 1) / (len(known) + 1), sign_floor(units)))
