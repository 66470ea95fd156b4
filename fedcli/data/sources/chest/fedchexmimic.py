"""FairFedMed-Chest: pleural effusion or not in chest radiographs of two hospitals, CheXpert's and MIMIC-CXR's.

Source: Li, Wen, Tian et al., FairFedMed and FairLoRA, IEEE TMI 2025, arXiv 2508.00873. Images and labels: Irvin et al.,
CheXpert, AAAI 2019, arXiv 1901.07031; Johnson et al., MIMIC-CXR-JPG, arXiv 1901.07042. Sex, age and race come from
CheXpert's tables and CHEXPERT DEMO, and from MIMIC-IV's patients and admissions, where these lie beside.

What differs from the authors: their tables, which say who was taken, are not public. Without them, everybody whose
label is certain is taken from the public downloads. With them, --split paper reads theirs, as their code does. A blank
label, a finding that the report does not mention, counts as none.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from .... import console
from ....errors import FedcliError
from ..described import listed
from ..division import divided
from ..formats.photographs import radiograph, within
from ..source import Choices, Listing, Source
from ..tables import (
    DataFrame,
    Series,
    check_cells,
    check_once,
    check_values,
    first_column,
    first_of,
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
    "chexpert": ("CheXpert-v1.0-small", "CheXpert-v1.0", "chexpert", "."),
    "mimic": ("mimic-cxr-jpg", "mimic-cxr-jpg/2.1.0", "mimic-cxr-jpg/2.0.0", "mimic", "."),
    "mimic-iv": (
        "mimic-iv/hosp",
        "mimiciv/hosp",
        "mimic-iv",
        "hosp",
        "mimic-cxr-jpg",
        "mimic",
        ".",
    ),
    "paper": (".", "files_336p", "mimic", "mimic/files", "mimic-cxr-jpg", "mimic-cxr-jpg/files"),
}
DEMO = "CHEXPERT DEMO.csv", "CHEXPERT_DEMO.csv", "CHEXPERT DEMO.xlsx"
LABEL = "Pleural Effusion"
AGAIN = "download it again"
FRONTAL = "AP", "PA"
KINDS = {"subject_id": "int64", "study_id": "int64", "dicom_id": str, "StudyDate": float}
KINDS |= {"anchor_age": float, "anchor_year": float}
COLUMNS = ["name", "id", "patient", "label", "view", "test", "race", "gender", "age"]
PATIENT = re.compile(r"patient\d+|p\d{8}")


@dataclass(frozen=True)
class Download:
    """Facts in one hospital's tables."""

    # a row per image with COLUMNS. label is 1, 0, -1 or blank; what is no value of an attribute is unknown.
    table: DataFrame
    tables: list[Path]  # the files read
    find: Callable[
        [str], str
    ]  # name -> path below the root. Raises FedcliError for one that leads out.


def rows(raw: Path, choices: Choices) -> Listing:
    """Every image with a certain label whose file is there, from both hospitals."""
    from pandas import concat

    root = raw / "fedchexmimic" if (raw / "fedchexmimic").is_dir() else raw
    read = partial(read_paper, attribute=choices.own["attribute"])
    readers: list[Callable[[Path], Download]] = [read_chexpert, read_mimic]
    if choices.split == "paper":
        readers = [partial(read, site=site) for site in SITES]
    facts, tables = [], set()
    for site, reader in zip(SITES, readers, strict=True):
        download = reader(root)
        found = located(download, _wanted(download.table, site, choices), root, raw)
        facts.append(found.assign(site=site, patient=site + "-" + found.patient))
        tables |= {path.relative_to(raw).as_posix() for path in download.tables}
    listing = listed(concat(facts), ATTRIBUTES, sorted(tables), patient="patient_id", absent=ABSENT)
    return divided(listing, choices)


def located(download: Download, table: DataFrame, root: Path, raw: Path) -> DataFrame:
    """The table with each image's file relative to the raw folder, missing where it is not there."""
    files = [root / download.find(name) for name in table.name]
    names = [path.relative_to(raw).as_posix() for path in files]
    there = [name if path.is_file() else None for name, path in zip(names, files, strict=True)]
    return table.assign(file=there, name=names)


def read_chexpert(root: Path, labels: Sequence[str] = (LABEL,)) -> Download:
    """CheXpert's train.csv and valid.csv, which both have these labels, and the demographic table where it is there."""
    from pandas import concat, to_numeric

    home = _home(root, "chexpert", ["train.csv"])
    hint = "take it from the same archive as train.csv"
    paths = [first_of(home, [name], hint) for name in ("train.csv", "valid.csv")]
    columns = ["Path", "Sex", "Age", "Frontal/Lateral", LABEL, *labels]
    parts = [
        read_table(path, columns, dtype={"Path": str}).assign(test=path.name == "valid.csv")
        for path in paths
    ]
    for path in paths:
        check_cells(path)
    table = concat(parts, ignore_index=True)
    check_once(paths[0], table.Path, AGAIN)
    find = partial(_joined, home, root)
    inside = table.Path.str.partition("/")[
        2
    ]  # without the archive's own name, CheXpert-v1.0-small or CheXpert-v1.0
    years = to_numeric(table.Age, errors="coerce")  # one text in the column makes texts of all
    table = table.assign(
        name=inside,
        id="chexpert/" + inside.str.removesuffix(".jpg"),
        patient=inside.str.extract(f"({PATIENT.pattern})", expand=False).fillna(inside),
        label=table[LABEL],
        view=table["Frontal/Lateral"].map({"Frontal": "frontal"}),
        gender=_sex(table.Sex),
        age=_ages(
            years.replace(0, -1)
        ),  # a few images have the age 0, which no patient here can have
        race="",
    )
    if not (demo := _first([folder / name for folder in (home, root) for name in DEMO])):
        console.say(f"{home} has no {DEMO[2]}: race is unknown for CheXpert")
        return Download(table, paths, find)
    people = (
        read_sheet(demo, ["PATIENT", "GENDER", "PRIMARY_RACE"])
        .drop_duplicates("PATIENT")
        .set_index("PATIENT")
    )
    race, sex = (
        table.patient.map(people.PRIMARY_RACE.map(_race)),
        table.patient.map(_sex(people.GENDER)),
    )
    table = table.assign(race=race, gender=table.gender.where(table.gender != "", sex))
    return Download(table, [*paths, demo], find)


def read_mimic(root: Path) -> Download:
    """MIMIC-CXR-JPG's tables of labels, images and split, joined; people from MIMIC-IV where it is there."""
    home = _home(root, "mimic", ["mimic-cxr-2.0.0-chexpert.csv", "mimic-cxr-2.0.0-chexpert.csv.gz"])
    names = [f"mimic-cxr-2.0.0-{table}.csv" for table in ("metadata", "chexpert", "split")]
    hint = "download it from the page of MIMIC-CXR-JPG"
    paths = [first_of(home, [name, f"{name}.gz"], hint, f"has no {name}.gz") for name in names]
    images = read_table(
        paths[0], ["dicom_id", "subject_id", "study_id", "ViewPosition", "StudyDate"], dtype=KINDS
    )
    labels = read_table(paths[1], ["study_id", LABEL], dtype=KINDS)[["study_id", LABEL]]
    split = read_table(paths[2], ["dicom_id", "split"], dtype=KINDS)[["dicom_id", "split"]]
    for path, ids in zip(paths, (images.dicom_id, labels.study_id, split.dicom_id), strict=True):
        check_once(path, ids, AGAIN)
    if len(lone := images[~images.study_id.isin(labels.study_id)]):
        console.say(f"left out {len(lone)} MIMIC-CXR images whose study has no labels")
    table = images.merge(labels, on="study_id").merge(split, on="dicom_id", how="left")
    patient = "p" + table.subject_id.astype(str)
    folders = "files/" + patient.str[:3] + "/" + patient + "/s" + table.study_id.astype(str) + "/"
    table = table.assign(
        name=folders + table.dicom_id + ".jpg",
        id="mimic/" + table.dicom_id,
        patient=patient,
        label=table[LABEL],
        view=np.where(table.ViewPosition.isin(FRONTAL), "frontal", ""),
        test=table.split == "test",
        race="",
        gender="",
        age="",
    )
    table, people = _with_people(table, root)
    return Download(table, [*paths, *people], partial(_joined, home, root))


def read_paper(root: Path, *, attribute: str, site: str) -> Download:
    """The authors' meta_<site>_<attribute>_train.csv and _test.csv."""
    from pandas import concat

    hint = "the authors' tables are not public; use --split patient"
    paths = [
        first_of(root, [f"meta_{site}_{attribute}_{part}.csv"], hint) for part in ("train", "test")
    ]
    parts = [
        read_table(path, ["filename", "disease_label"], dtype={"filename": str}) for path in paths
    ]
    for path, part in zip(paths, parts, strict=True):
        check_values(path, part.filename, part.disease_label, [0, 1], what="label")
    table = concat([part.assign(test=k == 1) for k, part in enumerate(parts)], ignore_index=True)
    check_once(paths[1], table.filename, AGAIN)
    known = {name: _decoded(table.get(f"{name}_label"), name) for name in ("race", "gender", "age")}
    patient = table.filename.str.findall(PATIENT).str[-1].fillna(table.filename)
    named = dict(
        name=table.filename, id=f"{site}/" + table.filename.str.rpartition(".")[0], patient=patient
    )
    table = table.assign(**named, label=table.disease_label, view="frontal", **known)
    return Download(table, paths, partial(_found, root))


def _home(root: Path, site: str, names: list[str]) -> Path:
    for home in HOMES[site]:
        if _first([root / home / name for name in names]):
            return root / home
    hint = f"put the download into {HOMES[site][0]}/, or link it there; see fedcli datasets fedchexmimic"
    raise FedcliError(f"{root} has no {names[0]} in any of {', '.join(HOMES[site])}", hint)


def _first(paths: Iterable[Path]) -> Path | None:
    return next((path for path in paths if path.is_file()), None)


def _joined(home: Path, root: Path, name: str) -> str:
    """home/name relative to root. home may be a link; name may lead nowhere else."""
    return within(home, name).relative_to(root).as_posix()


def _found(root: Path, name: str) -> str:
    """The place of a file of the authors' tables, relative to root; its first one if it is nowhere."""
    top, _, inside = name.partition("/")
    named = (
        inside and top not in ("", ".", "..") and (root / top).is_dir()
    )  # CheXpert-v1.0, with the authors a link
    homes = [
        home for home in HOMES["paper"] if (root / home).is_dir() and not (named and home == ".")
    ]
    files = [_joined(root / top, root, inside)] if named else []
    files += [_joined(root / home, root, name) for home in homes]
    return next((file for file in files if (root / file).is_file()), files[0])


def _with_people(table: DataFrame, root: Path) -> tuple[DataFrame, list[Path]]:
    """The table with gender and age from MIMIC-IV's patients, race from its admissions, each where it is there."""
    patients, admissions = (
        _first(
            root / home / f"{name}.csv{end}" for home in HOMES["mimic-iv"] for end in ("", ".gz")
        )
        for name in ("patients", "admissions")
    )
    if patients:
        people = read_table(
            patients, ["subject_id", "gender", "anchor_age", "anchor_year"], dtype=KINDS
        )
        people = people.drop_duplicates("subject_id").set_index("subject_id")
        passed = table.StudyDate // 10_000 - table.subject_id.map(
            people.anchor_year
        )  # both shifted alike
        age = table.subject_id.map(people.anchor_age) + passed.fillna(0)
        table = table.assign(gender=table.subject_id.map(_sex(people.gender)), age=_ages(age))
    if admissions:
        table = table.assign(race=table.subject_id.map(_races(admissions)))
    for path, name, what in (
        (patients, "patients", "gender and age are"),
        (admissions, "admissions", "race is"),
    ):
        if not path:
            console.say(f"{root} has no {name}.csv.gz of MIMIC-IV: {what} unknown for MIMIC-CXR")
    return table, [path for path in (patients, admissions) if path]


def _races(path: Path) -> Series:
    """Patient -> race where all admissions that tell one agree. The column was called ethnicity in MIMIC-IV 1."""
    table = read_table(path, ["subject_id"], dtype=KINDS)
    known = table.assign(race=table[first_column(path, table, ["race", "ethnicity"])].map(_race))
    races = known[known.race != ""].groupby("subject_id").race
    return races.first()[races.nunique() == 1]


def _race(text: object) -> str:
    """One of the three that the paper has, by the first word: "White, Hispanic", "BLACK/CAPE VERDEAN"."""
    word = re.sub(r"[^a-z].*", "", str(text).lower(), flags=re.DOTALL)
    return word if word in ATTRIBUTES["race"] else ""


def _sex(texts: Series) -> Series:
    return texts.astype(str).str[0].str.lower().map(SEXES).fillna("")


def _ages(years: Series) -> list[str]:
    from pandas import to_numeric

    return [AGES[int(age >= 60)] if age >= 0 else "" for age in to_numeric(years, errors="coerce")]


def _decoded(labels: Series | None, attribute: str) -> list[str] | str:
    """Values from the authors' codes, which follow the order in their paper, or from names."""
    if labels is None:
        return ""
    values = ATTRIBUTES[attribute]
    codes = {str(i): value for i, value in enumerate(values)} | {
        f"{i}.0": value for i, value in enumerate(values)
    }
    return [codes.get(text, text) for text in labels.astype(str).str.strip().str.lower()]


def _wanted(table: DataFrame, site: str, choices: Choices) -> DataFrame:
    """Images of the views asked for, with labels 0 and 1. Raises FedcliError for a label that is none."""
    label = table.label.fillna(0)
    check_values(Path(site), table.id, label, [-1, 0, 1], "expected 1, 0, -1 or blank", "label")
    frontal = (table.view == "frontal") | (choices.own["views"] == "all")
    certain = (label >= 0) | (choices.own["uncertain"] != "skip")
    left_out = f"{(~frontal).sum()} that are not frontal, {(frontal & ~certain).sum()} uncertain"
    console.say(f"{site}: {(frontal & certain).sum()} images; left out {left_out}")
    label = label.where(label >= 0, int(choices.own["uncertain"] == "one"))
    return table.assign(label=label.astype(int)).loc[frontal & certain, COLUMNS].sort_values("id")


SOURCE = Source(rows, radiograph, make, per_file=True)
