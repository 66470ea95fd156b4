"""Fed-ISIC2019's layout in little: ISIC 2019's files and FLamby's table, with six hospitals and leaking folds."""

from pathlib import Path

from ..sources.drawing import table
from . import isic2019
from .isic2019 import SEXES, SITES, Photograph

HOSPITALS = {  # number in FLamby's table -> how its lesions' names begin, and its classes
    0: ("BCN", range(8)),
    1: ("HAM", [0, 1, 4, 5]),
    2: ("HAM", [0, 1, 2, 6]),
    3: ("HAM", [1, 3, 4, 7]),
    4: ("MSK4", [0, 1, 4]),
    5: ("HAM", [0, 1, 4]),
}


def make(folder: Path) -> None:
    lines = []
    photographs: list[Photograph] = []
    for center, (prefix, labels) in HOSPITALS.items():
        for label in labels:
            for k in range(3):
                p = _photograph(len(photographs), center, prefix, label, k)
                fold = "test" if k == 2 else "train"
                photographs.append(p)
                lines.append([p.image, *isic2019.one_hot(label), label, center, fold, f"{fold}_{center}"])
    strangers = [Photograph(f"ISIC_009000{k}_downsampled", k, "40.0", "", "", "male") for k in range(2)]
    isic2019.write(folder, [*photographs, *strangers])  # the last name no lesion, so FLamby knows no hospital
    head = ["image", *isic2019.CLASSES, "target", "center", "fold", "fold2"]
    table(folder / "train_test_split", head, sorted(lines, key=lambda line: (line[0][-1], line[0])))


def _photograph(i: int, center: int, prefix: str, label: int, k: int) -> Photograph:
    """Three images of a class: in train, train and test. Of MEL and BCC the first and the last show one lesion."""
    image = f"ISIC_{10000 + i:07d}{'_downsampled' if center == 4 else ''}"
    lesion = f"{prefix}_{i - 2 if k == 2 and label in (0, 2) else i:07d}"
    return Photograph(image, label, f"{30 + 5 * (i % 10)}.0" if i % 13 else "", SITES[i % 8], lesion, SEXES[i % 2])
