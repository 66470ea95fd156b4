"""One class against all others: curves, thresholds, calibration and decision curves.

A score is the model's probability of the class. Everything here takes one column of scores [N] and
one of labels [N], so it serves two classes, several (each against the rest) and several labels per
image.

Sources: thresholds: Youden, Cancer 3, 1950. Brier's parts: Murphy, J. Appl. Meteorol. 12, 1973,
over the distinct scores rounded to bins. Slope and intercept: Cox, Biometrika 45, 1958: logistic
regression of the labels on the score's log odds, and its intercept with the slope held at 1
(calibration in the large; Van Calster et al., BMC Med. 17, 2019). Integrated calibration index:
Austin and Steyerberg, Stat. Med. 38, 2019: the mean distance of the scores from the share of
positives at each, by local regression (Cleveland, JASA 74, 1979) as R's loess has it by default:
quadratic, over the nearest three quarters of the images. It is computed at POINTS of the scores,
with straight lines between them. Net benefit: Vickers and Elkin, Med. Decis. Making 26, 2006.
"""

from fractions import Fraction
from typing import Any

import numpy as np

from ..statistics.shares import wilson

BINS = 10  # of equal width, of reliability curves and Brier's parts
SMALLEST = 1e-7  # a probability nearer to 0 or 1 has its log odds cut off there
STEPS = 100  # of Newton's method, at most
CLOSE = 1e-10  # the step at which Newton's method ends
SPAN = 0.75  # of local regression: the share of images
POINTS = 100  # scores at which a local regression is made
FEWEST = 10  # images of a local regression
BENEFITS = np.round(np.arange(0.05, 1.0, 0.05), 2)  # threshold probabilities of a decision curve
Array = np.ndarray


def rate(count: int, total: int) -> dict[str, Any]:
    """A share with its interval, counted of total images; None of no image."""
    low, high = wilson(count, total)
    value = count / total if total else None
    return {
        "value": value,
        "low": low,
        "high": high,
        "counted": count,
        "total": total,
    }


def point(called: Array, ill: Array, threshold: float | None) -> dict[str, Any]:
    """Rates of images [N] that are called positive or not, and are ill or not.

    None where there is nothing to count.
    """
    tp = int((called & ill).sum())
    fp = int(called.sum()) - tp
    fn = int(ill.sum()) - tp
    tn = len(ill) - tp - fp - fn
    product = float(tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    matthews = None
    if product:
        agreement = tp * tn - fp * fn
        matthews = agreement / product**0.5
    return {
        "threshold": threshold,
        "sensitivity": rate(tp, tp + fn),
        "specificity": rate(tn, tn + fp),
        "ppv": rate(tp, tp + fp),
        "npv": rate(tn, tn + fn),
        "selected": rate(tp + fp, len(ill)),
        "matthews_correlation": matthews,
    }


def falling(
    score: Array,
    label: Array,
    weights: Array,
) -> tuple[Array, Array, Array]:
    """The scores that occur, falling [T], with the images at or above none and each of them.

    Images are of the class, and all others: int32 [b, T + 1]. weights: how often each image counts,
    [n, b].
    """
    order = np.argsort(-score, kind="stable")
    ranked = score[order]
    changes = np.flatnonzero(np.diff(ranked))
    last = np.append(changes, len(score) - 1)
    # [b, n]; sums along rows read memory in order
    counts = np.ascontiguousarray(weights[order].T, np.int32)
    positives = counts * label[order].astype(np.int32)
    hits = _running(positives, last)
    alarms = _running(counts, last) - hits
    return ranked[last], hits, alarms


def _running(counts: Array, last: Array) -> Array:
    """0, and the sums of counts [b, n] up to each of the last images [T]: int32 [b, T + 1]."""
    sums = np.zeros((len(counts), len(last) + 1), np.int32)
    sums[:, 1:] = np.cumsum(counts, 1, np.int32)[:, last]
    return sums


def curve(score: Array, label: Array) -> tuple[Array, Array, Array]:
    """Thresholds that occur, falling, and the true and the false positives at or above each."""
    once = np.ones((len(score), 1), np.int64)
    thresholds, hits, alarms = falling(score, label, once)
    counts = np.stack([hits[0, 1:], alarms[0, 1:]]).astype(np.int64)
    return thresholds, counts[0], counts[1]


def threshold_of(
    rule: str,
    value: float | None,
    score: Array,
    label: Array,
) -> float | None:
    """The threshold that a rule chooses; None where the images are all of one label.

    "youden": the largest sensitivity + specificity. "sensitivity": the highest threshold that
    reaches the value. "specificity": the lowest that does. "cost": the least cost, where a missed
    positive costs `value` false alarms. Of equals the highest threshold counts; whole numbers are
    compared, so that no rounding makes them differ. Chosen thresholds are scores that occur, so
    they are finite.
    """
    ill = int((label == 1).sum())
    if not 0 < ill < len(label):
        return None
    thresholds, hits, alarms = curve(score, label)
    well = len(label) - ill
    if rule == "youden":
        index = hits * well - alarms * ill  # of Youden, times well and ill
        return float(thresholds[np.argmax(index)])
    assert value is not None
    if rule == "cost":
        costs = _costs(value, ill - hits, alarms)
        return float(thresholds[np.argmin(costs)])
    if rule == "sensitivity":
        sensitivity = hits / ill
        return float(thresholds[np.argmax(sensitivity >= value)])
    specificity = (well - alarms) / well
    reaching = np.flatnonzero(specificity >= value)
    if len(reaching):
        return float(thresholds[reaching[-1]])
    return float(np.nextafter(thresholds[0], np.inf))


def _costs(cost: float, missed: Array, alarms: Array) -> Array:
    """The cost of each threshold, in whole numbers of any size."""
    ratio = Fraction(str(cost))  # as it was typed
    cost_of_missed = ratio.numerator * missed.astype(object)
    return cost_of_missed + ratio.denominator * alarms.astype(object)


def average_precision(score: Array, label: Array) -> float | None:
    """Area under precision by recall, as steps; None without a positive image."""
    if not (label == 1).any():
        return None
    _, hits, alarms = curve(score, label)
    new_hits = np.diff(hits, prepend=0)
    areas = new_hits * hits / (hits + alarms)
    return float(areas.sum() / hits[-1])


def sensitivity_at(
    specificity: float,
    score: Array,
    label: Array,
) -> float | None:
    """Sensitivity of the lowest threshold with this specificity on the same images.

    It is a point of the ROC curve.
    """
    threshold = threshold_of("specificity", specificity, score, label)
    if threshold is None:
        return None
    positives = score[label == 1]
    return int((positives >= threshold).sum()) / len(positives)


def brier(score: Array, label: Array) -> float | None:
    if not len(score):
        return None
    squares = (score - label) ** 2
    return float(squares.mean())


def reliability(score: Array, label: Array) -> list[tuple[float, float, int]]:
    """The mean score, the share of positives and the images of each bin that has any.

    The bins are (0, 1/10], (1/10, 2/10], ...
    """
    upper_ends = np.arange(1, BINS) / BINS
    bin_of_image = np.searchsorted(upper_ends, score)
    bins = []
    for k in range(BINS):
        inside = bin_of_image == k
        count = int(inside.sum())
        if count:
            mean = float(score[inside].mean())
            share = float(label[inside].mean())
            bins.append((mean, share, count))
    return bins


def brier_parts(score: Array, label: Array) -> tuple[float, float, float] | None:
    """Reliability (better low), resolution (better high) and uncertainty over reliability()'s bins.

    None without an image.
    """
    if not len(score):
        return None
    base = float(label.mean())
    off = 0.0
    resolution = 0.0
    for mean, share, count in reliability(score, label):
        off += count * (mean - share) ** 2
        resolution += count * (share - base) ** 2
    uncertainty = base * (1 - base)
    return off / len(score), resolution / len(score), uncertainty


def calibration_line(score: Array, label: Array) -> tuple[float, float] | None:
    """Slope, and intercept with the slope at 1.

    None where the labels or scores are all alike or are separated.
    """
    labels = np.unique(label)
    if len(score) < 2 or len(labels) < 2 or len(np.unique(score)) < 2:
        return None
    inside = score.clip(SMALLEST, 1 - SMALLEST)
    x = np.log(inside / (1 - inside))  # log odds
    positives = x[label == 1]
    negatives = x[label == 0]
    is_rising = positives.min() >= negatives.max()
    is_falling = negatives.min() >= positives.max()
    if is_rising or is_falling:
        return None  # a line between them would be infinitely steep
    ones = np.ones_like(x)
    columns = np.stack([ones, x], 1)
    slope = _newton(columns, label, np.zeros_like(x))
    large = _newton(ones[:, None], label, x)
    if slope is None or large is None:
        return None
    return float(slope[1]), float(large[0])


def calibration_index(score: Array, label: Array) -> float | None:
    """Mean distance of the scores from the smoothed share of positives.

    None of fewer than FEWEST images.
    """
    if len(score) < FEWEST:
        return None
    spaced = np.linspace(0, len(score) - 1, POINTS)
    ranks = spaced.round().astype(int)
    knots = np.unique(np.sort(score)[ranks])
    shares = np.interp(score, knots, smoothed(score, label, knots))
    return float(np.abs(score - shares).mean())


def smoothed(x: Array, y: Array, knots: Array, degree: int = 2) -> Array:
    """Local regression of y [N] on x [N] at some values of x: [T].

    Each has tricube weights of the nearest SPAN.
    """
    heights = []
    neighbour = int(SPAN * len(x)) - 1
    exponents = np.arange(degree + 1)
    for knot in knots:
        distance = np.abs(x - knot)
        width = max(np.partition(distance, neighbour)[neighbour], SMALLEST**2)
        near = distance < width
        steps = (x[near] - knot) / width
        powers = steps[:, None] ** exponents  # [n, degree + 1]
        cubes = (distance[near] / width) ** 3
        weights = (1 - cubes) ** 3
        weighted = powers.T * weights
        inverse = np.linalg.pinv(weighted @ powers, hermitian=True)  # few values may lie near
        coefficients = inverse @ (weighted @ y[near])
        heights.append(coefficients[0])
    return np.array(heights)


def _newton(x: Array, y: Array, offset: Array) -> Array | None:
    """Coefficients of logistic regression [P]; None where it does not converge."""
    beta = np.zeros(x.shape[1])
    for _ in range(STEPS):
        odds = (x @ beta + offset).clip(-500, 500)
        p = 1 / (1 + np.exp(-odds))
        weights = p * (1 - p)
        hessian = (x * weights[:, None]).T @ x
        is_finite = np.isfinite(hessian).all()
        if not is_finite or np.linalg.cond(hessian) > 1e12:
            return None
        step = np.linalg.solve(hessian, x.T @ (y - p))
        beta = beta + step
        if np.abs(step).max() < CLOSE:
            return beta
    return None


def benefit(score: Array, label: Array, weights: Array) -> tuple[Array, Array]:
    """Threshold probabilities [T], and the net benefit of the model at each [T, b].

    weights: as of falling().
    """
    above = score >= BENEFITS[:, None]  # [T, n]
    ill = above & (label == 1)
    well = above & (label == 0)
    hits = ill.astype(float) @ weights
    alarms = well.astype(float) @ weights
    odds = BENEFITS / (1 - BENEFITS)
    benefits = hits - alarms * odds[:, None]
    return BENEFITS, benefits / weights.sum(0)


def net_benefit(score: Array, label: Array) -> list[tuple[float, float, float]]:
    """The threshold probabilities with the net benefit of the model and of treating all.

    Treating none has 0.
    """
    if not len(score):
        return []
    base = label.mean()
    weights = np.ones((len(score), 1))
    thresholds, model = benefit(score, label, weights)
    odds = thresholds / (1 - thresholds)
    everyone = base - (1 - base) * odds
    columns = np.stack([thresholds, model[:, 0], everyone], 1)
    return [tuple(line) for line in columns.tolist()]
