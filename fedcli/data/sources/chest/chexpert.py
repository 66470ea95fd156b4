"""CheXpert: chest radiographs of one hospital with 14 observations, several per image, as train.csv and valid.csv say.

Source: Irvin et al., AAAI 2019, arXiv 1901.07031. A blank cell, an observation that the report does not mention, counts
as absent, as the authors' code has it; -1, an uncertain one, is what --set uncertain says: zero (their U-Zeros), one
(U-Ones) or ignore (U-Ignore). The tables are read as for fedchexmimic, which takes one of the observations.
"""

from pathlib import Path

from ..described import listed
from ..division import divided
from ..drawing import labels_of, save, spots, table
from ..formats.photographs import radiograph
from ..own_files.own_columns import of_columns
from ..source import Choices, Listing, Source
from .fedchexmimic import ABSENT, ATTRIBUTES, located, read_chexpert
from .fedchexmimic_sample import FINDINGS

GROUPS = {name: ATTRIBUTES[name] for name in ("race", "gender", "age")}


def rows(raw: Path, choices: Choices) -> Listing:
    """Every image of the views asked for whose file is there."""
    download = read_chexpert(raw, FINDINGS)
    found = download.table
    if choices.own["views"] == "frontal":
        found = found[found.view == "frontal"]
    cells = {
        name: ["" if cell != cell else str(cell) for cell in found[name]] for name in FINDINGS
    }  # NaN is blank
    labels, _ = of_columns(cells, FINDINGS, choices.own["uncertain"], download.tables[0])
    facts = located(download, found.assign(label=labels).sort_values("id"), raw, raw)
    tables = sorted(path.relative_to(raw).as_posix() for path in download.tables)
    return divided(listed(facts, GROUPS, tables, patient="patient_id", absent=ABSENT), choices)


# the synthetic sample

PATIENTS = {"train": 90, "valid": 30}
ARCHIVE = "CheXpert-v1.0-small"
RACES = "White", "Asian", "Black or African American", "White, non-Hispanic", "Unknown"


def sample(folder: Path) -> None:
    """CheXpert-v1.0-small with its two tables, and the table of people."""
    people = []
    for part, count in PATIENTS.items():  # radiologists answered for every label of the valid part
        absent = ["0.0"] if part == "valid" else ["", "", "", "0.0", "", "", "-1.0"]
        lines = []
        for n in range(count):
            patient = f"patient{n + 1 if part == 'train' else 64541 + n:05d}"
            sex, age = ("Male", "Female")[n // 2 % 2], 18 + 31 * n % 73
            people.append([patient, sex, age, RACES[n % len(RACES)], "Not Hispanic/Latino"])
            labels = labels_of(n, len(FINDINGS))
            for view in ["view1_frontal", *["view2_lateral"] * (n % 6 == 0)]:
                name = f"{part}/{patient}/study1/{view}.jpg"
                side = "Frontal" if "frontal" in view else "Lateral"
                about = [f"{ARCHIVE}/{name}", sex, age, side, "AP" * (side == "Frontal")]
                cells = [
                    "1.0" if has else absent[(n + k) % len(absent)] for k, has in enumerate(labels)
                ]
                lines.append([*about, *cells])
                save(folder / ARCHIVE / name, spots(name, labels))
        table(
            folder / ARCHIVE / f"{part}.csv",
            ["Path", "Sex", "Age", "Frontal/Lateral", "AP/PA", *FINDINGS],
            lines,
        )
    table(
        folder / "CHEXPERT DEMO.csv",
        ["PATIENT", "GENDER", "AGE_AT_CXR", "PRIMARY_RACE", "ETHNICITY"],
        people,
    )


SOURCE = Source(rows, radiograph, sample, per_file=True)
