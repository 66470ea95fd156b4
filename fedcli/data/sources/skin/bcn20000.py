"""BCN20000, and HAM10000 beside it, as the ISIC archive gives out collections: benign or malignant, of two hospitals.

Source: Hernandez-Perez, Combalia, Podlipnik et al., "BCN20000: dermoscopic lesions in the wild", Scientific Data
2024, doi 10.1038/s41597-024-03387-w (arXiv 1908.02288); HAM10000 (Tschandl et al., Scientific Data 5:180161, 2018).
FlexFair (Nature Communications 2025) trains on both so: its code (MaksimXing/FlexFair) reads the archive's tables,
takes benign_malignant as the class, sex, the age of 60 as a cut, and the hospital from `attribution`; there, an unknown
age is old. Which of the images it used (6,174 and 4,904 train), and its split, are not public.

A collection is a folder with its metadata table and its images, or several such folders in one.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ....errors import FedcliError
from ...pool import Row
from ...samples import bcn20000 as sample
from ..formats.photographs import files_of, read_rgb
from ..source import Choices, Listing, Source
from ..tables import place, read_table
from . import isic2019

if TYPE_CHECKING:
    from pandas import DataFrame

CLASSES = ["benign", "malignant"]
LABELS = "benign_malignant", "diagnosis_1"  # the archive's column until 2024, and since
SEXES = ["female", "male"]
AGES = ["0-60", "61+"]
SITES = ["vienna", "barcelona"]  # each a word of `attribution`, in small letters
FOLDERS, SUFFIXES = (".", "images", "ISIC-images"), (".jpg", ".jpeg", ".png")


def rows(raw: Path, choices: Choices) -> Listing:
    """Every image of a table that is there and is benign or malignant."""
    paths = list(_tables(raw))
    if not paths:
        hint = "give the folder of a collection of the ISIC archive, or one with such folders in it"
        raise FedcliError(f"{raw} has no table with the column isic_id", hint)
    table = isic2019.by_key(_read(raw, paths), " and ".join(path.as_posix() for path in paths)).sort_values("image")
    places = [(path.parent / folder).as_posix() for path in paths for folder in FOLDERS]
    files = files_of(raw, list(dict.fromkeys(places)), SUFFIXES, lambda path: path.stem)
    images, skipped = [], []
    for record in table.to_dict("records"):
        if (id := record["image"]) not in files:
            skipped.append((f"{id}.jpg", "listed, and in none of the image folders"))
        elif (label := place(record["label"], CLASSES)) < 0:
            skipped.append((f"{id}.jpg", f"its table calls it {record['label'] or 'nothing'}, not benign or malignant"))
        else:
            groups = {"sex": place(record["sex"], SEXES), "age": _age(record["age"]), "site": _site(record["owner"])}
            images.append(Row(id, label, files[id], groups=groups, patient=record["lesion"]))
    named = "lesion_id" if any(row.patient for row in images) else None
    attributes = {"sex": SEXES, "age": AGES, "site": SITES}
    listing = Listing(images, attributes, named, [path.as_posix() for path in paths], skipped)
    return replace(listing, rows=isic2019.split(images, choices))


def decode(raw: Path, row: Row, choices: Choices) -> np.ndarray:
    return read_rgb(raw / row.source)


def _tables(raw: Path) -> Iterator[Path]:
    """The archive's tables, relative to raw: CSV files that begin with isic_id, in it or in a folder of it."""
    for path in sorted([*raw.glob("*.csv"), *raw.glob("*/*.csv")]):
        if path.is_file() and _head(path).startswith((b"isic_id,", b'"isic_id"')):
            yield path.relative_to(raw)


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(20).removeprefix(b"\xef\xbb\xbf")


def _read(raw: Path, paths: list[Path]) -> "DataFrame":
    """One line per image: image, label, sex, age (years), owner, lesion; an empty text is what nobody knows.

    Texts but for the image are in small letters, without blanks around them.
    """
    from pandas import DataFrame, concat

    tables = []
    for path in paths:
        table = read_table(raw / path, ["isic_id", "attribution", "sex", "age_approx"], dtype=str)
        table = table.apply(lambda column: column.str.strip())
        image, table = table.isic_id.where(table.isic_id != ""), table.fillna("")
        label = next((name for name in LABELS if name in table), None)
        if label is None:
            columns = ", ".join(table.columns)
            raise FedcliError(f"{raw / path} has neither {LABELS[0]} nor {LABELS[1]}", f"columns found: {columns}")
        read = {"image": image, "label": table[label].str.lower(), "sex": table.sex.str.lower()}
        lesion = table.lesion_id if "lesion_id" in table else ""
        tables.append(
            DataFrame({**read, "age": table.age_approx, "owner": table.attribution.str.lower(), "lesion": lesion})
        )
    return concat(tables).reset_index(drop=True)


def _age(years: str) -> int:
    """Place in AGES, -1 where no age is known."""
    try:
        age = float(years)
    except ValueError:
        return -1
    return int(age > 60) if 0 <= age < math.inf else -1


def _site(owner: str) -> int:
    """Place in SITES, -1 where the owner is another."""
    return next((k for k, word in enumerate(SITES) if word in owner), -1)


SOURCE = Source(rows, decode, sample.make, per_file=True)
