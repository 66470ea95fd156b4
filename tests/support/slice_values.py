"""Stored values of DICOM files as Hounsfield units, and files written anew."""

from pathlib import Path

import numpy as np
import pydicom
from pydicom.dataset import Dataset

from fedcli.data.sources.formats import dicom


def hounsfield_image(path: Path) -> np.ndarray:
    file = pydicom.dcmread(path)
    return dicom.scale_of(file).hounsfield(file.pixel_array)


def hounsfield(path: Path) -> list[float]:
    return hounsfield_image(path).ravel().tolist()


def rewritten(path: Path, syntax: str) -> None:
    """Save a file anew in another of the uncompressed syntaxes; its pixels' bytes stay as they are."""
    slice_ = pydicom.dcmread(path)
    slice_.file_meta.TransferSyntaxUID = syntax
    fresh = Dataset()
    fresh.file_meta = slice_.file_meta
    fresh.update({element.tag: element for element in slice_})
    fresh.save_as(path, enforce_file_format=True)
