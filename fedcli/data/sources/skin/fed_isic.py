"""Fed-ISIC2019: ISIC 2019 by the six hospitals it came from, with FLamby's table of hospitals and folds.

Source: Ogier du Terrail et al., FLamby, NeurIPS 2022 (arXiv 2210.04620). Its 23,247 images are those of ISIC 2019
that name a lesion. By default a lesion's images stay together. The split "official" is FLamby's, drawn image by image
within a hospital, so that a lesion may have images on both sides; published results can be compared with no other.

The split "folds" is our reading of Fed-MAS's five (arXiv 2307.14959), of which only the first is public: fold 1 tests
on the official test part, each other one on a part of the official train part, cut by class within every hospital.
They too are drawn image by image, as the first is, and leak as it does.
"""

from dataclasses import replace
from pathlib import Path

from .... import console
from ....errors import FedcliError
from ...pool import Row
from ..division import divided, fold_rows
from ..drawing import table
from ..formats.photographs import photograph
from ..source import Choices, Listing, Source
from ..tables import SEXES, DataFrame, check_values, read_table
from . import isic2019
from .isic2019 import BODY, CLASSES, Photograph

CENTERS = [
    "BCN",
    "vidir_molemax",
    "vidir_modern",
    "rosendahl",
    "MSK",
    "vienna_dias",
]  # by their numbers in the table
TABLES = (
    "train_test_split",
    "train_test_split.csv",
    "flamby_isic2019_train_test_split.csv",
)  # FLamby's name first


def rows(raw: Path, choices: Choices) -> Listing:
    """Every image of FLamby's table that is there."""
    path = locate(raw)
    images, hospitals = isic2019.read_tables(raw), read_hospitals(path)
    why = f"listed in {path.name}, not in {isic2019.TRUTH}"
    skipped = [(f"{name}.jpg", why) for name in hospitals.index.difference(images.index)]
    if outside := len(images.index.difference(hospitals.index)):
        console.say(
            f"{outside} of {len(images)} images of ISIC 2019 have no hospital in {path.name} and are left out"
        )
    images = images.join(hospitals[["target", "center", "fold"]], how="inner")
    _check_labels(images, path)
    return _split(
        isic2019.collect(raw, images.assign(test=images.fold == "test"), [path.name], skipped),
        choices,
    )


def locate(raw: Path) -> Path:
    """FLamby's table, by any of its names. Raises FedcliError that names every table that is missing."""
    path = next((raw / name for name in TABLES if (raw / name).is_file()), None)
    isics = [name for name in (isic2019.TRUTH, isic2019.METADATA) if not (raw / name).is_file()]
    if path and not isics:
        return path
    hints = ["give the folder with the ISIC archive's two tables of 2019"] if isics else []
    missing = isics if path else [*isics, f"{TABLES[0]}, which names the hospitals"]
    if not path:
        hints += [
            f"put {TABLES[0]} of FLamby's folder datasets/fed_isic2019/dataset_creation_scripts there"
        ]
    raise FedcliError(f"{raw} has no {' and no '.join(missing)}", ", and ".join(hints))


def read_hospitals(path: Path) -> DataFrame:
    """One line per image, indexed as ISIC's tables are: image, target, center (a category), fold."""
    from pandas import Categorical

    columns = ["image", "target", "center", "fold"]
    table = read_table(path, columns, dtype={"image": str, "fold": str})[columns]
    known = {
        "target": range(len(CLASSES)),
        "center": range(len(CENTERS)),
        "fold": ["train", "test"],
    }
    for column, values in known.items():
        check_values(path, table.image, table[column], values)
    table["center"] = Categorical.from_codes(table.center.astype(int), CENTERS)
    return isic2019.by_key(table, path.name)


def _check_labels(table: DataFrame, path: Path) -> None:
    if (odd := (table.label >= 0) & (table.label != table.target)).any():
        wrong = table[odd].iloc[0]
        here, there = CLASSES[wrong.label], CLASSES[wrong.target]
        sentence = f"{wrong.image} is {here} in {isic2019.TRUTH} and {there} in {path.name}"
        raise FedcliError(sentence, "download both tables again")


def _split(listing: Listing, choices: Choices) -> Listing:
    if choices.split in ("lesion", "image"):
        return divided(listing, choices)
    if choices.split == "folds" and choices.fold > 1:
        listing = replace(listing, rows=_later_fold(listing.rows, choices))
    return listing


def _later_fold(images: list[Row], choices: Choices) -> list[Row]:
    """Test on one part of the official train part of every hospital, train on all else."""
    others = replace(choices, fold=choices.fold - 1, folds=choices.folds - 1, sample_images=None)
    test = set()
    for center in range(len(CENTERS)):
        rows = [row for row in images if row.groups["center"] == center and not row.test]
        test |= {row.id for row in fold_rows(rows, others, by_patient=False) if row.test}
    return [replace(row, test=row.id in test) for row in images]


# the synthetic sample

PREFIXES = {  # hospital by its number -> how its lesions' names begin, and its classes
    0: ("BCN", range(8)),
    1: ("HAM", [0, 1, 4, 5]),
    2: ("HAM", [0, 1, 2, 6]),
    3: ("HAM", [1, 3, 4, 7]),
    4: ("MSK4", [0, 1, 4]),
    5: ("HAM", [0, 1, 4]),
}


def sample(folder: Path) -> None:
    """Six hospitals, leaking folds, and two images that name no lesion, of which FLamby knows no hospital."""
    lines = []
    photographs: list[Photograph] = []
    for center, (prefix, labels) in PREFIXES.items():
        for label in labels:
            for k in range(3):
                p = _photograph(len(photographs), center, prefix, label, k)
                fold = "test" if k == 2 else "train"
                photographs.append(p)
                lines.append(
                    [p.image, *isic2019.hot(label), label, center, fold, f"{fold}_{center}"]
                )
    strangers = [
        Photograph(f"ISIC_009000{k}_downsampled", k, "40.0", "", "", "male") for k in range(2)
    ]
    isic2019.write(folder, [*photographs, *strangers])
    head = ["image", *CLASSES, isic2019.UNKNOWN, "target", "center", "fold", "fold2"]
    table(folder / TABLES[0], head, sorted(lines, key=lambda line: (line[0][-1], line[0])))


def _photograph(i: int, center: int, prefix: str, label: int, k: int) -> Photograph:
    """Three images of a class: in train, train and test. Of MEL and BCC the first and the last show one lesion."""
    image = f"ISIC_{10000 + i:07d}{'_downsampled' if center == 4 else ''}"
    lesion = f"{prefix}_{i - 2 if k == 2 and label in (0, 2) else i:07d}"
    return Photograph(
        image, label, f"{30 + 5 * (i % 10)}.0" if i % 13 else "", BODY[i % 8], lesion, SEXES[i % 2]
    )


SOURCE = Source(rows, photograph, sample, per_file=True)
