"""Scores of images, each under its full name; what has no meaning is None, or NaN in arrays, and
never an error.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from .arithmetic import mean_of_known
from .metric import Metric, Scores, get, own, registered
from .ranking import wide
from .several_labels import OF_LABEL, LabelsPlan, LabelSums
from .sums import ClassesPlan, Groupings, Sums
from .task import Plan, Task


def plan(
    logits: ndarray,
    y: ndarray,
    groupings: Groupings | None = None,
) -> Plan:
    """Images with logits [N, C] and labels, [N] or [N, L].

    groupings: attribute -> (positions [N], values), for metrics from outside the package; None
    where none is to be made. Raises FedcliError for logits that are not finite.
    """
    if y.ndim == 2:
        return LabelsPlan.of(logits, y, groupings)
    return ClassesPlan.of(logits, y, groupings)


def score(
    logits: ndarray,
    y: ndarray,
    groupings: Groupings | None = None,
) -> dict[str, Any]:
    """Every metric of logits [N, C] against labels, [N] or [N, L], on the 0..1 scale; None where it
    has no meaning.

    `count` is N and `classes_missing` holds the indices of classes without an image, or of labels
    without an AUC. Raises FedcliError for logits that are not finite.
    """
    sums = plan(logits, y, groupings).sums()
    scores: dict[str, Any] = dict(score_of(sums))
    scores["count"] = len(y)
    scores["classes_missing"] = sums.missing()
    return scores


def score_of(sums: Sums | LabelSums, requested: Sequence[str] | None = None) -> Scores:
    """The metrics of these sums' first set of weights: the requested ones, or all they can have."""
    if requested is None:
        metrics = registered(sums.needs) + _own(sums)
    else:
        metrics = tuple(map(get, requested))
    with np.errstate(invalid="ignore", divide="ignore"):  # 0 / 0 is the NaN that is meant
        return {metric.name: number(metric.of(sums)[0]) for metric in metrics}


def resampled(
    images: Plan, weights: ndarray, requested: Sequence[str] | None = None
) -> dict[str, ndarray]:
    """Metrics of images that count so often each: {metric: float64 [B]}, NaN without meaning.

    weights: [N, B], bool where an image counts, or integers wide enough for the pairs of images.
    requested: the metrics to take of those that are resampled; all of them where None.
    """
    if weights.dtype == bool:
        weights = weights.astype(wide(len(weights)))
    sums = images.sums(weights)
    metrics = registered(sums.needs, resampled=True) + _own(sums)
    if requested is not None:
        metrics = tuple(metric for metric in metrics if metric.name in requested)
    with np.errstate(invalid="ignore", divide="ignore"):
        return {metric.name: metric.of(sums) for metric in metrics}


def _own(sums: Sums | LabelSums) -> tuple[Metric, ...]:
    return own() if sums.groupings is not None else ()


def of_labels(logits: ndarray, y: ndarray) -> list[Scores]:
    """The metrics in OF_LABEL of each of L labels, from logits [N, L] and labels [N, L]; None where
    one has no meaning.
    """
    sums = LabelsPlan.of(logits, y).sums()
    with np.errstate(invalid="ignore", divide="ignore"):
        columns = {name: measure(sums)[:, 0] for name, measure in OF_LABEL.items()}
    scores = []
    for label in range(y.shape[1]):
        values = {name: number(column[label]) for name, column in columns.items()}
        scores.append(values)
    return scores


def number(value: float) -> float | None:
    """The value as a float; None for NaN."""
    return None if np.isnan(value) else float(value)


def chances(logits: ndarray, y: ndarray) -> ndarray:
    """The probabilities of classes, or of labels where y [N, L] has several for an image."""
    return Task.of(y).probabilities(logits)


def recalls(logits: ndarray, y: ndarray) -> ndarray:
    """The recall of each class from logits [N, C] and labels [N]: float64 [C], NaN for a class
    without an image.
    """
    classes = logits.shape[1]
    count = np.bincount(y, minlength=classes)  # [C]
    right = y[logits.argmax(1) == y]
    hits = np.bincount(right, minlength=classes)  # [C]
    shares = hits / np.maximum(count, 1)
    return np.where(count > 0, shares, np.nan)


def balanced_accuracy(logits: ndarray, y: ndarray) -> float:
    """Mean recall of logits [N, C] over the classes that labels [N] hold; N > 0."""
    column = recalls(logits, y)[:, None]
    return float(mean_of_known(column)[0])  # summed as score() sums them
