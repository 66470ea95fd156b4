"""Messidor-2: photographs of the retina with the graders' consensus on diabetic retinopathy and macular oedema.

Source: Decenciere et al., Image Analysis & Stereology 33, 2014; grades by Krause et al., Ophthalmology 125, 2018.
Folder and table are those of Kaggle's mariaherrerot/messidor2preprocess, which FedMRL (arXiv 2407.05800) took, or
ADCIS' images beside the table of google-brain/messidor2-dr-grades. The ids do not tell which two eyes belong to one
patient; ADCIS' list of pairs, messidor-2.csv, does where it lies beside.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from ....errors import FedcliError
from ..described import listed
from ..division import divided
from ..drawing import picture, save, table
from ..formats.photographs import PHOTOGRAPHS, files_of, photograph, within
from ..source import Choices, Listing, Source
from ..tables import DataFrame, check_values, first_of, read_table

TARGETS = {  # option -> column, classes
    "dr": ("diagnosis", ["no-dr", "mild", "moderate", "severe", "proliferative"]),
    "dme": ("adjudicated_dme", ["no-dme", "dme"]),
}
TABLE, PAIRS = "messidor_data.csv", "messidor-2.csv"
COLUMNS = ["id_code", "diagnosis", "adjudicated_dme", "adjudicated_gradable"]
GOOGLES = ["image_id", "adjudicated_dr_grade", *COLUMNS[2:]]  # the same, as first published
FOLDERS = (
    "messidor-2/messidor-2/preprocess",
    "messidor-2/preprocess",
    "preprocess",
    "IMAGES",
    "images",
    ".",
)
SUFFIXES = *PHOTOGRAPHS, ".tif"


def rows(raw: Path, choices: Choices) -> Listing:
    """Every gradable image that is there."""
    column, classes = TARGETS[choices.own["target"]]
    grades, keys = read_grades(raw), files_of(raw, FOLDERS, SUFFIXES, lambda path: _key(path.name))
    grades["file"] = grades.id_code.map(_key).map(keys)
    grades["why"] = [_unusable(record, column) for record in grades.to_dict("records")]
    grade = (
        grades[column].str.strip().str.removesuffix(".0")
    )  # pandas writes 2.0 where some rows are empty
    usable, known = grades.why == "", [str(number) for number in range(len(classes))]
    hint = f"expected 0 to {known[-1]}"
    check_values(raw / TABLE, grades.id_code[usable], grade[usable], known, hint, "grade")
    facts = grades.assign(
        label=[known.index(text) if text in known else -1 for text in grade],
        patient=grades.id_code.map(_key).map(_patients(raw / PAIRS)),
        id=[Path(name).stem for name in grades.id_code],
        name=grades.file.fillna(grades.id_code),
    )
    tables = [name for name in (TABLE, PAIRS) if (raw / name).is_file()]
    listing = replace(listed(facts, {}, tables, patient="patient"), classes=classes)
    alone = next((row.id for row in listing.rows if not row.patient), None)
    if alone and choices.split == "patient":
        hint = f"put ADCIS' {PAIRS} beside the table, or use --split image"
        raise FedcliError(f"{raw} does not say whose eye {alone} shows", hint)
    return divided(listing, choices)


def read_grades(raw: Path) -> DataFrame:
    """The table with Kaggle's column names, all text, "" where nothing is said, in order of the ids."""
    path = first_of(raw, [TABLE], "give the folder with the table; see fedcli datasets messidor2")
    spelling = GOOGLES if GOOGLES[0] in read_table(path, []) else COLUMNS
    columns = dict(zip(spelling, COLUMNS, strict=True))
    table = read_table(path, columns, dtype=str, keep_default_na=False).sort_values("id_code")
    for name in table.id_code:
        within(raw, name, path)
    if (
        twice := table.id_code.map(_key).duplicated()
    ).any():  # of one image in two spellings the second is named
        raise FedcliError(
            f"{path} lists {table.id_code[twice].iloc[0]} twice",
            "keep the right one of the two rows",
        )
    return table


def _key(name: str) -> str:
    """The part that a table's name and a file's have in common: the table says .jpg where the file is .JPG."""
    path = Path(name)
    return (path.stem if path.suffix.lower() in SUFFIXES else path.name).casefold()


def _unusable(record: dict[str, Any], column: str) -> str:
    """The reason why an image cannot be used, "" if it can."""
    if not isinstance(record["file"], str):
        return f"listed in {TABLE}, in none of the image folders"
    if record["adjudicated_gradable"].strip() in ("0", "0.0"):
        return "not gradable, say the graders"
    return "" if record[column].strip() else f"no {column} in {TABLE}"


def _patients(path: Path) -> dict[str, str]:
    """Key of a name -> its patient, named after the left eye's image; empty without the list of pairs."""
    if not path.is_file():
        return {}
    pairs = read_table(path, ["left", "right"], sep=";", dtype=str, keep_default_na=False)
    names = zip(pairs["left"], pairs["right"], strict=True)
    return {_key(name): Path(eyes[0] or eyes[1]).stem for eyes in names for name in eyes if name}


# the synthetic sample

SIZES = [16, 12, 12, 10, 10]  # images of grade 0 to 4


def sample(folder: Path) -> None:
    """Kaggle's messidor2preprocess in little: a table, and a folder of .png and .JPG; one cannot be graded."""
    rows = []
    for grade, count in enumerate(SIZES):
        for k in range(count):
            place = 100 * grade + k
            old = k % 3 == 2  # names of the first Messidor: .jpg in the table, .JPG on disk
            stem = f"IM{place:06d}" if old else f"20051020_{43000 + place}_0100_PP"
            rows.append([f"{stem}.{'jpg' if old else 'png'}", grade, int(grade > 1 and k % 2), 1])
            save(
                folder / FOLDERS[0] / f"{stem}.{'JPG' if old else 'png'}",
                picture(stem, grade, height=32),
            )
    ungradable = "20060411_58550_0200_PP"
    save(folder / FOLDERS[0] / f"{ungradable}.png", picture(ungradable, 0, height=32, tint=1))
    table(folder / TABLE, COLUMNS, [*rows, [f"{ungradable}.png", "", "", 0]])


SOURCE = Source(rows, photograph, sample, per_file=True)
