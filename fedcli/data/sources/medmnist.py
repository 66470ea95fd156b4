"""MedMNIST: any of its sets, from the .npz as downloaded; chestmnist has several labels per image.

Source: Yang et al., Scientific Data 10:41, 2023 (arXiv 2110.14795), and the larger sizes of MedMNIST+. The test part is
theirs; their validation images train, or are dropped with --set val=drop. The slices of a volume are the channels of
one image, all of them or as many as --set slices=K says, evenly spaced. Pixels are streamed out of the archive, so a
process holds one image however large the file is; in a compressed archive it reads through those before it.
"""

import math
import os
import zipfile
import zlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy

from ...errors import FedcliError, UsageError
from ...io.files import regular
from ...labels import MULTI_LABEL
from ..pool import Row
from . import cards
from .division import divided
from .drawing import labels_of, picture, spots, table
from .formats.npy_header import read_header
from .formats.photographs import within
from .source import Choices, Listing, Source, checked_channels, middles, stamp, unreadable

CLASSES = cards.read("medmnist")["class_names"]  # of each set, in the order of the labels
PARTS = "train", "val", "test"
HIGHEST = 32767  # the pool keeps labels in 16 bits
MOST = 2**28  # bytes of the labels of a part, and of an image
HINT = "expected a MedMNIST file, such as pathmnist.npz"
AGAIN = "download it again"
BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    ValueError,
    EOFError,
    OSError,
    RuntimeError,
)  # the last: a password


@dataclass(frozen=True)
class Pixels:
    """An array in the archive: a stream, the byte at which its numbers begin, and their shape."""

    stream: IO[bytes]
    start: int
    shape: tuple[int, ...]


def rows(raw: Path, choices: Choices) -> Listing:
    """The images of the parts asked for."""
    path = locate(raw, choices.own["file"])
    labels = {
        part: read_labels(path, part) for part in PARTS
    }  # the dropped ones too: the classes depend on no option
    if len(kinds := {array.shape[1:] for array in labels.values()}) > 1:
        raise FedcliError(
            f"{path} has another number of labels per image in some of its parts", HINT
        )
    task = None if kinds == {()} else MULTI_LABEL
    several, highest = (
        labels["train"].shape[-1] - 1,
        max(int(codes.max(initial=0)) for codes in labels.values()),
    )
    classes = _classes(path, several if task else highest, task)
    shapes = {part: _check_images(path, part, len(labels[part])) for part in PARTS}
    if len({shape[1:] for shape in shapes.values()}) > 1:
        raise FedcliError(f"{path} has images of different shapes in its parts", HINT)
    name, channels = path.relative_to(raw).as_posix(), _channels(path, shapes["train"], choices)
    images = [
        Row(
            f"{part}-{i:06d}", tuple(label) if task else label, f"{name}#{part}-{i}", part == "test"
        )
        for part in PARTS
        if part != "val" or choices.own["val"] == "train"
        for i, label in enumerate(labels[part].tolist())
    ]
    return divided(
        Listing(images, tables=[name], classes=classes, channels=channels, task=task), choices
    )


def rows_of_several(raw: Path, choices: Choices) -> Listing:
    """Those of chestmnist, whose images have any of 14 labels."""
    listing = rows(raw, choices)
    if listing.task != MULTI_LABEL:
        raise FedcliError(
            f"{raw / listing.tables[0]} has one label per image", "fedcli prepare medmnist reads it"
        )
    return listing


def decode(raw: Path, row: Row, choices: Choices) -> np.ndarray:
    file, _, place = row.source.rpartition("#")
    part, _, i = place.partition("-")
    path = raw / file
    try:
        pixels = _pixels(path, f"{part}_images", os.getpid(), stamp(path))
        size = math.prod(pixels.shape[1:])
        pixels.stream.seek(pixels.start + int(i) * size)
        image = np.frombuffer(pixels.stream.read(size), np.uint8)
        if _is_volume(pixels.shape):
            slices = image.reshape(pixels.shape[1:])[_taken(pixels.shape[1], choices)]
            return np.ascontiguousarray(np.moveaxis(slices, 0, -1))
        return image.reshape(*pixels.shape[1:3], -1)
    except BROKEN as error:
        raise unreadable(error, path) from error


def _is_volume(shape: tuple[int, ...]) -> bool:
    """Tell whether images of this shape [N, ...] are volumes [N, D, H, W] and not in colours [N, H, W, 3]."""
    return len(shape) == 4 and shape[3] != 3


def _taken(depth: int, choices: Choices) -> np.ndarray:
    return middles(depth, int(choices.own.get("slices", "") or depth))


def _channels(path: Path, shape: tuple[int, ...], choices: Choices) -> int:
    """Channels of images of this shape. Raises UsageError for slices of what has none, or more than there are."""
    text = choices.own.get("slices", "")
    if not _is_volume(shape):
        if text:
            raise UsageError(
                f"{path} holds images without slices, but slices is {text!r}", "leave slices out"
            )
        return 3 if len(shape) == 4 else 1
    if text and not (text.isascii() and text.isdigit() and 1 <= int(text) <= shape[1]):
        raise UsageError(
            f"slices is {text!r}, and the volumes of {path} have {shape[1]}",
            f"give 1 to {shape[1]}",
        )
    return checked_channels(int(text or shape[1]), choices)


def locate(raw: Path, file: str) -> Path:
    """The archive asked for, else the only one in the folder."""
    if file:
        return regular(
            within(raw, file, "--set file"), "name a .npz of that folder: --set file=pathmnist.npz"
        )
    archives = sorted(raw.glob("[!.]*.npz"))  # macOS puts a ._ file beside each
    if not archives:
        raise FedcliError(
            f"{raw} has no .npz file", "give the folder of a MedMNIST file, such as pathmnist.npz"
        )
    if len(archives) > 1:
        names = ", ".join(path.name for path in archives)
        raise UsageError(
            f"{raw} has {len(archives)} .npz files: {names}",
            f"choose one: --set file={archives[0].name}",
        )
    return archives[0]


def read_labels(path: Path, part: str) -> np.ndarray:
    """int64 [N], or [N, L] of several labels per image, each 0 or 1. Raises FedcliError."""
    name = f"{part}_labels"
    pixels, kind = _open(path, name)
    if (count := math.prod(pixels.shape)) * kind.itemsize > MOST:
        pixels.stream.close()
        raise FedcliError(f"{path}: {name} claims {count:,} numbers", HINT)
    with pixels.stream as stream:
        stream.seek(0)
        try:
            labels = npy.read_array(stream, allow_pickle=False)
        except BROKEN as error:
            raise FedcliError(f"{path}: {name} cannot be read: {error}", AGAIN) from None
    if kind.kind not in "iu" or labels.ndim not in (1, 2) or labels.min(initial=0) < 0:
        raise FedcliError(
            f"{path}: {name} is {kind} {list(labels.shape)}, not classes from 0", HINT
        )
    if (highest := int(labels.max(initial=0))) > HIGHEST:
        raise FedcliError(
            f"{path}: {name} has the label {highest}, the highest possible is {HIGHEST}", HINT
        )
    several = labels.ndim == 2 and labels.shape[1] > 1
    if several and highest > 1:
        raise FedcliError(
            f"{path}: {name} has the label {highest}, where several per image are each 0 or 1", HINT
        )
    return (labels if several else labels.reshape(-1)).astype(np.int64)


def _check_images(path: Path, part: str, count: int) -> tuple[int, ...]:
    """Shape of a part's images. Raises FedcliError for other numbers and another count than labels."""
    pixels, kind = _open(path, f"{part}_images")
    pixels.stream.close()
    shape, expected = pixels.shape, "uint8 [N, H, W], [N, H, W, 3] or [N, D, H, W]"
    if kind != np.uint8 or len(shape) not in (3, 4):
        raise FedcliError(
            f"{path}: {part}_images is {kind} {list(shape)}, expected {expected}", HINT
        )
    if math.prod(shape[1:]) > MOST:
        raise FedcliError(
            f"{path}: {part}_images claims {math.prod(shape[1:]):,} numbers per image", HINT
        )
    if shape[0] != count:
        raise FedcliError(f"{path} has {shape[0]} {part} images and {count} labels", AGAIN)
    return shape


def _classes(path: Path, highest: int, task: str | None = None) -> list[str]:
    known = CLASSES.get(path.stem.split("_")[0].lower())  # pathmnist_224.npz
    if known is None:
        return [f"class-{label}" for label in range(highest + 1)]
    if task and highest + 1 != len(known):
        raise FedcliError(f"{path} has {highest + 1} labels per image, expected {len(known)}", HINT)
    if highest >= len(known):
        hint = f"rename the file if it is not {path.stem.split('_')[0]}"
        raise FedcliError(f"{path} has the label {highest}, but only {len(known)} classes", hint)
    return known


@lru_cache(maxsize=3)
def _pixels(path: Path, name: str, process: int, stamp: tuple[int, int]) -> Pixels:
    """An array kept open, one per process: forked processes would move each other's place in the file."""
    return _open(path, name)[0]


def _open(path: Path, name: str) -> tuple[Pixels, np.dtype]:
    """An array of the archive and the type of its numbers, nothing but its header read. Raises FedcliError."""
    try:
        with zipfile.ZipFile(path) as archive:
            if f"{name}.npy" not in archive.namelist():
                raise FedcliError(f"{path} has no array {name}", HINT)
            length = archive.getinfo(f"{name}.npy").file_size
            stream = archive.open(f"{name}.npy")  # stays open when the archive is closed
    except BROKEN as error:
        raise FedcliError(f"{path} is not a readable .npz file: {error}", AGAIN) from None
    try:
        shape, kind = _header(path, name, stream, length)
        return Pixels(stream, stream.tell(), shape), kind
    except BaseException:
        stream.close()
        raise


def _header(
    path: Path, name: str, stream: IO[bytes], length: int
) -> tuple[tuple[int, ...], np.dtype]:
    """Shape of an array and the type of its numbers; the stream then stands at the first. Raises FedcliError."""
    try:
        shape, by_column, kind = read_header(stream)
    except BROKEN as error:
        raise FedcliError(f"{path}: {name} cannot be read: {error}", AGAIN) from None
    if kind.hasobject:
        raise FedcliError(
            f"{path}: {name} holds Python objects, which fedcli never unpickles", HINT
        )
    if by_column and len(shape) > 2:
        raise FedcliError(
            f"{path}: {name} is stored column by column", "save it again from np.ascontiguousarray"
        )
    if length != (whole := stream.tell() + math.prod(shape) * kind.itemsize):
        raise FedcliError(f"{path}: {name} has {length} bytes, expected {whole}", AGAIN)
    return shape, kind


# the synthetic samples


def sample(folder: Path) -> None:
    """pathmnist.npz: a few images of each of nine classes, labels [N, 1]."""
    arrays: dict[str, np.ndarray] = {}
    for part, each in zip(PARTS, (5, 1, 2), strict=True):
        labels = np.arange(each * 9, dtype=np.uint8) % 9
        images = [
            picture(f"{part}-{i}", int(label), height=28, width=28)
            for i, label in enumerate(labels)
        ]
        arrays |= {f"{part}_images": np.stack(images), f"{part}_labels": labels[:, None]}
    _write(folder / "pathmnist.npz", arrays)


SEVERAL = {"train": 140, "val": 28, "test": 84}  # images
PERSON = ("female", "30"), ("male", "50"), ("female", "70"), ("male", "35")


def sample_of_several(folder: Path) -> None:
    """chestmnist.npz: grey images, labels [N, 14]; attributes.csv says who the made-up patients are, by image."""
    arrays: dict[str, np.ndarray] = {}
    for part, count in SEVERAL.items():
        labels = np.stack(
            [labels_of(i, len(CLASSES["chestmnist"])) for i in range(count)]
        )  # [N, L]
        images = [spots(f"chestmnist-{part}-{i}", row) for i, row in enumerate(labels)]
        arrays |= {f"{part}_images": np.stack(images), f"{part}_labels": labels}
    _write(folder / "chestmnist.npz", arrays)
    people = [
        [f"{part}-{i:06d}", *PERSON[i % len(PERSON)]]
        for part, count in SEVERAL.items()
        for i in range(count)
    ]
    table(folder / "attributes.csv", ["image", "sex", "age"], people)


def _write(path: Path, arrays: dict[str, np.ndarray]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]  # any name is an array's


SOURCE = Source(rows, decode, sample)
CHESTMNIST = Source(rows_of_several, decode, sample_of_several)
