"""Fed-ISIC2019: ISIC 2019 by the six hospitals it came from, with FLamby's table of hospitals and folds.

Source: Ogier du Terrail et al., FLamby, NeurIPS 2022 (arXiv 2210.04620). Its 23,247 images are those of ISIC 2019
that name a lesion. The split "official" is theirs, drawn image by image within a hospital, so it leaks: a lesion may
have images on both sides. Published results can be compared with no other, so it is the default, and the leak is
said; "lesion" keeps a lesion's images together.

The split "folds" is our reading of Fed-MAS's five (arXiv 2307.14959), of which only the first is public: fold 1 tests
on the official test part, each other one on a part of the official train part, cut by class within every hospital.
They too are drawn image by image, as the first is, and leak as it does.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from .... import console
from ....errors import FedcliError
from ...pool import Row
from ...samples import fed_isic as sample
from ..source import Choices, Listing, Source
from ..tables import fold_rows, leaking, read_table, split_rows
from . import isic2019
from .isic2019 import CLASSES, decode

if TYPE_CHECKING:
    from pandas import DataFrame

CENTERS = ["BCN", "vidir_molemax", "vidir_modern", "rosendahl", "MSK", "vienna_dias"]  # by their numbers in the table
TABLES = "train_test_split", "train_test_split.csv", "flamby_isic2019_train_test_split.csv"  # FLamby's name first


def rows(raw: Path, choices: Choices) -> Listing:
    """Every image of FLamby's table that is there."""
    path = locate(raw)
    table, hospitals = isic2019.read_tables(raw), read_hospitals(path)
    why = f"listed in {path.name}, not in {isic2019.TRUTH}"
    skipped = [(f"{name}.jpg", why) for name in hospitals.index.difference(table.index)]
    if outside := len(table.index.difference(hospitals.index)):
        console.say(f"{outside} of {len(table)} images of ISIC 2019 have no hospital in {path.name} and are left out")
    table = table.join(hospitals[["target", "center", "fold"]], how="inner")
    _check_labels(table, path)
    listing = isic2019.collect(raw, table)
    official = set(table.image[table.fold == "test"])
    images = [replace(row, test=row.id in official) for row in listing.rows]
    tables, skipped = [*listing.tables, path.name], [*skipped, *listing.skipped]
    return replace(listing, rows=_split(images, choices), tables=tables, skipped=skipped)


def locate(raw: Path) -> Path:
    """FLamby's table, by any of its names. Raises FedcliError that names every table that is missing."""
    path = next((raw / name for name in TABLES if (raw / name).is_file()), None)
    isics = [name for name in (isic2019.TRUTH, isic2019.METADATA) if not (raw / name).is_file()]
    if path and not isics:
        return path
    hints = ["give the folder with the ISIC archive's two tables of 2019"] if isics else []
    missing = isics if path else [*isics, f"{TABLES[0]}, which names the hospitals"]
    if not path:
        hints += [f"put {TABLES[0]} of FLamby's folder datasets/fed_isic2019/dataset_creation_scripts there"]
    raise FedcliError(f"{raw} has no {' and no '.join(missing)}", ", and ".join(hints))


def read_hospitals(path: Path) -> "DataFrame":
    """One line per image, indexed as ISIC's tables are: image, target, center (a category), fold."""
    from pandas import Categorical

    columns = ["image", "target", "center", "fold"]
    table = read_table(path, columns, dtype={"image": str, "fold": str})[columns]
    known = {"target": range(len(CLASSES)), "center": range(len(CENTERS)), "fold": ["train", "test"]}
    for column, values in known.items():
        if (odd := ~table[column].isin(values)).any():
            wrong = table[odd].iloc[0]
            sentence = f"{path}: {wrong.image} has the {column} {wrong[column]!r}"
            raise FedcliError(
                sentence, f"expected {values[0]} to {values[-1]}" if column != "fold" else "expected train or test"
            )
    table["center"] = Categorical.from_codes(table.center.astype(int), CENTERS)
    return isic2019.by_key(table, path.name)


def _check_labels(table: "DataFrame", path: Path) -> None:
    """Refuse two tables that call an image by different classes."""
    if (odd := (table.label >= 0) & (table.label != table.target)).any():
        wrong = table[odd].iloc[0]
        here, there = CLASSES[wrong.label], CLASSES[wrong.target]
        sentence = f"{wrong.image} is {here} in {isic2019.TRUTH} and {there} in {path.name}"
        raise FedcliError(sentence, "download both tables again")


def _split(images: list[Row], choices: Choices) -> list[Row]:
    """images: split by the official fold."""
    if choices.split in ("lesion", "image"):
        return split_rows(images, choices, by_patient=choices.split == "lesion")
    if choices.split == "folds" and choices.fold > 1:
        images = _later_fold(images, choices)
    if leaks := leaking(images):
        lesions = console.counted(leaks, "lesion has", "lesions have")
        sentence = f"the split {choices.split!r} leaks: {lesions} images in both train and test"
        console.say(f"{sentence}; --split lesion keeps them together")
    return images


def _later_fold(images: list[Row], choices: Choices) -> list[Row]:
    """Test on one part of the official train part of every hospital, train on all else."""
    others = replace(choices, fold=choices.fold - 1, folds=choices.folds - 1, sample_images=None)
    test = set()
    for center in range(len(CENTERS)):
        rows = [row for row in images if row.groups["center"] == center and not row.test]
        test |= {row.id for row in fold_rows(rows, others, by_patient=False) if row.test}
    return [replace(row, test=row.id in test) for row in images]


SOURCE = Source(rows, decode, sample.make, per_file=True)
