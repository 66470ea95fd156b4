"""Predictions as tables that other tools read.

Source: the columns are those that `fairmedfm score` of the package fairmedfm 0.4.2 (Jin et al., FairMedFM, NeurIPS
2024, arXiv 2407.00983) finds by itself: label, prob_0 prob_1 ..., and attributes by their names. It scores two
classes, or one of several against all others with --pos-label and --score-column. Its accuracies and odds are at the
threshold of the best F1 on the test set, ours at the most likely class; its AUCs are ours, its calibration error has
ten bins over the chances that occur.
Of two classes predictions-binary.csv has what `fmm-fairness evaluate` of the package fmm-fairness-eval 0.1.0 asks for:
y_true, y_pred and y_score. It is a file of its own, as fairmedfm would not know which of two columns is the label.
"""

from pathlib import Path

import numpy as np

from ..data import manifest
from ..errors import FedcliError
from ..io.csv_text import csv_text
from ..labels import UNKNOWN
from ..metrics import chances
from .predictions import read


def to_csv(scores: Path) -> list[Path]:
    """Write the last round's predictions beside a scores.json: predictions.csv of the clean test set and, where there
    is one, predictions-corrupted.csv; of two classes also predictions-binary.csv and predictions-binary-corrupted.csv.

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
    written: list[Path] = []
    for version in (version for version in names if version in predicted.logits):
        target = scores.parent / names[version]
        last = predicted.logits[version][body["kept_rounds"][-1]]
        chance = chances(last, predicted.y)  # [N, C]
        made = {target: _labels(predicted.y) | {f"prob_{c}": each.tolist() for c, each in enumerate(chance.T)}}
        if predicted.y.ndim == 1 and chance.shape[1] == 2:  # the second of two classes against the first
            binary = {
                "y_true": predicted.y.tolist(),
                "y_pred": chance.argmax(1).tolist(),
                "y_score": chance[:, 1].tolist(),
            }
            made[target.with_name(target.name.replace("predictions", "predictions-binary"))] = binary
        whose = {"id": predicted.id} | ({} if predicted.unit is None else {"unit": predicted.unit})
        groups = {
            name: [[*values, ""][at] for at in predicted.groups[name]] for name, values in body["attributes"].items()
        }
        for path, answers in made.items():
            columns = whose | answers | groups
            manifest.write_text(path, csv_text([columns, *zip(*columns.values(), strict=True)]))
            written.append(path)
    return written


def _labels(y: np.ndarray) -> dict[str, list]:
    """The columns of what is true: label, or label_0 label_1 ... where an image may have several."""
    if y.ndim == 1:
        return {"label": y.tolist()}
    return {f"label_{k}": ["" if has == UNKNOWN else has for has in column.tolist()] for k, column in enumerate(y.T)}
