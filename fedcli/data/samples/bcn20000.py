"""Two collections of the ISIC archive in little: one with the columns of before 2024, one with those since."""

from pathlib import Path

from ..sources.drawing import picture, save, table

VIENNA = "ViDIR Group, Department of Dermatology, Medical University of Vienna"
BARCELONA = "Department of Dermatology, Hospital Clínic de Barcelona"
KINDS = ["benign", "malignant"]


def make(folder: Path) -> None:
    """Forty images each; two of every eight share a lesion, and some cells are empty."""
    _collection(folder / "HAM10000", VIENNA, "benign_malignant", KINDS, 0)
    _collection(folder / "BCN20000", BARCELONA, "diagnosis_1", ["Benign", "Malignant"], 40)


def _collection(folder: Path, owner: str, column: str, kinds: list[str], first: int) -> None:
    lines = []
    for i in range(first, first + 40):
        image, label, k = f"ISIC_{i:07d}", int(i % 8 > 4), i % 8
        save(folder / "images" / f"{image}.jpg", picture(image, label, tint=first / 200))
        kind = "Indeterminate" if i == first + 39 else kinds[label]
        age = "" if k == 3 else f"{35 + 5 * (i % 10)}"
        lesion = "" if k == 6 else f"IL_{i - (k == 1):07d}"
        lines.append([image, owner, "CC-BY-NC", age, ["female", "male", ""][i % 3 if i % 4 else 2], kind, lesion])
    head = ["isic_id", "attribution", "copyright_license", "age_approx", "sex", column, "lesion_id"]
    table(folder / "metadata.csv", head, lines)
