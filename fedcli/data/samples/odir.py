"""ODIR-5K in little, as Kaggle has it: full_df.csv with a line for each eye, and the folder of training images."""

from pathlib import Path

import numpy as np

from ..sources.drawing import labels_of, save, spots, table

LABELS = list("NDGCAHMO")
PATIENTS = 80
HEAD = [
    *("ID", "Patient Age", "Patient Sex", "Left-Fundus", "Right-Fundus"),
    *("Left-Diagnostic Keywords", "Right-Diagnostic Keywords", *LABELS),
    *("filepath", "labels", "target", "filename"),
]
FOLDER = Path("ODIR-5K", "ODIR-5K", "Training Images")
NOT_SEEN = 11  # the patient whose right image shows no fundus


def make(folder: Path) -> None:
    lines = []
    for patient in range(PATIENTS):
        labels = labels_of(patient, len(LABELS))
        labels[0] = not labels[1:].any()  # normal: nothing else
        names = {eye: f"{patient}_{eye}.jpg" for eye in ("left", "right")}
        keywords = dict.fromkeys(names, "normal fundus" if labels[0] else "made up")
        if patient == NOT_SEEN:
            keywords["right"] = "no fundus image"
        person = [patient, 25 + 7 * patient % 60, ("Female", "Male")[patient // 2 % 2]]
        for name in names.values():
            first = LABELS[int(labels.argmax())]
            place = [f"../input/{(FOLDER / name).as_posix()}", [first], labels.tolist(), name]
            lines.append([*person, *names.values(), *keywords.values(), *labels.tolist(), *place])
            save(folder / FOLDER / name, _picture(name, labels))
    table(folder / "full_df.csv", HEAD, lines)


def _picture(name: str, labels: np.ndarray) -> np.ndarray:
    """uint8 [H, W, 3]: reddish, brighter in green where a label has its place."""
    grey = spots(name, labels).astype(float)
    return np.stack([np.full_like(grey, 160), grey, 0.4 * grey], axis=-1).astype(np.uint8)
