"""CheXpert: chest radiographs of one hospital with 14 observations, several per image.

Source: Irvin et al., AAAI 2019, arXiv 1901.07031. The observations are those of train.csv and
valid.csv. A blank cell, an observation that the report does not mention, counts as absent, as the
authors' code has it; -1, an uncertain one, is what --set uncertain says: zero (their U-Zeros), one
(U-Ones) or ignore (U-Ignore). The tables are read as for fedchexmimic, which takes one of the
observations.
"""

from collections.abc import Sequence
from pathlib import Path

from numpy import ndarray

from ...prepare_options import PrepareOptions
from ..described import listed
from ..division import divided
from ..drawing import labels_of, save, spots, table
from ..formats.photographs import radiograph
from ..own_files.own_columns import of_columns
from ..source import Listing, Source
from .fedchexmimic import ABSENT, ATTRIBUTES, located, read_chexpert
from .fedchexmimic_sample import (
    CHEXPERT,
    CHEXPERT_HEAD,
    DEMO,
    DEMO_HEAD,
    FINDINGS,
    chexpert_line,
)

GROUPS = {name: ATTRIBUTES[name] for name in ("race", "gender", "age")}


def rows(raw: Path, choices: PrepareOptions) -> Listing:
    """Every image of the views asked for whose file is there."""
    download = read_chexpert(raw, FINDINGS)
    images = download.table
    if choices.own["views"] == "frontal":
        images = images[images.view == "frontal"]
    cells = {}
    for name in FINDINGS:
        column = images[name]
        words = column.astype(str)
        cells[name] = words.where(column.notna(), "").tolist()
    labels, _ = of_columns(
        cells,
        FINDINGS,
        choices.own["uncertain"],
        download.tables[0],
    )
    facts_by_id = images.assign(label=labels).sort_values("id")
    facts = located(
        download,
        facts_by_id,
        raw,
        raw,
    )
    tables = sorted(path.relative_to(raw).as_posix() for path in download.tables)
    listing = listed(facts, GROUPS, tables, patient="patient_id", absent=ABSENT)
    return divided(listing, choices)


# the synthetic sample

PATIENTS = {"train": 90, "valid": 30}
RACES = "White", "Asian", "Black or African American", "White, non-Hispanic", "Unknown"
NO_FINDING = {  # cells of absent observations; radiologists answered for all of the valid part
    "train": ("", "", "", "0.0", "", "", "-1.0"),
    "valid": ("0.0",),
}


def sample(folder: Path) -> None:
    """CheXpert-v1.0-small with its two tables, and the table of people."""
    people = []
    for part, count in PATIENTS.items():
        lines = []
        for n in range(count):
            number = n + 1 if part == "train" else 64541 + n
            patient = f"patient{number:05d}"
            sex = ("Male", "Female")[n // 2 % 2]
            age = 18 + 31 * n % 73
            race = RACES[n % len(RACES)]
            people.append([patient, sex, age, race, "Not Hispanic/Latino"])
            labels = labels_of(n, len(FINDINGS))
            cells = _cells(labels, NO_FINDING[part], n)
            views = ["view1_frontal"]
            if n % 6 == 0:
                views.append("view2_lateral")
            for view in views:
                name = f"{part}/{patient}/study1/{view}.jpg"
                lines.append(chexpert_line(name, sex, age, cells))
                save(folder / CHEXPERT / name, spots(name, labels))
        table(folder / CHEXPERT / f"{part}.csv", CHEXPERT_HEAD, lines)
    table(folder / DEMO, DEMO_HEAD, people)


def _cells(labels: ndarray, absent: Sequence[str], n: int) -> list[str]:
    """The cells of the n-th patient's observations."""
    cells = []
    for k, has in enumerate(labels):
        cells.append("1.0" if has else absent[(n + k) % len(absent)])
    return cells


SOURCE = Source(rows, radiograph, sample, per_file=True)
