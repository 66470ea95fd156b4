"""Scores of a set of predictions, each under its full name, with what is missing named and never NaN.

Source: the one-vs-one AUC is Hand and Till, Machine Learning 45, 2001, Eq. 7: the mean over pairs of
classes of (A(a|b) + A(b|a)) / 2. Precision, recall and F1 run over the union of seen and predicted
classes, as in scikit-learn, which is the oracle of the tests. We differ from it where a class has no
image: such a class is left out of the AUC and named, instead of an error or NaN.

The calibration error is Guo et al., ICML 2017, arXiv 1706.04599, Eq. 3, with 15 bins of equal width: of the most likely
class, and for two classes also of class 1.

Of several labels per image each label is scored by its own logit, and decided for where its probability is at least
1/2. A macro score is the mean over the labels for which it has a meaning: an AUC and a balanced accuracy need an image
with the label and one without, an average precision one with it, an F1 one that has the label or is predicted to.
Entries that are not known take no part.
"""

from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .errors import FedcliError
from .labels import UNKNOWN, YES

DECISIONS = (
    "accuracy",
    "balanced_accuracy",
    "f1_macro",
    "f1_weighted",
    "precision_macro",
    "precision_weighted",
    "recall_macro",
    "recall_weighted",
)
AREAS = "auc_ovo_macro", "auc_ovr_macro", "auc_ovr_weighted"
CALIBRATION = "calibration_error_top_label"
BINS = 15
CLOSE = 1e-12  # scores no further apart are equal, as sums of shares are in another order: no two shares are so close
FEW = 8  # classes, below which their sum has the same bits in NumPy
OF_LABEL = "auc", "average_precision", "balanced_accuracy", "f1", "calibration_error"  # of one label of several
OF_LABELS = (  # of all of them
    "auc_macro",
    "average_precision_macro",
    "balanced_accuracy_macro",
    "f1_macro",
    "exact_match_accuracy",
    "hamming_accuracy",
    "calibration_error_macro",
)


def better_low(metric: str) -> bool:
    """Whether a metric is better when it is low; of one's own metrics the name says so."""
    own = metric.endswith(("_error", "_cost", "_loss"))
    return own or metric.startswith(("calibration_error", "demographic_parity", "equalized_odds", "average_odds"))


def apart(a: ArrayLike, b: ArrayLike) -> np.ndarray:
    """a - b of scores on the 0..1 scale, and 0 where rounding alone sets them apart: for every comparison of scores."""
    difference = np.subtract(a, b)
    return np.where(np.abs(difference) <= CLOSE, 0.0, difference)


def score(logits: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Every metric of logits [N, C] against labels [N], on the 0..1 scale; None where it has no meaning.

    `auc_binary` and `calibration_error_positive_class`, with class 1 as the positive one, are there for two classes
    only. `count` is N and `classes_missing` holds the indices of classes without an image. Of several labels per image,
    [N, L], the metrics are OF_LABELS and `classes_missing` holds the labels without an AUC. Raises FedcliError for
    logits that are not finite.
    """
    if y.ndim == 2:
        return _score_labels(logits, y)
    chance = probabilities(logits)  # [N, C]
    classes = chance.shape[1]
    guess = np.asarray(logits).argmax(1)  # [N]
    table = np.bincount(y * classes + guess, minlength=classes**2).reshape(classes, classes)  # [C, C] true, predicted
    seen = np.flatnonzero(table.sum(1))
    return together(table, _wins(chance, y, seen), _calibration(chance, guess, y))


def together(table: np.ndarray, wins: np.ndarray, calibration: dict[str, float | None]) -> dict[str, Any]:
    """What score() returns.

    table: int64 [C, C], images by true and predicted class. wins: [S, S] of the S classes that have an image, pairs of
    an image of class a and one of b in which a's own score ranks first, a tie is half.
    """
    counts = table.sum(1)  # [C]
    return {
        **_decisions(table),
        **_areas(wins, counts),
        **calibration,
        "count": int(counts.sum()),
        "classes_missing": np.flatnonzero(counts == 0).tolist(),
    }


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


def chances(logits: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The probabilities of classes, or of labels where labels [N, L] say that an image may have several."""
    return label_probabilities(logits) if y.ndim == 2 else probabilities(logits)


def _finite(logits: np.ndarray) -> np.ndarray:
    """In float64. Raises FedcliError."""
    logits = np.asarray(logits, np.float64)
    if not np.isfinite(logits).all():
        bad = int((~np.isfinite(logits)).any(1).sum())
        what = f"{bad} of {len(logits)} images got logits that are not finite"
        raise FedcliError(what, "the model diverged: train again with a lower --lr")
    return logits


def balanced_accuracy(logits: np.ndarray, y: np.ndarray) -> float:
    """Mean recall of logits [N, C] over the classes that labels [N] hold; N > 0."""
    return float(mean_recall(recalls(logits, y)))


def recalls(logits: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Recall of each class from logits [N, C] and labels [N]: float64 [C], NaN for a class without an image."""
    count = np.bincount(y, minlength=logits.shape[1])  # [C]
    hits = np.bincount(y[logits.argmax(1) == y], minlength=logits.shape[1])  # [C]
    return np.where(count > 0, hits / np.maximum(count, 1), np.nan)


def mean_recall(recall: np.ndarray) -> np.ndarray:
    """Balanced accuracy: mean over the classes that have an image.

    recall: [C], or [C, B] of B resamples, NaN for a class without an image; where no class has one, so is the mean.
    """
    known = ~np.isnan(recall)
    seen = known.any(tuple(range(1, recall.ndim)))  # [C]
    return np.where(known, recall, 0)[seen].sum(0) / known.sum(0)


def _decisions(table: np.ndarray) -> dict[str, float | None]:
    images = table.sum()
    if not images:
        return dict.fromkeys(DECISIONS)
    hits, true, predicted = table.diagonal(), table.sum(1), table.sum(0)  # [C]
    either = true + predicted > 0
    recall = hits / np.maximum(true, 1)  # 0 where the class has no image, as scikit-learn takes it
    precision = hits / np.maximum(predicted, 1)
    f1 = 2 * hits / np.maximum(true + predicted, 1)
    return {
        "accuracy": float(hits.sum() / images),
        "balanced_accuracy": float(mean_recall(np.where(true > 0, recall, np.nan))),
        "f1_macro": float(f1[either].mean()),
        "f1_weighted": float(f1 @ true / images),
        "precision_macro": float(precision[either].mean()),
        "precision_weighted": float(precision @ true / images),
        "recall_macro": float(recall[either].mean()),
        "recall_weighted": float(recall @ true / images),
    }


def _calibration(chance: np.ndarray, guess: np.ndarray, y: np.ndarray) -> dict[str, float | None]:
    errors = {CALIBRATION: calibration_error(chance[np.arange(len(y)), guess], guess == y)}
    if chance.shape[1] == 2:
        errors["calibration_error_positive_class"] = calibration_error(chance[:, 1], y == 1)
    return errors


def calibration_error(chance: np.ndarray, right: np.ndarray) -> float | None:
    """Mean over images of the distance, in their bin, of the mean chance from the share that is right; None for none.

    chance: float64 [N] in [0, 1]. right: bool [N]. The bins are (0, 1/15], (1/15, 2/15], ...; the first holds 0 too.
    """
    if not len(chance):
        return None
    upper = np.arange(1, BINS + 1) / BINS
    place = np.searchsorted(upper, chance).clip(max=BINS - 1)  # [N]; float rounding may bring a chance above 1
    return float(np.abs(np.bincount(place, chance - right, BINS)).sum() / len(chance))


def _areas(wins: np.ndarray, counts: np.ndarray) -> dict[str, float | None]:
    """The AUCs over the classes that have an image; None for all when fewer than two have one."""
    names = [*AREAS, "auc_binary"] if len(counts) == 2 else AREAS
    seen = np.flatnonzero(counts)
    if len(seen) < 2:
        return dict.fromkeys(names)
    n, images = counts[seen], counts.sum()  # [S]
    pairs = (wins + wins.T) / (2 * np.outer(n, n))  # [S, S] (A(a|b) + A(b|a)) / 2
    rest = wins.sum(1) / (n * (images - n))  # [S] class against all others
    values = pairs[np.triu_indices(len(seen), 1)].mean(), rest.mean(), rest @ n / images, rest[-1]
    return {name: float(value) for name, value in zip(names, values)}


def _wins(chance: np.ndarray, y: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """As of together()."""
    ranked = [np.sort(chance[y == c].T, axis=1) for c in seen]  # each [C, n_c], rising
    wins = np.zeros((len(seen), len(seen)))
    for a, c in enumerate(seen):
        for b in range(len(seen)):
            if a != b:
                own, other = ranked[a][c], ranked[b][c]
                wins[a, b] = sum(np.searchsorted(other, own, side).sum() for side in ("left", "right")) / 2
    return wins


def of_labels(logits: np.ndarray, y: np.ndarray) -> list[dict[str, float | None]]:
    """OF_LABEL of each of L labels from logits [N, L] and labels [N, L]; None where it has no meaning."""
    chance = label_probabilities(logits)
    return [_of_label(logits[at, k], chance[at, k], y[at, k] == YES) for k, at in enumerate((y != UNKNOWN).T)]


def _of_label(logit: np.ndarray, chance: np.ndarray, has: np.ndarray) -> dict[str, float | None]:
    """One label: logits, probabilities and whether an image has it, all [n]."""
    positives, negatives = int(has.sum()), int((~has).sum())
    predicted = logit >= 0
    right, wrong, missed = int((predicted & has).sum()), int((predicted & ~has).sum()), int((~predicted & has).sum())
    both = positives > 0 and negatives > 0
    return {
        "auc": float(pairs_won(logit[has], logit[~has]) / (positives * negatives)) if both else None,
        "average_precision": average_precision(logit, has),
        "balanced_accuracy": (right / positives + 1 - wrong / negatives) / 2 if both else None,
        "f1": 2 * right / (2 * right + wrong + missed) if right + wrong + missed else None,
        "calibration_error": calibration_error(chance, has),
    }


def average_precision(score: np.ndarray, has: np.ndarray) -> float | None:
    """Sum over thresholds of precision times the gain in recall; None without an image that has the label.

    score: float [n], has: bool [n]. Images of one score are taken together, as scikit-learn does.
    """
    if not has.any():
        return None
    order = np.argsort(-score, kind="stable")
    last = np.append(np.flatnonzero(np.diff(score[order])), len(score) - 1)  # of each score
    hits = has[order].cumsum()[last]
    return float((hits / (last + 1) * np.diff(hits, prepend=0)).sum() / has.sum())


def pairs_won(own: np.ndarray, other: np.ndarray) -> float:
    """Pairs of one of own and one of other scores in which the first is higher; a tie is half."""
    rising = np.sort(other)
    return sum(np.searchsorted(rising, own, side).sum() for side in ("left", "right")) / 2


def _score_labels(logits: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    each, known = of_labels(logits, y), y != UNKNOWN
    right = ((logits >= 0) == (y == YES)) & known  # [N, L]
    whole, some = (right | ~known).all(1), known.any(1)  # [N]
    macro = {name: [value for label in each if (value := label[name]) is not None] for name in OF_LABEL}
    means = {f"{name}_macro": float(np.mean(values)) if values else None for name, values in macro.items()}
    shares = {
        "exact_match_accuracy": float(whole[some].mean()) if some.any() else None,
        "hamming_accuracy": float(right.sum() / known.sum()) if known.any() else None,
    }
    return {
        **{name: (means | shares)[name] for name in OF_LABELS},
        "count": len(y),
        "classes_missing": [k for k, label in enumerate(each) if label["auc"] is None],
    }
