"""Calibration errors: how far probabilities are from the share of images that is right.

Source: Guo et al., ICML 2017, arXiv 1706.04599, Eq. 3, with 15 bins of equal width: of the most
likely class, and for two classes also of class 1.
"""

import numpy as np
from numpy import ndarray

from .metric import PROBABILITIES, TWO, metric
from .sums import Sums, distance

TOP_LABEL = "calibration_error_top_label"


def calibration_error(chance: ndarray, right: ndarray) -> float | None:
    """Mean over images of the distance, in their bin, of the mean chance from the share that is
    right; None for none.

    chance: float64 [N] in [0, 1]. right: bool [N].
    """
    if not len(chance):
        return None
    distances = np.abs(distance(chance, right))
    return float(distances.sum() / len(chance))


@metric(
    TOP_LABEL,
    "calibration error",
    "expected difference between the probability of the predicted class and how often the "
    "prediction is correct",
    sees=PROBABILITIES,
    better="low",
    compared=True,
    every_class=False,
)
def calibration_error_top_label(sums: Sums) -> ndarray:
    return np.abs(sums.distance_top).sum(0) / sums.images


@metric(
    "calibration_error_positive_class",
    "calibration error of the second class",
    "the same for the second of two classes",
    needs=(TWO,),
    sees=PROBABILITIES,
    better="low",
    every_class=False,
)
def calibration_error_positive_class(sums: Sums) -> ndarray:
    return np.abs(sums.distance_positive).sum(0) / sums.images
