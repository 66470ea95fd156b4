"""One class against all others: curves, thresholds, calibration and decision curves of a score against 0/1 labels.

A score is the model's probability of the class. Everything here takes one column of scores [N] and one of labels [N],
so it serves two classes, several (each against the rest) and several labels per image.

Sources: thresholds: Youden, Cancer 3, 1950. Intervals of shares: Wilson, JASA 22, 1927. Brier's parts: Murphy, J. Appl.
Meteorol. 12, 1973, over the distinct scores rounded to bins. Slope and intercept: Cox, Biometrika 45, 1958: logistic
regression of the labels on the score's log odds, and its intercept with the slope held at 1 (calibration in the large;
Van Calster et al., BMC Med. 17, 2019). Integrated calibration index: Austin and Steyerberg, Stat. Med. 38, 2019: the
mean distance of the scores from the share of positives at each, by local regression (Cleveland, JASA 74, 1979) as R's
loess has it by default: quadratic, over the nearest three quarters of the images. It is computed at POINTS of the
scores, with straight lines between them. Net benefit: Vickers and Elkin, Med. Decis. Making 26, 2006.
"""

from fractions import Fraction
from typing import Any

import numpy as np

Z = 1.959963984540054  # of a 95 % interval
BINS = 10  # of equal width, of reliability curves and Brier's parts
SMALLEST = 1e-7  # a probability nearer to 0 or 1 has its log odds cut off there
STEPS, CLOSE = 100, 1e-10  # of Newton's method, and the step at which it ends
SPAN, POINTS, FEWEST = (
    0.75,
    100,
    10,
)  # of local regression: share of images, scores it is made at, fewest images
BENEFITS = np.round(np.arange(0.05, 1.0, 0.05), 2)  # threshold probabilities of a decision curve


def wilson(counted: int, total: int) -> tuple[float | None, float | None]:
    """95 % interval of a share; (None, None) of nothing."""
    if not total:
        return None, None
    p, z = counted / total, Z * Z / total
    centre, half = (
        (p + z / 2) / (1 + z),
        Z / (1 + z) * (p * (1 - p) / total + z / (4 * total)) ** 0.5,
    )
    return max(0.0, centre - half), min(1.0, centre + half)


def rate(counted: int, total: int) -> dict[str, Any]:
    """A share with its interval, counted of total images; None of no image."""
    low, high = wilson(counted, total)
    value = counted / total if total else None
    return {"value": value, "low": low, "high": high, "counted": counted, "total": total}


def point(called: np.ndarray, ill: np.ndarray, threshold: float | None) -> dict[str, Any]:
    """Rates of images [N] that are called positive or not, and are ill or not; None where there is nothing to count."""
    tp, fp, fn, tn = (int((c & i).sum()) for c in (called, ~called) for i in (ill, ~ill))
    product = float(tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    return {
        "threshold": threshold,
        "sensitivity": rate(tp, tp + fn),
        "specificity": rate(tn, tn + fp),
        "ppv": rate(tp, tp + fp),
        "npv": rate(tn, tn + fn),
        "selected": rate(tp + fp, len(ill)),
        "matthews_correlation": (tp * tn - fp * fn) / product**0.5 if product else None,
    }


def falling(
    score: np.ndarray, label: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores that occur, falling [T], and the images at or above none and each of them: of the class, and all others.

    weights: how often each image counts, [n, b]. The images are int32 [b, T + 1].
    """
    order = np.argsort(-score, kind="stable")
    last = np.append(np.flatnonzero(np.diff(score[order])), len(score) - 1)
    counts = np.ascontiguousarray(
        weights[order].T, np.int32
    )  # [b, n]; sums along rows read memory in order
    hits, alarms = np.zeros((2, len(counts), len(last) + 1), np.int32)
    hits[:, 1:] = np.cumsum(counts * label[order].astype(np.int32), 1, np.int32)[:, last]
    alarms[:, 1:] = np.cumsum(counts, 1, np.int32)[:, last] - hits[:, 1:]
    return score[order][last], hits, alarms


def curve(score: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Thresholds that occur, falling, and the true and the false positives at or above each."""
    thresholds, hits, alarms = falling(score, label, np.ones((len(score), 1), np.int64))
    return thresholds, hits[0, 1:].astype(np.int64), alarms[0, 1:].astype(np.int64)


def threshold_of(
    rule: str, value: float | None, score: np.ndarray, label: np.ndarray
) -> float | None:
    """The threshold that a rule chooses; None where the images are all of one label.

    "youden": the largest sensitivity + specificity. "sensitivity": the highest threshold that reaches the value.
    "specificity": the lowest that does. "cost": the least cost, where a missed positive costs `value` false alarms.
    Of equals the highest threshold counts; whole numbers are compared, so that no rounding makes them differ. Chosen
    thresholds are scores that occur, so they are finite.
    """
    ill = int((label == 1).sum())
    if not 0 < ill < len(label):
        return None
    thresholds, hits, alarms = curve(score, label)
    well = len(label) - ill
    if rule == "youden":
        return float(thresholds[np.argmax(hits * well - alarms * ill)])
    if rule == "cost":
        assert value is not None
        cost = Fraction(str(value))  # as it was typed
        missed, false = (
            (ill - hits).astype(object),
            alarms.astype(object),
        )  # whole numbers of any size
        return float(thresholds[np.argmin(cost.numerator * missed + cost.denominator * false)])
    assert value is not None
    if rule == "sensitivity":
        return float(thresholds[np.argmax(hits / ill >= value)])
    reaching = np.flatnonzero((well - alarms) / well >= value)
    return (
        float(thresholds[reaching[-1]])
        if len(reaching)
        else float(np.nextafter(thresholds[0], np.inf))
    )


def average_precision(score: np.ndarray, label: np.ndarray) -> float | None:
    """Area under precision by recall, as steps; None without a positive image."""
    if not (label == 1).any():
        return None
    _, hits, alarms = curve(score, label)
    return float((np.diff(hits, prepend=0) * hits / (hits + alarms)).sum() / hits[-1])


def sensitivity_at(specificity: float, score: np.ndarray, label: np.ndarray) -> float | None:
    """Sensitivity of the lowest threshold with this specificity on the same images: a point of the ROC curve."""
    threshold = threshold_of("specificity", specificity, score, label)
    return (
        None
        if threshold is None
        else int((score[label == 1] >= threshold).sum()) / int((label == 1).sum())
    )


def brier(score: np.ndarray, label: np.ndarray) -> float | None:
    return float(((score - label) ** 2).mean()) if len(score) else None


def reliability(score: np.ndarray, label: np.ndarray) -> list[tuple[float, float, int]]:
    """Of each bin (0, 1/10], (1/10, 2/10], ... with an image: mean score, share of positives, images."""
    place = np.searchsorted(np.arange(1, BINS) / BINS, score)
    return [
        (float(score[at].mean()), float(label[at].mean()), int(at.sum()))
        for k in range(BINS)
        if (at := place == k).any()
    ]


def brier_parts(score: np.ndarray, label: np.ndarray) -> tuple[float, float, float] | None:
    """Reliability (better low), resolution (better high) and uncertainty over the bins of reliability()."""
    if not len(score):
        return None
    base, bins = float(label.mean()), reliability(score, label)
    off = sum(n * (mean - seen) ** 2 for mean, seen, n in bins) / len(score)
    resolution = sum(n * (seen - base) ** 2 for _, seen, n in bins) / len(score)
    return off, resolution, base * (1 - base)


def calibration_line(score: np.ndarray, label: np.ndarray) -> tuple[float, float] | None:
    """Slope, and intercept with the slope at 1; None where the labels or scores are all alike or are separated."""
    if len(score) < 2 or len(np.unique(label)) < 2 or len(np.unique(score)) < 2:
        return None
    inside = score.clip(SMALLEST, 1 - SMALLEST)
    x = np.log(inside / (1 - inside))  # log odds
    if x[label == 1].min() >= x[label == 0].max() or x[label == 0].min() >= x[label == 1].max():
        return None  # a line between them would be infinitely steep
    slope = _newton(np.stack([np.ones_like(x), x], 1), label, np.zeros_like(x))
    large = _newton(np.ones((len(x), 1)), label, x)
    return None if slope is None or large is None else (float(slope[1]), float(large[0]))


def calibration_index(score: np.ndarray, label: np.ndarray) -> float | None:
    """Mean distance of the scores from the smoothed share of positives; None of fewer than FEWEST images."""
    if len(score) < FEWEST:
        return None
    rising = np.sort(score)
    at = np.unique(rising[np.linspace(0, len(score) - 1, POINTS).round().astype(int)])
    return float(np.abs(score - np.interp(score, at, smoothed(score, label, at))).mean())


def smoothed(x: np.ndarray, y: np.ndarray, at: np.ndarray, degree: int = 2) -> np.ndarray:
    """Local regression of y [N] on x [N] at some values of x: [T], each with tricube weights of the nearest SPAN."""
    made = []
    for point in at:
        distance = np.abs(x - point)
        width = max(
            np.partition(distance, int(SPAN * len(x)) - 1)[int(SPAN * len(x)) - 1], SMALLEST**2
        )
        near = distance < width
        powers = ((x[near] - point) / width)[:, None] ** np.arange(degree + 1)  # [n, degree + 1]
        weighted = powers.T * (1 - (distance[near] / width) ** 3) ** 3
        inverse = np.linalg.pinv(weighted @ powers, hermitian=True)  # few values may lie near
        made.append((inverse @ (weighted @ y[near]))[0])
    return np.array(made)


def _newton(x: np.ndarray, y: np.ndarray, offset: np.ndarray) -> np.ndarray | None:
    """Coefficients of logistic regression [P]; None where it does not converge."""
    beta = np.zeros(x.shape[1])
    for _ in range(STEPS):
        p = 1 / (1 + np.exp(-(x @ beta + offset).clip(-500, 500)))
        hessian = (x * (p * (1 - p))[:, None]).T @ x
        if not np.isfinite(hessian).all() or np.linalg.cond(hessian) > 1e12:
            return None
        step = np.linalg.solve(hessian, x.T @ (y - p))
        beta = beta + step
        if np.abs(step).max() < CLOSE:
            return beta
    return None


def benefit(
    score: np.ndarray, label: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Threshold probabilities [T], and the net benefit of the model at each [T, b]. weights: as of falling()."""
    above = score >= BENEFITS[:, None]  # [T, n]
    hits, alarms = (
        (above & (label == 1)).astype(float) @ weights,
        (above & (label == 0)).astype(float) @ weights,
    )
    return BENEFITS, (hits - alarms * (BENEFITS / (1 - BENEFITS))[:, None]) / weights.sum(0)


def net_benefit(score: np.ndarray, label: np.ndarray) -> list[tuple[float, float, float]]:
    """Of each threshold probability p: p, net benefit of the model, and of treating all; treating none has 0."""
    if not len(score):
        return []
    base, (thresholds, model) = label.mean(), benefit(score, label, np.ones((len(score), 1)))
    everyone = base - (1 - base) * (thresholds / (1 - thresholds))
    return list(zip(thresholds.tolist(), model[:, 0].tolist(), everyone.tolist(), strict=True))
