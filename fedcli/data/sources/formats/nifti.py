"""Volumes in NIfTI files (.nii, .nii.gz): slices along an axis of the body, as the channels of one image.

Slices are shown as radiologists do, whatever order the file keeps: axial ones with the patient's right at the left and
the front above, coronal ones from the front, sagittal ones with the front at the left; the head is above in both.
nibabel reads them slice by slice, so a process holds no more than those that are taken.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np

from ....errors import FedcliError, UsageError, nearest
from ..source import Choices, Unreadable, check_regular, checked_channels, middles, unreadable
from .dicom import Window

SUFFIXES = ".nii", ".nii.gz"
AXES = {
    "sagittal": 0,
    "coronal": 1,
    "axial": 2,
}  # axis of the body that slices follow: right, front, up
LARGEST = 2**31  # bytes of a volume, of which nibabel reads all where slices lie across the file
MOST = 2**28  # voxels of the slices taken
LOW, HIGH = 0.5, 99.5  # percentiles of the slices that are black and white where no window is given


def is_nifti(file: str) -> bool:
    return file.lower().endswith(SUFFIXES)


def slices(choices: Choices) -> int:
    """The number of slices that become channels. Raises UsageError."""
    text = choices.own["slices"] or "1"
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 512):
        raise UsageError(
            f"slices is {text!r}", "give how many of a volume become channels, from 1 to 512"
        )
    if (axis := choices.own["axis"]) not in AXES:
        raise UsageError(f"axis is {axis!r}", nearest(axis, [*AXES]))
    return checked_channels(int(text), choices)


def library() -> Any:
    """nibabel, which an extra brings. Raises FedcliError where it is not installed."""
    try:
        import nibabel
    except ImportError:
        raise FedcliError(
            "NIfTI files need the package nibabel", "pip install 'fedcli[nifti]'"
        ) from None
    return nibabel


def read_slices(path: Path, choices: Choices, window: Window) -> np.ndarray:
    """uint8 [H, W, K]: K slices, the middles of as many parts of equal depth. Raises Unreadable, FedcliError."""
    nibabel, count, body = library(), slices(choices), AXES[choices.own["axis"]]
    check_regular(path)
    try:
        volume = nibabel.load(path)
        shape = volume.shape
        while len(shape) > 3 and shape[-1] == 1:
            shape = shape[:-1]
        if len(shape) != 3 or min(shape) < 1:
            raise Unreadable(
                f"holds numbers of shape {' x '.join(map(str, volume.shape))}, not one volume"
            )
        size = math.prod(shape) * volume.get_data_dtype().itemsize
        if size > LARGEST:
            raise Unreadable(f"holds {size:,} bytes, more than {LARGEST:,}")
        orientation = nibabel.io_orientation(
            volume.affine
        )  # voxel axis -> axis of the body, and 1 or -1
        if not np.isfinite(orientation).all():
            raise Unreadable("does not say how its axes lie in the body")
        axis = int(np.flatnonzero(orientation[:, 0] == body)[0])
        if count > shape[axis]:
            raise Unreadable(f"has {shape[axis]} {choices.own['axis']} slices, fewer than {count}")
        voxels = math.prod(shape) // shape[axis] * count
        if voxels > MOST:
            raise Unreadable(f"its {count} slices hold {voxels:,} voxels, more than {MOST:,}")
        taken = middles(shape[axis], count)
        if orientation[axis, 1] < 0:
            taken = shape[axis] - 1 - taken
        at: list[Any] = [slice(None)] * 3 + [0] * (len(volume.shape) - 3)
        planes = []
        for place in taken.tolist():
            at[axis] = place
            planes.append(
                _shown(np.asarray(volume.dataobj[tuple(at)], np.float32), orientation, axis)
            )
    except (Unreadable, FedcliError, MemoryError):
        raise
    except Exception as error:  # a damaged file: a dozen unrelated types of nibabel, zlib and numpy
        raise unreadable(error, path) from error
    return _grey(np.stack(planes, -1), window)


def _shown(plane: np.ndarray, orientation: np.ndarray, axis: int) -> np.ndarray:
    """A slice [two voxel axes] as people look at it [H, W]."""
    first, second = (row for place, row in enumerate(orientation) if place != axis)
    if first[1] < 0:
        plane = plane[::-1]
    if second[1] < 0:
        plane = plane[:, ::-1]
    if first[0] > second[0]:
        plane = plane.T
    return plane[
        ::-1, ::-1
    ].T  # the body's axes lead right, front and up; columns and rows begin at the other end


def _grey(values: np.ndarray, window: Window) -> np.ndarray:
    """uint8 of the same shape. Raises Unreadable."""
    if not np.isfinite(values).all():
        raise Unreadable("holds values that are not finite")
    if window is None:
        low, high = np.percentile(values, (LOW, HIGH))
    else:
        low, high = window[0] - window[1] / 2, window[0] + window[1] / 2
    if not high > low:
        raise Unreadable("holds the same value everywhere")
    return np.rint((values.clip(low, high) - low) * (255 / (high - low))).astype(np.uint8)
