"""ODIR-5K: fundus photographs of both eyes of each patient, with any of eight labels.

Source: Ocular Disease Intelligent Recognition, Peking University, 2019; Li et al., BenchCouncil
2020, arXiv 2102.07978. The folder is that of Kaggle's andrewmvd/ocular-disease-recognition-odir5k,
or of the challenge. Labels are a patient's, found in either eye, so that each of the two images has
those of both. An image whose own keyword says that it shows no fundus is left out, as the challenge
advises; so are the images of its testing folder, whose labels are not there.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy import ndarray

from ...prepare_options import PrepareOptions
from ..described import listed
from ..division import divided
from ..drawing import labels_of, save, spots, table
from ..formats.photographs import files_of, photograph
from ..own_files.own_columns import of_columns
from ..source import Listing, Source
from ..tables import AGE_BANDS, SEXES, DataFrame, age_bands, check_once, first_of, read_sheet

LABELS = {
    "N": "normal",
    "D": "diabetes",
    "G": "glaucoma",
    "C": "cataract",
    "A": "age-related macular degeneration",
    "H": "hypertension",
    "M": "myopia",
    "O": "other",
}
EYES = "Left", "Right"
FUNDUS = ["Left-Fundus", "Right-Fundus"]  # columns of files
COLUMNS = ["ID", "Patient Age", "Patient Sex", *FUNDUS, *LABELS]
NO_FUNDUS = "no fundus image", "anterior segment image"
ATTRIBUTES = {"sex": SEXES, "age": AGE_BANDS}
ANNOTATIONS = "ODIR-5K_Training_Annotations(Updated)_V2"
HOMES = ".", "ODIR-5K", "ODIR-5K/ODIR-5K"  # where tables and folders may lie, seen from the root
TABLES = "full_df.csv", "data.csv", f"{ANNOTATIONS}.csv", "data.xlsx", f"{ANNOTATIONS}.xlsx"
FOLDERS = [  # photographs win over edited ones
    "Training Images",
    "ODIR-5K_Training_Images",
    "ODIR-5K_Training_Dataset",
    "preprocessed_images",
    "images",
]


def rows(raw: Path, choices: PrepareOptions) -> Listing:
    """Both eyes of every patient of the table, as far as their images are there."""
    import pandas

    sentence = f"has none of the tables {', '.join(TABLES)}"
    path = first_of(
        raw,
        _in_homes(TABLES),
        "see fedcli datasets odir",
        sentence,
    )
    people = _read(path)
    files = files_of(raw, _in_homes(FOLDERS), (), lambda path: path.name)
    cells = {name: people[name] for name in LABELS}
    labels, _ = of_columns(cells, list(LABELS), "", path)
    people["age"] = age_bands(people["Patient Age"])
    people["sex"] = people["Patient Sex"].str.lower()
    people["label"] = labels
    eyes = pandas.concat([_eye(people, eye, files) for eye in EYES])
    facts = eyes.sort_index(kind="stable")  # both eyes of a patient side by side
    tables = [path.relative_to(raw).as_posix()]
    return divided(listed(facts, ATTRIBUTES, tables, patient="ID"), choices)


def _in_homes(names: Sequence[str]) -> list[str]:
    places = []
    for name in names:
        places += [f"{home}/{name}" for home in HOMES]
    return places


def _eye(people: DataFrame, eye: str, files: dict[str, str]) -> DataFrame:
    """A line for each patient's image of one eye."""
    import pandas

    names = people[f"{eye}-Fundus"]
    typed = people.get(f"{eye}-Diagnostic Keywords", names)
    keywords = typed.str.strip().str.lower()
    is_other = keywords.isin(NO_FUNDUS) & names.isin(files)
    images = names.map(files)
    reasons = ("no fundus: " + keywords).where(is_other, "")
    stems = names.map(lambda name: Path(name).stem)
    facts = {
        "id": stems,
        "file": images,
        "why": reasons,
        "label": people.label,
        "patient": people.ID,
        "age": people.age,
        "sex": people.sex,
        "name": images.fillna(names),
    }
    return pandas.DataFrame(facts)


def _read(path: Path) -> DataFrame:
    """A line for each patient, all texts.

    full_df.csv has one for each eye, alike in the columns that are read.
    """
    import pandas

    table = read_sheet(path, COLUMNS, keep_default_na=False).fillna("").drop_duplicates(COLUMNS)
    check_once(path, "patient " + table.ID)
    fundus_columns = [table[column] for column in FUNDUS]
    check_once(path, pandas.concat(fundus_columns))
    return table


# the synthetic sample

KEYWORDS = ["Left-Diagnostic Keywords", "Right-Diagnostic Keywords"]
HEAD = [*COLUMNS[:5], *KEYWORDS, *LABELS, "filepath", "labels", "target", "filename"]
FOLDER = Path("ODIR-5K", "ODIR-5K", "Training Images")
PATIENTS = 80
NOT_SEEN = 11  # the patient whose right image shows no fundus


def sample(folder: Path) -> None:
    """Kaggle's layout: full_df.csv with a line for each eye, and the folder of training images."""
    lines = []
    for patient in range(PATIENTS):
        labels = labels_of(patient, len(LABELS))
        labels[0] = not labels[1:].any()  # normal: nothing else
        marks = labels.tolist()
        names = [f"{patient}_left.jpg", f"{patient}_right.jpg"]
        keywords = ["normal fundus" if labels[0] else "made up"] * 2
        if patient == NOT_SEEN:
            keywords[1] = NO_FUNDUS[0]
        sex = ("Female", "Male")[patient // 2 % 2]
        age = 25 + 7 * patient % 60
        person = [patient, age, sex, *names, *keywords, *marks]
        letter = list(LABELS)[int(labels.argmax())]
        for name in names:
            file = FOLDER / name
            image_path = f"../input/{file.as_posix()}"
            lines.append([*person, image_path, [letter], marks, name])
            save(folder / file, _fundus(name, labels))
    table(folder / TABLES[0], HEAD, lines)


def _fundus(name: str, labels: ndarray) -> ndarray:
    """uint8 [H, W, 3], reddish, brighter in green where a label has its place."""
    grey = spots(name, labels).astype(float)
    red = np.full_like(grey, 160)
    image = np.stack([red, grey, 0.4 * grey], axis=-1)
    return image.astype(np.uint8)


SOURCE = Source(rows, photograph, sample, per_file=True)
