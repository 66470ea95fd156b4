"""Kaggle's layout of RSNA's head CT in little: 60 slices, with every oddity of headers that matters to pixels.

Beside Kaggle's files attributes.csv says what the made-up patients are: their headers, as Kaggle's, do not.
"""

from pathlib import Path
from typing import Any

import numpy as np

from ..sources.drawing import picture, table

SUBTYPES = ["epidural", "intraparenchymal", "intraventricular", "subarachnoid", "subdural"]
SINGLE, SEVERAL, NONE = 50, 5, 5  # slices with one subtype, with two, without a bleed
SIDE = 32
AIR = -1000  # Hounsfield units
PERSON = "sex", "age", "race"
SEXES = "female", "male"
RACES = "asian", "black", "white"


def make(folder: Path, times: int = 1) -> None:
    """times: how many times the 60 slices, each time others."""
    (folder / "stage_2_train").mkdir()
    lines: list[list] = []
    people: dict[str, list] = {}
    for i in range(times * (SINGLE + SEVERAL + NONE)):
        id = f"ID_{(i + 1) * 2654435761 % 2**32:08x}{i % 16:x}"
        first, within = i % 5, i % (SINGLE + SEVERAL + NONE)
        subtypes = {first} if within < SINGLE else {first, (first + 2) % 5} if within < SINGLE + SEVERAL else set()
        lines += [[f"{id}_{name}", int(k in subtypes)] for k, name in enumerate(SUBTYPES)]
        lines.append([f"{id}_any", int(bool(subtypes))])
        patient = f"ID_{1000 + i // 10 * 5 + first:08x}"
        people.setdefault(patient, _person(len(people)))
        _write(folder / "stage_2_train" / f"{id}.dcm", id, patient, _head(id, first), i)
    table(folder / "attributes.csv", ["patient_id", *PERSON], [[id, *person] for id, person in people.items()])
    table(folder / "stage_2_train.csv", ["ID", "Label"], [*lines, *lines[:6]])  # Kaggle's table repeats some rows
    if times > 1:  # what stands in for the real data has no oddity of its own
        return
    whole = folder / "stage_2_train" / f"{lines[6][0].removesuffix('_epidural')}.dcm"
    whole.write_bytes(whole.read_bytes()[:-400])  # one of Kaggle's slices is cut off


def _person(k: int) -> list:
    """Sex, age and race of the k-th patient; of every twelfth nobody knows the age."""
    return [SEXES[k % 2], "" if k % 12 == 11 else 25 + 7 * k % 60, RACES[k // 2 % len(RACES)]]


def _head(id: str, label: int) -> np.ndarray:
    """Hounsfield units, int [SIDE, SIDE]: air around a brain of 0 to 80."""
    head = picture(id, label, height=SIDE, width=SIDE)[..., 0].astype(int) * 80 // 255
    head[:4], head[-4:], head[:, :4], head[:, -4:] = AIR, AIR, AIR, AIR
    return head


def _write(path: Path, id: str, patient: str, hounsfield: np.ndarray, i: int) -> None:
    """One of five kinds of header: signed, unsigned, wrapped, with several windows, with none."""
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
        PatientID=patient, StudyInstanceUID=_uid(patient), SeriesInstanceUID=_uid(patient, 1), Modality="CT"
    )
    fields |= dict(Rows=SIDE, Columns=SIDE, SamplesPerPixel=1, PhotometricInterpretation="MONOCHROME2")
    fields |= dict(BitsAllocated=16, BitsStored=kind["bits"], HighBit=kind["bits"] - 1)
    fields |= dict(PixelRepresentation=kind["signed"], RescaleIntercept=kind["intercept"], RescaleSlope=1)
    fields |= dict(PixelSpacing=[0.488281, 0.488281], StudyID="", PixelData=stored.astype("<u2").tobytes())
    if kind["windows"]:
        fields |= dict(zip(("WindowCenter", "WindowWidth"), kind["windows"], strict=True))
    _save(path, _uid(id), fields)


def _save(path: Path, uid: str, fields: dict[str, Any]) -> None:
    from pydicom import Dataset
    from pydicom.dataset import FileMetaDataset
    from pydicom.uid import UID, CTImageStorage, ExplicitVRLittleEndian

    file = Dataset()
    file.file_meta = FileMetaDataset()
    file.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    file.file_meta.MediaStorageSOPClassUID = file.SOPClassUID = CTImageStorage
    file.file_meta.MediaStorageSOPInstanceUID = file.SOPInstanceUID = UID(uid)
    for name, value in fields.items():
        setattr(file, name, value)
    file.save_as(path, enforce_file_format=True)


def _uid(name: str, series: int = 0) -> str:
    """A number that DICOM allows; Kaggle's files have words such as ID_0a1b2c3d4 there."""
    return f"2.25.{int(name[3:], 16)}.{series}"
