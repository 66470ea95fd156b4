"""Scores in resamples of the test patients and without each of them in turn, with intervals and p.

A resample is a weight of each image, a patient who is left out a weight of zero: one function
scores both.

Source: the bootstrap and its percentile interval are Efron and Tibshirani, An Introduction to the
Bootstrap, 1993, chapters 6 and 13, with whole patients drawn (Davison and Hinkley, Bootstrap
Methods and their Application, 1997, section 3.8). The bias-corrected and accelerated (BCa) interval
is Efron, Better bootstrap confidence intervals, JASA 82, 1987, and chapter 14 of the book: z0
counts ties half; the acceleration is of scores without one patient each. Where all resamples lie on
one side of the score z0 is infinite, and the percentile interval stands.
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

PERCENTILE = "percentile"
BCA = "bca"
LEVEL = 0.95
# image weights at a time, 2 MiB: they stay in a cache, and memory does not grow with resamples
CHUNK = 2**19
KEPT = 2**26  # bytes of draws that are kept for the next run on the same test images
Array = np.ndarray
Columns = dict[str, Array]  # metric -> [B], or of groups [B, G]
Bounds = tuple[float | None, float | None]


def draw(units: Array | int, resamples: int, seed: int) -> Array:
    """Counts of each image in each resample: int16 [B, N].

    units: [N], the patient of each image; all images of a patient are drawn together, as many
        patients as there are, with replacement. A number stands for that many images of a patient
        each.
    Equal arguments give equal draws, which is what pairs two models on the same images.
    """
    parts = list(draws(units, resamples, seed))
    return np.concatenate(parts, 1).T.astype(np.int16)


def draws(units: Array | int, resamples: int, seed: int) -> Iterator[Array]:
    """The transposed draws [N, b] a few at a time; how many at a time changes no number.

    They are integers wide enough for the number of pairs of images that a resample can hold, twice.
    """
    codes = np.arange(units) if isinstance(units, int) else _codes(units)  # [N]
    if not len(codes):
        raise FedcliError("there is no image to draw", "evaluate on a test set with images")
    count = int(codes.max()) + 1
    largest_resample = count * int(np.bincount(codes).max())  # in images
    dtype = wide(largest_resample)
    step = max(1, CHUNK // len(codes))
    if count * resamples <= KEPT:
        parts: Iterable[Array] = _remembered(count, resamples, seed, step)
    else:
        parts = _times(count, resamples, seed, step)
    for times in parts:
        weights: Array = times.astype(dtype)
        yield weights if isinstance(units, int) else weights[codes]


def _codes(units: Array) -> Array:
    """The patient of each image as a whole number from 0 [N]."""
    return np.unique(units, return_inverse=True)[1]


def _times(count: int, resamples: int, seed: int, step: int) -> Iterator[Array]:
    """Counts of each of so many patients in each resample: [U, b], `step` resamples at a time."""
    generator = np.random.default_rng(derive("bootstrap", seed))
    for start in range(0, resamples, step):
        b = min(step, resamples - start)
        patients = generator.integers(count, size=(b, count))
        cells = patients + count * np.arange(b)[:, None]
        times = np.bincount(cells.ravel(), minlength=b * count).reshape(b, count)  # [b, U]
        yield np.ascontiguousarray(times.T, np.min_scalar_type(times.max()))


@lru_cache(maxsize=1)
def _remembered(
    count: int,
    resamples: int,
    seed: int,
    step: int,
) -> tuple[Array, ...]:
    """The counts of _times(), for the next call.

    Runs that are compared have one test set, and drawing takes as long as scoring.
    """
    return tuple(_times(count, resamples, seed, step))


def bootstrap_all(
    tables: Sequence[Array],
    y: Array,
    units: Array | None = None,
    *,
    resamples: int = 1000,
    seed: int,
    groups: Array | None = None,
    groupings: Groupings | None = None,
) -> list[Columns]:
    """The scores of several models in resamples of the patients, which are drawn once.

    tables: the logits [N, C] of each model, against labels y, [N] or [N, C].
    units: [N], the patient of each image; None draws images one by one.
    groups: [N], -1 for none; then each metric is [B, G], of the images of each group 0..G-1, in the
        same resamples.
    groupings: of all attributes, for metrics from outside the package.
    Returns {metric: float64 [B]} of each model.

    A class that a resample holds no image of is left out of that resample's score, as
    `metrics.score` leaves a class out that the test set holds no image of; a score without meaning
    there (an AUC of one class, a group without an image) is NaN in that resample and `interval`
    passes over it. A score that needs every class is NaN in all resamples where the images have one
    of a single patient: resamples cannot show how another patient of it would be answered.
    """
    order = np.arange(len(y))
    # a function from outside the package sees images in their order
    if y.ndim == 1 and (groupings is None or not metrics.own()):
        order = np.argsort(y, kind="stable")
    members = _members(groups, order)
    plans = []
    for images in members:
        of_images = groupings and groupings_at(groupings, images)
        plans.append([metrics.plan(logits[images], y[images], of_images) for logits in tables])
    weights = draws(len(y) if units is None else units, resamples, seed)
    scores = _scored(plans, members, weights)  # of each part, of each model
    for images, of_models in zip(members, scores, strict=True):
        patients = Patients.of(y[images], None if units is None else units[images])
        if not patients.has_interval:
            _leave_out(of_models)
    if groups is None:
        return scores[0]
    return [_side_by_side(of_groups) for of_groups in zip(*scores, strict=True)]


def _side_by_side(of_groups: Sequence[Columns]) -> Columns:
    """The scores [B] of each group as one column [B, G] of each metric."""
    columns = {}
    for metric in of_groups[0]:
        columns[metric] = np.stack([scores[metric] for scores in of_groups], 1)
    return columns


def _leave_out(of_models: Sequence[Columns]) -> None:
    """Put NaN in place of the scores that need every class."""
    for columns in of_models:
        for metric in columns:
            if needs_every_class(metric):
                columns[metric] = np.full_like(columns[metric], np.nan)


def without_each(
    logits: Array,
    y: Array,
    units: Array | None,
    groupings: Groupings | None = None,
) -> Columns:
    """Scores of logits [N, C] without each patient in turn: {metric: [U]}.

    units: None leaves images out one by one.
    """
    codes = np.arange(len(y)) if units is None else _codes(units)  # [N]
    plans = [[metrics.plan(logits, y, groupings)]]
    return _scored(plans, [slice(None)], _without_each(codes))[0][0]


def _without_each(codes: Array) -> Iterator[Array]:
    """Weights [N, b] that leave out one patient each, a few patients at a time."""
    count = int(codes.max(initial=-1)) + 1
    step = max(1, CHUNK // max(len(codes), 1))
    for start in range(0, count, step):
        patients = np.arange(start, min(start + step, count))
        yield codes[:, None] != patients


def _scored(
    plans: Sequence[Sequence[Plan]],
    members: Sequence[Array | slice],
    weights: Iterable[Array],
) -> list[list[Columns]]:
    """Scores of each part of the images by each model.

    plans: of each part, of each model. members: the images of each part. weights: [N, b], a few
    sets at a time.
    """
    parts: list[list[list[Columns]]] = []
    for models in plans:
        parts.append([[] for _ in models])
    for counts in weights:
        for models, images, of_models in zip(plans, members, parts, strict=True):
            counts_of_part = counts[images]
            for plan, scores in zip(models, of_models, strict=True):
                scores.append(metrics.resampled(plan, counts_of_part))
    joined = []
    for of_models in parts:
        joined.append([_joined(scores) for scores in of_models])
    return joined


def _joined(parts: Sequence[Columns]) -> Columns:
    if not parts:
        return {}
    columns = {}
    for metric in parts[0]:
        columns[metric] = np.concatenate([part[metric] for part in parts])
    return columns


def _members(groups: Array | None, order: Array) -> list[Array]:
    """The images of each group in this order.

    Class after class, the weights of a class lie together.
    """
    if groups is None:
        return [order]
    count = int(groups.max(initial=-1)) + 1
    codes = groups[order]
    return [order[codes == code] for code in range(max(count, 1))]


def mean(columns: Sequence[Columns]) -> Columns:
    """The mean of each metric over several models, or versions of the images."""
    means = {}
    for metric in columns[0]:
        means[metric] = np.mean([table[metric] for table in columns], axis=0)
    return means


def _ends(level: float) -> list[float]:
    """The two quantiles between which a share `level` of all values lies."""
    return [(1 - level) / 2, (1 + level) / 2]


def _finite(values: Array) -> Array:
    return values[~np.isnan(values)]


def interval(values: Array, level: float = LEVEL) -> Bounds:
    """Percentile interval of resampled values [B].

    NaN are passed over, (None, None) where nothing else is there.
    """
    numbers = _finite(values)
    if not len(numbers):
        return None, None
    low, high = np.quantile(numbers, _ends(level))
    return float(low), float(high)


def bca_interval(
    value: float | None, values: Array, without: Array, level: float = LEVEL
) -> Bounds:
    """BCa interval of resampled scores [B] of `value`; NaN are passed over.

    without: the scores without each patient [U].
    """
    from scipy.special import ndtr, ndtri

    numbers = _finite(values)
    jackknife = _finite(without)
    if value is None or not len(numbers) or len(jackknife) < 2:
        return interval(values, level)
    above = apart(numbers, value)
    share_below = ((above < 0).mean() + (above <= 0).mean()) / 2
    bias = ndtri(share_below)  # z0, Eq. 14.14
    if not np.isfinite(bias):
        return interval(values, level)
    off = apart(jackknife.mean(), jackknife)
    spread = (off**2).sum() ** 1.5
    acceleration = (off**3).sum() / (6 * spread) if spread else 0.0  # Eq. 14.15
    normal = bias + ndtri(_ends(level))
    ends = ndtr(bias + normal / (1 - acceleration * normal))  # Eq. 14.10
    low, high = np.quantile(numbers, ends)
    return float(low), float(high)


def bounds(
    value: float | None,
    resampled: Array,
    jackknife: Array | None,
) -> Bounds:
    """Percentile bounds, or BCa where the scores without each patient are given."""
    if jackknife is None:
        return interval(resampled)
    return bca_interval(value, resampled, jackknife)


def bootstrap_p(differences: Array, units: int) -> float | None:
    """Two-sided p of a resampled difference [B].

    It is twice the smaller share on either side of zero, zero on both. One is added to both counts,
    so that B resamples give no p below 2 / (B + 1).
    units: patients that differ at all; p is no less than their sign_floor, for resamples of few
        patients hold the same ones again and again and cannot show how others would differ.
    """
    numbers = apart(_finite(differences), 0.0)
    if not len(numbers):
        return None
    fewer = int(min((numbers <= 0).sum(), (numbers >= 0).sum()))
    p = 2 * (fewer + 1) / (len(numbers) + 1)
    return min(1.0, max(p, sign_floor(units)))
