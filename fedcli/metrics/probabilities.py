"""Probabilities from logits, of classes or of labels."""

from functools import reduce

import numpy as np
from numpy import ndarray

from ..errors import FedcliError

FEW = 8  # classes, below which their sum has the same bits in NumPy


def probabilities(logits: ndarray) -> ndarray:
    """Softmax in float64: [N, C] -> [N, C]. Raises FedcliError for logits that are not finite."""
    logits = _finite(logits)
    largest = _over_classes(np.maximum, logits)[:, None]
    chance = np.exp(logits - largest)
    return chance / _over_classes(np.add, chance)[:, None]


def _over_classes(operation: np.ufunc, table: ndarray) -> ndarray:
    """The operation over each row [N]. Few classes are taken one after another: along a short axis
    NumPy takes ten times as long.
    """
    if not 0 < table.shape[1] < FEW:
        return operation.reduce(table, 1)
    return reduce(operation, table.T)


def label_probabilities(logits: ndarray) -> ndarray:
    """Sigmoid in float64, of several labels per image: [N, L] -> [N, L]. Raises FedcliError as
    probabilities().
    """
    half = np.tanh(_finite(logits) / 2)
    return (1 + half) / 2


def _finite(logits: ndarray) -> ndarray:
    logits = np.asarray(logits, np.float64)
    finite = np.isfinite(logits)
    if not finite.all():
        bad = int((~finite).any(1).sum())
        problem = f"{bad} of {len(logits)} images got logits that are not finite"
        raise FedcliError(problem, "the model diverged: train again with a lower --lr")
    return logits
