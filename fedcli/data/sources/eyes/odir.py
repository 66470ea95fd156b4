"""ODIR-5K: fundus photographs of both eyes of each patient, with any of eight labels.

Source: Ocular Disease Intelligent Recognition, Peking University, 2019; Li et al., BenchCouncil 2020, arXiv 2102.07978.
The folder is that of Kaggle's andrewmvd/ocular-disease-recognition-odir5k, or of the challenge. Labels are a patient's,
found in either eye, so that each of the two images has those of both. An image whose own keyword says that it shows no
fundus is left out, as the challenge advises; so are the images of its testing folder, whose labels are not there.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ....errors import FedcliError
from ...pool import Row
from ...samples import odir as sample
from ..formats.photographs import read_rgb
from ..own_files.own_labels import of_columns
from ..source import Choices, Listing, Source
from ..tables import AGE_BANDS, age_band, fold_rows, place, read_sheet, read_table, split_rows

if TYPE_CHECKING:
    from pandas import DataFrame

LABELS = {
    "N": "normal", "D": "diabetes", "G": "glaucoma", "C": "cataract",
    "A": "age-related macular degeneration", "H": "hypertension", "M": "myopia", "O": "other",
}  # fmt: skip
EYES = "Left", "Right"
COLUMNS = ["ID", "Patient Age", "Patient Sex", *(f"{eye}-Fundus" for eye in EYES), *LABELS]
NO_FUNDUS = "no fundus image", "anterior segment image"
ATTRIBUTES = {"sex": ["female", "male"], "age": AGE_BANDS}
ANNOTATIONS = "ODIR-5K_Training_Annotations(Updated)_V2"
HOMES = ".", "ODIR-5K", "ODIR-5K/ODIR-5K"  # where tables and folders may lie, seen from the root
TABLES = "full_df.csv", "data.csv", f"{ANNOTATIONS}.csv", "data.xlsx", f"{ANNOTATIONS}.xlsx"
FOLDERS = "Training Images", "ODIR-5K_Training_Images", "ODIR-5K_Training_Dataset", "preprocessed_images", "images"


def rows(raw: Path, choices: Choices) -> Listing:
    """Both eyes of every patient of the table, as far as their images are there."""
    path = _table(raw)
    table = _read(path)
    labels, _ = of_columns({name: table[name] for name in LABELS}, list(LABELS), "", path)
    files = _files(raw)
    images, skipped = [], []
    for record, label in zip(table.to_dict("records"), labels, strict=True):
        groups = {
            "sex": place(record["Patient Sex"].lower(), ATTRIBUTES["sex"]),
            "age": place(age_band(_years(record["Patient Age"])), AGE_BANDS),
        }
        for eye in EYES:
            name = record[f"{eye}-Fundus"]
            if why := _unusable(record, eye, files):
                skipped.append((files.get(name, name), why))
                continue
            images.append(Row(Path(name).stem, label, files[name], groups=groups, patient=record["ID"]))
    split = fold_rows if choices.split == "folds" else split_rows
    images = split(images, choices, by_patient=choices.split != "image")
    return Listing(images, ATTRIBUTES, "ID", [path.relative_to(raw).as_posix()], sorted(skipped))


def decode(raw: Path, row: Row, choices: Choices) -> np.ndarray:
    return read_rgb(raw / row.source)


def _table(raw: Path) -> Path:
    """The first of the tables that is there."""
    paths = [raw / home / name for name in TABLES for home in HOMES]
    if path := next((path for path in paths if path.is_file()), None):
        return path
    raise FedcliError(f"{raw} has none of the tables {', '.join(TABLES)}", "see fedcli datasets odir")


def _read(path: Path) -> "DataFrame":
    """A line for each patient, all texts. full_df.csv has one for each eye, alike in the columns that are read."""
    if path.suffix == ".csv":
        table = read_table(path, COLUMNS, dtype=str, keep_default_na=False)
    else:
        table = read_sheet(path, COLUMNS).fillna("")
    table = table.drop_duplicates(COLUMNS)
    if (twice := table.ID.duplicated()).any():
        patient = table.ID[twice].iloc[0]
        raise FedcliError(f"{path} has two lines for patient {patient} that differ", "keep the right one of them")
    names = [name for eye in EYES for name in table[f"{eye}-Fundus"]]
    if len(set(names)) < len(names):
        name = next(name for name in names if names.count(name) > 1)
        raise FedcliError(f"{path} names the image {name!r} twice", "keep the right one of the two")
    return table


def _files(raw: Path) -> dict[str, str]:
    """Name of an image -> its path relative to raw; the first of FOLDERS wins, as do photographs over edited ones."""
    folders = [Path(home, folder) for folder in FOLDERS for home in HOMES]
    paths: dict[str, str] = {}
    for folder in reversed([folder for folder in folders if (raw / folder).is_dir()]):
        paths |= {entry.name: (folder / entry.name).as_posix() for entry in os.scandir(raw / folder)}
    return paths


def _unusable(record: dict[str, str], eye: str, files: dict[str, str]) -> str:
    """Why the image of an eye cannot be used, "" if it can."""
    if record[f"{eye}-Fundus"] not in files:
        return "listed in the table, in none of the image folders"
    keywords = record.get(f"{eye}-Diagnostic Keywords", "").strip().lower()
    return f"no fundus: {keywords}" if keywords in NO_FUNDUS else ""


def _years(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


SOURCE = Source(rows, decode, sample.make, per_file=True)
