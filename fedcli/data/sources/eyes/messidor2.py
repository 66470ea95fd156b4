"""Messidor-2: photographs of the retina with the graders' consensus on diabetic retinopathy and macular oedema.

Source: Decenciere et al., Image Analysis & Stereology 33, 2014; grades by Krause et al., Ophthalmology 125, 2018.
Folder and table are those of Kaggle's mariaherrerot/messidor2preprocess, which FedMRL (arXiv 2407.05800) took, or
ADCIS' images beside the table of google-brain/messidor2-dr-grades. The ids do not tell which two eyes belong to one
patient; ADCIS' list of pairs, messidor-2.csv, does where it lies beside.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ....errors import FedcliError, UsageError, nearest
from ...pool import Row
from ...samples import messidor2 as sample
from ..formats.photographs import files_of, read_rgb, within
from ..source import Choices, Listing, Source
from ..tables import fold_rows, read_table, split_rows

if TYPE_CHECKING:
    from pandas import DataFrame

TARGETS = {  # option -> column, classes
    "dr": ("diagnosis", ["no-dr", "mild", "moderate", "severe", "proliferative"]),
    "dme": ("adjudicated_dme", ["no-dme", "dme"]),
}
TABLE, PAIRS = "messidor_data.csv", "messidor-2.csv"
COLUMNS = ["id_code", "diagnosis", "adjudicated_dme", "adjudicated_gradable"]
GOOGLES = [
    "image_id",
    "adjudicated_dr_grade",
    "adjudicated_dme",
    "adjudicated_gradable",
]  # the same, as first published
FOLDERS = "messidor-2/messidor-2/preprocess", "messidor-2/preprocess", "preprocess", "IMAGES", "images", "."
SUFFIXES = ".jpg", ".jpeg", ".png", ".tif"


def rows(raw: Path, choices: Choices) -> Listing:
    """Every gradable image that is there."""
    target = choices.own["target"]
    if target not in TARGETS:
        raise UsageError(f"unknown target {target!r}", nearest(target, TARGETS))
    column, classes = TARGETS[target]
    files, patients = files_of(raw, FOLDERS, SUFFIXES, lambda path: _key(path.name)), _patients(raw / PAIRS)
    images, skipped = [], []
    for record in read_grades(raw).to_dict("records"):
        name = record["id_code"]
        file = files.get(_key(name))
        if why := _unusable(record, file, column):
            skipped.append((file or name, why))
            continue
        label = _grade(raw / TABLE, name, record[column], classes)
        images.append(Row(Path(name).stem, label, file, patient=patients.get(_key(name), "")))
    patient = "patient" if any(row.patient for row in images) else None
    tables = [name for name in (TABLE, PAIRS) if (raw / name).is_file()]
    return Listing(_split(images, raw, choices), {}, patient, tables, sorted(skipped), classes=classes)


def decode(raw: Path, row: Row, choices: Choices) -> np.ndarray:
    return read_rgb(raw / row.source)


def read_grades(raw: Path) -> "DataFrame":
    """The table with Kaggle's column names, all text, "" where nothing is said, in order of the ids."""
    path = raw / TABLE
    if not path.is_file():
        raise FedcliError(f"{raw} has no {TABLE}", "give the folder with the table; see fedcli datasets messidor2")
    spelling = GOOGLES if GOOGLES[0] in read_table(path, []) else COLUMNS
    table = read_table(path, spelling, dtype=str, keep_default_na=False)[spelling]
    table = table.set_axis(COLUMNS, axis=1).sort_values("id_code")
    for name in table.id_code:
        within(raw, name, path)
    if (twice := table.id_code.map(_key).duplicated()).any():
        raise FedcliError(f"{path} lists {table.id_code[twice].iloc[0]} twice", "keep the right one of the two rows")
    return table


def _key(name: str) -> str:
    """What a table's name and a file's have in common: the table says .jpg where the file is .JPG."""
    path = Path(name)
    return (path.stem if path.suffix.lower() in SUFFIXES else path.name).casefold()


def _unusable(record: dict[str, str], file: str | None, column: str) -> str:
    """Why an image cannot be used, "" if it can."""
    if file is None:
        return f"listed in {TABLE}, in none of the image folders"
    if record["adjudicated_gradable"].strip() in ("0", "0.0"):
        return "not gradable, say the graders"
    return "" if record[column].strip() else f"no {column} in {TABLE}"


def _grade(path: Path, name: str, text: str, classes: list[str]) -> int:
    known = [str(grade) for grade in range(len(classes))]
    grade = text.strip().removesuffix(".0")  # pandas writes 2.0 where some rows are empty
    if grade not in known:
        raise FedcliError(f"{path}: {name} has the grade {text!r}", f"expected 0 to {known[-1]}")
    return int(grade)


def _patients(path: Path) -> dict[str, str]:
    """Key of a name -> its patient, named after the left eye's image; empty without the list of pairs."""
    if not path.is_file():
        return {}
    pairs = read_table(path, ["left", "right"], sep=";", dtype=str, keep_default_na=False)
    names = zip(pairs["left"], pairs["right"], strict=True)
    return {_key(name): Path(eyes[0] or eyes[1]).stem for eyes in names for name in eyes if name}


def _split(images: list[Row], raw: Path, choices: Choices) -> list[Row]:
    if choices.split == "folds":
        return fold_rows(images, choices, by_patient=True)
    if choices.split == "patient" and (image := next((row.id for row in images if not row.patient), None)):
        hint = f"put ADCIS' {PAIRS} beside the table, or use --split image"
        raise FedcliError(f"{raw} does not say whose eye {image} shows", hint)
    return split_rows(images, choices, by_patient=choices.split == "patient")


SOURCE = Source(rows, decode, sample.make, per_file=True)
