"""FairFedMed-Chest: pleural effusion in radiographs of CheXpert's and MIMIC-CXR's hospitals.

Source: Li, Wen, Tian et al., FairFedMed and FairLoRA, IEEE TMI 2025, arXiv 2508.00873. Images and
labels: Irvin et al., CheXpert, AAAI 2019, arXiv 1901.07031; Johnson et al., MIMIC-CXR-JPG, arXiv
1901.07042. Sex, age and race come from CheXpert's tables and CHEXPERT DEMO, and from MIMIC-IV's
patients and admissions, where these lie beside.

What differs from the authors: their tables, which say who was taken, are not public. Without them,
everybody whose label is certain is taken from the public downloads. With them, --split paper reads
theirs, as their code does. A blank label, a finding that the report does not mention, counts as
none.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from .... import console
from ....errors import FedcliError
from ...prepare_options import PrepareOptions
from ..described import listed
from ..division import divided
from ..formats.photographs import radiograph, within
from ..source import Listing, Source
from ..tables import (
    DataFrame,
    Series,
    check_cells,
    check_once,
    check_values,
    first_column,
    first_of,
    home_in,
    present,
    read_sheet,
    read_table,
)
from .fedchexmimic_sample import make

AGES = ["0-60", "60+"]  # the paper's names; somebody of 60 is in the second
SITES = ["chexpert", "mimic"]
ATTRIBUTES = {
    "race": ["white", "asian", "black"],
    "gender": ["male", "female"],
    "age": AGES,
    "site": SITES,
}
SEXES = {"m": "male", "f": "female"}
ABSENT = "listed in the tables, not there"
HOMES = {  # where a download may lie, seen from the root
    "chexpert": ["CheXpert-v1.0-small", "CheXpert-v1.0", "chexpert", "."],
    "mimic": ["mimic-cxr-jpg", "mimic-cxr-jpg/2.1.0", "mimic-cxr-jpg/2.0.0", "mimic", "."],
    "mimic-iv": [
        "mimic-iv/hosp",
        "mimiciv/hosp",
        "mimic-iv",
        "hosp",
        "mimic-cxr-jpg",
        "mimic",
        ".",
    ],
    "paper": [".", "files_336p", "mimic", "mimic/files", "mimic-cxr-jpg", "mimic-cxr-jpg/files"],
}
DEMO = "CHEXPERT DEMO.csv", "CHEXPERT_DEMO.csv", "CHEXPERT DEMO.xlsx"
LABEL = "Pleural Effusion"
AGAIN = "download it again"
FRONTAL = "AP", "PA"
KINDS = {
    "subject_id": "int64",
    "study_id": "int64",
    "dicom_id": str,
    "StudyDate": float,
    "anchor_age": float,
    "anchor_year": float,
}
COLUMNS = ["name", "id", "patient", "label", "view", "test", "race", "gender", "age"]
PATIENT = re.compile(r"patient\d+|p\d{8}")


@dataclass(frozen=True)
class Download:
    """Facts in one hospital's tables."""

    # a row per image with COLUMNS. label is 1, 0, -1 or blank; what is no value of an attribute is
    # unknown.
    table: DataFrame
    tables: list[Path]  # the files read
    # name -> path below the root. Raises FedcliError for one that leads out.
    find: Callable[[str], str]


def rows(raw: Path, choices: PrepareOptions) -> Listing:
    """Every image with a certain label whose file is there, from both hospitals."""
    from pandas import concat

    root = home_in(raw, "fedchexmimic")
    facts = []
    tables = set()
    for site in SITES:
        download = _download(root, site, choices)
        images = _usable(download.table, site, choices)
        images = located(download, images, root, raw)
        patients_of_site = site + "-" + images.patient
        facts.append(images.assign(site=site, patient=patients_of_site))
        tables |= {path.relative_to(raw).as_posix() for path in download.tables}
    listing = listed(
        concat(facts),
        ATTRIBUTES,
        sorted(tables),
        patient="patient_id",
        absent=ABSENT,
    )
    return divided(listing, choices)


def _download(root: Path, site: str, choices: PrepareOptions) -> Download:
    if choices.split == "paper":
        return read_paper(root, attribute=choices.own["attribute"], site=site)
    if site == "chexpert":
        return read_chexpert(root)
    return read_mimic(root)


def located(
    download: Download,
    table: DataFrame,
    root: Path,
    raw: Path,
) -> DataFrame:
    """The table with each image's file relative to the raw folder, missing where it is absent."""
    names = []
    files = []
    for name in table.name:
        path = root / download.find(name)
        relative = path.relative_to(raw).as_posix()
        names.append(relative)
        files.append(relative if path.is_file() else None)
    return table.assign(file=files, name=names)


def read_chexpert(root: Path, labels: Sequence[str] = (LABEL,)) -> Download:
    """CheXpert's train.csv and valid.csv, and the demographic table where it is there.

    labels: columns that both must have.
    """
    from pandas import concat

    home = _home(root, "chexpert", "train.csv", ["train.csv"])
    hint = "take it from the same archive as train.csv"
    paths = [first_of(home, [name], hint) for name in ("train.csv", "valid.csv")]
    columns = ["Path", "Sex", "Age", "Frontal/Lateral", LABEL, *labels]
    parts = []
    for path in paths:
        part = read_table(path, columns, dtype={"Path": str})
        parts.append(part.assign(test=path.name == "valid.csv"))
    for path in paths:
        check_cells(path)
    table = concat(parts, ignore_index=True)
    check_once(paths[0], table.Path, AGAIN)
    table = _chexpert_facts(table)
    demo = present(home, DEMO) or present(root, DEMO)
    if demo:
        table = _with_demo(table, demo)
        paths.append(demo)
    else:
        console.say(f"{home} has no {DEMO[2]}: race is unknown for CheXpert")
    return Download(table, paths, partial(_joined, home, root))


def _chexpert_facts(table: DataFrame) -> DataFrame:
    """The table with COLUMNS, without anybody's race."""
    from pandas import to_numeric

    # without the archive's own name, CheXpert-v1.0-small or CheXpert-v1.0
    names = table.Path.str.partition("/")[2]
    patients = names.str.extract(f"({PATIENT.pattern})", expand=False)
    years = to_numeric(table.Age, errors="coerce")  # one text in the column makes texts of all
    years = years.replace(0, -1)  # a few images have the age 0, which no patient here can have
    views = table["Frontal/Lateral"].map({"Frontal": "frontal"})
    return table.assign(
        name=names,
        id="chexpert/" + names.str.removesuffix(".jpg"),
        patient=patients.fillna(names),
        label=table[LABEL],
        view=views,
        gender=_sex(table.Sex),
        age=_ages(years),
        race="",
    )


def _with_demo(table: DataFrame, demo: Path) -> DataFrame:
    """The table with race, and gender where it is unknown, from the demographic table."""
    people = read_sheet(demo, ["PATIENT", "GENDER", "PRIMARY_RACE"])
    people = people.drop_duplicates("PATIENT").set_index("PATIENT")
    race = table.patient.map(people.PRIMARY_RACE.map(_race))
    sex = table.patient.map(_sex(people.GENDER))
    own_gender = table.gender.where(table.gender != "", sex)
    return table.assign(race=race, gender=own_gender)


def read_mimic(root: Path) -> Download:
    """MIMIC-CXR-JPG's tables of labels, images and split, joined, with people from MIMIC-IV."""
    labelled = "mimic-cxr-2.0.0-chexpert.csv"
    home = _home(root, "mimic", labelled, [labelled, f"{labelled}.gz"])
    images_path = _mimic_table(home, "metadata")
    labels_path = _mimic_table(home, "chexpert")
    split_path = _mimic_table(home, "split")
    columns = ["dicom_id", "subject_id", "study_id", "ViewPosition", "StudyDate"]
    images = read_table(images_path, columns, dtype=KINDS)
    labels = read_table(labels_path, ["study_id", LABEL], dtype=KINDS)[["study_id", LABEL]]
    split = read_table(split_path, ["dicom_id", "split"], dtype=KINDS)[["dicom_id", "split"]]
    check_once(images_path, images.dicom_id, AGAIN)
    check_once(labels_path, labels.study_id, AGAIN)
    check_once(split_path, split.dicom_id, AGAIN)
    unlabelled = images[~images.study_id.isin(labels.study_id)]
    if len(unlabelled):
        console.say(f"left out {len(unlabelled)} MIMIC-CXR images whose study has no labels")
    table = images.merge(labels, on="study_id").merge(
        split,
        on="dicom_id",
        how="left",
    )
    table, people = _with_people(_mimic_facts(table), root)
    paths = [images_path, labels_path, split_path, *people]
    return Download(table, paths, partial(_joined, home, root))


def _mimic_table(home: Path, table: str) -> Path:
    name = f"mimic-cxr-2.0.0-{table}.csv"
    hint = "download it from the page of MIMIC-CXR-JPG"
    return first_of(home, [name, f"{name}.gz"], hint, f"has no {name}.gz")


def _mimic_facts(table: DataFrame) -> DataFrame:
    """The table with COLUMNS, without anything about people."""
    patient = "p" + table.subject_id.astype(str)
    studies = patient + "/s" + table.study_id.astype(str)
    prefixes = patient.str[:3]
    folders = "files/" + prefixes + "/" + studies + "/"
    is_frontal = table.ViewPosition.isin(FRONTAL)
    return table.assign(
        name=folders + table.dicom_id + ".jpg",
        id="mimic/" + table.dicom_id,
        patient=patient,
        label=table[LABEL],
        view=np.where(is_frontal, "frontal", ""),
        test=table.split == "test",
        race="",
        gender="",
        age="",
    )


def read_paper(root: Path, *, attribute: str, site: str) -> Download:
    """The authors' meta_<site>_<attribute>_train.csv and _test.csv."""
    from pandas import concat

    hint = "the authors' tables are not public; use --split patient"
    prefix = f"meta_{site}_{attribute}"
    paths = [first_of(root, [f"{prefix}_{part}.csv"], hint) for part in ("train", "test")]
    columns = ["filename", "disease_label"]
    parts = [read_table(path, columns, dtype={"filename": str}) for path in paths]
    for path, part in zip(paths, parts, strict=True):
        check_values(
            path,
            part.filename,
            part.disease_label,
            [0, 1],
            noun="label",
        )
    train, test = parts
    table = concat([train.assign(test=False), test.assign(test=True)], ignore_index=True)
    check_once(paths[1], table.filename, AGAIN)
    patients = table.filename.str.findall(PATIENT).str[-1]
    stems = table.filename.str.rpartition(".")[0]
    table = table.assign(
        name=table.filename,
        id=f"{site}/" + stems,
        patient=patients.fillna(table.filename),
        label=table.disease_label,
        view="frontal",
        race=_decoded(table, "race"),
        gender=_decoded(table, "gender"),
        age=_decoded(table, "age"),
    )
    return Download(table, paths, partial(_paper_file, root))


def _home(root: Path, site: str, name: str, spellings: Sequence[str]) -> Path:
    """The folder of a download, which has a file of this name, in one of its spellings."""
    homes = HOMES[site]
    for home in homes:
        if present(root / home, spellings):
            return root / home
    hint = f"put the download into {homes[0]}/, or link it there; see fedcli datasets fedchexmimic"
    raise FedcliError(f"{root} has no {name} in any of {', '.join(homes)}", hint)


def _joined(home: Path, root: Path, name: str) -> str:
    """home/name relative to root. home may be a link; name may lead nowhere else."""
    return within(home, name).relative_to(root).as_posix()


def _paper_file(root: Path, name: str) -> str:
    """The place of a file of the authors' tables, relative to root.

    Its first one if it is nowhere.
    """
    top, _, inside = name.partition("/")
    homes = [home for home in HOMES["paper"] if (root / home).is_dir()]
    files = []
    if inside and top not in ("", ".", "..") and (root / top).is_dir():
        files.append(_joined(root / top, root, inside))  # CheXpert-v1.0, with the authors a link
        homes.remove(".")
    for home in homes:
        files.append(_joined(root / home, root, name))
    for file in files:
        if (root / file).is_file():
            return file
    return files[0]


def _with_people(table: DataFrame, root: Path) -> tuple[DataFrame, list[Path]]:
    """The table with gender and age from MIMIC-IV's patients, race from its admissions.

    Each where it is there; also the files read.
    """
    patients = _mimic_iv_table(root, "patients")
    admissions = _mimic_iv_table(root, "admissions")
    if patients:
        table = _with_patients(table, patients)
    if admissions:
        table = table.assign(race=table.subject_id.map(_races(admissions)))
    paths = []
    for path, name, facts in (
        (patients, "patients", "gender and age are"),
        (admissions, "admissions", "race is"),
    ):
        if path:
            paths.append(path)
        else:
            console.say(f"{root} has no {name}.csv.gz of MIMIC-IV: {facts} unknown for MIMIC-CXR")
    return table, paths


def _mimic_iv_table(root: Path, name: str) -> Path | None:
    for home in HOMES["mimic-iv"]:
        path = present(root / home, [f"{name}.csv", f"{name}.csv.gz"])
        if path:
            return path
    return None


def _with_patients(table: DataFrame, path: Path) -> DataFrame:
    columns = ["subject_id", "gender", "anchor_age", "anchor_year"]
    people = read_table(path, columns, dtype=KINDS)
    people = people.drop_duplicates("subject_id").set_index("subject_id")
    anchor_year = table.subject_id.map(people.anchor_year)
    years_passed = table.StudyDate // 10_000 - anchor_year  # both shifted alike
    age = table.subject_id.map(people.anchor_age) + years_passed.fillna(0)
    gender = table.subject_id.map(_sex(people.gender))
    return table.assign(gender=gender, age=_ages(age))


def _races(path: Path) -> Series:
    """Patient -> race where all admissions that tell one agree.

    The column was called ethnicity in MIMIC-IV 1.
    """
    table = read_table(path, ["subject_id"], dtype=KINDS)
    column = first_column(path, table, ["race", "ethnicity"])
    table = table.assign(race=table[column].map(_race))
    races = table[table.race != ""].groupby("subject_id").race
    return races.first()[races.nunique() == 1]


def _race(text: object) -> str:
    """One of the paper's three, by the first word: "White, Hispanic", "BLACK/CAPE VERDEAN"."""
    lower_text = str(text).lower()
    word = re.sub(r"[^a-z].*", "", lower_text, flags=re.DOTALL)
    return word if word in ATTRIBUTES["race"] else ""


def _sex(texts: Series) -> Series:
    letters = texts.astype(str).str[0].str.lower()
    return letters.map(SEXES).fillna("")


def _ages(years: Series) -> list[str]:
    from pandas import to_numeric

    ages = []
    for age in to_numeric(years, errors="coerce"):
        ages.append(AGES[int(age >= 60)] if age >= 0 else "")
    return ages


def _decoded(table: DataFrame, attribute: str) -> list[str] | str:
    """Values from the authors' codes, which follow the order in their paper, or from names."""
    column = f"{attribute}_label"
    if column not in table:
        return ""
    codes = {}
    for i, value in enumerate(ATTRIBUTES[attribute]):
        codes[str(i)] = value
        codes[f"{i}.0"] = value
    cells = table[column].astype(str)
    texts = cells.str.strip().str.lower()
    return [codes.get(text, text) for text in texts]


def _usable(table: DataFrame, site: str, choices: PrepareOptions) -> DataFrame:
    """Images of the views asked for, with labels 0 and 1. Raises FedcliError for another label."""
    label = table.label.fillna(0)
    label_hint = "expected 1, 0, -1 or blank"
    check_values(
        Path(site),
        table.id,
        label,
        [-1, 0, 1],
        label_hint,
        "label",
    )
    uncertain = choices.own["uncertain"]
    is_frontal = table.view == "frontal"
    has_view = is_frontal | (choices.own["views"] == "all")
    is_certain = (label >= 0) | (uncertain != "skip")
    usable = has_view & is_certain
    not_frontal = (~has_view).sum()
    undecided = (has_view & ~is_certain).sum()
    left_out = f"{not_frontal} that are not frontal, {undecided} uncertain"
    console.say(f"{site}: {usable.sum()} images; left out {left_out}")
    uncertain_label = int(uncertain == "one")
    label = label.where(label >= 0, uncertain_label)
    labelled = table.assign(label=label.astype(int))
    images = labelled.loc[usable, COLUMNS]
    return images.sort_values("id")


SOURCE = Source(rows, radiograph, make, per_file=True)
