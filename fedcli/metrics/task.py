"""One label per image or several: what follows from it, in one place each."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import ndarray

from ..labels import UNKNOWN, YES, is_multi_label
from .parity import decided, decided_labels
from .probabilities import label_probabilities, probabilities
from .several_labels import LabelsPlan
from .sums import ClassesPlan

Plan = ClassesPlan | LabelsPlan


@dataclass(frozen=True)
class Task:
    """The question to a model about an image: its class, or whether it has each label.

    Attributes:
        several: whether an image may have several labels.
        usual: the metrics that are shown where none are asked for. area: the area under the curve
            among them.
        curves: those of a test set and of its groups while a run trains; the first finds the best
            round.
    """

    several: bool
    usual: tuple[str, str]
    area: str
    curves: tuple[str, ...]

    @staticmethod
    def of(y: ndarray) -> "Task":
        """The task of labels [N] or [N, L]."""
        return SEVERAL if y.ndim == 2 else ONE

    @staticmethod
    def of_body(body: Mapping[str, Any]) -> "Task":
        """The task of the body of the data's manifest."""
        return SEVERAL if is_multi_label(body) else ONE

    def probabilities(self, logits: ndarray) -> ndarray:
        """Probabilities of classes or of labels, float64 [N, C]. Raises FedcliError for logits that
        are not finite.
        """
        return label_probabilities(logits) if self.several else probabilities(logits)

    def right(self, logits: ndarray, y: ndarray) -> ndarray:
        """Decisions that are right: bool [N, 1] of the class, [N, L] of each label, where unknown
        ones are right.
        """
        if self.several:
            right = (logits >= 0) == (y == YES)
            return right | (y == UNKNOWN)
        return (logits.argmax(1) == y)[:, None]

    def perfect(self, y: ndarray, classes: int) -> ndarray:
        """Logits [N, C] by which every decision is right."""
        if self.several:
            return np.where(y == YES, 1.0, -1.0)
        return np.eye(classes)[y]

    def of_class(self, y: ndarray, c: int) -> tuple[ndarray, ndarray]:
        """Images of which it is known that they are of a class, or have a label, or not: indices
        [n] and int64 [n], 1 where it is so.
        """
        if not self.several:
            return np.arange(len(y)), (y == c).astype(np.int64)
        is_known = y[:, c] != UNKNOWN
        images = np.flatnonzero(is_known)
        has = y[images, c] == YES
        return images, has.astype(np.int64)

    def decided(self, logits: ndarray, y: ndarray, groups: ndarray, count: int) -> ndarray:
        """Tables of decisions [G, ...] as of parity.py. groups: [N] in -1 .. count - 1."""
        if self.several:
            return decided_labels(logits >= 0, y, groups, count)
        return decided(logits.argmax(1), y, groups, logits.shape[1], count)


ONE = Task(
    False,
    ("balanced_accuracy", "auc_ovo_macro"),
    "auc_ovo_macro",
    ("balanced_accuracy", "auc_ovo_macro", "accuracy"),
)
SEVERAL = Task(
    True,
    ("balanced_accuracy_macro", "auc_macro"),
    "auc_macro",
    ("auc_macro", "balanced_accuracy_macro", "hamming_accuracy"),
)
