"""RSNA intracranial haemorrhage: head CT slices with exactly one of five subtypes.

They come from Kaggle's files. The selection is FedISM's (arXiv 2503.09587): single-label slices, no
normal ones, 8:2 split per class. They drew 25,000 of those slices with an unpublished seed; here
all that are in the folder are taken. They also split slice by slice, as --split image does; by
default a patient's slices stay together.
"""

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from ...errors import FedcliError
from ...system import processes
from ..pool import Row
from ..prepare_options import PrepareOptions
from .described import listed
from .division import divided
from .drawing import scan, table
from .formats import dicom
from .formats.dicom_header import read_header
from .source import Listing, Source, Unreadable
from .tables import AGE_BANDS, age_band, read_table

if TYPE_CHECKING:
    from pandas import DataFrame, Series
    from pydicom import Dataset

CLASSES = ["epidural", "intraparenchymal", "intraventricular", "subarachnoid", "subdural"]
SEXES = {"F": "female", "M": "male"}
ATTRIBUTES = {"sex": ["female", "male"], "age": AGE_BANDS}
FEW = 2000  # headers, which one process has read before others have started
STAGES = "stage_2_train", "stage_1_train"


def rows(raw: Path, choices: PrepareOptions) -> Listing:
    """Single-label slices whose files are there, with the facts of their headers on the patient."""
    name, folder = locate(raw)
    labels = single_labels(raw / name)
    present = {entry.name for entry in os.scandir(raw / folder)}
    is_present = (labels.index + ".dcm").isin(present)
    skipped = []
    for slice_id in labels.index[~is_present]:
        skipped.append((f"{folder}/{slice_id}.dcm", f"listed in {name}, not in the folder"))
    facts = _facts(raw, folder, labels[is_present], choices.jobs)
    attributes = {}
    for key, values in ATTRIBUTES.items():
        if facts[key].isin(values).any():
            attributes[key] = values
    listing = listed(
        facts,
        attributes,
        [name],
        patient="patient_id",
        skipped=skipped,
    )
    if choices.split == "patient" and listing.rows and not listing.patient:
        raise FedcliError(f"no file in {raw / folder} names its patient", "use --split image")
    return replace(divided(listing, choices), channels=len(dicom.windows_of(choices)))


def _facts(raw: Path, folder: str, labels: "Series", jobs: int) -> "DataFrame":
    """A line per slice, with the facts of its header."""
    from pandas import DataFrame

    files = [f"{folder}/{slice_id}.dcm" for slice_id in labels.index]
    if len(files) <= FEW:
        jobs = 1
    headers = processes.in_order(
        partial(_header_facts, raw), files, label="reading headers", jobs=jobs
    )
    facts = DataFrame(list(headers), columns=["why", "sex", "age", "patient"])
    return facts.assign(id=labels.index, label=labels.to_numpy(), file=files)


def decode(raw: Path, row: Row, choices: PrepareOptions) -> ndarray:
    return dicom.read_slice(raw / row.source, dicom.windows_of(choices))


def locate(raw: Path) -> tuple[str, str]:
    """(table, folder of slices) in a folder as Kaggle unpacks it."""
    for stage in STAGES:
        for folder in (stage, f"{stage}_images"):
            if (raw / f"{stage}.csv").is_file() and (raw / folder).is_dir():
                return f"{stage}.csv", folder
    hint = "give the folder into which Kaggle's archive was unpacked"
    raise FedcliError(f"{raw} has no {STAGES[0]}.csv next to a folder {STAGES[0]}", hint)


def single_labels(path: Path) -> "Series":
    """Class of every slice with exactly one subtype, indexed by slice id, sorted.

    The table has a row ID_<x>_<subtype> for each slice and subtype, and one for "any". Only those
    that are positive, 3 % of Kaggle's 4.5 million, are split into id and subtype.
    """
    from pandas import DataFrame

    table = read_table(path, ["ID", "Label"])
    _check_labels(table, path)
    names = table.ID[table.Label == 1].drop_duplicates()
    parts = [name.rpartition("_") for name in names]
    positive = DataFrame(parts, columns=["id", "_", "subtype"])
    positive = positive[positive.subtype != "any"]
    codes = {name: code for code, name in enumerate(CLASSES)}
    label = positive.subtype.map(codes)
    unknown = positive[label.isna()]
    if len(unknown):
        odd = unknown.iloc[0]
        hint = f"known: {', '.join(CLASSES)}, any"
        raise FedcliError(f"{path}: {odd.id} has the unknown class {odd.subtype!r}", hint)
    single = ~positive.id.duplicated(keep=False)
    labels = label[single].astype(int)
    return labels.set_axis(positive.id[single]).sort_index()


def _check_labels(table: "DataFrame", path: Path) -> None:
    """Refuse labels other than 0 and 1, and both for one row."""
    wrong = table[~table.Label.isin([0, 1])]
    if len(wrong):
        odd = wrong.iloc[0]
        sentence = f"{path}: {odd.ID} has the label {odd.Label}, expected 0 or 1"
        raise FedcliError(sentence, "download the file again")
    repeated = table[table.ID.duplicated(keep=False)]  # Kaggle's file repeats a few
    repeated = repeated.drop_duplicates(["ID", "Label"])
    twice = repeated.ID[repeated.ID.duplicated()]
    if len(twice):
        sentence = f"{path}: {twice.iloc[0]} has two labels, 0 and 1"
        raise FedcliError(sentence, "keep the right one of the two rows")


def _header_facts(raw: Path, file: str) -> tuple[str, str, str, str]:
    """The reason why a slice cannot be used, else "", sex, band of age and patient."""
    try:
        header = read_header(raw / file)
    except Unreadable as error:
        return str(error), "", "", ""
    sex = SEXES.get(header.sex, "")
    age = age_band(header.age)
    return "", sex, age, header.patient


# the synthetic sample

SINGLE = 50  # slices with one subtype
SEVERAL = 5  # with two
TOTAL = 60  # the rest has no bleed
SIDE = 32
AIR = -1000  # Hounsfield units
RACES = "asian", "black", "white"
KINDS: list[dict[str, Any]] = [  # of headers: signed, unsigned, wrapped, several windows, none
    {"signed": 1, "bits": 16, "intercept": -1024},
    {"signed": 0, "bits": 12, "intercept": -1024},
    {"signed": 0, "bits": 12, "intercept": 0},  # air is 4096 - 1000
    {"signed": 1, "bits": 16, "intercept": 0, "windows": ([40, 600], [80, 2800])},
    {"signed": 0, "bits": 16, "intercept": -1024, "windows": None},
]


def sample(folder: Path, times: int = 1) -> None:
    """60 slices, as many times, each time others.

    They have every oddity of headers that matters to pixels. Beside Kaggle's files attributes.csv
    has the made-up patients: their headers, as Kaggle's, do not describe them.
    """
    slices = folder / STAGES[0]
    slices.mkdir()
    lines: list[list] = []
    people: dict[str, list] = {}
    for i in range(times * TOTAL):
        slice_number = (i + 1) * 2654435761 % 2**32
        slice_id = f"ID_{slice_number:08x}{i % 16:x}"
        label = i % 5
        subtypes = _subtypes(i % TOTAL, label)
        for k, name in enumerate(CLASSES):
            has_subtype = int(k in subtypes)
            lines.append([f"{slice_id}_{name}", has_subtype])
        has_any = int(bool(subtypes))
        lines.append([f"{slice_id}_any", has_any])
        patient_number = 1000 + i // 10 * 5 + label
        patient = f"ID_{patient_number:08x}"
        if patient not in people:
            people[patient] = _person(len(people))
        _write(slices / f"{slice_id}.dcm", patient, _head(slice_id, label), i)
    head = ["patient_id", "sex", "age", "race"]
    person_lines = [[name, *person] for name, person in people.items()]
    table(
        folder / "attributes.csv",
        head,
        person_lines,
    )
    repeated = lines[:6]  # Kaggle's table repeats some rows
    label_lines = [*lines, *repeated]
    table(folder / f"{STAGES[0]}.csv", ["ID", "Label"], label_lines)
    if times > 1:  # what stands in for the real data has no oddity of its own
        return
    name = lines[6][0].removesuffix("_epidural")
    whole = slices / f"{name}.dcm"
    whole.write_bytes(whole.read_bytes()[:-400])  # one of Kaggle's slices is cut off


def _subtypes(number: int, label: int) -> set[int]:
    if number < SINGLE:
        return {label}
    if number < SINGLE + SEVERAL:
        return {label, (label + 2) % 5}
    return set()


def _person(k: int) -> list:
    """Sex, age and race of the k-th patient; of every twelfth nobody knows the age."""
    age = "" if k % 12 == 11 else 25 + 7 * k % 60
    sex = ATTRIBUTES["sex"][k % 2]
    race = RACES[k // 2 % len(RACES)]
    return [sex, age, race]


def _head(slice_id: str, label: int) -> ndarray:
    """Hounsfield units, int [SIDE, SIDE]: air around a brain of 0 to 80."""
    head = np.full((SIDE, SIDE), AIR)
    image = scan(slice_id, label, height=SIDE, width=SIDE).astype(int)
    brain = image * 80 // 255
    inside = slice(4, -4)
    head[inside, inside] = brain[inside, inside]
    return head


def _write(path: Path, patient: str, hounsfield: ndarray, i: int) -> None:
    """Write a slice with one of five kinds of header."""
    kind_number = (i + i // 5) % 5
    kind = KINDS[kind_number]  # each class has every kind
    bits = kind["bits"]
    stored = hounsfield - kind["intercept"]
    if not kind["signed"]:
        stored = stored % 2**bits
    file = _file(_uid(path.stem))
    file.PatientID = patient
    file.StudyInstanceUID = _uid(patient)
    file.SeriesInstanceUID = _uid(patient, 1)
    file.StudyID = ""
    file.BitsStored = bits
    file.HighBit = bits - 1
    file.PixelRepresentation = kind["signed"]
    file.RescaleIntercept = kind["intercept"]
    file.RescaleSlope = 1
    file.PixelData = stored.astype("<u2").tobytes()
    windows = kind.get("windows", (40, 80))
    if windows:
        file.WindowCenter, file.WindowWidth = windows
    file.save_as(path, enforce_file_format=True)


def _file(number: str) -> "Dataset":
    """The fields that all slices have in common. number: of the slice."""
    from pydicom import Dataset
    from pydicom.dataset import FileMetaDataset
    from pydicom.uid import UID, CTImageStorage, ExplicitVRLittleEndian

    file = Dataset()
    file.file_meta = FileMetaDataset()
    file.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    file.file_meta.MediaStorageSOPClassUID = CTImageStorage
    file.file_meta.MediaStorageSOPInstanceUID = UID(number)
    file.SOPClassUID = CTImageStorage
    file.SOPInstanceUID = UID(number)
    file.Modality = "CT"
    file.Rows = SIDE
    file.Columns = SIDE
    file.SamplesPerPixel = 1
    file.PhotometricInterpretation = "MONOCHROME2"
    file.BitsAllocated = 16
    file.PixelSpacing = [0.488281, 0.488281]
    return file


def _uid(name: str, series: int = 0) -> str:
    """A number that DICOM allows; Kaggle's files have words such as ID_0a1b2c3d4 there."""
    return f"2.25.{int(name[3:], 16)}.{series}"


SOURCE = Source(rows, decode, sample, partial(sample, times=10), per_file=True)
