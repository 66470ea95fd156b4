"""BCN20000, and HAM10000 beside it, as the ISIC archive gives out collections: benign or malignant, of two hospitals.

Source: Hernandez-Perez, Combalia, Podlipnik et al., "BCN20000: dermoscopic lesions in the wild", Scientific Data
2024, doi 10.1038/s41597-024-03387-w (arXiv 1908.02288); HAM10000 (Tschandl et al., Scientific Data 5:180161, 2018).
FlexFair (Nature Communications 2025) trains on both so: its code (MaksimXing/FlexFair) reads the archive's tables,
takes benign_malignant as the class, sex, the age of 60 as a cut, and the hospital from `attribution`; there, an unknown
age is old. Which of the images it used (6,174 and 4,904 train), and its split, are not public.

A collection is a folder with its metadata table and its images, or several such folders in one.
"""

from collections.abc import Iterator
from pathlib import Path

from ....errors import FedcliError
from ..described import listed
from ..division import divided
from ..drawing import picture, save, table
from ..formats.photographs import PHOTOGRAPHS, files_of, photograph
from ..source import Choices, Listing, Source
from ..tables import SEXES, DataFrame, first_column, number, place, read_table
from . import isic2019

CLASSES = ["benign", "malignant"]
LABELS = "benign_malignant", "diagnosis_1"  # the archive's column until 2024, and since
AGES = ["0-60", "61+"]
SITES = ["vienna", "barcelona"]  # each a word of `attribution`, in small letters
ATTRIBUTES = {"sex": SEXES, "age": AGES, "site": SITES}
FOLDERS = ".", "images", "ISIC-images"


def rows(raw: Path, choices: Choices) -> Listing:
    """Every image of a table that is there and is benign or malignant."""
    paths = list(_tables(raw))
    if not paths:
        hint = "give the folder of a collection of the ISIC archive, or one with such folders in it"
        raise FedcliError(f"{raw} has no table with the column isic_id", hint)
    tables = [path.as_posix() for path in paths]
    found = isic2019.by_key(_read(raw, paths), " and ".join(tables)).sort_values("image")
    places = [(path.parent / folder).as_posix() for path in paths for folder in FOLDERS]
    files = files_of(raw, list(dict.fromkeys(places)), PHOTOGRAPHS, lambda path: path.stem)
    absent = "listed, and in none of the image folders"
    why = "its table calls it " + found.kind.replace("", "nothing") + ", not benign or malignant"
    why = why.where(~found.kind.isin(CLASSES), "").where(found.image.isin(files), absent)
    label = [place(kind, CLASSES) for kind in found.kind]
    facts = found.assign(
        id=found.image, label=label, file=found.image.map(files), name=found.image + ".jpg", why=why
    )
    return divided(listed(facts, ATTRIBUTES, tables, patient="lesion_id"), choices, "lesion")


def _tables(raw: Path) -> Iterator[Path]:
    """The archive's tables, relative to raw: CSV files that begin with isic_id, in it or in a folder of it."""
    for path in sorted([*raw.glob("*.csv"), *raw.glob("*/*.csv")]):
        if path.is_file():
            with path.open("rb") as file:
                head = file.read(20).removeprefix(b"\xef\xbb\xbf")
            if head.startswith((b"isic_id,", b'"isic_id"')):
                yield path.relative_to(raw)


def _read(raw: Path, paths: list[Path]) -> DataFrame:
    """One line per image: image, kind of lesion, sex, age (one of AGES), site and lesion ("patient")."""
    import pandas

    tables = []
    for path in paths:
        table = read_table(raw / path, ["isic_id", "attribution", "sex", "age_approx"], dtype=str)
        table = table.apply(lambda column: column.str.strip())
        image, table = table.isic_id.where(table.isic_id != ""), table.fillna("")
        label = first_column(raw / path, table, LABELS)
        read = {"image": image, "kind": table[label].str.lower(), "sex": table.sex.str.lower()}
        owners = {
            "age": table.age_approx.map(_age),
            "site": table.attribution.str.lower().map(_site),
        }
        tables.append(
            pandas.DataFrame(
                {**read, **owners, "patient": table.lesion_id if "lesion_id" in table else ""}
            )
        )
    return pandas.concat(tables).reset_index(drop=True)


def _age(years: str) -> str:
    age = number(years)
    return "" if age is None or age < 0 else AGES[age > 60]


def _site(owner: str) -> str:
    return next((word for word in SITES if word in owner), "")


# the synthetic sample

VIENNA = "ViDIR Group, Department of Dermatology, Medical University of Vienna"
BARCELONA = "Department of Dermatology, Hospital Clínic de Barcelona"


def sample(folder: Path) -> None:
    """Forty images with the columns of before 2024 and forty with those since; two of eight share a lesion."""
    _collection(folder / "HAM10000", VIENNA, LABELS[0], CLASSES, 0)
    _collection(folder / "BCN20000", BARCELONA, LABELS[1], ["Benign", "Malignant"], 40)


def _collection(folder: Path, owner: str, column: str, kinds: list[str], first: int) -> None:
    lines = []
    for i in range(first, first + 40):
        image, label, k = f"ISIC_{i:07d}", int(i % 8 > 4), i % 8
        save(folder / "images" / f"{image}.jpg", picture(image, label, tint=first / 200))
        kind = "Indeterminate" if i == first + 39 else kinds[label]
        age = "" if k == 3 else f"{35 + 5 * (i % 10)}"
        lesion = "" if k == 6 else f"IL_{i - (k == 1):07d}"
        lines.append(
            [
                image,
                owner,
                "CC-BY-NC",
                age,
                ["female", "male", ""][i % 3 if i % 4 else 2],
                kind,
                lesion,
            ]
        )
    head = ["isic_id", "attribution", "copyright_license", "age_approx", "sex", column, "lesion_id"]
    table(folder / "metadata.csv", head, lines)


SOURCE = Source(rows, photograph, sample, per_file=True)
