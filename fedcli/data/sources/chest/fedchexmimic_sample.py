"""FairFedMed-Chest's two hospitals in little: CheXpert-v1.0-small, MIMIC-CXR-JPG, MIMIC-IV, the paper's tables."""

import csv
import gzip
import io
from pathlib import Path

from ....seeds import derive
from .. import cards
from ..drawing import save, scan, table

FINDINGS = cards.read("chexpert")["classes"]  # in the order of CheXpert's columns
PATIENTS = 42  # of each hospital
EFFUSION = ["1.0", "", "0.0", "1.0", "", "1.0", "-1.0", ""]
DEMO_RACES = [
    "White",
    "Asian",
    "Black or African American",
    "White, non-Hispanic",
    "Black, non-Hispanic",
    "Unknown",
]
DEMO_RACES += ["Asian, non-Hispanic"]
MIMIC_RACES = [
    "WHITE",
    "ASIAN - CHINESE",
    "BLACK/AFRICAN AMERICAN",
    "HISPANIC/LATINO - PUERTO RICAN",
]
MIMIC_RACES += ["WHITE - RUSSIAN", "ASIAN", "BLACK/CAPE VERDEAN"]
ATTRIBUTES = "race", "gender", "age"


def make(folder: Path) -> None:
    root = folder / "fedchexmimic"
    papers = {"chexpert": _chexpert(root), "mimic": _mimic(root)}
    head = ["filename", "disease_label", *(f"{attribute}_label" for attribute in ATTRIBUTES)]
    for site, lines in papers.items():
        for k, attribute in enumerate(ATTRIBUTES):
            test = [line for n, line in enumerate(lines) if n % 3 == k]
            train = [line for line in lines if line not in test]
            for part, listed in ("_train", train), ("_test", test), ("", lines):
                table(root / f"meta_{site}_{attribute}{part}.csv", head, listed)


def _chexpert(root: Path) -> list[list]:
    """Patients with a frontal image each, some with a lateral one or another study; returns the paper's lines."""
    home, demo, paper = root / "CheXpert-v1.0-small", [], []
    lines: dict[str, list[list]] = {"train": [], "valid": []}
    for n in range(PATIENTS):
        part, patient = (
            ("valid", f"patient{64541 + n}") if n % 3 == 2 else ("train", f"patient{n + 1:05d}")
        )
        sex, age, effusion = (
            ["Male", "Female"][n // 2 % 2],
            18 + 31 * n % 73,
            EFFUSION[n % len(EFFUSION)],
        )
        if n == 4:
            sex, age = "Unknown", 0
        views = ["study1/view1_frontal", *["study1/view2_lateral"] * (n % 5 == 0)]
        views += ["study2/view1_frontal"] * (n % 4 == 0)
        for view in views:
            name = f"{part}/{patient}/{view}.jpg"
            label = "" if part == "train" else "0.0"  # the valid part has no blanks
            findings = [
                effusion or label if finding == "Pleural Effusion" else label
                for finding in FINDINGS
            ]
            side = "Frontal" if "frontal" in view else "Lateral"
            lines[part].append(
                [
                    f"CheXpert-v1.0-small/{name}",
                    sex,
                    age,
                    side,
                    "AP" * ("frontal" in view),
                    *findings,
                ]
            )
            _save(home / name, effusion == "1.0")
        if n % 10 != 9:  # not everybody is in the demographic table
            demo.append(
                [
                    patient,
                    sex if n != 4 else "Female",
                    age,
                    DEMO_RACES[n % 7],
                    "Not Hispanic/Latino",
                ]
            )
        paper.append(
            _paper_line(
                f"CheXpert-v1.0-small/{part}/{patient}/study1/view1_frontal.jpg", n, effusion, age
            )
        )
    for part, listed in lines.items():
        table(
            home / f"{part}.csv",
            ["Path", "Sex", "Age", "Frontal/Lateral", "AP/PA", *FINDINGS],
            listed,
        )
    table(
        root / "CHEXPERT DEMO.csv",
        ["PATIENT", "GENDER", "AGE_AT_CXR", "PRIMARY_RACE", "ETHNICITY"],
        demo,
    )
    return [line for line in paper if line]


def _mimic(root: Path) -> list[list]:
    """Studies of one image, some of them lateral; returns the paper's lines."""
    home, people = root / "mimic-cxr-jpg", root / "mimic-iv/hosp"
    chexpert, metadata, split, patients, admissions, paper = [], [], [], [], [], []
    for n in range(PATIENTS):
        subject, study, age = 10_000_032 + 300_001 * n, 50_000_000 + 1_013 * n, 18 + 29 * n % 73
        dicom = "-".join(f"{derive('dicom', n, k) % 2**32:08x}" for k in range(5))
        effusion, view = (
            EFFUSION[n % len(EFFUSION)],
            ["AP", "PA", "PA", "AP", "LATERAL", "AP", "LL"][n % 7],
        )
        part = ["train", "train", "test", "train", "validate", "test"][n % 6]
        name = f"p{subject // 1_000_000}/p{subject}/s{study}/{dicom}.jpg"
        findings = [
            effusion if finding == "Pleural Effusion" else "" for finding in sorted(FINDINGS)
        ]
        if n != 13:  # a study whose report could not be read
            chexpert.append([subject, study, *findings])
        metadata.append(
            [
                dicom,
                subject,
                study,
                "CHEST (PA AND LAT)",
                view,
                28,
                32,
                21_800_506 + 10_000 * (n % 3),
            ]
        )
        split.append([dicom, study, subject, part])
        patients.append([subject, "FM"[n // 3 % 2], age, 2180, "2014 - 2016", ""])
        races = [
            MIMIC_RACES[n // 2 % 7],
            *(["OTHER"] if n % 8 == 0 else ["WHITE"] if n % 8 == 4 else []),
        ]
        admissions += [
            [subject, 20_000_000 + 10 * n + k, "EMERGENCY", race] for k, race in enumerate(races)
        ]
        _save(home / "files" / name, effusion == "1.0")
        if view in ("AP", "PA"):
            paper.append(_paper_line(f"files/{name}", n, effusion, age))
    meta = [
        "dicom_id",
        "subject_id",
        "study_id",
        "PerformedProcedureStepDescription",
        "ViewPosition",
    ]
    _packed(
        home / "mimic-cxr-2.0.0-chexpert.csv.gz",
        ["subject_id", "study_id", *sorted(FINDINGS)],
        chexpert,
    )
    _packed(
        home / "mimic-cxr-2.0.0-metadata.csv.gz", [*meta, "Rows", "Columns", "StudyDate"], metadata
    )
    _packed(
        home / "mimic-cxr-2.0.0-split.csv.gz",
        ["dicom_id", "study_id", "subject_id", "split"],
        split,
    )
    person = ["subject_id", "gender", "anchor_age", "anchor_year", "anchor_year_group", "dod"]
    _packed(people / "patients.csv.gz", person, patients)
    _packed(
        people / "admissions.csv.gz",
        ["subject_id", "hadm_id", "admission_type", "race"],
        admissions,
    )
    return [line for line in paper if line]


def _paper_line(name: str, n: int, effusion: str, age: int) -> list:
    """A line of the paper's tables, which hold no uncertain labels."""
    return (
        []
        if effusion == "-1.0"
        else [name, int(effusion == "1.0"), n % 3, n // 2 % 2, int(age >= 60)]
    )


def _save(path: Path, effusion: bool) -> None:
    save(path, scan("/".join(path.parts[-3:]), int(effusion), height=28, width=32))


def _packed(path: Path, head: list[str], lines: list[list]) -> None:
    """A CSV in gzip, which tells the time, without the time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([head, *lines])
    path.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))
