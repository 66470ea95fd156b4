"""RSNA intracranial haemorrhage: head CT slices with exactly one of five subtypes, from Kaggle's files.

The selection is FedISM's (arXiv 2503.09587): single-label slices, no normal ones, 8:2 split per class. They drew
25,000 of those slices with an unpublished seed; here all that are in the folder are taken. They also split slice by
slice, as --split image does; by default a patient's slices stay together.
"""

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import FedcliError
from ...system import processes
from ..pool import Row
from .described import listed
from .division import divided
from .drawing import scan, table
from .formats import dicom
from .formats.dicom_header import read_header
from .source import Choices, Listing, Source, Unreadable
from .tables import AGE_BANDS, age_band, read_table

if TYPE_CHECKING:
    from pandas import Series

CLASSES = ["epidural", "intraparenchymal", "intraventricular", "subarachnoid", "subdural"]
SEXES = {"F": "female", "M": "male"}
ATTRIBUTES = {"sex": ["female", "male"], "age": AGE_BANDS}
FEW = 2000  # headers, which one process has read before others have started
STAGES = "stage_2_train", "stage_1_train"


def rows(raw: Path, choices: Choices) -> Listing:
    """Single-label slices whose files are there, with what their headers say about the patient."""
    from pandas import DataFrame

    name, folder = locate(raw)
    labels = single_labels(raw / name)
    there = (labels.index + ".dcm").isin([entry.name for entry in os.scandir(raw / folder)])
    skipped = [
        (f"{folder}/{id}.dcm", f"listed in {name}, not in the folder")
        for id in labels.index[~there]
    ]
    labels = labels[there]
    files = [f"{folder}/{id}.dcm" for id in labels.index]
    jobs = choices.jobs if len(files) > FEW else 1
    headers = processes.in_order(partial(_about, raw), files, label="reading headers", jobs=jobs)
    columns = ["why", "sex", "age", "patient"]
    facts = DataFrame(list(headers), columns=columns).assign(
        id=labels.index, label=labels.to_numpy(), file=files
    )
    known = {key: values for key, values in ATTRIBUTES.items() if facts[key].isin(values).any()}
    listing = listed(facts, known, [name], patient="patient_id", skipped=skipped)
    if choices.split == "patient" and listing.rows and not listing.patient:
        raise FedcliError(f"no file in {raw / folder} names its patient", "use --split image")
    return replace(divided(listing, choices), channels=len(dicom.windows_of(choices)))


def decode(raw: Path, row: Row, choices: Choices) -> np.ndarray:
    return dicom.read_slice(raw / row.source, dicom.windows_of(choices))


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
        raise FedcliError(
            f"{path}: {odd.ID} has the label {odd.Label}, expected 0 or 1",
            "download the file again",
        )
    repeated = table[table.ID.duplicated(keep=False)].drop_duplicates(
        ["ID", "Label"]
    )  # Kaggle's file repeats a few
    if (twice := repeated.ID.duplicated()).any():
        id = repeated.ID[twice].iloc[0]
        raise FedcliError(
            f"{path}: {id} has two labels, 0 and 1", "keep the right one of the two rows"
        )
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


def _about(raw: Path, file: str) -> tuple[str, str, str, str]:
    """The reason why a slice cannot be used, or "" and what its header says: sex, band of age and patient."""
    try:
        header = read_header(raw / file)
    except Unreadable as error:
        return str(error), "", "", ""
    return "", SEXES.get(header.sex, ""), age_band(header.age), header.patient


# the synthetic sample

SINGLE, SEVERAL, NONE = 50, 5, 5  # slices with one subtype, with two, without a bleed
SIDE = 32
AIR = -1000  # Hounsfield units
PERSON = "sex", "age", "race"
RACES = "asian", "black", "white"


def sample(folder: Path, times: int = 1) -> None:
    """60 slices, as many times, each time others, with every oddity of headers that matters to pixels.

    Beside Kaggle's files attributes.csv says what the made-up patients are: their headers, as Kaggle's, do not.
    """
    (folder / "stage_2_train").mkdir()
    lines: list[list] = []
    people: dict[str, list] = {}
    for i in range(times * (SINGLE + SEVERAL + NONE)):
        id = f"ID_{(i + 1) * 2654435761 % 2**32:08x}{i % 16:x}"
        first, within = i % 5, i % (SINGLE + SEVERAL + NONE)
        subtypes = (
            {first}
            if within < SINGLE
            else {first, (first + 2) % 5}
            if within < SINGLE + SEVERAL
            else set()
        )
        lines += [[f"{id}_{name}", int(k in subtypes)] for k, name in enumerate(CLASSES)]
        lines.append([f"{id}_any", int(bool(subtypes))])
        patient = f"ID_{1000 + i // 10 * 5 + first:08x}"
        k = len(people)  # of every twelfth patient nobody knows the age
        age = "" if k % 12 == 11 else 25 + 7 * k % 60
        people.setdefault(patient, [ATTRIBUTES["sex"][k % 2], age, RACES[k // 2 % len(RACES)]])
        _write(folder / "stage_2_train" / f"{id}.dcm", id, patient, _head(id, first), i)
    table(
        folder / "attributes.csv",
        ["patient_id", *PERSON],
        [[id, *person] for id, person in people.items()],
    )
    table(
        folder / "stage_2_train.csv", ["ID", "Label"], [*lines, *lines[:6]]
    )  # Kaggle's table repeats some rows
    if times > 1:  # what stands in for the real data has no oddity of its own
        return
    whole = folder / "stage_2_train" / f"{lines[6][0].removesuffix('_epidural')}.dcm"
    whole.write_bytes(whole.read_bytes()[:-400])  # one of Kaggle's slices is cut off


def _head(id: str, label: int) -> np.ndarray:
    """Hounsfield units, int [SIDE, SIDE]: air around a brain of 0 to 80."""
    head = scan(id, label, height=SIDE, width=SIDE).astype(int) * 80 // 255
    head[:4], head[-4:], head[:, :4], head[:, -4:] = AIR, AIR, AIR, AIR
    return head


def _write(path: Path, id: str, patient: str, hounsfield: np.ndarray, i: int) -> None:
    """One of five kinds of header: signed, unsigned, wrapped, with several windows, with none."""
    from pydicom import Dataset
    from pydicom.dataset import FileMetaDataset
    from pydicom.uid import UID, CTImageStorage, ExplicitVRLittleEndian

    kinds: list[dict[str, Any]] = [
        dict(signed=1, bits=16, intercept=-1024),
        dict(signed=0, bits=12, intercept=-1024),
        dict(signed=0, bits=12, intercept=0),  # air is 4096 - 1000
        dict(signed=1, bits=16, intercept=0, windows=([40, 600], [80, 2800])),
        dict(signed=0, bits=16, intercept=-1024, windows=None),
    ]
    kind = {"windows": (40, 80), **kinds[(i + i // 5) % 5]}  # each class has every kind
    stored = hounsfield - kind["intercept"]
    if not kind["signed"]:
        stored = stored % 2 ** kind["bits"]
    fields: dict[str, Any] = dict(
        PatientID=patient,
        StudyInstanceUID=_uid(patient),
        SeriesInstanceUID=_uid(patient, 1),
        Modality="CT",
    )
    fields |= dict(
        Rows=SIDE, Columns=SIDE, SamplesPerPixel=1, PhotometricInterpretation="MONOCHROME2"
    )
    fields |= dict(BitsAllocated=16, BitsStored=kind["bits"], HighBit=kind["bits"] - 1)
    fields |= dict(
        PixelRepresentation=kind["signed"], RescaleIntercept=kind["intercept"], RescaleSlope=1
    )
    fields |= dict(
        PixelSpacing=[0.488281, 0.488281], StudyID="", PixelData=stored.astype("<u2").tobytes()
    )
    if kind["windows"]:
        fields |= dict(zip(("WindowCenter", "WindowWidth"), kind["windows"], strict=True))
    file = Dataset()
    file.file_meta = FileMetaDataset()
    file.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    file.file_meta.MediaStorageSOPClassUID = file.SOPClassUID = CTImageStorage
    file.file_meta.MediaStorageSOPInstanceUID = file.SOPInstanceUID = UID(_uid(id))
    for name, value in fields.items():
        setattr(file, name, value)
    file.save_as(path, enforce_file_format=True)


def _uid(name: str, series: int = 0) -> str:
    """A number that DICOM allows; Kaggle's files have words such as ID_0a1b2c3d4 there."""
    return f"2.25.{int(name[3:], 16)}.{series}"


SOURCE = Source(rows, decode, sample, partial(sample, times=10), per_file=True)
