"""Messidor-2: photographs of the retina, graded for diabetic retinopathy and macular oedema.

The grades are the graders' consensus. Source: Decenciere et al., Image Analysis & Stereology 33,
2014; grades by Krause et al., Ophthalmology 125, 2018. Folder and table are those of Kaggle's
mariaherrerot/messidor2preprocess, which FedMRL (arXiv 2407.05800) took, or ADCIS' images beside the
table of google-brain/messidor2-dr-grades. The ids do not tell which two eyes belong to one patient;
ADCIS' list of pairs, messidor-2.csv, does where it lies beside.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from ....errors import FedcliError
from ...prepare_options import PrepareOptions
from ..described import listed
from ..division import divided
from ..drawing import save_picture, table
from ..formats.photographs import PHOTOGRAPHS, files_of, photograph, within
from ..source import Listing, Source
from ..tables import DataFrame, check_values, first_of, read_table

TARGETS = {  # option -> column, classes
    "dr": ("diagnosis", ["no-dr", "mild", "moderate", "severe", "proliferative"]),
    "dme": ("adjudicated_dme", ["no-dme", "dme"]),
}
TABLE = "messidor_data.csv"
PAIRS = "messidor-2.csv"
COLUMNS = ["id_code", "diagnosis", "adjudicated_dme", "adjudicated_gradable"]
GOOGLES = ["image_id", "adjudicated_dr_grade", *COLUMNS[2:]]  # the same, as first published
FOLDERS = [
    "messidor-2/messidor-2/preprocess",
    "messidor-2/preprocess",
    "preprocess",
    "IMAGES",
    "images",
    ".",
]
SUFFIXES = *PHOTOGRAPHS, ".tif"


def rows(raw: Path, choices: PrepareOptions) -> Listing:
    """Every gradable image that is there."""
    column, classes = TARGETS[choices.own["target"]]
    grades = read_grades(raw)
    keys = grades.id_code.map(_key)
    files = files_of(raw, FOLDERS, SUFFIXES, lambda path: _key(path.name))
    grades["file"] = keys.map(files)
    grades["why"] = [_unusable(record, column) for record in grades.to_dict("records")]
    grade = grades[column].str.strip()
    grade = grade.str.removesuffix(".0")  # pandas writes 2.0 where some rows are empty
    labels = {str(label): label for label in range(len(classes))}
    usable = grades.why == ""
    hint = f"expected 0 to {len(classes) - 1}"
    check_values(
        raw / TABLE,
        grades.id_code[usable],
        grade[usable],
        list(labels),
        hint,
        "grade",
    )
    image_labels = [labels.get(text, -1) for text in grade]
    stems = [Path(name).stem for name in grades.id_code]
    shown_names = grades.file.fillna(grades.id_code)
    facts = grades.assign(
        label=image_labels,
        patient=keys.map(_patients(raw / PAIRS)),
        id=stems,
        name=shown_names,
    )
    tables = [name for name in (TABLE, PAIRS) if (raw / name).is_file()]
    listing = replace(listed(facts, {}, tables, patient="patient"), classes=classes)
    if choices.split == "patient":
        _check_patients(listing, raw)
    return divided(listing, choices)


def _check_patients(listing: Listing, raw: Path) -> None:
    """Refuse an image whose patient the list of pairs does not name."""
    for row in listing.rows:
        if not row.patient:
            hint = f"put ADCIS' {PAIRS} next to the table, or use --split image"
            raise FedcliError(f"{raw} does not say whose eye {row.id} shows", hint)


def read_grades(raw: Path) -> DataFrame:
    """The table with Kaggle's column names, all texts, in order of the ids.

    A cell is "" where nothing is said.
    """
    path = first_of(
        raw,
        [TABLE],
        "give the folder with the table; see fedcli datasets messidor2",
    )
    spelling = GOOGLES if GOOGLES[0] in read_table(path, []) else COLUMNS
    columns = dict(zip(spelling, COLUMNS, strict=True))
    table = read_table(path, columns, dtype=str, keep_default_na=False).sort_values("id_code")
    for name in table.id_code:
        within(raw, name, path)
    repeated = table.id_code[table.id_code.map(_key).duplicated()]
    if len(repeated):  # of one image in two spellings the second is named
        sentence = f"{path} lists {repeated.iloc[0]} twice"
        raise FedcliError(sentence, "keep the right one of the two rows")
    return table


def _key(name: str) -> str:
    """The part that a table's name and a file's have in common: a table may say .jpg for a .JPG."""
    path = Path(name)
    stem = path.stem if path.suffix.lower() in SUFFIXES else path.name
    return stem.casefold()


def _unusable(record: dict[str, Any], column: str) -> str:
    """The reason why an image cannot be used, "" if it can."""
    if not isinstance(record["file"], str):
        return f"listed in {TABLE}, in none of the image folders"
    if record["adjudicated_gradable"].strip() in ("0", "0.0"):
        return "not gradable, say the graders"
    if not record[column].strip():
        return f"no {column} in {TABLE}"
    return ""


def _patients(path: Path) -> dict[str, str]:
    """Key of a name -> its patient, named after the left eye's image.

    Empty without the list of pairs.
    """
    if not path.is_file():
        return {}
    pairs = read_table(
        path,
        ["left", "right"],
        sep=";",
        dtype=str,
        keep_default_na=False,
    )
    patients = {}
    for eyes in zip(pairs["left"], pairs["right"], strict=True):
        names = [name for name in eyes if name]
        for name in names:
            patients[_key(name)] = Path(names[0]).stem
    return patients


# the synthetic sample

SIZES = [16, 12, 12, 10, 10]  # images of grade 0 to 4


def sample(folder: Path) -> None:
    """Kaggle's messidor2preprocess in little: a table, and a folder of .png and .JPG.

    One image cannot be graded.
    """
    images = folder / FOLDERS[0]
    lines = []
    for grade, count in enumerate(SIZES):
        for k in range(count):
            number = 100 * grade + k
            name = file = f"20051020_{43000 + number}_0100_PP.png"
            if k % 3 == 2:  # names of the first Messidor: .jpg in the table, .JPG on disk
                name = f"IM{number:06d}.jpg"
                file = f"IM{number:06d}.JPG"
            has_edema = int(grade > 1 and k % 2)
            lines.append([name, grade, has_edema, 1])
            save_picture(images / file, grade, height=32)
    ungradable = "20060411_58550_0200_PP.png"
    lines.append([ungradable, "", "", 0])
    save_picture(images / ungradable, 0, height=32, tint=1)
    table(folder / TABLE, COLUMNS, lines)


SOURCE = Source(rows, photograph, sample, per_file=True)
