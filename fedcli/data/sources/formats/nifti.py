"""Volumes in NIfTI files (.nii, .nii.gz): slices along an axis of the body.

They are the channels of one image. Slices are shown as radiologists do, whatever order the file
keeps: axial ones with the patient's right at the left and the front above, coronal ones from the
front, sagittal ones with the front at the left; the head is above in both. nibabel reads them slice
by slice, so a process holds no more than those that are taken.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from ....errors import FedcliError, UsageError, nearest
from ...prepare_options import PrepareOptions
from ..source import Unreadable, check_regular, checked_channels, middles, unreadable
from .dicom import Window

SUFFIXES = ".nii", ".nii.gz"
AXES = {"sagittal": 0, "coronal": 1, "axial": 2}  # axis of the body: to the right, front, up
LARGEST = 2**31  # bytes of a volume, of which nibabel reads all where slices lie across the file
MOST = 2**28  # voxels of the slices taken
LOW = 0.5  # percentile of the slices that is black where no window is given
HIGH = 99.5  # likewise white
MOST_SLICES = 512


def is_nifti(file: str) -> bool:
    return file.lower().endswith(SUFFIXES)


def slices(choices: PrepareOptions) -> int:
    """The number of slices that become channels. Raises UsageError."""
    text = choices.own["slices"] or "1"
    axis = choices.own["axis"]
    is_number = text.isascii() and text.isdigit()
    if not is_number or not 1 <= int(text) <= MOST_SLICES:
        hint = f"give how many of a volume become channels, from 1 to {MOST_SLICES}"
        raise UsageError(f"slices is {text!r}", hint)
    if axis not in AXES:
        raise UsageError(f"axis is {axis!r}", nearest(axis, AXES))
    return checked_channels(int(text), choices)


def library() -> Any:
    """nibabel, which an extra brings. Raises FedcliError where it is not installed."""
    try:
        import nibabel
    except ImportError:
        hint = "pip install 'fedcli[nifti]'"
        raise FedcliError("NIfTI files need the package nibabel", hint) from None
    return nibabel


def read_slices(
    path: Path,
    choices: PrepareOptions,
    window: Window,
) -> ndarray:
    """uint8 [H, W, K]: K slices, the middles of as many parts of equal depth.

    Raises Unreadable, FedcliError.
    """
    nibabel = library()
    count = slices(choices)
    axis_name = choices.own["axis"]
    check_regular(path)
    try:
        volume = nibabel.load(path)
        shape = _shape(volume)
        # voxel axis -> axis of the body, and 1 or -1
        orientation = nibabel.io_orientation(volume.affine)
        if not np.isfinite(orientation).all():
            raise Unreadable("does not say how its axes lie in the body")
        directions = orientation[:, 0]
        axis = int(np.flatnonzero(directions == AXES[axis_name])[0])
        depth = shape[axis]
        if count > depth:
            raise Unreadable(f"has {depth} {axis_name} slices, fewer than {count}")
        voxels = math.prod(shape) // depth * count
        if voxels > MOST:
            raise Unreadable(f"its {count} slices hold {voxels:,} voxels, more than {MOST:,}")
        positions = middles(depth, count)
        if orientation[axis, 1] < 0:
            positions = depth - 1 - positions
        planes = []
        for position in positions.tolist():
            plane = _plane(volume, axis, position)
            planes.append(_turned(plane, np.delete(orientation, axis, axis=0)))
    except (Unreadable, FedcliError, MemoryError):
        raise
    except Exception as error:  # a damaged file: a dozen unrelated types of nibabel, zlib and numpy
        raise unreadable(error, path) from error
    return _grey(np.stack(planes, -1), window)


def _shape(volume: Any) -> Sequence[int]:
    """The three sides of a volume. Raises Unreadable for anything else, and for one too large."""
    shape = volume.shape
    while len(shape) > 3 and shape[-1] == 1:
        shape = shape[:-1]
    if len(shape) != 3 or min(shape) < 1:
        sides = " x ".join(map(str, volume.shape))
        raise Unreadable(f"holds numbers of shape {sides}, not one volume")
    size = math.prod(shape) * volume.get_data_dtype().itemsize
    if size > LARGEST:
        raise Unreadable(f"holds {size:,} bytes, more than {LARGEST:,}")
    return shape


def _plane(volume: Any, axis: int, position: int) -> ndarray:
    """A slice [two voxel axes]."""
    further_axes = len(volume.shape) - 3
    whole_axes = [slice(None)] * 3
    index: list[Any] = whole_axes + [0] * further_axes
    index[axis] = position
    return np.asarray(volume.dataobj[tuple(index)], np.float32)


def _turned(plane: ndarray, orientation: ndarray) -> ndarray:
    """A slice [two voxel axes] as people look at it [H, W].

    orientation: of the two axes.
    """
    (body_0, sign_0), (body_1, sign_1) = orientation
    if sign_0 < 0:
        plane = plane[::-1]
    if sign_1 < 0:
        plane = plane[:, ::-1]
    if body_0 > body_1:
        plane = plane.T
    # the body's axes lead right, front and up; columns and rows begin at the other end
    return plane[::-1, ::-1].T


def _grey(values: ndarray, window: Window) -> ndarray:
    """uint8 of the same shape. Raises Unreadable."""
    if not np.isfinite(values).all():
        raise Unreadable("holds values that are not finite")
    if window is None:
        low, high = np.percentile(values, (LOW, HIGH))
    else:
        centre, width = window
        low = centre - width / 2
        high = centre + width / 2
    if not high > low:
        raise Unreadable("holds the same value everywhere")
    clipped = values.clip(low, high)
    scale = 255 / (high - low)
    grey = (clipped - low) * scale
    return np.rint(grey).astype(np.uint8)
