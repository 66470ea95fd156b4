"""The which-hospital probe: how well a linear classifier recognises the hospital of answers or
gradients.

The classifier is scikit-learn's logistic regression with hospitals of equal weight, cross-validated
by patient. Chance is one over the number of hospitals, but hospitals with other diseases are
recognised by the class of an image alone: by_class() names the hospital in which the class has the
highest share, with no model at all (multinomial naive Bayes with hospitals of equal weight; of a
batch, by how many of its images are of each class).

Only within a class does the case mix say nothing: where answers depend on the class alone, the
balanced accuracy is one over the hospitals with this class, whatever the classifier.
within_classes() measures it there. A higher one comes from whatever else differs: scanners, or
patients of other ages; the probe does not say which.
"""

from typing import Any

import numpy as np

from ...seeds import derive
from .membership import Interval, weights_of, with_interval

FOLDS = 5
LEAST = FOLDS  # patients of a class at a hospital, so that each fold has one


def probe(
    table: np.ndarray,
    hospital: np.ndarray,
    units: np.ndarray,
    seed: int,
) -> Interval | None:
    """Balanced accuracy with its interval over patients; None where a hospital has no two patients.

    table: [N, D]. hospital: int [N]. units: [N], patients.
    """
    return _measured(linear(), table, hospital, units, seed)


def by_class(
    counts: np.ndarray, hospital: np.ndarray, units: np.ndarray, seed: int
) -> Interval | None:
    """Balanced accuracy of a guess by class alone, as probe() gives that of the classifier.

    counts: int [N, C], the images of each class: a single one, or those of a batch.
    """
    from sklearn.naive_bayes import MultinomialNB

    return _measured(
        MultinomialNB(fit_prior=False),
        counts,
        hospital,
        units,
        seed,
    )


def within_classes(
    table: np.ndarray,
    classes: np.ndarray,
    hospital: np.ndarray,
    units: np.ndarray,
    seed: int,
) -> dict[str, Any] | None:
    """The probe on the images of one class at a time: the mean balanced accuracy, and what chance
    is.

    classes: int [N]. A class counts by its images, at hospitals with LEAST patients of it; None
    where no class has two such hospitals.
    """
    if not len(units):
        return None
    weights = weights_of(units, seed)
    accuracies = []
    chances = []
    sizes = []
    for one_class in np.unique(classes):
        rows = at_large_hospitals(
            np.flatnonzero(classes == one_class),
            hospital,
            units,
        )
        hospitals = len(np.unique(hospital[rows]))
        if hospitals < 2:
            continue
        right = _right(
            linear(),
            FOLDS,
            table[rows],
            hospital[rows],
            units[rows],
            seed,
        )
        accuracies.append(_balanced(right, hospital[rows], weights[:, rows]))
        chances.append(1 / hospitals)
        sizes.append(len(rows))
    if not sizes:
        return None
    return {
        "count": sum(sizes),
        "classes": len(sizes),
        "accuracy": with_interval(np.average(accuracies, axis=0, weights=sizes)),
        "chance": float(np.average(chances, weights=sizes)),
    }


def at_large_hospitals(
    rows: np.ndarray,
    hospital: np.ndarray,
    units: np.ndarray,
) -> np.ndarray:
    """The rows whose hospital has LEAST patients among them."""
    patients = np.unique(units, return_inverse=True)[1]
    pairs = np.unique(np.stack([hospital[rows], patients[rows]]), axis=1)
    hospitals, counts = np.unique(pairs[0], return_counts=True)
    return rows[np.isin(hospital[rows], hospitals[counts >= LEAST])]


def linear() -> Any:
    """The classifier of the probe: logistic regression with hospitals of equal weight."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    regression = LogisticRegression(max_iter=2000, class_weight="balanced")
    return make_pipeline(StandardScaler(), regression)


def _measured(
    classifier: Any,
    table: np.ndarray,
    hospital: np.ndarray,
    units: np.ndarray,
    seed: int,
) -> Interval | None:
    hospitals = np.unique(hospital)
    patients = [len(np.unique(units[hospital == k])) for k in hospitals]
    folds = min([FOLDS, *patients])
    if folds < 2 or len(hospitals) < 2:
        return None
    right = _right(classifier, folds, table, hospital, units, seed)
    return with_interval(_balanced(right, hospital, weights_of(units, seed)))


def _right(
    classifier: Any,
    folds: int,
    table: np.ndarray,
    hospital: np.ndarray,
    units: np.ndarray,
    seed: int,
) -> np.ndarray:
    """Images whose hospital is named rightly, as of named_by(): bool [N]."""
    return named_by(classifier, folds, table, hospital, units, seed) == hospital


def named_by(
    classifier: Any,
    folds: int,
    table: np.ndarray,
    hospital: np.ndarray,
    units: np.ndarray,
    seed: int,
) -> np.ndarray:
    """The hospital that a classifier which saw none of the patient's images names: int [N]."""
    from sklearn.model_selection import StratifiedGroupKFold, cross_val_predict

    state = derive("which hospital", seed) % 2**32
    split = StratifiedGroupKFold(folds, shuffle=True, random_state=state)
    return cross_val_predict(classifier, table, hospital, groups=units, cv=split)


def _balanced(
    right: np.ndarray,
    hospital: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    """The mean share of right ones over hospitals, under each set of weights: [B + 1]."""
    recalls = []
    for k in np.unique(hospital):
        is_there = hospital == k
        with np.errstate(invalid="ignore"):
            recalls.append(weights @ (right & is_there) / (weights @ is_there))
    return np.mean(recalls, axis=0)
