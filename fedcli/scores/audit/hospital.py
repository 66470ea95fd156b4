"""The which-hospital probe: how well a linear classifier recognises the hospital of answers or gradients.

The classifier is scikit-learn's logistic regression with classes of equal weight, cross-validated by patient. Chance is
one over the number of hospitals. Hospitals with other diseases or other scanners are recognised too: the probe does not
say by what.
"""

import numpy as np

from ...seeds import derive
from ..statistics.bootstrap import draw
from .membership import RESAMPLES, Interval, with_interval

FOLDS = 5


def probe(table: np.ndarray, hospital: np.ndarray, units: np.ndarray, seed: int) -> Interval | None:
    """Balanced accuracy with its interval over patients; None where a hospital has no two patients.

    table: [N, D]. hospital: int [N]. units: [N], patients.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedGroupKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    hospitals = np.unique(hospital)
    folds = min([FOLDS, *(len(np.unique(units[hospital == k])) for k in hospitals)])
    if folds < 2 or len(hospitals) < 2:
        return None
    split = StratifiedGroupKFold(
        folds, shuffle=True, random_state=derive("which hospital", seed) % 2**32
    )
    model = make_pipeline(
        StandardScaler(), LogisticRegression(max_iter=2000, class_weight="balanced")
    )
    right = cross_val_predict(model, table, hospital, groups=units, cv=split) == hospital  # [N]
    weights = np.concatenate(
        [np.ones((1, len(units)), np.int16), draw(units, RESAMPLES, seed)]
    )  # [B + 1, N]
    with np.errstate(invalid="ignore"):
        recalls = [
            weights @ (right & (hospital == k)) / (weights @ (hospital == k)) for k in hospitals
        ]
    return with_interval(np.mean(recalls, axis=0))
