"""ODIR-5K: fundus photographs of both eyes of each patient, with any of eight labels.

Source: Ocular Disease Intelligent Recognition, Peking University, 2019; Li et al., BenchCouncil 2020, arXiv 2102.07978.
The folder is that of Kaggle's andrewmvd/ocular-disease-recognition-odir5k, or of the challenge. Labels are a patient's,
found in either eye, so that each of the two images has those of both. An image whose own keyword says that it shows no
fundus is left out, as the challenge advises; so are the images of its testing folder, whose labels are not there.
"""

from pathlib import Path

import numpy as np

from ..described import listed
from ..division import divided
from ..drawing import labels_of, save, spots, table
from ..formats.photographs import files_of, photograph
from ..own_files.own_columns import of_columns
from ..source import Choices, Listing, Source
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
COLUMNS = ["ID", "Patient Age", "Patient Sex", *(f"{eye}-Fundus" for eye in EYES), *LABELS]
NO_FUNDUS = "no fundus image", "anterior segment image"
ATTRIBUTES = {"sex": SEXES, "age": AGE_BANDS}
ANNOTATIONS = "ODIR-5K_Training_Annotations(Updated)_V2"
HOMES = ".", "ODIR-5K", "ODIR-5K/ODIR-5K"  # where tables and folders may lie, seen from the root
TABLES = "full_df.csv", "data.csv", f"{ANNOTATIONS}.csv", "data.xlsx", f"{ANNOTATIONS}.xlsx"
FOLDERS = (
    "Training Images",
    "ODIR-5K_Training_Images",
    "ODIR-5K_Training_Dataset",
    "preprocessed_images",
    "images",
)


def rows(raw: Path, choices: Choices) -> Listing:
    """Both eyes of every patient of the table, as far as their images are there."""
    import pandas

    places = [f"{home}/{name}" for name in TABLES for home in HOMES]
    path = first_of(
        raw, places, "see fedcli datasets odir", f"has none of the tables {', '.join(TABLES)}"
    )
    folders = [
        f"{home}/{folder}" for folder in FOLDERS for home in HOMES
    ]  # photographs win over edited ones
    people, files = _read(path), files_of(raw, folders, (), lambda path: path.name)
    labels, _ = of_columns({name: people[name] for name in LABELS}, list(LABELS), "", path)
    person = {
        "patient": people.ID,
        "age": age_bands(people["Patient Age"]),
        "sex": people["Patient Sex"].str.lower(),
    }
    eyes = []
    for eye in EYES:
        names = people[f"{eye}-Fundus"]
        words = people.get(f"{eye}-Diagnostic Keywords", names).str.strip().str.lower()
        why = ("no fundus: " + words).where(words.isin(NO_FUNDUS) & names.isin(files), "")
        about = {
            "id": names.map(lambda name: Path(name).stem),
            "file": names.map(files),
            "why": why,
            "label": labels,
        }
        eyes.append(pandas.DataFrame(about | person | {"name": about["file"].fillna(names)}))
    facts = pandas.concat(eyes).sort_index(kind="stable")  # both eyes of a patient side by side
    return divided(
        listed(facts, ATTRIBUTES, [path.relative_to(raw).as_posix()], patient="ID"), choices
    )


def _read(path: Path) -> DataFrame:
    """A line for each patient, all texts. full_df.csv has one for each eye, alike in the columns that are read."""
    import pandas

    table = read_sheet(path, COLUMNS, keep_default_na=False).fillna("").drop_duplicates(COLUMNS)
    check_once(path, "patient " + table.ID)
    check_once(path, pandas.concat([table[f"{eye}-Fundus"] for eye in EYES]))
    return table


# the synthetic sample

HEAD = [*COLUMNS[:5], *(f"{eye}-Diagnostic Keywords" for eye in EYES), *LABELS]
HEAD += ["filepath", "labels", "target", "filename"]
FOLDER = Path("ODIR-5K", "ODIR-5K", "Training Images")
NOT_SEEN = 11  # the patient whose right image shows no fundus


def sample(folder: Path) -> None:
    """Kaggle's layout, of 80 patients: full_df.csv with a line for each eye, and the folder of training images."""
    lines = []
    for patient in range(80):
        labels = labels_of(patient, len(LABELS))
        labels[0] = not labels[1:].any()  # normal: nothing else
        names = {eye: f"{patient}_{eye}.jpg" for eye in ("left", "right")}
        keywords = dict.fromkeys(names, "normal fundus" if labels[0] else "made up")
        if patient == NOT_SEEN:
            keywords["right"] = NO_FUNDUS[0]
        person = [patient, 25 + 7 * patient % 60, ("Female", "Male")[patient // 2 % 2]]
        for name in names.values():
            first = [*LABELS][int(labels.argmax())]
            place = [f"../input/{(FOLDER / name).as_posix()}", [first], labels.tolist(), name]
            lines.append([*person, *names.values(), *keywords.values(), *labels.tolist(), *place])
            grey = spots(name, labels).astype(
                float
            )  # reddish, brighter in green where a label has its place
            image = np.stack([np.full_like(grey, 160), grey, 0.4 * grey], axis=-1).astype(np.uint8)
            save(folder / FOLDER / name, image)
    table(folder / TABLES[0], HEAD, lines)


SOURCE = Source(rows, photograph, sample, per_file=True)
