"""One label per image, or several: for each of L labels whether an image has it, or that this is
not known.

What sorts images by class (splits, folds, partition schemes) takes one number per image, which
single() gives.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

MULTI_LABEL = "multi-label"  # as manifests say it under "task"
NO, YES, UNKNOWN = 0, 1, 2  # whether an image has a label
Label = Any  # the index of a class; or a tuple, for each label NO, YES or UNKNOWN


def is_multi_label(body: Mapping[str, Any]) -> bool:
    """Tell whether the data of a manifest, given by its body, have several labels per image."""
    return body.get("task") == MULTI_LABEL


def single(labels: np.ndarray) -> np.ndarray:
    """One number per image, int64 [N]: a class [N] as it is; of labels [N, L] the rarest that the
    image has, the first of equals, and L where it has none.
    """
    if labels.ndim == 1:
        return labels
    has = labels == YES  # [N, L]
    rarest_first = np.argsort(has.sum(0), kind="stable")
    return np.where(
        has.any(1),
        rarest_first[has[:, rarest_first].argmax(1)],
        labels.shape[1],
    )


def single_of(labels: Sequence[Label]) -> list[int]:
    """single() of the labels of rows that are not yet in a pool."""
    return single(np.array(labels, np.int64)).tolist() if labels else []


def counts(labels: np.ndarray, classes: int) -> np.ndarray:
    """int64 [C]: images of each class, or that have each label."""
    return np.bincount(labels, minlength=classes) if labels.ndim == 1 else (labels == YES).sum(0)


def joined(labels: np.ndarray, target: np.ndarray, count: int) -> np.ndarray:
    """Labels among `count` other classes: int64 [N] -> [N], -1 of a class without a target; uint8
    [N, L] -> [N, count].

    target: [L] of each class its index among the others, -1 for none. Whether an image has one that
    none of its labels is, is not known.
    """
    if labels.ndim == 1:
        return target[labels]
    result = np.full((len(labels), count), UNKNOWN, np.uint8)
    for index in range(count):
        sources = labels[:, target == index]
        result[(sources == YES).any(1), index] = YES
        if sources.shape[1]:
            result[(sources == NO).all(1), index] = NO
    return result
