"""Tests of whether two models differ: over images, seeds and folds.

Source: the AUC test is DeLong, DeLong and Clarke-Pearson, Biometrics 44, 1988, in the midrank form of Sun and Xu,
IEEE Signal Processing Letters 21, 2014; McNemar, Psychometrika 12, 1947, in its exact form; Wilcoxon, Biometrics
Bulletin 1, 1945; Holm, Scandinavian Journal of Statistics 6, 1979; the corrected t test over folds is Nadeau and
Bengio, Machine Learning 52, 2003, section 3. A p that has no meaning is None, never NaN.

What varies differs: DeLong and McNemar, as the bootstrap of bootstrap.py, ask what other test patients would have given
to these very models; the tests over seeds ask what other trainings would have given on these very patients, those over
folds what other trainings and test sets would have given.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from ...errors import FedcliError
from ...metrics.arithmetic import CLOSE, apart


def sign_floor(units: int) -> float:
    """The smallest two-sided p of an exact sign test of so many units, all to one side: 2 / 2^n."""
    return min(1.0, 2.0 ** (1 - units))


@dataclass(frozen=True)
class DeLong:
    """Two AUCs on the same images, b against a.

    difference: auc_b - auc_a; se: its standard error; z and p are None where it has none and they differ.
    """

    auc_a: float
    auc_b: float
    se_a: float
    se_b: float
    difference: float
    se: float
    z: float | None
    p: float | None


def delong(score_a: np.ndarray, score_b: np.ndarray, y: np.ndarray) -> DeLong:
    """Test of whether two AUCs on the same images differ: scores [N] of the positive class, y [N] of 0 and 1.

    Images count as independent: where patients have several, the standard errors are too small.
    Raises FedcliError where a class has fewer than two images, or a score is NaN.
    """
    truth = np.asarray(y).astype(bool)
    if bad := int((np.isnan(score_a) | np.isnan(score_b)).sum()):
        raise FedcliError(
            f"{bad} of {len(truth)} images got a score that is no number", "train the run again"
        )
    m, n = int(truth.sum()), int((~truth).sum())
    if min(m, n) < 2:
        raise FedcliError(f"DeLong's test needs two images of each class; here are {n} and {m}")
    parts = [_components(np.asarray(score, np.float64), truth) for score in (score_a, score_b)]
    tens, ones = (
        np.stack(components) for components in zip(*parts, strict=True)
    )  # V10 [2, m], V01 [2, n]
    auc = tens.mean(1)  # [2]
    difference = float(apart(*auc[::-1]))
    se_a, se_b, se = np.sqrt(  # Eq. 5 and 6 of DeLong et al., of a, of b, and of their difference
        np.var([*tens, tens[1] - tens[0]], axis=1, ddof=1) / m
        + np.var([*ones, ones[1] - ones[0]], axis=1, ddof=1) / n
    ).tolist()
    se = se if se > CLOSE else 0.0  # rounding of components that are alike
    z = difference / se if se else 0.0 if difference == 0 else None
    from scipy.special import (
        ndtr,
    )  # here and below: it takes a sixth of a second, for which few commands need it

    p = None if z is None else min(1.0, float(2 * ndtr(-abs(z))))
    return DeLong(float(auc[0]), float(auc[1]), se_a, se_b, difference, se, z, p)


def _components(score: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """DeLong's V10 of the positives and V01 of the negatives, from midranks (Sun and Xu, Eq. 5 and 6)."""
    m, n = int(truth.sum()), int((~truth).sum())
    together = _midranks(score)
    return (together[truth] - _midranks(score[truth])) / n, 1 - (
        together[~truth] - _midranks(score[~truth])
    ) / m


def _midranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 1, their mean where values are the same."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[place]


@dataclass(frozen=True)
class McNemar:
    """Images that only one of two models got right, and the exact two-sided p that both are as likely."""

    only_a: int
    only_b: int
    p: float


def mcnemar(right_a: np.ndarray, right_b: np.ndarray) -> McNemar:
    """McNemar's exact test on right [N] of two models: of the images on which they differ, is a half each one's?

    Images count as independent: where patients have several, p is too small.
    """
    right_a, right_b = np.asarray(right_a, bool), np.asarray(right_b, bool)
    a, b = int((right_a & ~right_b).sum()), int((right_b & ~right_a).sum())
    from scipy.special import bdtr

    return McNemar(a, b, min(1.0, 2 * float(bdtr(min(a, b), a + b, 0.5))))


@dataclass(frozen=True)
class PairTest:
    """A test over pairs of numbers, b against a.

    difference: mean of b - a; statistic: t, or the signed rank sum of the rises; p: two-sided, None where it has no
    meaning; floor: the smallest p that this many pairs can give, 0 where there is none.
    """

    pairs: int
    difference: float
    statistic: float | None
    p: float | None
    floor: float = 0.0


def paired_t(a: list[float], b: list[float], *, overlap: float = 0.0) -> PairTest:
    """Student's paired t test, two-sided; p is None for fewer than two pairs, or equal differences that are not 0.

    overlap: where the pairs are folds or other splits of one dataset, test images per training image. Their training
        sets overlap, so the variance of the mean is (1/J + overlap) times that of the J differences, in place of 1/J
        (Nadeau and Bengio's corrected resampled t test).
    """
    d = _differences(a, b)
    mean = float(d.mean())
    if len(d) < 2:
        return PairTest(len(d), mean, None, None)
    if np.ptp(d) <= CLOSE:
        return PairTest(len(d), mean, 0.0 if mean == 0 else None, 1.0 if mean == 0 else None)
    from scipy.special import stdtr

    se = float(d.std(ddof=1)) * sqrt(1 / len(d) + overlap)
    return PairTest(len(d), mean, mean / se, float(2 * stdtr(len(d) - 1, -abs(mean / se))))


def wilcoxon(a: list[float], b: list[float]) -> PairTest:
    """Wilcoxon's signed rank test, two-sided and exact, also for ties; pairs without a difference are dropped.

    Its floor is 2 / 2^n for the n pairs given, whatever the numbers: 0.25 of three seeds, 0.0625 of five.
    """
    d = _differences(a, b)
    known = d[d != 0]
    floor = sign_floor(len(d))
    if not len(known):
        return PairTest(len(d), 0.0, 0.0, 1.0, floor)
    ranks = np.rint(2 * _midranks(_levels(np.abs(known)))).astype(
        int
    )  # twice the midranks, so that they are whole
    rises = int(ranks[known > 0].sum())
    chance = np.zeros(ranks.sum() + 1)  # of each twice rank sum, with signs by coin
    chance[0] = 1
    for rank in ranks:
        chance[rank:] = chance[rank:] / 2 + chance[:-rank] / 2
        chance[:rank] /= 2
    p = 2 * float(min(chance[: rises + 1].sum(), chance[rises:].sum()))
    return PairTest(len(d), float(d.mean()), rises / 2, min(1.0, p), floor)


def _differences(a: list[float], b: list[float]) -> np.ndarray:
    if len(a) != len(b) or not len(a):
        raise FedcliError(
            f"{len(a)} and {len(b)} numbers make no pairs", "give runs of the same seeds"
        )
    return apart(b, a)


def _levels(values: np.ndarray) -> np.ndarray:
    """Whole numbers [N] in the order of the values, the same for those that rounding alone sets apart."""
    order = np.argsort(values)
    levels = np.zeros(len(values), int)
    levels[order[1:]] = np.cumsum(np.diff(values[order]) > CLOSE)
    return levels


def holm(ps: list[float | None]) -> list[float | None]:
    """Holm's step-down adjustment of several tests' p, in their order; None stays None and is not counted."""
    known = sorted((p, place) for place, p in enumerate(ps) if p is not None)
    out: list[float | None] = [None] * len(ps)
    highest = 0.0
    for rank, (p, place) in enumerate(known):
        highest = max(highest, min(1.0, (len(known) - rank) * p))
        out[place] = highest
    return out


@dataclass(frozen=True)
class OverSeeds:
    """One metric over runs that differ in the seed alone.

    mean: of the runs' means. std_pooled: population std (ddof 0) over all rounds of all runs, as papers that print one
    spread for both. std_runs: sample std (ddof 1) of the runs' means, None for one run.
    """

    mean: float | None
    std_pooled: float | None
    std_runs: float | None
    runs: int

    def std(self, spread: str) -> float | None:
        """spread: "pooled" or "runs"."""
        return self.std_pooled if spread == "pooled" else self.std_runs


def over_seeds(per_round: Sequence[Sequence[float]]) -> OverSeeds:
    """Of the kept rounds of each run."""
    means = [float(np.mean(rounds)) for rounds in per_round]
    return OverSeeds(
        float(np.mean(means)),
        float(np.std(np.concatenate(per_round))),
        float(np.std(means, ddof=1)) if len(means) > 1 else None,
        len(means),
    )
