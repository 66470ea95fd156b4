"""Areas under ROC curves: how often an image of a class ranks above one of another.

Source: the one-vs-one AUC is Hand and Till, Machine Learning 45, 2001, Eq. 7: the mean over pairs
of classes of (A(a|b) + A(b|a)) / 2. We differ from scikit-learn where a class has no image: such a
class is left out of the AUC and named, instead of an error or NaN.
"""

from functools import cache

import numpy as np
from numpy import ndarray

from .arithmetic import mean_of_known
from .metric import HEADLINE, PROBABILITIES, TWO, metric
from .sums import Sums


@cache
def _pairs(classes: int) -> tuple[ndarray, ndarray]:
    return np.triu_indices(classes, 1)


@metric(
    "auc_ovo_macro",
    "AUC, one-vs-one",
    "area under the ROC curve, mean over pairs of classes (Hand and Till 2001); 50 % is chance "
    "level",
    sees=PROBABILITIES,
    **HEADLINE,
)
def auc_ovo_macro(sums: Sums) -> ndarray:
    a, b = _pairs(len(sums.true))
    pairs = sums.true[a] * sums.true[b]  # [P, B]
    wins = sums.wins[a, b] + sums.wins[b, a]  # [P, B]
    return mean_of_known(wins / (2 * pairs))


@metric(
    "auc_ovr_macro",
    "AUC, one-vs-rest",
    "area under the ROC curve of each class against all others, mean over classes",
    sees=PROBABILITIES,
)
def auc_ovr_macro(sums: Sums) -> ndarray:
    return mean_of_known(sums.auc)


@metric(
    "auc_ovr_weighted",
    "AUC, one-vs-rest, weighted",
    "the same, each class weighted by its number of images",
    sees=PROBABILITIES,
)
def auc_ovr_weighted(sums: Sums) -> ndarray:
    defined = ~np.isnan(sums.auc)
    areas = np.where(defined, sums.auc * sums.true, 0)
    images = np.where(defined, sums.true, 0)
    return areas.sum(0) / images.sum(0)


@metric(
    "auc_binary",
    "AUC",
    "area under the ROC curve of the second of two classes",
    needs=(TWO,),
    sees=PROBABILITIES,
    compared=True,
    resampled=True,
)
def auc_binary(sums: Sums) -> ndarray:
    pairs = sums.true[0] * sums.true[1]
    return sums.wins[1, 0] / pairs
