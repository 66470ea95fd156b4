"""Membership inference: how well a model's answers tell its training images from held-out ones.

Sources: the loss as the score, and the advantage TPR - FPR of who knows the mean training loss, are
Yeom, Giacomelli, Fredrikson and Jha, CSF 2018, arXiv 1709.01604, Definition 4 and Adversary 2. True
positives at few false positives, and LiRA, are Carlini, Chien, Nasr, Song, Terzis and Tramèr, S&P
2022, arXiv 2112.03570, Algorithm 1. With f(x)_y the probability of the label, shadow models that
were not trained on x, and in the online attack those that were too, give

    phi        log f(x)_y / (1 - f(x)_y), normal with mean mu_x and deviation sigma
    offline    Pr[Z <= phi], Z ~ N(mu_out, sigma_out^2)
    online     p(phi | N(mu_in, sigma_in^2)) / p(phi | N(mu_out, sigma_out^2))

With few shadow models sigma is the same for all images, as the paper advises; ours is that the
variance of a mean over n of them is added, sigma^2 (1 + 1/n), without which images with few models
would stand out by chance.

Training images of other classes than the held-out ones are found by their class alone. Two numbers
tell this apart from membership: the AUC of the mean score of held-out images of the class in place
of the image's own; and the AUC where the held-out images of each class weigh as much as its
training images, which is a half where the score depends on the class alone.

What differential privacy allows is Kairouz, Oh and Viswanath, ICML 2015, arXiv 1311.0776, Theorem
2.1: TPR <= exp(epsilon) FPR + delta and 1 - FPR <= exp(epsilon) (1 - TPR) + delta.
"""

import math

import numpy as np

from ...metrics.of_images import number
from ..clinical.binary import falling
from ..statistics.bootstrap import draw, interval

RATES = 0.01, 0.001  # of false positives
RESAMPLES = 1000  # of the patients
LEAST = 2  # shadow models that an image needs
EQUAL_MIX, ALONE = "auc at equal class mix", "auc by class"
AT_ONCE = 2**21  # weights of images at a time
Interval = dict[str, float | None]  # value, and low and high of its 95 % interval
Scores = dict[str, tuple[np.ndarray, np.ndarray]]  # attack -> images that have a score, and scores


def attack(
    score: np.ndarray,
    member: np.ndarray,
    classes: np.ndarray,
    units: np.ndarray,
    threshold: float | None,
    seed: int,
) -> dict[str, Interval]:
    """Numbers of an attack, with intervals over patients.

    score: [N], high for likely members. member: bool [N]. classes: int [N]. units: [N], patients.
    threshold: the score of a member on average, for the advantage; None without.
    """
    weights = weights_of(units, seed)
    means = by_class(score, member, classes)
    step = max(1, AT_ONCE // len(score))
    columns: dict[str, list[np.ndarray]] = {}
    for start in range(0, len(weights), step):
        piece = weights[start : start + step]
        numbers = roc(score, member, piece, threshold)
        numbers[EQUAL_MIX] = auc_at_equal_mix(score, member, classes, piece)
        numbers[ALONE] = roc(means, member, piece, None)["auc"]
        for name, values in numbers.items():
            columns.setdefault(name, []).append(values)
    return {name: with_interval(np.concatenate(values)) for name, values in columns.items()}


def weights_of(units: np.ndarray, seed: int) -> np.ndarray:
    """The weight of each image: one, then its count in each resample of the patients: int16 [B + 1,
    N].
    """
    once = np.ones((1, len(units)), np.int16)
    return np.concatenate([once, draw(units, RESAMPLES, seed)])


def by_class(
    score: np.ndarray,
    member: np.ndarray,
    classes: np.ndarray,
) -> np.ndarray:
    """The mean score of the held-out images of each image's class, or of its members where none is
    held out: [N].
    """
    means = np.empty(len(score))
    for one_class in np.unique(classes):
        images = classes == one_class
        held_out = images & ~member
        means[images] = score[held_out if held_out.any() else images].mean()
    return means


def auc_at_equal_mix(
    score: np.ndarray,
    member: np.ndarray,
    classes: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    """The AUC where the held-out images of each class weigh as much as its members, under each set
    of weights: [b].

    classes: int [N]. weights: [b, N]. A class without members or without held-out images takes no
    part; NaN without a class that has both.
    """
    members = weights * member.astype(float)  # [b, N]
    held_out = weights * (~member).astype(float)  # [b, N]
    for one_class in np.unique(classes):
        images = classes == one_class
        total = members[:, images].sum(1, keepdims=True)  # [b, 1]
        total_held_out = held_out[:, images].sum(1, keepdims=True)
        held_out[:, images] *= total / np.maximum(total_held_out, 1)
        members[:, images] *= total_held_out > 0
    order = np.argsort(score, kind="stable")
    starts = np.flatnonzero(np.diff(score[order], prepend=-np.inf))  # of each score that occurs
    hits = np.add.reduceat(members[:, order], starts, 1)  # [b, T]
    alarms = np.add.reduceat(held_out[:, order], starts, 1)
    below = np.cumsum(alarms, 1) - alarms / 2  # ties count half
    with np.errstate(invalid="ignore"):
        return (hits * below).sum(1) / (hits.sum(1) * alarms.sum(1))


def with_interval(column: np.ndarray) -> Interval:
    """A number and its interval. column: [B + 1], of all images, then of each resample."""
    low, high = interval(column[1:])
    return {"value": number(column[0]), "low": low, "high": high}


def roc(
    score: np.ndarray,
    member: np.ndarray,
    weights: np.ndarray,
    threshold: float | None,
) -> dict[str, np.ndarray]:
    """AUC, true positive rates at RATES and the advantage under each set of weights: [b] each.
    weights: [b, N].

    A rate of which there is no single held-out image is left out.
    """
    # [b, T + 1] with at least each score
    thresholds, hits, alarms = falling(score, member, weights.T)
    with np.errstate(invalid="ignore"):
        tpr = hits / hits[:, -1:]
        fpr = alarms / alarms[:, -1:]
    heights = (tpr[:, 1:] + tpr[:, :-1]) / 2  # ties count half
    numbers = {"auc": (heights * np.diff(fpr)).sum(1)}
    for rate in RATES:
        if (~member).sum() * rate >= 1 - 1e-9:
            # the lowest threshold with so few false positives
            last = (fpr <= rate + 1e-12).sum(1) - 1
            hit_rate = tpr[np.arange(len(tpr)), last]
            numbers[f"tpr {rate:g}"] = np.where(
                np.isnan(fpr[:, -1]),
                np.nan,
                hit_rate,
            )
    if threshold is not None:
        last = np.searchsorted(-thresholds, -threshold, "right")
        numbers["advantage"] = tpr[:, last] - fpr[:, last]  # Definition 4
    return numbers


def allowed(epsilon: float, delta: float) -> dict[str, float]:
    """The most that each number can be under (epsilon, delta)-differential privacy."""
    e = math.exp(min(epsilon, 700.0))
    corner = (1 - delta) / (1 + e)  # the false positives where the two lines of Theorem 2.1 cross
    area_before = corner * (delta + 1 - corner)
    area_after = (1 - delta - corner) * (2 - corner)
    bounds = {"auc": (area_before + area_after) / 2 + delta}
    for rate in RATES:
        second_line = 1 - (1 - delta - rate) / e
        bounds[f"tpr {rate:g}"] = min(1.0, e * rate + delta, second_line)
    return bounds | {"advantage": 1 - 2 * corner}


def lira(phi: np.ndarray, shadows: np.ndarray, trained: np.ndarray) -> Scores:
    """Attack -> the images that have enough shadow models, bool [N], and their scores [N].

    phi: [N], of the model that is attacked. shadows: [S, N], phi of each shadow model. trained:
    bool [S, N], the images on which each was trained.
    """
    enough_out, z, log_out = _likelihood(phi, shadows, ~trained)
    enough_in, _, log_in = _likelihood(phi, shadows, trained)
    return {
        "LiRA, offline": (enough_out, z),
        "LiRA, online": (enough_out & enough_in, log_in - log_out),
    }


def _likelihood(
    phi: np.ndarray, shadows: np.ndarray, counted: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images with enough of the counted models, their phi in standard deviations, and its log
    density but for a constant. counted: bool [S, N].
    """
    n = counted.sum(0)  # [N]
    at_least_one = n.clip(1)
    mean = (shadows * counted).sum(0) / at_least_one
    enough = n >= LEAST
    squares = (shadows - mean) ** 2 * counted
    variance = squares[:, enough].sum() / max((n[enough] - 1).sum(), 1)
    sigma = np.sqrt(variance * (1 + 1 / at_least_one)).clip(1e-6)  # [N]
    z = (phi - mean) / sigma
    return enough, z, -(z**2) / 2 - np.log(sigma)
