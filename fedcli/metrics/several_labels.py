"""Metrics of several labels per image.

Each label is scored by its own logit, and decided for where its probability is at least 1/2. A macro score is the mean
over the labels for which it has a meaning: an AUC and a balanced accuracy need an image with the label and one without,
an average precision one with it, an F1 one that has the label or is predicted to. Entries that are not known take no
part.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..labels import NO, UNKNOWN, YES
from .arithmetic import mean_of_known
from .metric import LABELS, PROBABILITIES, metric
from .probabilities import label_probabilities
from .ranking import Ranking, won
from .sums import BINS, Decisions, Groupings, Weights, distance


class LabelSums(Decisions):
    """What weighted images of several labels add up to, in each of B sets of weights.

    Attributes:
        hits, missed, wrong, passed: [L, B] true positives, false negatives, false positives and true negatives.
        true, predicted, false: [L, B] images with each label, predicted to have it, and without it.
        exact, labelled: [B] images whose known labels are all right, and with a known label.
    """

    needs = LABELS

    def __init__(self, plan: "LabelsPlan", weights: Weights = None):
        self.plan, self.weights, self.groupings = plan, weights, plan.groupings
        counts = np.ones((len(plan.y), 1)) if weights is None else weights.astype(float)
        self.hits, self.missed, self.wrong, self.passed = plan.cells @ counts
        self.exact, self.labelled = plan.whole @ counts
        self.true, self.false, self.predicted = (
            self.hits + self.missed,
            self.wrong + self.passed,
            self.hits + self.wrong,
        )

    @cached_property
    def auc(self) -> np.ndarray:
        """Of each label [L, B]."""
        return self.plan.wins(self.weights, self.true * self.false) / (self.true * self.false)

    def missing(self) -> list[int]:
        """The labels without an AUC in the first set of weights."""
        return np.flatnonzero(np.isnan(self.auc[:, 0])).tolist()


@dataclass(frozen=True)
class LabelsPlan:
    """Images of several labels: all that the weights do not change."""

    logits: np.ndarray
    y: np.ndarray
    chance: np.ndarray
    groupings: Groupings | None = None

    @classmethod
    def of(cls, logits: np.ndarray, y: np.ndarray, groupings: Groupings | None = None) -> "LabelsPlan":
        """Raises FedcliError for logits that are not finite."""
        return cls(np.asarray(logits), y, label_probabilities(logits), groupings)

    def sums(self, weights: Weights = None) -> LabelSums:
        return LabelSums(self, weights)

    @cached_property
    def cells(self) -> np.ndarray:
        """float64 [4, L, N], 1 for a hit, missed, wrong and passed label; 0 where the label is not known."""
        has, has_not, predicted = self.y == YES, self.y == NO, self.logits >= 0  # [N, L]
        cells = np.stack([has & predicted, has & ~predicted, has_not & predicted, has_not & ~predicted])
        return cells.transpose(0, 2, 1).astype(float)

    @cached_property
    def whole(self) -> np.ndarray:
        """float64 [2, N], 1 where all known labels of an image are right, and where any is known."""
        right = ((self.y == YES) == (self.logits >= 0)) | (self.y == UNKNOWN)
        some = (self.y != UNKNOWN).any(1)
        return np.stack([right.all(1) & some, some]).astype(float)

    @cached_property
    def rankings(self) -> list[Ranking]:
        """Of the images with each label among those without it."""
        members = [(np.flatnonzero(column == YES), np.flatnonzero(column == NO)) for column in self.y.T]
        return [Ranking.of(self.logits[:, k], own, {0: other}) for k, (own, other) in enumerate(members)]

    def wins(self, weights: Weights, pairs: np.ndarray) -> np.ndarray:
        """Pairs of an image with each label and one without it in which the first ranks first: [L, B]; a tie is half.

        pairs: weight of all of them.
        """
        if weights is None:
            columns = zip(self.logits.T, self.y.T)
            return np.array([[won(np.sort(x[y == YES]), np.sort(x[y == NO]))] for x, y in columns]).reshape(-1, 1)
        lost = [ranking.lost(weights)[0] for ranking in self.rankings]
        return pairs - np.reshape(lost, pairs.shape)


def auc(sums: LabelSums) -> np.ndarray:
    return sums.auc


def average_precision(sums: LabelSums) -> np.ndarray:
    """Sum over thresholds of precision times the gain in recall; images of one score are taken together."""
    columns = []
    for logit, label in zip(sums.plan.logits.T, sums.plan.y.T):
        at = np.flatnonzero(label != UNKNOWN)
        order = at[np.argsort(-logit[at], kind="stable")]
        last = np.append(np.flatnonzero(np.diff(logit[order])), len(order) - 1)[: len(order)]  # of each score
        has, weights = (label[order] == YES)[:, None], 1 if sums.weights is None else sums.weights[order]  # [n, B]
        hits, others = (has * weights).cumsum(0)[last], (~has * weights).cumsum(0)[last]
        gains = np.diff(hits, axis=0, prepend=0)
        columns.append((hits / np.maximum(hits + others, 1) * gains).sum(0) / gains.sum(0))
    return np.stack(columns)


def balanced_accuracy(sums: LabelSums) -> np.ndarray:
    return (sums.hits / sums.true + sums.passed / sums.false) / 2


def f1(sums: LabelSums) -> np.ndarray:
    return 2 * sums.hits / (sums.true + sums.predicted)


def calibration_error(sums: LabelSums) -> np.ndarray:
    known = sums.plan.y != UNKNOWN  # [N, L]
    columns = [
        distance(sums.plan.chance[at, k], sums.plan.y[at, k] == YES, None if sums.weights is None else sums.weights[at])
        for k, at in enumerate(known.T)
    ]
    return np.abs(np.reshape(columns, (-1, BINS, sums.true.shape[1]))).sum(1) / (sums.true + sums.false)


OF_LABEL = {  # of one label of several: sums -> [L, B]
    "auc": auc,
    "average_precision": average_precision,
    "balanced_accuracy": balanced_accuracy,
    "f1": f1,
    "calibration_error": calibration_error,
}


@metric(
    "auc_macro", "AUC, mean over labels",
    "of several labels per image: area under the ROC curve, mean over labels; 50 % is chance level",
    needs=(LABELS,), sees=PROBABILITIES, headline=True, compared=True, resampled=True,
)  # fmt: skip
def auc_macro(sums: LabelSums) -> np.ndarray:
    return mean_of_known(auc(sums))


@metric(
    "average_precision_macro", "average precision, mean over labels",
    "average precision, mean over labels; chance level is the share of images with a label",
    needs=(LABELS,), sees=PROBABILITIES, compared=True,
)  # fmt: skip
def average_precision_macro(sums: LabelSums) -> np.ndarray:
    return mean_of_known(average_precision(sums))


@metric(
    "balanced_accuracy_macro", "balanced accuracy, mean over labels",
    "mean of sensitivity and specificity of each label at a probability of 1/2, mean over labels; "
    "50 % is chance level",
    needs=(LABELS,), headline=True, compared=True, resampled=True,
)  # fmt: skip
def balanced_accuracy_macro(sums: LabelSums) -> np.ndarray:
    return mean_of_known(balanced_accuracy(sums))


@metric(
    "exact_match_accuracy", "exact match", "share of images of which every label is predicted correctly",
    needs=(LABELS,), compared=True, resampled=True,
)  # fmt: skip
def exact_match_accuracy(sums: LabelSums) -> np.ndarray:
    return sums.exact / sums.labelled


@metric(
    "hamming_accuracy", "Hamming accuracy", "share of all labels of all images that are predicted correctly",
    needs=(LABELS,), headline=True, compared=True, resampled=True,
)  # fmt: skip
def hamming_accuracy(sums: LabelSums) -> np.ndarray:
    return (sums.hits + sums.passed).sum(0) / (sums.true + sums.false).sum(0)


@metric(
    "calibration_error_macro", "calibration error, mean over labels",
    "expected difference between a label's probability and how often images have it, mean over labels",
    needs=(LABELS,), sees=PROBABILITIES, better="low", compared=True,
)  # fmt: skip
def calibration_error_macro(sums: LabelSums) -> np.ndarray:
    return mean_of_known(calibration_error(sums))
