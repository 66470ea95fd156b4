"""RSNA intracranial haemorrhage: head CT slices with exactly one of five subtypes, from Kaggle's files.

The selection is FedISM's (arXiv 2503.09587): single-label slices, no normal ones, 8:2 split per class. They drew
25,000 of those slices with an unpublished seed; here all that are in the folder are taken.
"""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...errors import FedcliError
from ...system import processes
from ..pool import Row
from ..samples import rsna_ich as sample
from .formats import dicom
from .formats.dicom_header import Header, read_header
from .source import Choices, Listing, Source, Unreadable
from .tables import AGE_BANDS, age_band, place, read_table, split_rows

if TYPE_CHECKING:
    from pandas import Series

CLASSES = ["epidural", "intraparenchymal", "intraventricular", "subarachnoid", "subdural"]
SEXES = {"F": "female", "M": "male"}
ATTRIBUTES = {"sex": ["female", "male"], "age": AGE_BANDS}
FEW = 2000  # headers, which one process has read before others have started
STAGES = "stage_2_train", "stage_1_train"


def rows(raw: Path, choices: Choices) -> Listing:
    """Single-label slices whose files are there, with what their headers say about the patient."""
    table, folder = locate(raw)
    labels = single_labels(raw / table)
    present = {entry.name for entry in os.scandir(raw / folder)}
    there = labels.index.map(lambda id: f"{id}.dcm" in present).to_numpy(bool)
    skipped = [(f"{folder}/{id}.dcm", f"listed in {table}, not in the folder") for id in labels.index[~there]]
    labels = labels[there]
    files = [f"{folder}/{id}.dcm" for id in labels.index]
    jobs = choices.jobs if len(files) > FEW else 1
    headers: Iterator[Header | str] = processes.in_order(
        partial(_header, raw), files, label="reading headers", jobs=jobs
    )
    slices = []
    for id, label, file, header in zip(labels.index, labels, files, headers, strict=True):
        if isinstance(header, str):
            skipped.append((file, header))
            continue
        values_of = {"sex": SEXES.get(header.sex), "age": age_band(header.age)}
        groups = {name: place(values_of[name], values) for name, values in ATTRIBUTES.items()}
        slices.append(Row(id, int(label), file, groups=groups, patient=header.patient))
    if choices.split == "patient" and slices and not any(row.patient for row in slices):
        raise FedcliError(f"no file in {raw / folder} names its patient", "use --split image")
    known = {name: values for name, values in ATTRIBUTES.items() if any(row.groups[name] >= 0 for row in slices)}
    patient = "patient_id" if any(row.patient for row in slices) else None
    slices = split_rows(slices, choices, by_patient=choices.split == "patient")
    channels = len(windows(choices))
    return Listing(slices, known, patient, [table], sorted(skipped), channels=channels)


def decode(raw: Path, row: Row, choices: Choices) -> np.ndarray:
    return dicom.read_slice(raw / row.source, windows(choices))


def windows(choices: Choices) -> tuple[dicom.Window, ...]:
    return dicom.parse_window(choices.window or "file")


def locate(raw: Path) -> tuple[str, str]:
    """(table, folder of slices) in a folder as Kaggle unpacks it."""
    for stage in STAGES:
        for folder in (stage, f"{stage}_images"):
            if (raw / f"{stage}.csv").is_file() and (raw / folder).is_dir():
                return f"{stage}.csv", folder
    hint = "give the folder into which Kaggle's archive was unpacked"
    raise FedcliError(f"{raw} has no {STAGES[0]}.csv beside a folder {STAGES[0]}", hint)


def single_labels(path: Path) -> "Series":
    """Class of every slice with exactly one subtype, indexed by slice id, sorted.

    The table has a row ID_<x>_<subtype> for each slice and subtype, and one for "any". Only those that are
    positive, 3 % of Kaggle's 4.5 million, are split into id and subtype.
    """
    from pandas import DataFrame

    table = read_table(path, ["ID", "Label"])
    if not table.Label.isin([0, 1]).all():
        odd = table[~table.Label.isin([0, 1])].iloc[0]
        raise FedcliError(f"{path}: {odd.ID} has the label {odd.Label}, expected 0 or 1", "download the file again")
    repeated = table[table.ID.duplicated(keep=False)].drop_duplicates(["ID", "Label"])  # Kaggle's file repeats a few
    if (twice := repeated.ID.duplicated()).any():
        id = repeated.ID[twice].iloc[0]
        raise FedcliError(f"{path}: {id} has two labels, 0 and 1", "keep the right one of the two rows")
    names = table.ID[table.Label == 1].drop_duplicates()
    positive = DataFrame([name.rpartition("_") for name in names], columns=["id", "_", "subtype"])
    positive = positive[positive.subtype != "any"]
    label = positive.subtype.map({name: i for i, name in enumerate(CLASSES)})
    if label.isna().any():
        wrong = positive[label.isna()].iloc[0]
        known = f"known: {', '.join(CLASSES)}, any"
        raise FedcliError(f"{path}: {wrong.id} has the unknown class {wrong.subtype!r}", known)
    single = ~positive.id.duplicated(keep=False)
    return label[single].astype(int).set_axis(positive.id[single]).sort_index()


def _header(raw: Path, file: str) -> Header | str:
    try:
        return read_header(raw / file)
    except Unreadable as error:
        return str(error)


SOURCE = Source(rows, decode, sample.make, partial(sample.make, times=10), per_file=True)
