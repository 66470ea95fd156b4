"""CheXpert: chest radiographs of one hospital with 14 observations, several per image, as train.csv and valid.csv say.

Source: Irvin et al., AAAI 2019, arXiv 1901.07031. A blank cell, an observation that the report does not mention, counts
as absent, as the authors' code has it; -1, an uncertain one, is what --set uncertain says: zero (their U-Zeros), one
(U-Ones) or ignore (U-Ignore). The tables are read as for fedchexmimic, which takes one of the observations.
"""

from pathlib import Path

import numpy as np

from ....errors import UsageError, nearest
from ...pool import Row
from ...samples import chexpert as sample
from ..formats.photographs import match_channels, read_grey_or_rgb
from ..own_files.own_labels import UNCERTAIN, of_columns
from ..source import Choices, Listing, Source
from ..tables import fold_rows, place, split_rows
from .fedchexmimic import ATTRIBUTES, read_chexpert

LABELS = sample.LABELS
GROUPS = {name: ATTRIBUTES[name] for name in ("race", "gender", "age")}
OPTIONS = {"uncertain": tuple(UNCERTAIN), "views": ("frontal", "all")}


def rows(raw: Path, choices: Choices) -> Listing:
    """Every image of the views asked for whose file is there."""
    for key, known in OPTIONS.items():
        if (given := choices.own[key]) not in known:
            raise UsageError(f"unknown value {key}={given}", nearest(given, known))
    download = read_chexpert(raw, LABELS)
    table = download.table
    if choices.own["views"] == "frontal":
        table = table[table.view == "frontal"]
    path = download.tables[0]
    cells = {name: ["" if cell != cell else str(cell) for cell in table[name]] for name in LABELS}  # NaN is blank
    labels, _ = of_columns(cells, LABELS, choices.own["uncertain"], path)
    images, skipped = [], []
    for record, label in sorted(zip(table.to_dict("records"), labels, strict=True), key=lambda both: both[0]["id"]):
        file = download.find(record["name"])
        if not (raw / file).is_file():
            skipped.append((file, "listed in the tables, not there"))
            continue
        groups = {name: place(record[name], values) for name, values in GROUPS.items()}
        images.append(Row(record["id"], label, file, bool(record["test"]), groups, record["patient"]))
    tables = [path.relative_to(raw).as_posix() for path in download.tables]
    return Listing(_split(images, choices), GROUPS, "patient_id", sorted(tables), sorted(skipped))


def decode(raw: Path, row: Row, choices: Choices) -> np.ndarray:
    return match_channels(read_grey_or_rgb(raw / row.source, 255.0), 1)


def _split(images: list[Row], choices: Choices) -> list[Row]:
    if choices.split == "official":
        return images
    split = fold_rows if choices.split == "folds" else split_rows
    return split(images, choices, by_patient=choices.split != "image")


SOURCE = Source(rows, decode, sample.make, per_file=True)
