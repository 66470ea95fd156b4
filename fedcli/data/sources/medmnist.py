"""MedMNIST: any of its sets, from the .npz as downloaded; chestmnist has several labels per image.

Source: Yang et al., Scientific Data 10:41, 2023 (arXiv 2110.14795), and the larger sizes of
MedMNIST+. The test part is theirs; their validation images train, or are dropped with --set
val=drop. The slices of a volume are the channels of one image, all of them or as many as --set
slices=K says, evenly spaced. Pixels are streamed out of the archive, so a process holds one image
however large the file is; in a compressed archive it reads through those before it.
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
from numpy import ndarray
from numpy.lib import format as npy

from ...errors import FedcliError, UsageError
from ...io.files import regular
from ...labels import MULTI_LABEL
from ..pool import Row
from ..prepare_options import PrepareOptions
from . import cards
from .division import divided
from .drawing import labels_of, pictures, spots, table
from .formats.npy_header import read_header
from .formats.photographs import within
from .source import Listing, Source, checked_channels, middles, stamp, unreadable

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
    RuntimeError,  # a password
)

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Pixels:
    """An array in the archive: a stream, the byte at which its numbers begin, and their shape."""

    stream: IO[bytes]
    start: int
    shape: Shape


def rows(raw: Path, choices: PrepareOptions) -> Listing:
    """The images of the parts asked for."""
    path = locate(raw, choices.own["file"])
    labels = _read_all_labels(path)
    task = MULTI_LABEL if labels["train"].ndim > 1 else None
    classes = _classes(path, labels, task)
    shape = _check_all_images(path, labels)
    name = path.relative_to(raw).as_posix()
    channels = _channels(path, shape, choices)
    images = []
    for part in PARTS:
        if part == "val" and choices.own["val"] != "train":
            continue
        for i, label in enumerate(labels[part].tolist()):
            if task:
                label = tuple(label)
            row_id = f"{part}-{i:06d}"
            is_test = part == "test"
            source = f"{name}#{part}-{i}"
            images.append(Row(row_id, label, source, is_test))
    listing = Listing(
        images,
        tables=[name],
        classes=classes,
        channels=channels,
        task=task,
    )
    return divided(listing, choices)


def _read_all_labels(path: Path) -> dict[str, ndarray]:
    """The labels of all parts, the dropped one too: the classes depend on no option."""
    labels = {part: read_labels(path, part) for part in PARTS}
    widths = {codes.shape[1:] for codes in labels.values()}
    if len(widths) > 1:
        sentence = f"{path} has another number of labels per image in some of its parts"
        raise FedcliError(sentence, HINT)
    return labels


def _check_all_images(path: Path, labels: dict[str, ndarray]) -> Shape:
    """Shape of the training images. Raises FedcliError where another part's differ in theirs."""
    shapes = {part: _check_images(path, part, len(codes)) for part, codes in labels.items()}
    image_shapes = {shape[1:] for shape in shapes.values()}
    if len(image_shapes) > 1:
        raise FedcliError(f"{path} has images of different shapes in its parts", HINT)
    return shapes["train"]


def rows_of_several(raw: Path, choices: PrepareOptions) -> Listing:
    """The images of chestmnist, which have any of 14 labels."""
    listing = rows(raw, choices)
    if listing.task != MULTI_LABEL:
        sentence = f"{raw / listing.tables[0]} has one label per image"
        raise FedcliError(sentence, "fedcli prepare medmnist reads it")
    return listing


def decode(raw: Path, row: Row, choices: PrepareOptions) -> ndarray:
    file, _, member = row.source.rpartition("#")
    part, _, position = member.partition("-")
    path = raw / file
    try:
        array_name = f"{part}_images"
        pixels = _pixels(path, array_name, os.getpid(), stamp(path))
        shape = pixels.shape[1:]
        size = math.prod(shape)
        image_start = pixels.start + int(position) * size
        pixels.stream.seek(image_start)
        image = np.frombuffer(pixels.stream.read(size), np.uint8)
        if not _is_volume(pixels.shape):
            return image.reshape(*shape[:2], -1)
        depth = shape[0]
        count = int(_slices(choices) or depth)
        slices = image.reshape(shape)[middles(depth, count)]
        return np.ascontiguousarray(np.moveaxis(slices, 0, -1))
    except BROKEN as error:
        raise unreadable(error, path) from error


def _is_volume(shape: Shape) -> bool:
    """Tell whether images of this shape [N, ...] are volumes [N, D, H, W].

    They may also be in colours [N, H, W, 3].
    """
    return len(shape) == 4 and shape[3] != 3


def _slices(choices: PrepareOptions) -> str:
    """The number of slices that become channels, as a text; "" for all of them."""
    return choices.own.get("slices", "")


def _channels(path: Path, shape: Shape, choices: PrepareOptions) -> int:
    """Channels of images of this shape.

    Raises UsageError for slices of what has none, or more than there are.
    """
    text = _slices(choices)
    if not _is_volume(shape):
        if text:
            sentence = f"{path} holds images without slices, but slices is {text!r}"
            raise UsageError(sentence, "leave slices out")
        return 3 if len(shape) == 4 else 1
    depth = shape[1]
    is_number = text.isascii() and text.isdigit()
    if text and not (is_number and 1 <= int(text) <= depth):
        sentence = f"slices is {text!r}, and the volumes of {path} have {depth}"
        raise UsageError(sentence, f"give 1 to {depth}")
    return checked_channels(int(text or depth), choices)


def locate(raw: Path, file: str) -> Path:
    """The archive asked for, else the only one in the folder."""
    if file:
        path = within(raw, file, "--set file")
        return regular(path, "name a .npz of that folder: --set file=pathmnist.npz")
    archives = sorted(raw.glob("[!.]*.npz"))  # macOS puts a ._ file beside each
    if not archives:
        hint = "give the folder of a MedMNIST file, such as pathmnist.npz"
        raise FedcliError(f"{raw} has no .npz file", hint)
    if len(archives) > 1:
        names = [path.name for path in archives]
        archive_names = ", ".join(names)
        sentence = f"{raw} has {len(archives)} .npz files: {archive_names}"
        raise UsageError(sentence, f"choose one: --set file={names[0]}")
    return archives[0]


def read_labels(path: Path, part: str) -> ndarray:
    """int64 [N], or [N, L] of several labels per image, each 0 or 1. Raises FedcliError."""
    labels = _read_array(path, f"{part}_labels")
    array = f"{path}: {part}_labels"
    is_classes = labels.dtype.kind in "iu" and labels.ndim in (1, 2)
    if not is_classes or labels.min(initial=0) < 0:
        kind = f"{labels.dtype} {list(labels.shape)}"
        raise FedcliError(f"{array} is {kind}, not classes from 0", HINT)
    highest = int(labels.max(initial=0))
    if highest > HIGHEST:
        sentence = f"{array} has the label {highest}, the highest possible is {HIGHEST}"
        raise FedcliError(sentence, HINT)
    several = labels.ndim == 2 and labels.shape[1] > 1
    if several and highest > 1:
        sentence = f"{array} has the label {highest}, where several per image are each 0 or 1"
        raise FedcliError(sentence, HINT)
    if not several:
        labels = labels.reshape(-1)
    return labels.astype(np.int64)


def _read_array(path: Path, name: str) -> ndarray:
    """A whole array of the archive. Raises FedcliError for one that is too large."""
    pixels, kind = _open(path, name)
    with pixels.stream as stream:
        count = math.prod(pixels.shape)
        if count * kind.itemsize > MOST:
            raise FedcliError(f"{path}: {name} claims {count:,} numbers", HINT)
        stream.seek(0)
        try:
            return npy.read_array(stream, allow_pickle=False)
        except BROKEN as error:
            raise FedcliError(f"{path}: {name} cannot be read: {error}", AGAIN) from None


def _check_images(path: Path, part: str, count: int) -> Shape:
    """Shape of a part's images.

    Raises FedcliError for other numbers and another count than labels.
    """
    pixels, kind = _open(path, f"{part}_images")
    pixels.stream.close()
    shape = pixels.shape
    array = f"{path}: {part}_images"
    if kind != np.uint8 or len(shape) not in (3, 4):
        expected = "uint8 [N, H, W], [N, H, W, 3] or [N, D, H, W]"
        raise FedcliError(f"{array} is {kind} {list(shape)}, expected {expected}", HINT)
    size = math.prod(shape[1:])
    if size > MOST:
        raise FedcliError(f"{array} claims {size:,} numbers per image", HINT)
    if shape[0] != count:
        raise FedcliError(f"{path} has {shape[0]} {part} images and {count} labels", AGAIN)
    return shape


def _classes(
    path: Path,
    labels: dict[str, ndarray],
    task: str | None,
) -> list[str]:
    """The names of the classes, or of the labels. Raises FedcliError for more than the set has."""
    if task:
        count = labels["train"].shape[1]
    else:
        largest = max(int(codes.max(initial=0)) for codes in labels.values())
        count = 1 + largest
    set_name = path.stem.split("_")[0]  # pathmnist_224.npz
    names = CLASSES.get(set_name.lower())
    if names is None:
        return [f"class-{label}" for label in range(count)]
    if task and count != len(names):
        raise FedcliError(f"{path} has {count} labels per image, expected {len(names)}", HINT)
    if count > len(names):
        sentence = f"{path} has the label {count - 1}, but only {len(names)} classes"
        raise FedcliError(sentence, f"rename the file if it is not {set_name}")
    return names


@lru_cache(maxsize=3)
def _pixels(
    path: Path,
    name: str,
    process: int,
    stamp: tuple[int, int],
) -> Pixels:
    """An array that stays open, one per process.

    Forked processes would move each other's place in the file.
    """
    return _open(path, name)[0]


def _open(path: Path, name: str) -> tuple[Pixels, np.dtype]:
    """An array of the archive and the type of its numbers, nothing but its header read.

    Raises FedcliError.
    """
    member = f"{name}.npy"
    try:
        with zipfile.ZipFile(path) as archive:
            if member not in archive.namelist():
                raise FedcliError(f"{path} has no array {name}", HINT)
            length = archive.getinfo(member).file_size
            stream = archive.open(member)  # stays open when the archive is closed
    except BROKEN as error:
        raise FedcliError(f"{path} is not a readable .npz file: {error}", AGAIN) from None
    try:
        shape, kind = _header(f"{path}: {name}", stream, length)
        return Pixels(stream, stream.tell(), shape), kind
    except BaseException:
        stream.close()
        raise


def _header(
    array: str,
    stream: IO[bytes],
    length: int,
) -> tuple[Shape, np.dtype]:
    """Shape of an array and the type of its numbers, at which the stream then stands.

    Raises FedcliError.
    array: its file and its name, for sentences.
    """
    try:
        shape, by_column, kind = read_header(stream)
    except BROKEN as error:
        raise FedcliError(f"{array} cannot be read: {error}", AGAIN) from None
    if kind.hasobject:
        raise FedcliError(f"{array} holds Python objects, which fedcli never unpickles", HINT)
    if by_column and len(shape) > 2:
        hint = "save it again from np.ascontiguousarray"
        raise FedcliError(f"{array} is stored column by column", hint)
    size = math.prod(shape) * kind.itemsize
    expected = stream.tell() + size
    if length != expected:
        raise FedcliError(f"{array} has {length} bytes, expected {expected}", AGAIN)
    return shape, kind


# the synthetic samples

EACH = {"train": 5, "val": 1, "test": 2}  # images of a class
SEVERAL = {"train": 140, "val": 28, "test": 84}  # images of chestmnist
PEOPLE = ("female", "30"), ("male", "50"), ("female", "70"), ("male", "35")


def sample(folder: Path) -> None:
    """pathmnist.npz: a few images of each of nine classes, labels [N, 1]."""
    arrays = {}
    for part, count in EACH.items():
        labels = np.arange(count * 9, dtype=np.uint8) % 9
        arrays[f"{part}_images"] = pictures(part, labels, 28)
        arrays[f"{part}_labels"] = labels[:, None]
    _write(folder / "pathmnist.npz", arrays)


def sample_of_several(folder: Path) -> None:
    """chestmnist.npz: grey images, labels [N, 14].

    attributes.csv says who the made-up patients are, by image.
    """
    arrays = {}
    people = []
    label_count = len(CLASSES["chestmnist"])
    for part, count in SEVERAL.items():
        labels = []
        images = []
        for i in range(count):
            row = labels_of(i, label_count)
            labels.append(row)
            image = spots(f"chestmnist-{part}-{i}", row)
            images.append(image)
            person = PEOPLE[i % len(PEOPLE)]
            people.append([f"{part}-{i:06d}", *person])
        arrays[f"{part}_images"] = np.stack(images)
        arrays[f"{part}_labels"] = np.stack(labels)  # [N, L]
    _write(folder / "chestmnist.npz", arrays)
    table(folder / "attributes.csv", ["image", "sex", "age"], people)


def _write(path: Path, arrays: dict[str, ndarray]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]  # any name is an array's


SOURCE = Source(rows, decode, sample)
CHESTMNIST = Source(rows_of_several, decode, sample_of_several)
