"""Metrics of decisions: the most likely class of each image, or the labels with a probability of at
least 1/2.

Precision, recall and F1 run over the union of seen and predicted classes, as in scikit-learn.
"""

import numpy as np
from numpy import ndarray

from .metric import CLASSES, HEADLINE, LABELS, RIGHT, TWO, metric
from .sums import Sums


def by_images(values: ndarray, sums: Sums) -> ndarray:
    """The mean over classes, each weighted by its images: [C, B] -> [B]."""
    return (values * sums.true).sum(0) / sums.images


@metric(
    "accuracy",
    "accuracy",
    "share of images whose class was predicted correctly",
    sees=RIGHT,
    every_class=False,
    **HEADLINE,
)
def accuracy(sums: Sums) -> ndarray:
    return sums.hits.sum(0) / sums.images


@metric(
    "balanced_accuracy",
    "balanced accuracy",
    "mean recall over classes: every class counts the same, however rare",
    sees=RIGHT,
    **HEADLINE,
)
def balanced_accuracy(sums: Sums) -> ndarray:
    present = sums.true > 0  # [C, B]
    recalls = np.where(present, sums.recall, 0)
    return recalls.sum(0) / present.sum(0)


@metric(
    "f1_macro",
    "F1, mean over classes",
    "mean over classes of 2PR / (P + R), with precision P and recall R",
    needs=(CLASSES, TWO, LABELS),
    compared=True,
    resampled=True,
)
def f1_macro(sums: Sums) -> ndarray:
    return sums.over_classes(sums.f1)


@metric(
    "f1_weighted",
    "F1, weighted",
    "the same, each class weighted by its number of images",
    every_class=False,
)
def f1_weighted(sums: Sums) -> ndarray:
    return by_images(sums.f1, sums)


@metric(
    "precision_macro",
    "precision, mean over classes",
    "mean over classes: of the images predicted as the class, the share that belongs to it",
)
def precision_macro(sums: Sums) -> ndarray:
    return sums.over_classes(sums.precision)


@metric(
    "precision_weighted",
    "precision, weighted",
    "the same, each class weighted by its number of images",
    every_class=False,
)
def precision_weighted(sums: Sums) -> ndarray:
    return by_images(sums.precision, sums)


@metric(
    "recall_macro",
    "recall, mean over classes",
    "mean over the classes present in labels or predictions: of the images of the class, the "
    "share predicted correctly",
)
def recall_macro(sums: Sums) -> ndarray:
    return sums.over_classes(sums.recall)


@metric(
    "recall_weighted",
    "recall, weighted",
    "the same, each class weighted by its number of images",
    every_class=False,
)
def recall_weighted(sums: Sums) -> ndarray:
    return by_images(sums.recall, sums)
