"""Tests of whether two models differ: over images, seeds and folds.

Source: the AUC test is DeLong, DeLong and Clarke-Pearson, Biometrics 44, 1988, in the midrank form
of Sun and Xu, IEEE Signal Processing Letters 21, 2014; McNemar, Psychometrika 12, 1947, in its
exact form; Wilcoxon, Biometrics Bulletin 1, 1945; Holm, Scandinavian Journal of Statistics 6, 1979;
the corrected t test over folds is Nadeau and Bengio, Machine Learning 52, 2003, section 3. A p that
has no meaning is None, never NaN.

What varies differs: DeLong and McNemar, as the bootstrap of bootstrap.py, ask what other test
patients would have given to these very models; the tests over seeds ask what other trainings would
have given on these very patients, those over folds what other trainings and test sets would have
given.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from ...errors import FedcliError
from ...metrics.arithmetic import CLOSE, apart

Array = np.ndarray


def sign_floor(units: int) -> float:
    """The smallest two-sided p of an exact sign test of so many units, all to one side: 2 / 2^n."""
    return min(1.0, 2.0 ** (1 - units))


@dataclass(frozen=True)
class DeLong:
    """Two AUCs on the same images, b against a.

    difference: auc_b - auc_a; se: its standard error; z and p are None where it has none and they
    differ.
    """

    auc_a: float
    auc_b: float
    se_a: float
    se_b: float
    difference: float
    se: float
    z: float | None
    p: float | None


def delong(score_a: Array, score_b: Array, y: Array) -> DeLong:
    """Test of whether two AUCs on the same images differ.

    score_a, score_b: of the positive class [N]. y: [N] of 0 and 1. Images count as independent:
    where patients have several, the standard errors are too small. Raises FedcliError where a class
    has fewer than two images, or a score is NaN.
    """
    # here and below: it takes a sixth of a second, for which few commands need it
    from scipy.special import ndtr

    truth = np.asarray(y).astype(bool)
    _check_scores(score_a, score_b, truth)
    tens_a, ones_a = _components(np.asarray(score_a, np.float64), truth)
    tens_b, ones_b = _components(np.asarray(score_b, np.float64), truth)
    tens = np.stack([tens_a, tens_b])  # V10 [2, m]
    ones = np.stack([ones_a, ones_b])  # V01 [2, n]
    auc_a, auc_b = tens.mean(1)
    difference = float(apart(auc_b, auc_a))
    # Eq. 5 and 6 of DeLong et al., of a, of b, and of their difference
    se_a, se_b, se = np.sqrt(_variances(tens) + _variances(ones)).tolist()
    if se <= CLOSE:
        se = 0.0  # rounding of components that are alike
    z = None
    if se:
        z = difference / se
    elif difference == 0:
        z = 0.0
    p = None if z is None else min(1.0, float(2 * ndtr(-abs(z))))
    return DeLong(float(auc_a), float(auc_b), se_a, se_b, difference, se, z, p)


def _variances(components: Array) -> Array:
    """The variances of the means of both models' components [2, n] and of their difference: [3]."""
    a, b = components
    return np.var([a, b, b - a], axis=1, ddof=1) / len(a)


def _check_scores(score_a: Array, score_b: Array, truth: Array) -> None:
    """Raises FedcliError where DeLong's test cannot be made."""
    missing = np.isnan(score_a) | np.isnan(score_b)
    if missing.any():
        fault = f"{missing.sum()} of {len(truth)} images got a score that is no number"
        raise FedcliError(fault, "train the run again")
    m = int(truth.sum())
    n = len(truth) - m
    if min(m, n) < 2:
        raise FedcliError(f"DeLong's test needs two images of each class; here are {n} and {m}")


def _components(score: Array, truth: Array) -> tuple[Array, Array]:
    """DeLong's V10 of the positives and V01 of the negatives, from midranks.

    Sun and Xu, Eq. 5 and 6.
    """
    positives = score[truth]
    negatives = score[~truth]
    ranks = _midranks(score)
    tens = (ranks[truth] - _midranks(positives)) / len(negatives)
    positives_below = ranks[~truth] - _midranks(negatives)
    ones = 1 - positives_below / len(positives)
    return tens, ones


def _midranks(values: Array) -> Array:
    """Ranks from 1, their mean where values are the same."""
    _, codes, counts = np.unique(
        values,
        return_inverse=True,
        return_counts=True,
    )
    ranks = np.cumsum(counts) - (counts - 1) / 2
    return ranks[codes]


@dataclass(frozen=True)
class McNemar:
    """Images that only one of two models got right, and the exact two-sided p of both as likely."""

    only_a: int
    only_b: int
    p: float


def mcnemar(right_a: Array, right_b: Array) -> McNemar:
    """McNemar's exact test on right [N] of two models.

    It asks whether each is right on half of the images on which they differ. Images count as
    independent: where patients have several, p is too small.
    """
    from scipy.special import bdtr

    right_a = np.asarray(right_a, bool)
    right_b = np.asarray(right_b, bool)
    a = int((right_a & ~right_b).sum())
    b = int((right_b & ~right_a).sum())
    p = 2 * float(bdtr(min(a, b), a + b, 0.5))
    return McNemar(a, b, min(1.0, p))


@dataclass(frozen=True)
class PairTest:
    """A test over pairs of numbers, b against a.

    difference: mean of b - a; statistic: t, or the signed rank sum of the rises; p: two-sided, None
    where it has no meaning; floor: the smallest p that this many pairs can give, 0 where there is
    none.
    """

    pairs: int
    difference: float
    statistic: float | None
    p: float | None
    floor: float = 0.0


def paired_t(
    a: list[float],
    b: list[float],
    *,
    overlap: float = 0.0,
) -> PairTest:
    """Student's paired t test, two-sided.

    p is None for fewer than two pairs, or equal differences that are not 0.
    overlap: where the pairs are folds or other splits of one dataset, test images per training
        image. Their training sets overlap, so the variance of the mean is (1/J + overlap) times
        that of the J differences, in place of 1/J (Nadeau and Bengio's corrected resampled t test).
    """
    differences = _differences(a, b)
    pairs = len(differences)
    mean = float(differences.mean())
    if pairs < 2:
        return PairTest(pairs, mean, None, None)
    if np.ptp(differences) <= CLOSE:
        if mean == 0:
            return PairTest(pairs, mean, 0.0, 1.0)
        return PairTest(pairs, mean, None, None)
    from scipy.special import stdtr

    deviation = float(differences.std(ddof=1))
    spread = sqrt(1 / pairs + overlap)
    se = deviation * spread
    t = mean / se
    p = float(2 * stdtr(pairs - 1, -abs(t)))
    return PairTest(pairs, mean, t, p)


def wilcoxon(a: list[float], b: list[float]) -> PairTest:
    """Wilcoxon's signed rank test, two-sided and exact, also for ties.

    Pairs without a difference are dropped. Its floor is 2 / 2^n for the n pairs given, whatever the
    numbers: 0.25 of three seeds, 0.0625 of five.
    """
    differences = _differences(a, b)
    pairs = len(differences)
    floor = sign_floor(pairs)
    unequal = differences[differences != 0]
    if not len(unequal):
        return PairTest(pairs, 0.0, 0.0, 1.0, floor)
    midranks = _midranks(_levels(np.abs(unequal)))
    ranks = np.rint(2 * midranks).astype(int)  # twice the midranks, so that they are whole
    rises = int(ranks[unequal > 0].sum())
    chance = _rank_sums(ranks)
    lower_tail = chance[: rises + 1].sum()
    upper_tail = chance[rises:].sum()
    p = 2 * float(min(lower_tail, upper_tail))
    return PairTest(
        pairs,
        float(differences.mean()),
        rises / 2,
        min(1.0, p),
        floor,
    )


def _rank_sums(ranks: Array) -> Array:
    """The chance of each sum of ranks from 0 to that of all, where a coin takes each or not."""
    chance = np.zeros(ranks.sum() + 1)
    chance[0] = 1
    for rank in ranks:
        chance[rank:] = chance[rank:] / 2 + chance[:-rank] / 2
        chance[:rank] /= 2
    return chance


def _differences(a: list[float], b: list[float]) -> Array:
    if len(a) != len(b) or not len(a):
        fault = f"{len(a)} and {len(b)} numbers make no pairs"
        raise FedcliError(fault, "give runs of the same seeds")
    return apart(b, a)


def _levels(values: Array) -> Array:
    """Whole numbers [N] in the order of the values.

    Values that rounding alone sets apart have the same.
    """
    order = np.argsort(values)
    steps = np.diff(values[order]) > CLOSE
    levels = np.zeros(len(values), int)
    levels[order[1:]] = np.cumsum(steps)
    return levels


def holm(ps: list[float | None]) -> list[float | None]:
    """Holm's step-down adjustment of several tests' p, in their order.

    None stays None and is not counted.
    """
    ranked = sorted((p, index) for index, p in enumerate(ps) if p is not None)
    adjusted: list[float | None] = [None] * len(ps)
    highest = 0.0
    for rank, (p, index) in enumerate(ranked):
        factor = len(ranked) - rank
        highest = max(highest, min(1.0, factor * p))
        adjusted[index] = highest
    return adjusted


@dataclass(frozen=True)
class OverSeeds:
    """One metric over runs that differ in the seed alone.

    mean: of the runs' means. std_pooled: population std (ddof 0) over all rounds of all runs, as
    papers that print one spread for both. std_runs: sample std (ddof 1) of the runs' means, None
    for one run.
    """

    mean: float | None
    std_pooled: float | None
    std_runs: float | None
    runs: int

    def std(self, spread: str) -> float | None:
        """spread: "pooled" or "runs"."""
        return self.std_pooled if spread == "pooled" else self.std_runs


def over_seeds(per_round: Sequence[Sequence[float]]) -> OverSeeds:
    """The mean and the spread of a metric by the kept rounds of each run."""
    means = [float(np.mean(rounds)) for rounds in per_round]
    pooled = float(np.std(np.concatenate(per_round)))
    between_runs = float(np.std(means, ddof=1)) if len(means) > 1 else None
    return OverSeeds(float(np.mean(means)), pooled, between_runs, len(means))
