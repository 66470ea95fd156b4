"""Metrics of several labels per image.

Each label is scored by its own logit, and decided for where its probability is at least 1/2. A macro score is the mean
over the labels for which it has a meaning: an AUC and a balanced accuracy need an image with the label and one without,
an average precision one with it, an F1 one that has the label or is predicted to. Entries that are not known take no
part.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..labels import NO, UNKNOWN, YES
from .arithmetic import mean_of_known
from .metric import LABELS, PROBABILITIES, Function, metric
from .probabilities import label_probabilities
from .ranking import Ranking, won
from .sums import BINS, Decisions, Groupings, Weights, distance


class LabelSums(Decisions):
    """The sums of weighted images of several labels, in each of B sets of weights.

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
        self.true, self.predicted = self.hits + self.missed, self.hits + self.wrong
        self.false = self.wrong + self.passed

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
    def of(
        cls, logits: np.ndarray, y: np.ndarray, groupings: Groupings | None = None
    ) -> "LabelsPlan":
        """Raises FedcliError for logits that are not finite."""
        return cls(np.asarray(logits), y, label_probabilities(logits), groupings)

    def sums(self, weights: Weights = None) -> LabelSums:
        return LabelSums(self, weights)

    @cached_property
    def cells(self) -> np.ndarray:
        """float64 [4, L, N], 1 for a hit, missed, wrong and passed label; 0 where the label is not known."""
        has, has_not, predicted = self.y == YES, self.y == NO, self.logits >= 0  # [N, L]
        cells = np.stack(
            [has & predicted, has & ~predicted, has_not & predicted, has_not & ~predicted]
        )
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
        members = [
            (np.flatnonzero(column == YES), np.flatnonzero(column == NO)) for column in self.y.T
        ]
        return [
            Ranking.of(self.logits[:, k], own, {0: other}) for k, (own, other) in enumerate(members)
        ]

    def wins(self, weights: Weights, pairs: np.ndarray) -> np.ndarray:
        """Pairs of an image with each label and one without it in which the first ranks first: [L, B]; a tie is half.

        pairs: weight of all of them.
        """
        if weights is None:
            columns = zip(self.logits.T, self.y.T)
            return np.array(
                [[won(np.sort(x[y == YES]), np.sort(x[y == NO]))] for x, y in columns]
            ).reshape(-1, 1)
        lost = [ranking.lost(weights)[0] for ranking in self.rankings]
        return pairs - np.reshape(lost, pairs.shape)


OF_LABEL: dict[
    str, Callable[[LabelSums], np.ndarray]
] = {}  # of one label of several: sums -> [L, B]


def of_label(name: str, title: str, meaning: str, **about: Any) -> Callable[[Function], Function]:
    """Register the function below it for each label by itself, and its mean over labels under NAME_macro."""

    def register(function: Function) -> Function:
        OF_LABEL[name] = function
        registering = metric(
            f"{name}_macro", f"{title}, mean over labels", meaning, needs=(LABELS,), **about
        )
        registering(lambda sums: mean_of_known(function(sums)))
        return function

    return register


@of_label(
    "auc",
    "AUC",
    "of several labels per image: area under the ROC curve, mean over labels; 50 % is chance level",
    sees=PROBABILITIES,
    headline=True,
    compared=True,
    resampled=True,
)
def auc(sums: LabelSums) -> np.ndarray:
    return sums.auc


@of_label(
    "average_precision",
    "average precision",
    "average precision, mean over labels; chance level is the share of images with a label",
    sees=PROBABILITIES,
    compared=True,
)
def average_precision(sums: LabelSums) -> np.ndarray:
    """Sum over thresholds of precision times the gain in recall; images of one score are taken together."""
    columns = []
    for logit, label in zip(sums.plan.logits.T, sums.plan.y.T):
        at = np.flatnonzero(label != UNKNOWN)
        order = at[np.argsort(-logit[at], kind="stable")]
        last = np.append(np.flatnonzero(np.diff(logit[order])), len(order) - 1)[
            : len(order)
        ]  # of each score
        has, weights = (
            (label[order] == YES)[:, None],
            1 if sums.weights is None else sums.weights[order],
        )  # [n, B]
        hits, others = (has * weights).cumsum(0)[last], (~has * weights).cumsum(0)[last]
        gains = np.diff(hits, axis=0, prepend=0)
        columns.append((hits / np.maximum(hits + others, 1) * gains).sum(0) / gains.sum(0))
    return np.stack(columns)


@of_label(
    "balanced_accuracy",
    "balanced accuracy",
    "mean of sensitivity and specificity of each label at a probability of 1/2, mean over labels; 50 % is chance level",
    headline=True,
    compared=True,
    resampled=True,
)
def balanced_accuracy(sums: LabelSums) -> np.ndarray:
    return (sums.hits / sums.true + sums.passed / sums.false) / 2


OF_LABEL["f1"] = lambda sums: np.where(
    sums.some, sums.f1, np.nan
)  # its mean is that over classes, too


@metric(
    "exact_match_accuracy",
    "exact match",
    "share of images of which every label is predicted correctly",
    needs=(LABELS,),
    compared=True,
    resampled=True,
    every_class=False,
)
def exact_match_accuracy(sums: LabelSums) -> np.ndarray:
    return sums.exact / sums.labelled


@metric(
    "hamming_accuracy",
    "Hamming accuracy",
    "share of all labels of all images that are predicted correctly",
    needs=(LABELS,),
    headline=True,
    compared=True,
    resampled=True,
    every_class=False,
)
def hamming_accuracy(sums: LabelSums) -> np.ndarray:
    return (sums.hits + sums.passed).sum(0) / (sums.true + sums.false).sum(0)


@of_label(
    "calibration_error",
    "calibration error",
    "expected difference between a label's probability and how often images have it, mean over labels",
    sees=PROBABILITIES,
    better="low",
    compared=True,
    every_class=False,
)
def calibration_error(sums: LabelSums) -> np.ndarray:
    known = sums.plan.y != UNKNOWN  # [N, L]
    columns = [
        distance(
            sums.plan.chance[at, k],
            sums.plan.y[at, k] == YES,
            None if sums.weights is None else sums.weights[at],
        )
        for k, at in enumerate(known.T)
    ]
    return np.abs(np.reshape(columns, (-1, BINS, sums.true.shape[1]))).sum(1) / (
        sums.true + sums.false
    )
