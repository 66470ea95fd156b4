"""Predictions as tables that other tools read.

Source: the columns are those that `fairmedfm score` of the package fairmedfm 0.4.2 (Jin et al., FairMedFM, NeurIPS
2024, arXiv 2407.00983) finds by itself: label, prob_0 prob_1 ..., and attributes by their names. It scores two
classes, or one of several against all others with --pos-label and --score-column. Its accuracies and odds are at the
threshold of the best F1 on the test set, ours at the most likely class; its AUCs are ours, its calibration error has
ten bins over the chances that occur.
"""

import csv
import io
from pathlib import Path

import numpy as np

from ..data import manifest
from ..errors import FedcliError
from ..metrics import probabilities
from .predictions import Predictions, read


def to_csv(scores: Path) -> list[Path]:
    """Write the last round's predictions beside a scores.json: predictions.csv of the clean test set and, where there
    is one, predictions-corrupted.csv.

    One row per image: id, unit (patient or lesion, where the dataset has it), label (from 0), prob_0 prob_1 ..., and
    each attribute's value, empty where unknown. Raises FedcliError where every client answers for itself, HashError.
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
        "label": predicted.y,
        **{f"prob_{c}": chance.tolist() for c, chance in enumerate(probabilities(logits).T)},
        **{name: [[*values, ""][at] for at in predicted.groups[name]] for name, values in attributes.items()},
    }
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(columns)
    table.writerows(zip(*columns.values(), strict=True))
    return out.getvalue()
