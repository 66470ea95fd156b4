"""Scores of images, each under its full name; what has no meaning is None, or NaN in arrays, and never an error."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .arithmetic import mean_of_known
from .metric import Metric, get, own, registered
from .ranking import wide
from .several_labels import OF_LABEL, LabelsPlan, LabelSums
from .sums import ClassesPlan, Groupings, Sums
from .task import Plan, Task


def plan(logits: np.ndarray, y: np.ndarray, groupings: Groupings | None = None) -> Plan:
    """Images with logits [N, C] and labels, [N] or [N, L]. Raises FedcliError for logits that are not finite.

    groupings: attribute -> (places [N], values), for metrics from outside the package; None where none is to be made.
    """
    return (LabelsPlan if y.ndim == 2 else ClassesPlan).of(logits, y, groupings)


def score(logits: np.ndarray, y: np.ndarray, groupings: Groupings | None = None) -> dict[str, Any]:
    """Every metric of logits [N, C] against labels, [N] or [N, L], on the 0..1 scale; None where it has no meaning.

    `count` is N and `classes_missing` holds the indices of classes without an image, or of labels without an AUC.
    Raises FedcliError for logits that are not finite.
    """
    return {
        **score_of(sums := plan(logits, y, groupings).sums()),
        "count": len(y),
        "classes_missing": sums.missing(),
    }


def score_of(sums: Sums | LabelSums, asked: Sequence[str] | None = None) -> dict[str, float | None]:
    """Metrics of images of these sums, of the first set of weights: those asked for, or all that they can have."""
    known = registered(sums.needs) + _own(sums) if asked is None else map(get, asked)
    with np.errstate(invalid="ignore", divide="ignore"):  # 0 / 0 is the NaN that is meant
        return {metric.name: number(metric.of(sums)[0]) for metric in known}


def resampled(
    made: Plan, weights: np.ndarray, asked: Sequence[str] | None = None
) -> dict[str, np.ndarray]:
    """Metrics of images that count so often each: {metric: float64 [B]}, NaN without meaning.

    weights: [N, B], whether each image counts, or integers wide enough for the pairs of images. asked: the names of
        those of the metrics that are resampled; all of them where None.
    """
    sums = made.sums(weights.astype(wide(len(weights))) if weights.dtype == bool else weights)
    known = registered(sums.needs, resampled=True) + _own(sums)
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            metric.name: metric.of(sums)
            for metric in known
            if asked is None or metric.name in asked
        }


def _own(sums: Sums | LabelSums) -> tuple[Metric, ...]:
    return own() if sums.groupings is not None else ()


def of_labels(logits: np.ndarray, y: np.ndarray) -> list[dict[str, float | None]]:
    """OF_LABEL of each of L labels from logits [N, L] and labels [N, L]; None where it has no meaning."""
    sums = LabelsPlan.of(logits, y).sums()
    with np.errstate(invalid="ignore", divide="ignore"):
        columns = {name: of(sums)[:, 0] for name, of in OF_LABEL.items()}
    return [
        {name: number(column[k]) for name, column in columns.items()} for k in range(y.shape[1])
    ]


def number(value: float) -> float | None:
    """None for NaN."""
    return None if value != value else float(value)


def chances(logits: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The probabilities of classes, or of labels where labels [N, L] say that an image may have several."""
    return Task.of(y).probabilities(logits)


def recalls(logits: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Recall of each class from logits [N, C] and labels [N]: float64 [C], NaN for a class without an image."""
    count = np.bincount(y, minlength=logits.shape[1])  # [C]
    hits = np.bincount(y[logits.argmax(1) == y], minlength=logits.shape[1])  # [C]
    return np.where(count > 0, hits / np.maximum(count, 1), np.nan)


def balanced_accuracy(logits: np.ndarray, y: np.ndarray) -> float:
    """Mean recall of logits [N, C] over the classes that labels [N] hold; N > 0."""
    return float(mean_of_known(recalls(logits, y)[:, None])[0])  # summed as score() sums them
