"""BCN20000 and HAM10000, benign or malignant, as collections of the ISIC archive.

Each is of a hospital.

Source: Hernandez-Perez, Combalia, Podlipnik et al., "BCN20000: dermoscopic lesions in the wild",
Scientific Data 2024, doi 10.1038/s41597-024-03387-w (arXiv 1908.02288); HAM10000 (Tschandl et al.,
Scientific Data 5:180161, 2018). FlexFair (Nature Communications 2025) trains on both so: its code
(MaksimXing/FlexFair) reads the archive's tables, takes benign_malignant as the class, sex, the age
of 60 as a cut, and the hospital from `attribution`; there, an unknown age is old. Which of the
images it used (6,174 and 4,904 train), and its split, are not public.

A collection is a folder with its metadata table and its images, or several such folders in one.
"""

from collections.abc import Iterator
from pathlib import Path

from ....errors import FedcliError
from ...prepare_options import PrepareOptions
from ..described import listed
from ..division import divided
from ..drawing import save_picture, table
from ..formats.photographs import PHOTOGRAPHS, files_of, photograph
from ..source import Listing, Source
from ..tables import SEXES, DataFrame, first_column, number, place, read_table
from . import isic2019

CLASSES = ["benign", "malignant"]
LABELS = "benign_malignant", "diagnosis_1"  # the archive's column until 2024, and since
AGES = ["0-60", "61+"]
SITES = ["vienna", "barcelona"]  # each a word of `attribution`, in small letters
ATTRIBUTES = {"sex": SEXES, "age": AGES, "site": SITES}
FOLDERS = ".", "images", "ISIC-images"


def rows(raw: Path, choices: PrepareOptions) -> Listing:
    """Every image of a table that is there and is benign or malignant."""
    paths = list(_tables(raw))
    if not paths:
        hint = "give the folder of a collection of the ISIC archive, or one with such folders in it"
        raise FedcliError(f"{raw} has no table with the column isic_id", hint)
    tables = [path.as_posix() for path in paths]
    unsorted = isic2019.by_key(_read(raw, paths), " and ".join(tables))
    images = unsorted.sort_values("image")
    files = files_of(raw, _folders(paths), PHOTOGRAPHS, lambda path: path.stem)
    kinds = images.kind.replace("", "nothing")
    why = "its table calls it " + kinds + ", not benign or malignant"
    why = why.where(~images.kind.isin(CLASSES), "")
    why = why.where(images.image.isin(files), "listed, and in none of the image folders")
    labels = [place(kind, CLASSES) for kind in images.kind]
    paths_of_images = images.image.map(files)
    facts = images.assign(
        id=images.image,
        label=labels,
        file=paths_of_images,
        name=images.image + ".jpg",
        why=why,
    )
    listing = listed(facts, ATTRIBUTES, tables, patient="lesion_id")
    return divided(listing, choices, "lesion")


def _tables(raw: Path) -> Iterator[Path]:
    """The archive's tables, relative to raw: CSV files that begin with isic_id.

    They lie in raw or in a folder of it.
    """
    for path in sorted([*raw.glob("*.csv"), *raw.glob("*/*.csv")]):
        if not path.is_file():
            continue
        with path.open("rb") as file:
            head = file.read(20).removeprefix(b"\xef\xbb\xbf")
        if head.startswith((b"isic_id,", b'"isic_id"')):
            yield path.relative_to(raw)


def _folders(paths: list[Path]) -> list[str]:
    """The folders that may hold the images of these tables."""
    folders = []
    for path in paths:
        for name in FOLDERS:
            folder = (path.parent / name).as_posix()
            if folder not in folders:
                folders.append(folder)
    return folders


def _read(raw: Path, paths: list[Path]) -> DataFrame:
    """One line per image: image, kind of lesion, sex, age (one of AGES), site, patient.

    The patient is the lesion.
    """
    import pandas

    tables = []
    for path in paths:
        columns = ["isic_id", "attribution", "sex", "age_approx"]
        table = read_table(
            raw / path,
            columns,
            dtype=str,
        )
        table = table.apply(lambda column: column.str.strip())
        image = table.isic_id.where(table.isic_id != "")
        table = table.fillna("")
        label = first_column(raw / path, table, LABELS)
        facts = {
            "image": image,
            "kind": table[label].str.lower(),
            "sex": table.sex.str.lower(),
            "age": table.age_approx.map(_age),
            "site": table.attribution.str.lower().map(_site),
            "patient": table.get("lesion_id", ""),
        }
        tables.append(pandas.DataFrame(facts))
    return pandas.concat(tables).reset_index(drop=True)


def _age(years: str) -> str:
    age = number(years)
    if age is None or age < 0:
        return ""
    young, old = AGES
    return old if age > 60 else young


def _site(owner: str) -> str:
    for word in SITES:
        if word in owner:
            return word
    return ""


# the synthetic sample

VIENNA = "ViDIR Group, Department of Dermatology, Medical University of Vienna"
BARCELONA = "Department of Dermatology, Hospital Clínic de Barcelona"
EACH = 40  # images of a collection
HEAD = ["isic_id", "attribution", "copyright_license", "age_approx", "sex"]


def sample(folder: Path) -> None:
    """Forty images with the columns of before 2024 and forty with those since.

    Two of eight share a lesion.
    """
    _write(folder / "HAM10000", VIENNA, LABELS[0], CLASSES, 0)
    kinds = ["Benign", "Malignant"]
    _write(
        folder / "BCN20000",
        BARCELONA,
        LABELS[1],
        kinds,
        EACH,
    )


def _write(
    folder: Path,
    owner: str,
    column: str,
    kinds: list[str],
    start: int,
) -> None:
    """Write a collection. start: the number of its first image."""
    lines = []
    for i in range(start, start + EACH):
        image = f"ISIC_{i:07d}"
        k = i % 8
        label = int(k > 4)
        path = folder / "images" / f"{image}.jpg"
        save_picture(
            path,
            label,
            tint=start / 200,
        )
        age = "" if k == 3 else f"{35 + 5 * (i % 10)}"
        sex = ["female", "male", ""][i % 3 if i % 4 else 2]
        lesion = f"IL_{i - 1 if k == 1 else i:07d}"
        if k == 6:
            lesion = ""
        lines.append([image, owner, "CC-BY-NC", age, sex, kinds[label], lesion])
    lines[-1][5] = "Indeterminate"
    table(folder / "metadata.csv", [*HEAD, column, "lesion_id"], lines)


SOURCE = Source(rows, photograph, sample, per_file=True)
