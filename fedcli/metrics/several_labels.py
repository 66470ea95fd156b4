"""Metrics of several labels per image.

Each label is scored by its own logit, and decided for where its probability is at least 1/2. A
macro score is the mean over the labels for which it has a meaning: an AUC and a balanced accuracy
need an image with the label and one without, an average precision one with it, an F1 one that has
the label or is predicted to. Entries that are not known take no part.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy import ndarray

from ..labels import NO, UNKNOWN, YES
from .arithmetic import mean_of_known
from .metric import HEADLINE, LABELS, PROBABILITIES, Function, metric
from .probabilities import label_probabilities
from .ranking import Ranking, won
from .sums import BINS, Decisions, Groupings, Weights, distance


class LabelSums(Decisions):
    """The sums of weighted images of several labels, in each of B sets of weights.

    Attributes:
        hits, missed, wrong, passed: [L, B] true positives, false negatives, false positives and
            true negatives.
        true, predicted, false: [L, B] images with each label, predicted to have it, and without it.
        exact, labelled: [B] images whose known labels are all right, and with a known label.
    """

    needs = LABELS

    def __init__(self, plan: "LabelsPlan", weights: Weights = None):
        self.plan = plan
        self.weights = weights
        self.groupings = plan.groupings
        if weights is None:
            counts = np.ones((len(plan.y), 1))
        else:
            counts = weights.astype(float)
        self.hits, self.missed, self.wrong, self.passed = plan.cells @ counts
        self.exact, self.labelled = plan.whole @ counts
        self.true = self.hits + self.missed
        self.predicted = self.hits + self.wrong
        self.false = self.wrong + self.passed

    @cached_property
    def auc(self) -> ndarray:
        """The area under the curve of each label [L, B]."""
        pairs = self.true * self.false
        return self.plan.wins(self.weights, pairs) / pairs

    def missing(self) -> list[int]:
        """The labels without an AUC in the first set of weights."""
        undefined = np.isnan(self.auc[:, 0])
        return np.flatnonzero(undefined).tolist()


@dataclass(frozen=True)
class LabelsPlan:
    """Images of several labels: all that the weights do not change."""

    logits: ndarray
    y: ndarray
    chance: ndarray
    groupings: Groupings | None = None

    @classmethod
    def of(
        cls,
        logits: ndarray,
        y: ndarray,
        groupings: Groupings | None = None,
    ) -> "LabelsPlan":
        """Raises FedcliError for logits that are not finite."""
        return cls(
            np.asarray(logits),
            y,
            label_probabilities(logits),
            groupings,
        )

    def sums(self, weights: Weights = None) -> LabelSums:
        return LabelSums(self, weights)

    @cached_property
    def cells(self) -> ndarray:
        """float64 [4, L, N], 1 for a hit, missed, wrong and passed label; 0 where the label is not
        known.
        """
        has = self.y == YES  # [N, L]
        lacks = self.y == NO  # [N, L]
        predicted = self.logits >= 0  # [N, L]
        missed = has & ~predicted
        passed = lacks & ~predicted
        cells = np.stack([has & predicted, missed, lacks & predicted, passed])
        return cells.transpose(0, 2, 1).astype(float)

    @cached_property
    def whole(self) -> ndarray:
        """Sums float64 [2, N]: 1 where all known labels of an image are right, and where any is."""
        unknown = self.y == UNKNOWN
        right = (self.y == YES) == (self.logits >= 0)
        labelled = (~unknown).any(1)
        exact = (right | unknown).all(1) & labelled
        return np.stack([exact, labelled]).astype(float)

    @cached_property
    def rankings(self) -> list[Ranking]:
        """The images with each label, ranked among those without it."""
        rankings = []
        for logit, label in zip(self.logits.T, self.y.T):
            members = np.flatnonzero(label == YES)
            others = {0: np.flatnonzero(label == NO)}
            rankings.append(Ranking.of(logit, members, others))
        return rankings

    def wins(self, weights: Weights, pairs: ndarray) -> ndarray:
        """Pairs of an image with each label and one without it in which the first ranks first:
        [L, B]; a tie is half.

        pairs: weight of all of them.
        """
        if weights is None:
            wins = []
            for logit, label in zip(self.logits.T, self.y.T):
                having = np.sort(logit[label == YES])
                lacking = np.sort(logit[label == NO])
                wins.append(won(having, lacking))
            return np.reshape(wins, (-1, 1))
        lost = [ranking.lost(weights)[0] for ranking in self.rankings]
        return pairs - np.reshape(lost, pairs.shape)


# name of a metric of one label of several -> the function of sums that gives it [L, B]
OF_LABEL: dict[str, Callable[[LabelSums], ndarray]] = {}


def of_label(
    name: str, title: str, meaning: str, **features: Any
) -> Callable[[Function], Function]:
    """Register the function below it for each label by itself, and its mean over labels under
    NAME_macro.

    features: as of metric().
    """

    def register(function: Function) -> Function:
        OF_LABEL[name] = function
        title_of_mean = f"{title}, mean over labels"
        registering = metric(
            f"{name}_macro",
            title_of_mean,
            meaning,
            needs=(LABELS,),
            **features,
        )
        registering(lambda sums: mean_of_known(function(sums)))
        return function

    return register


@of_label(
    "auc",
    "AUC",
    "of several labels per image: area under the ROC curve, mean over labels; 50 % is chance level",
    sees=PROBABILITIES,
    **HEADLINE,
)
def auc(sums: LabelSums) -> ndarray:
    return sums.auc


@of_label(
    "average_precision",
    "average precision",
    "average precision, mean over labels; chance level is the share of images with a label",
    sees=PROBABILITIES,
    compared=True,
)
def average_precision(sums: LabelSums) -> ndarray:
    """Sum over thresholds of precision times the gain in recall; images of one score are taken
    together.
    """
    columns = []
    for logit, label in zip(sums.plan.logits.T, sums.plan.y.T):
        labelled = np.flatnonzero(label != UNKNOWN)
        rising = np.argsort(-logit[labelled], kind="stable")
        order = labelled[rising]
        steps = np.flatnonzero(np.diff(logit[order]))
        ends = np.append(steps, len(order) - 1)
        last = ends[: len(order)]  # of each score
        has = (label[order] == YES)[:, None]  # [n, 1]
        weights = 1 if sums.weights is None else sums.weights[order]  # [n, B]
        hits = (has * weights).cumsum(0)[last]
        others = (~has * weights).cumsum(0)[last]
        precision = hits / np.maximum(hits + others, 1)
        gains = np.diff(hits, axis=0, prepend=0)
        area = (precision * gains).sum(0)
        columns.append(area / gains.sum(0))
    return np.stack(columns)


@of_label(
    "balanced_accuracy",
    "balanced accuracy",
    "mean of sensitivity and specificity of each label at a probability of 1/2, mean over labels; "
    "50 % is chance level",
    **HEADLINE,
)
def balanced_accuracy(sums: LabelSums) -> ndarray:
    sensitivity = sums.hits / sums.true
    specificity = sums.passed / sums.false
    return (sensitivity + specificity) / 2


def f1(sums: LabelSums) -> ndarray:
    """F1 of each label [L, B]; its mean over labels is the mean over classes of decisions.py."""
    return np.where(sums.some, sums.f1, np.nan)


OF_LABEL["f1"] = f1


@metric(
    "exact_match_accuracy",
    "exact match",
    "share of images with every label predicted correctly",
    needs=(LABELS,),
    compared=True,
    resampled=True,
    every_class=False,
)
def exact_match_accuracy(sums: LabelSums) -> ndarray:
    return sums.exact / sums.labelled


@metric(
    "hamming_accuracy",
    "Hamming accuracy",
    "share of all labels of all images that are predicted correctly",
    needs=(LABELS,),
    every_class=False,
    **HEADLINE,
)
def hamming_accuracy(sums: LabelSums) -> ndarray:
    right = sums.hits + sums.passed  # [L, B]
    decided = sums.true + sums.false  # [L, B]
    return right.sum(0) / decided.sum(0)


@of_label(
    "calibration_error",
    "calibration error",
    "expected difference between a label's probability and how often images have it, mean over "
    "labels",
    sees=PROBABILITIES,
    better="low",
    compared=True,
    every_class=False,
)
def calibration_error(sums: LabelSums) -> ndarray:
    plan = sums.plan
    columns = []
    for label, labelled in enumerate((plan.y != UNKNOWN).T):
        right = plan.y[labelled, label] == YES
        weights = None if sums.weights is None else sums.weights[labelled]
        columns.append(distance(plan.chance[labelled, label], right, weights))
    sets = sums.true.shape[1]
    distances = np.reshape(columns, (-1, BINS, sets))  # [L, BINS, B]
    return np.abs(distances).sum(1) / (sums.true + sums.false)
