"""HDF5 pools on disk and uint8 shards in memory.

`pool.h5` (one per dataset, or one per client after --materialize):

    x      uint8  [N, H, W, C]   pixels
    y      int16  [N]            class index; or uint8 [N, L], for each label 0, 1, or 2 where it is
           not known
    id     bytes  [N]            utf-8, unique
    split  uint8  [N]            0 train, 1 test
    unit   bytes  [N]            patient or lesion id, where the source has one
    group/<attribute>  int16 [N] index into the manifest's list of values, -1 unknown

A stage never copies pixels: a partition is row numbers of the pool, a corruption holds the changed
rows. load() lays both over the pool in memory, where the net lives.
"""

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from .. import labels
from ..errors import FedcliError
from ..io.hdf5 import AGAIN, TEXT, WHOLE, ExpectedData, below, create_hdf5, extend_hdf5, open_hdf5
from ..labels import Label
from . import manifest

TRAIN, TEST = 0, 1
Shape = tuple[int, int, int, int]  # N, H, W, C
Rows = dict[str, dict[str, np.ndarray]]  # client -> part -> rows of the pool
PARTS = "train", "val", "test"  # of a client
ALL = "all"  # a dataset's images, which no client holds yet, and a partition's test images
HINT = "make the pool again with fedcli prepare"
POOL = {
    "x": ExpectedData("u", 4, size=1),
    "y": ExpectedData(WHOLE, (1, 2)),
    "id": ExpectedData(TEXT),
    "split": ExpectedData("u"),
    "unit": ExpectedData(TEXT, needed=False),
    "group/*": ExpectedData(WHOLE),
}
CHANGED = {  # the file that corrupt writes
    "train/x": ExpectedData("u", 4, size=1),
    "train/rows": ExpectedData(WHOLE),
    "test/x": ExpectedData("u", 4, size=1),
    "test/rows": ExpectedData(WHOLE),
}
LABELS = "labels.h5"  # of a partition with changed labels, beside its rows


@dataclass(frozen=True)
class Row:
    """One image of a dataset before its pixels are read.

    Attributes:
        id: unique name.
        label: index into the dataset's classes; of several labels per image, for each 0, 1, or 2
            where it is not known.
        source: what the reader needs to decode it (a path relative to --raw, or an index).
        test: True for the test part.
        groups: attribute -> index of its value, -1 unknown.
        patient: patient or lesion id, "" if the source has none.
    """

    id: str
    label: Label
    source: Any
    test: bool = False
    groups: dict[str, int] = field(default_factory=dict)
    patient: str = ""


@dataclass(frozen=True)
class Pool:
    """A pool's columns; pixels stay on disk until asked for."""

    path: Path
    shape: Shape
    y: np.ndarray  # int64 [N], or uint8 [N, L]
    id: np.ndarray  # str [N]
    split: np.ndarray  # uint8 [N]
    patient: np.ndarray | None  # str [N]
    groups: dict[str, np.ndarray]  # attribute -> int64 [N]

    @property
    def single(self) -> np.ndarray:
        """One number per image [N] by which images are sorted, see labels.single()."""
        return labels.single(self.y)

    def pixels(self, rows: np.ndarray | None = None) -> np.ndarray:
        """uint8 [len(rows), H, W, C]; all of them without rows."""
        with open_hdf5(self.path, POOL) as file:
            if rows is None:
                return file["x"][()]
            order = np.argsort(rows, kind="stable")  # HDF5 reads rising, distinct row numbers only
            rising = np.asarray(rows)[order]
            distinct, positions = np.unique(rising, return_inverse=True)
            images = np.empty((len(rows), *self.shape[1:]), np.uint8)
            if len(rows):
                images[order] = file["x"][distinct][positions]
            return images


def read_pool(path: Path) -> Pool:
    """Read a pool's columns. Raises FedcliError where a dataset is missing or has another shape."""
    with open_hdf5(path, POOL, hint=HINT) as file:
        shape = file["x"].shape
        columns = {name: data[()] for name, data in file.items() if name != "x"}
    count = shape[0]
    for name, column in columns.items():
        if len(column) != count:
            raise FedcliError(f"{path}: {name} has {len(column)} values for {count} images", HINT)
    y = columns["y"]
    groups = {}
    for name, column in below(columns, "group").items():
        groups[name] = column.astype(np.int64)
    patient = None
    if "unit" in columns:
        patient = texts(path, columns["unit"])
    return Pool(
        path,
        shape,
        y.astype(np.int64 if y.ndim == 1 else np.uint8),
        texts(path, columns["id"]),
        columns["split"],
        patient,
        groups,
    )


def pool_of(dataset: Path) -> Pool:
    """The pool of a dataset's manifest. Raises FedcliError where it is not what the manifest
    describes."""
    pool = read_pool(dataset.parent / "pool.h5")
    body = manifest.read(dataset, "dataset").body
    _check_labels(pool, body, dataset.name)
    _check_ranges(pool, body, dataset.name)
    shape = list(pool.shape[1:])
    expected = [*body["size"], body["channels"]]
    if shape != expected:
        sentence = f"{pool.path}: images are {shape}, in {dataset.name} {expected}"
        raise FedcliError(sentence, HINT)
    if len(set(pool.id.tolist())) < len(pool.id):
        raise FedcliError(f"{pool.path}: two images have the same id", HINT)
    return pool


def _check_labels(pool: Pool, body: manifest.Body, dataset: str) -> None:
    shape = list(pool.y.shape)
    expected = [len(pool.y)]
    if labels.is_multi_label(body):
        expected.append(len(body["classes"]))
    if shape != expected:
        sentence = f"{pool.path}: y is {shape}, which are not the labels of {dataset}"
        raise FedcliError(sentence, HINT)


def _check_ranges(pool: Pool, body: manifest.Body, dataset: str) -> None:
    """Refuse columns that are missing, of no attribute, or out of range."""
    highest_label = len(body["classes"]) - 1 if pool.y.ndim == 1 else labels.UNKNOWN
    for name in pool.groups:
        if name not in body["attributes"]:
            column = f"{name!r} of each image, which is no attribute of {dataset}"
            raise FedcliError(f"{pool.path} holds {column}", HINT)
    check = partial(_check_range, pool.path, dataset)
    check("y", pool.y, 0, highest_label)
    check("split", pool.split, TRAIN, TEST)
    for name, values in body["attributes"].items():
        column = f"group/{name}"
        if name not in pool.groups:
            raise FedcliError(f"{pool.path} has no dataset {column!r}", HINT)
        check(column, pool.groups[name], -1, len(values) - 1)


def _check_range(
    path: Path, dataset: str, name: str, values: np.ndarray, low: int, high: int
) -> None:
    if not in_range(values, low, high):
        occurring = f"{values.min()} to {values.max()}"
        sentence = f"{path}: {name} holds {occurring}, where {dataset} has {low} to {high}"
        raise FedcliError(sentence, HINT)


def in_range(values: np.ndarray, low: int, high: int) -> bool:
    """Tell whether all values, or none, are from low to high."""
    if not len(values):
        return True
    return bool(low <= values.min() and values.max() <= high)


def texts(path: Path, column: np.ndarray) -> np.ndarray:
    """utf-8 bytes [N] as str [N]. Raises FedcliError where they are none."""
    try:
        return _decoded(column.tobytes(), column.dtype)
    except UnicodeDecodeError as error:
        raise FedcliError(f"{path} holds names that are not UTF-8: {error.reason}", AGAIN) from None


@lru_cache(maxsize=4)  # many runs answer for the same images
def _decoded(column: bytes, dtype: np.dtype) -> np.ndarray:
    names = np.char.decode(np.frombuffer(column, dtype), "utf-8")
    names.flags.writeable = False
    return names


@dataclass(frozen=True)
class BlankPool:
    """A pool whose pixels are still to be written, by many processes at once, each image at its own
    place.

    Pixels bypass HDF5, which allows one writer only and on a full disk crashes instead of raising.
    """

    path: Path
    shape: Shape
    start: int  # byte of the file at which x begins

    @staticmethod
    def make(path: Path, shape: Shape) -> "BlankPool":
        plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plan.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        plan.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        with create_hdf5(path, math.prod(shape)) as file:
            pixels = file.create_dataset("x", shape, np.uint8, dcpl=plan)
            return BlankPool(path, shape, pixels.id.get_offset())

    def put(self, start: int, images: np.ndarray) -> None:
        """Write images that follow one another, uint8 [n, H, W, C], from this position on."""
        shape = self.shape[1:]
        if images.shape[1:] != shape or images.dtype != np.uint8:
            images_are = f"images are {images.dtype} {images.shape}"
            raise ValueError(f"{images_are}, expected uint8 [n, {shape}]")
        pixels = np.ascontiguousarray(images).reshape(-1).data
        offset = self.start + start * math.prod(shape)
        handle = os.open(self.path, os.O_WRONLY)
        try:
            while len(pixels):  # a nearly full disk takes a part before it raises
                written = os.pwrite(handle, pixels, offset)
                pixels = pixels[written:]
                offset += written
        finally:
            os.close(handle)

    def finish(
        self,
        rows: list[Row],
        places: list[int],
        attributes: Iterable[str],
    ) -> None:
        """Keep the images at these rising places and add the columns of their rows."""
        if len(places) < self.shape[0]:
            self._drop_others(places)
        y = np.array([row.label for row in rows])
        id = np.array([row.id for row in rows])
        split = np.array([TEST if row.test else TRAIN for row in rows])
        patient = None
        if any(row.patient for row in rows):
            patient = np.array([row.patient for row in rows])
        groups = {}
        for name in attributes:
            groups[name] = np.array([row.groups.get(name, -1) for row in rows])
        with extend_hdf5(self.path) as file:
            _write_columns(file, y, id, split, patient, groups)

    def _drop_others(self, places: list[int]) -> None:
        """Move what stays to a smaller file: x lies in one piece, which is fast to read but cannot
        shrink."""
        whole = self.path.rename(self.path.with_name(self.path.name + ".whole"))
        images = np.memmap(whole, np.uint8, "r", self.start, self.shape)
        smaller = BlankPool.make(self.path, (len(places), *self.shape[1:]))
        for new, old in enumerate(places):
            smaller.put(new, images[old : old + 1])
        whole.unlink()


def _write_columns(
    file: h5py.File,
    y: np.ndarray,
    id: np.ndarray,
    split: np.ndarray,
    patient: np.ndarray | None,
    groups: Mapping[str, np.ndarray],
) -> None:
    file["y"] = y.astype(np.int16 if y.ndim == 1 else np.uint8)
    file["id"] = np.char.encode(id, "utf-8")
    file["split"] = split.astype(np.uint8)
    if patient is not None:
        file["unit"] = np.char.encode(patient, "utf-8")
    for name, values in groups.items():
        file[f"group/{name}"] = values.astype(np.int16)


def copy_pool(
    pool: Pool,
    rows: np.ndarray,
    path: Path,
    pixels: np.ndarray,
) -> None:
    """Write some rows of a pool, with these pixels [n, H, W, C], as a pool of their own."""
    groups = {name: values[rows] for name, values in pool.groups.items()}
    patient = None if pool.patient is None else pool.patient[rows]
    with create_hdf5(path, pixels.nbytes) as file:
        file["x"] = pixels
        _write_columns(
            file,
            pool.y[rows],
            pool.id[rows],
            pool.split[rows],
            patient,
            groups,
        )


def iterate(
    pool: Pool, rows: np.ndarray, chunk: int = 512
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (rows, pixels) in pieces small enough for memory."""
    for start in range(0, len(rows), chunk):
        part = rows[start : start + chunk]
        yield part, pool.pixels(part)


def contents(path: Path) -> dict[str, Any]:
    """Name, type and shape of every dataset in an HDF5 file, in order of name."""
    datasets = {}
    with open_hdf5(path) as file:
        for name, data in sorted(file.items()):
            datasets[name] = f"{data.dtype} {list(data.shape)}"
    return {"datasets": datasets}


class Holdings(NamedTuple):
    """Data opened: the pool, client -> part -> rows of the pool in roster order, and all test
    rows."""

    pool: Pool
    rows: Rows
    test: np.ndarray


def holdings(path: Path) -> Holdings:
    """The images that each client of a partition, or of the one below a corruption, holds; a
    dataset's are held by ALL.

    Raises FedcliError for rows that the pool does not have, and where a test image is in training.
    """
    record = manifest.read(path, "dataset", "partition", "corruption")
    pool = pool_of(manifest.above(path, "dataset"))
    if record.kind == "dataset":
        train = np.flatnonzero(pool.split == TRAIN)
        test = np.flatnonzero(pool.split == TEST)
        parts = {"train": train, "val": train[:0], "test": test}
        return Holdings(pool, {ALL: parts}, test)
    path = manifest.above(path, "partition").parent / "rows.h5"
    clients = [client["client"] for client in record.body["roster"]]
    rows = _read_rows(path, len(clients))
    _check_rows(path, rows, len(pool.y))
    by_client = {}
    for k, client in enumerate(clients):
        by_client[client] = {part: rows[f"{part}/{k}"] for part in PARTS}
    return Holdings(pool, by_client, rows["test/all"])


def _read_rows(path: Path, clients: int) -> dict[str, np.ndarray]:
    """The datasets of rows.h5, by name."""
    columns = {"test/all": ExpectedData(WHOLE)}
    for part in PARTS:
        for k in range(clients):
            columns[f"{part}/{k}"] = ExpectedData(WHOLE)
    with open_hdf5(path, columns, hint="partition again") as file:
        return {name: data[()] for name, data in file.items()}


def _check_rows(path: Path, rows: Mapping[str, np.ndarray], count: int) -> None:
    test = rows["test/all"]
    trained = [test[:0]]
    for name, numbers in rows.items():
        if not in_range(numbers, 0, count - 1):
            sentence = f"{path}: {name} names rows the pool does not have"
            raise FedcliError(sentence, "partition again")
        if not name.startswith("test/"):
            trained.append(numbers)
    if np.isin(np.concatenate(trained), test).any():
        raise FedcliError(f"{path} trains on test images", "partition again")
