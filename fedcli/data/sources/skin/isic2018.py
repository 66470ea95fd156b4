"""ISIC 2018 task 3 = HAM10000: dermoscopy of seven kinds of skin lesion, from Harvard's or the ISIC archive's files.

Source: Tschandl, Rosendahl, Kittler, Scientific Data 5:180161, 2018. Many lesions were photographed several
times, so the split keeps a lesion together unless asked otherwise. The hospitals, and the official fold, come from
the table that FLamby's Fed-ISIC2019 made (arXiv 2210.04620), when it lies beside.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .... import console
from ....errors import FedcliError
from ...pool import Row
from ...samples import isic2018 as sample
from ..formats.photographs import files_of, read_rgb
from ..source import Choices, Listing, Source
from ..tables import AGE_BANDS, age_band, fold_rows, place, read_table, split_rows

if TYPE_CHECKING:
    from pandas import DataFrame

CLASSES = ["mel", "nv", "bcc", "akiec", "bkl", "df", "vasc"]
SEXES = ["female", "male"]
HAM, CENTERS = "HAM10000_metadata.csv", "ham10000_fedisic2019.csv"
TRUTH = "ISIC2018_Task3_Training_GroundTruth.csv"
GROUPINGS = "ISIC2018_Task3_Training_LesionGroupings.csv"
FOLDERS = "images", "HAM10000_images_part_1", "HAM10000_images_part_2", "ISIC2018_Task3_Training_Input", "."
SUFFIXES = ".jpg", ".jpeg", ".png"


def rows(raw: Path, choices: Choices) -> Listing:
    """Every listed image that is there, with what the tables say about it."""
    table, tables = read_ham(raw) if (raw / HAM).is_file() else read_task3(raw)
    table = _checked(table, raw / tables[0]).sort_values("image_id")
    if choices.split == "official":
        _check_official(table, raw)
    attributes, files = _attributes(table), files_of(raw, FOLDERS, SUFFIXES, lambda path: path.stem)
    images, skipped = [], []
    for values in zip(*(table[column].tolist() for column in table), strict=True):  # to_dict takes four times as long
        record = dict(zip(table, values, strict=True))
        if (id := record["image_id"]) not in files:
            skipped.append((f"{id}.jpg", f"listed in {tables[0]}, in none of the image folders"))
            continue
        groups = {name: place(record[name], values) for name, values in attributes.items()}
        lesion = record.get("lesion_id")
        patient = lesion if isinstance(lesion, str) else ""  # NaN where the tables do not say
        images.append(Row(id, CLASSES.index(record["dx"]), files[id], record.get("fold") == "test", groups, patient))
    named = "lesion_id" if any(row.patient for row in images) else None
    return Listing(_split(images, raw, choices), attributes, named, tables, skipped)


def decode(raw: Path, row: Row, choices: Choices) -> np.ndarray:
    return read_rgb(raw / row.source)


def read_ham(raw: Path) -> tuple["DataFrame", list[str]]:
    """Harvard Dataverse's table, with hospitals and folds where they lie beside it."""
    from pandas import to_numeric

    text = dict.fromkeys(["image_id", "lesion_id", "dx", "sex"], str)
    table = read_table(raw / HAM, ["lesion_id", "image_id", "dx", "age", "sex"], dtype=text)
    table["age"] = to_numeric(table.age, errors="coerce").map(age_band)
    if not (raw / CENTERS).is_file():
        return table.rename(columns={"dataset": "center"}), [HAM]
    centers = read_table(raw / CENTERS, ["image_id", "dataset", "fold"], dtype=str).drop_duplicates("image_id")
    centers = centers[["image_id", "dataset", "fold"]].rename(columns={"dataset": "center"})
    return table.drop(columns=["dataset"], errors="ignore").merge(centers, on="image_id", how="left"), [HAM, CENTERS]


def read_task3(raw: Path) -> tuple["DataFrame", list[str]]:
    """The ISIC archive's one-hot table, with lesions where they lie beside it."""
    if not (raw / TRUTH).is_file():
        raise FedcliError(
            f"{raw} has neither {HAM} nor {TRUTH}", "give the folder with the table; see fedcli datasets isic2018"
        )
    columns = [name.upper() for name in CLASSES]
    table = read_table(raw / TRUTH, ["image", *columns], dtype={"image": str}).rename(columns={"image": "image_id"})
    hot = table[columns].to_numpy() == 1  # [N, C]
    if (odd := hot.sum(1) != 1).any():
        wrong = table.image_id[odd].iloc[0]
        raise FedcliError(f"{raw / TRUTH}: {wrong} has {hot[odd][0].sum()} labels, expected one", "correct its row")
    table["dx"] = np.array(CLASSES)[hot.argmax(1)]
    if not (raw / GROUPINGS).is_file():
        return table[["image_id", "dx"]], [TRUTH]
    lesions = read_table(raw / GROUPINGS, ["image", "lesion_id"], dtype=str).drop_duplicates("image")
    lesions = lesions[["image", "lesion_id"]].rename(columns={"image": "image_id"})
    return table[["image_id", "dx"]].merge(lesions, on="image_id", how="left"), [TRUTH, GROUPINGS]


def _checked(table: "DataFrame", path: Path) -> "DataFrame":
    """Each image once. Raises FedcliError for one with two labels or an unknown one."""
    table = table.drop_duplicates(["image_id", "dx"])
    if (odd := ~table.dx.isin(CLASSES)).any():
        id, label = table.image_id[odd].iloc[0], table.dx[odd].iloc[0]
        raise FedcliError(f"{path}: {id} has the unknown class {label!r}", f"known: {', '.join(CLASSES)}")
    if (twice := table.image_id.duplicated()).any():
        id = table.image_id[twice].iloc[0]
        labels = " and ".join(table.dx[table.image_id == id].astype(str))
        raise FedcliError(f"{path}: {id} has two labels, {labels}", "keep the right one of the two rows")
    return table


def _attributes(table: "DataFrame") -> dict[str, list[str]]:
    centers = sorted(table.center.dropna().unique()) if "center" in table else []
    offered = {"sex": SEXES, "age": AGE_BANDS, "center": centers}
    return {name: values for name, values in offered.items() if name in table and values}


def _split(images: list[Row], raw: Path, choices: Choices) -> list[Row]:
    if choices.split == "official":
        return images  # already in the rows
    if choices.split in ("lesion", "folds") and not all(row.patient for row in images):
        image = next(row.id for row in images if not row.patient)
        hint = f"put {GROUPINGS} beside the table, or use --split image"
        raise FedcliError(f"{raw} does not say which lesion {image} shows", hint)
    if choices.split == "folds":
        return fold_rows(images, choices, by_patient=True)
    return split_rows(images, choices, by_patient=choices.split == "lesion")


def _check_official(table: "DataFrame", raw: Path) -> None:
    """Refuse a table without FLamby's folds, and say how far they leak."""
    if "fold" not in table:
        hint = "use --split lesion or --split image"
        raise FedcliError(f"{raw} has no {CENTERS}, which holds the official fold", hint)
    if (missing := ~table.fold.isin(["train", "test"])).any():
        raise FedcliError(f"{raw / CENTERS} has no fold for {table.image_id[missing].iloc[0]}", "use --split lesion")
    leak = (table.groupby("lesion_id").fold.nunique() > 1).sum()
    console.say(f"the official fold leaks: {leak} lesions have images in both train and test")


SOURCE = Source(rows, decode, sample.make, per_file=True)
