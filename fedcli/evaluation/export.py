"""Predictions as tables that other tools read.

Source: the columns are those that `fairmedfm score` of the package fairmedfm 0.4.2 (Jin et al., FairMedFM, NeurIPS
2024, arXiv 2407.00983) finds by itself: label, prob_0 prob_1 ..., and attributes by their names. It scores two
classes, or one of several against all others with --pos-label and --score-column. Its accuracies and odds are at the
threshold of the best F1 on the test set, ours at the most likely class; its AUCs are ours, its calibration error has
ten bins over the chances that occur.
"""

from pathlib import Path

import numpy as np

from ..csv_text import csv_text
from ..data import manifest
from ..errors import FedcliError
from ..labels import UNKNOWN
from ..metrics import chances
from .predictions import Predictions, read


def to_csv(scores: Path) -> list[Path]:
    """Write the last round's predictions beside a scores.json: predictions.csv of the clean test set and, where there
    is one, predictions-corrupted.csv.

    One row per image: id, unit (patient or lesion, where the dataset has it), label (from 0), prob_0 prob_1 ..., and
    each attribute's value, empty where unknown. Of several labels per image label_0 label_1 ... are 0, 1 or empty.
    Raises FedcliError where every client answers for itself, HashError.
    """
    body = manifest.verify(scores, "scores").body
    predicted = read(scores.parent / "predictions.h5")
    if not predicted.logits:
        raise FedcliError(
            f"{scores} has no one answer for an image: every client's own model was scored on the whole test set",
            "export a run that has a global model, or whose clients have test parts of their own",
        )
    names = {"clean": "predictions.csv", "corrupted": "predictions-corrupted.csv"}
    targets = {version: scores.parent / name for version, name in names.items() if version in predicted.logits}
    for version, target in targets.items():
        last = predicted.logits[version][body["kept_rounds"][-1]]
        manifest.write_text(target, _table(predicted, last, body["attributes"]))
    return list(targets.values())


def _table(predicted: Predictions, logits: np.ndarray, attributes: dict[str, list[str]]) -> str:
    columns = {
        "id": predicted.id,
        **({} if predicted.unit is None else {"unit": predicted.unit}),
        **_labels(predicted.y),
        **{f"prob_{c}": chance.tolist() for c, chance in enumerate(chances(logits, predicted.y).T)},
        **{name: [[*values, ""][at] for at in predicted.groups[name]] for name, values in attributes.items()},
    }
    return csv_text([columns, *zip(*columns.values(), strict=True)])


def _labels(y: np.ndarray) -> dict[str, list]:
    """The columns of what is true: label, or label_0 label_1 ... where an image may have several."""
    if y.ndim == 1:
        return {"label": y.tolist()}
    return {f"label_{k}": ["" if has == UNKNOWN else has for has in column.tolist()] for k, column in enumerate(y.T)}
