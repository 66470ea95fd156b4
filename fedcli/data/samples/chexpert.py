"""CheXpert in little: CheXpert-v1.0-small with its two tables, and the table of people."""

from pathlib import Path

import numpy as np

from ..sources.drawing import labels_of, save, spots, table

LABELS = [
    *("No Finding", "Enlarged Cardiomediastinum", "Cardiomegaly", "Lung Opacity", "Lung Lesion", "Edema"),
    *("Consolidation", "Pneumonia", "Atelectasis", "Pneumothorax", "Pleural Effusion", "Pleural Other", "Fracture"),
    "Support Devices",
]
PATIENTS = {"train": 90, "valid": 30}
ARCHIVE = "CheXpert-v1.0-small"
RACES = "White", "Asian", "Black or African American", "White, non-Hispanic", "Unknown"


def make(folder: Path) -> None:
    people = []
    for part, count in PATIENTS.items():
        lines = []
        for n in range(count):
            patient = f"patient{n + 1 if part == 'train' else 64541 + n:05d}"
            sex, age = ("Male", "Female")[n // 2 % 2], 18 + 31 * n % 73
            people.append([patient, sex, age, RACES[n % len(RACES)], "Not Hispanic/Latino"])
            for view in ["view1_frontal", *["view2_lateral"] * (n % 6 == 0)]:
                name = f"{part}/{patient}/study1/{view}.jpg"
                labels = labels_of(n, len(LABELS))
                side = "Frontal" if "frontal" in view else "Lateral"
                lines.append(
                    [f"{ARCHIVE}/{name}", sex, age, side, "AP" * (side == "Frontal"), *_cells(n, part, labels)]
                )
                save(folder / ARCHIVE / name, spots(name, labels))
        table(folder / ARCHIVE / f"{part}.csv", ["Path", "Sex", "Age", "Frontal/Lateral", "AP/PA", *LABELS], lines)
    table(folder / "CHEXPERT DEMO.csv", ["PATIENT", "GENDER", "AGE_AT_CXR", "PRIMARY_RACE", "ETHNICITY"], people)


def _cells(n: int, part: str, labels: np.ndarray) -> list[str]:
    """As the tables write them: radiologists answered for every label of the valid part; elsewhere an observation that
    is absent may be blank, 0 or uncertain."""
    absent = ["0.0"] if part == "valid" else ["", "", "", "0.0", "", "", "-1.0"]
    return ["1.0" if has else absent[(n + k) % len(absent)] for k, has in enumerate(labels)]
