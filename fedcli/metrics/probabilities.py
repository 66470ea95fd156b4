"""Probabilities from logits, of classes or of labels."""

from functools import reduce

import numpy as np

from ..errors import FedcliError

FEW = 8  # classes, below which their sum has the same bits in NumPy


def probabilities(logits: np.ndarray) -> np.ndarray:
    """Softmax in float64: [N, C] -> [N, C]. Raises FedcliError for logits that are not finite."""
    logits = _finite(logits)
    chance = np.exp(logits - _over_classes(np.maximum, logits)[:, None])
    return chance / _over_classes(np.add, chance)[:, None]


def _over_classes(operation: np.ufunc, table: np.ndarray) -> np.ndarray:
    """Of each row [N]. Few classes are taken one after another: along a short axis NumPy takes ten times as long."""
    if not 0 < table.shape[1] < FEW:
        return operation.reduce(table, 1)
    return reduce(operation, table.T)


def label_probabilities(logits: np.ndarray) -> np.ndarray:
    """Sigmoid in float64, of several labels per image: [N, L] -> [N, L]. Raises FedcliError as probabilities()."""
    half = np.tanh(_finite(logits) / 2)
    return (1 + half) / 2


def _finite(logits: np.ndarray) -> np.ndarray:
    logits = np.asarray(logits, np.float64)
    if not np.isfinite(logits).all():
        bad = int((~np.isfinite(logits)).any(1).sum())
        what = f"{bad} of {len(logits)} images got logits that are not finite"
        raise FedcliError(what, "the model diverged: train again with a lower --lr")
    return logits
