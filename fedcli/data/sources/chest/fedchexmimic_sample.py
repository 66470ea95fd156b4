"""FairFedMed-Chest's two hospitals in little.

They are CheXpert-v1.0-small, MIMIC-CXR-JPG, MIMIC-IV and the paper's tables.
"""

import csv
import gzip
import io
from pathlib import Path
from typing import NamedTuple

from ....seeds import derive
from .. import cards
from ..drawing import save, scan, table

EFFUSION = "Pleural Effusion"
FINDINGS = cards.read("chexpert")["classes"]  # in the order of CheXpert's columns
CHEXPERT = "CheXpert-v1.0-small"  # the folder of the archive, which begins the names in its tables
CHEXPERT_HEAD = ["Path", "Sex", "Age", "Frontal/Lateral", "AP/PA", *FINDINGS]
DEMO = "CHEXPERT DEMO.csv"
DEMO_HEAD = ["PATIENT", "GENDER", "AGE_AT_CXR", "PRIMARY_RACE", "ETHNICITY"]

PATIENTS = 42  # of each hospital
LABELS = "1.0", "", "0.0", "1.0", "", "1.0", "-1.0", ""  # of effusion, patient by patient
DEMO_RACES = [
    "White",
    "Asian",
    "Black or African American",
    "White, non-Hispanic",
    "Black, non-Hispanic",
    "Unknown",
    "Asian, non-Hispanic",
]
MIMIC_RACES = [
    "WHITE",
    "ASIAN - CHINESE",
    "BLACK/AFRICAN AMERICAN",
    "HISPANIC/LATINO - PUERTO RICAN",
    "WHITE - RUSSIAN",
    "ASIAN",
    "BLACK/CAPE VERDEAN",
]
OTHER_RACES = {0: ["OTHER"], 4: ["WHITE"]}  # of a second admission, by the patient's number mod 8
VIEWS = "AP", "PA", "PA", "AP", "LATERAL", "AP", "LL"
SPLIT = "train", "train", "test", "train", "validate", "test"
UNREAD = 13  # the patient whose report could not be read
UNKNOWN = 4  # the patient whose sex and age CheXpert's tables do not know
PAPER_HEAD = ["filename", "disease_label", "race_label", "gender_label", "age_label"]


def make(folder: Path) -> None:
    root = folder / "fedchexmimic"
    lines_by_site = {"chexpert": _chexpert(root), "mimic": _mimic(root)}
    for site, lines in lines_by_site.items():
        for k, attribute in enumerate(("race", "gender", "age")):
            test = lines[k::3]
            train = [line for line in lines if line not in test]
            path = f"meta_{site}_{attribute}"
            table(root / f"{path}.csv", PAPER_HEAD, lines)
            table(root / f"{path}_train.csv", PAPER_HEAD, train)
            table(root / f"{path}_test.csv", PAPER_HEAD, test)


def chexpert_line(name: str, sex: str, age: int, cells: list[str]) -> list:
    """A line of CheXpert's tables.

    name: of the image, from the archive's folder. cells: of FINDINGS.
    """
    view = ["Frontal", "AP"] if "frontal" in name else ["Lateral", ""]
    return [f"{CHEXPERT}/{name}", sex, age, *view, *cells]


def _chexpert(root: Path) -> list[list]:
    """Patients with a frontal image each, some with others; returns the paper's lines."""
    home = root / CHEXPERT
    people = []
    paper: list[list] = []
    lines: dict[str, list[list]] = {"train": [], "valid": []}
    for n in range(PATIENTS):
        part = "valid" if n % 3 == 2 else "train"
        patient = f"patient{64541 + n}" if part == "valid" else f"patient{n + 1:05d}"
        sex = ("Male", "Female")[n // 2 % 2]
        demo_sex = sex
        age = _age(n, 31)
        if n == UNKNOWN:
            sex = "Unknown"
            demo_sex = "Female"
            age = 0
        effusion = LABELS[n % len(LABELS)]
        for view in _views(n):
            name = f"{part}/{patient}/{view}.jpg"
            cells = _chexpert_cells(part, effusion)
            lines[part].append(chexpert_line(name, sex, age, cells))
            _save(home / name, effusion)
        if n % 10 != 9:  # not everybody is in the demographic table
            demo_race = DEMO_RACES[n % 7]
            people.append([patient, demo_sex, age, demo_race, "Not Hispanic/Latino"])
        name = f"{CHEXPERT}/{part}/{patient}/study1/view1_frontal.jpg"
        _add_paper_line(paper, name, n, effusion, age)
    for part, images in lines.items():
        table(home / f"{part}.csv", CHEXPERT_HEAD, images)
    table(root / DEMO, DEMO_HEAD, people)
    return paper


def _views(n: int) -> list[str]:
    views = ["study1/view1_frontal"]
    if n % 5 == 0:
        views.append("study1/view2_lateral")
    if n % 4 == 0:
        views.append("study2/view1_frontal")
    return views


def _chexpert_cells(part: str, effusion: str) -> list[str]:
    """The cells of FINDINGS, of which the valid part leaves none blank."""
    absent = "" if part == "train" else "0.0"
    cells = dict.fromkeys(FINDINGS, absent)
    cells[EFFUSION] = effusion or absent
    return list(cells.values())


class Study(NamedTuple):
    """A study of one image."""

    subject: int
    study: int
    dicom: str

    @property
    def file(self) -> str:
        folder = f"files/p{self.subject // 1_000_000}/p{self.subject}"
        return f"{folder}/s{self.study}/{self.dicom}.jpg"


def _mimic(root: Path) -> list[list]:
    """Studies of one image, some of them lateral; returns the paper's lines."""
    findings = sorted(FINDINGS)
    labels = []
    images = []
    split = []
    paper: list[list] = []
    for n in range(PATIENTS):
        study = _study(n)
        subject, number, dicom = study
        effusion = LABELS[n % len(LABELS)]
        if n != UNREAD:
            cells = dict.fromkeys(findings, "") | {EFFUSION: effusion}
            labels.append([subject, number, *cells.values()])
        view = VIEWS[n % len(VIEWS)]
        date = 21_800_506 + 10_000 * (n % 3)
        images.append([dicom, subject, number, "CHEST (PA AND LAT)", view, 28, 32, date])
        part = SPLIT[n % len(SPLIT)]
        split.append([dicom, number, subject, part])
        _save(root / "mimic-cxr-jpg" / study.file, effusion)
        if view in ("AP", "PA"):
            _add_paper_line(paper, study.file, n, effusion, _age(n, 29))
    prefix = "mimic-cxr-jpg/mimic-cxr-2.0.0"
    label_head = ["subject_id", "study_id", *findings]
    _packed(
        root / f"{prefix}-chexpert.csv.gz",
        label_head,
        labels,
    )
    head = (
        "dicom_id,subject_id,study_id,PerformedProcedureStepDescription,ViewPosition,Rows,Columns,"
        "StudyDate"
    )
    _packed(root / f"{prefix}-metadata.csv.gz", head.split(","), images)
    head = "dicom_id,study_id,subject_id,split"
    _packed(root / f"{prefix}-split.csv.gz", head.split(","), split)
    _write_people(root / "mimic-iv/hosp")
    return paper


def _study(n: int) -> Study:
    words = [f"{derive('dicom', n, k) % 2**32:08x}" for k in range(5)]
    subject = 10_000_032 + 300_001 * n
    study_number = 50_000_000 + 1_013 * n
    return Study(
        subject,
        study_number,
        "-".join(words),
    )


def _write_people(folder: Path) -> None:
    """MIMIC-IV's patients and admissions."""
    patients = []
    admissions = []
    for n in range(PATIENTS):
        subject = _study(n).subject
        sex = "FM"[n // 3 % 2]
        patients.append([subject, sex, _age(n, 29), 2180, "2014 - 2016", ""])
        mimic_race = MIMIC_RACES[n // 2 % 7]
        more_races = OTHER_RACES.get(n % 8, [])
        races = [mimic_race, *more_races]
        for k, race in enumerate(races):
            admission = 20_000_000 + 10 * n + k
            admissions.append([subject, admission, "EMERGENCY", race])
    head = "subject_id,gender,anchor_age,anchor_year,anchor_year_group,dod"
    _packed(folder / "patients.csv.gz", head.split(","), patients)
    head = "subject_id,hadm_id,admission_type,race"
    _packed(folder / "admissions.csv.gz", head.split(","), admissions)


def _age(n: int, step: int) -> int:
    return 18 + step * n % 73


def _add_paper_line(
    lines: list[list],
    name: str,
    n: int,
    effusion: str,
    age: int,
) -> None:
    """Add a line of the paper's tables, which hold no uncertain labels."""
    if effusion != "-1.0":
        label = int(effusion == "1.0")
        race = n % 3
        gender = n // 2 % 2
        is_old = int(age >= 60)
        lines.append([name, label, race, gender, is_old])


def _save(path: Path, effusion: str) -> None:
    name = "/".join(path.parts[-3:])
    label = int(effusion == "1.0")
    save(path, scan(name, label, height=28, width=32))


def _packed(path: Path, head: list[str], lines: list[list]) -> None:
    """Write a CSV in gzip, which tells the time, without the time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([head, *lines])
    packed = gzip.compress(text.getvalue().encode(), mtime=0)
    path.write_bytes(packed)
