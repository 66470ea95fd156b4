"""Areas under ROC curves: how often an image of a class ranks above one of another.

Source: the one-vs-one AUC is Hand and Till, Machine Learning 45, 2001, Eq. 7: the mean over pairs of classes of
(A(a|b) + A(b|a)) / 2. We differ from scikit-learn where a class has no image: such a class is left out of the AUC and
named, instead of an error or NaN.
"""

from functools import cache

import numpy as np

from .arithmetic import mean_of_known
from .metric import PROBABILITIES, TWO, metric
from .sums import Sums


@cache
def _pairs(classes: int) -> tuple[np.ndarray, np.ndarray]:
    return np.triu_indices(classes, 1)


@metric(
    "auc_ovo_macro",
    "AUC, one-vs-one",
    "area under the ROC curve, mean over pairs of classes (Hand and Till 2001); 50 % is chance level",
    sees=PROBABILITIES,
    headline=True,
    compared=True,
    resampled=True,
)
def auc_ovo_macro(sums: Sums) -> np.ndarray:
    first, second = _pairs(len(sums.true))
    both = sums.true[first] * sums.true[second]  # [P, B]
    return mean_of_known((sums.wins[first, second] + sums.wins[second, first]) / (2 * both))


@metric(
    "auc_ovr_macro",
    "AUC, one-vs-rest",
    "area under the ROC curve of each class against all others, mean over classes",
    sees=PROBABILITIES,
)
def auc_ovr_macro(sums: Sums) -> np.ndarray:
    return mean_of_known(sums.auc)


@metric(
    "auc_ovr_weighted",
    "AUC, one-vs-rest, weighted",
    "the same, each class weighted by its number of images",
    sees=PROBABILITIES,
)
def auc_ovr_weighted(sums: Sums) -> np.ndarray:
    some = ~np.isnan(sums.auc)
    return np.where(some, sums.auc * sums.true, 0).sum(0) / np.where(some, sums.true, 0).sum(0)


@metric(
    "auc_binary",
    "AUC",
    "area under the ROC curve of the second of two classes",
    needs=(TWO,),
    sees=PROBABILITIES,
    compared=True,
    resampled=True,
)
def auc_binary(sums: Sums) -> np.ndarray:
    return sums.wins[1, 0] / (sums.true[0] * sums.true[1])
