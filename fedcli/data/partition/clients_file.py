"""A partition that somebody published or made: a CSV, JSON or .npy file that says which client holds which image.

    .csv    a column of images and one of clients
    .json   {client: [image, ...]}
    .npy    what FedISM's authors publish (arXiv 2503.09587): {client: [row of their train.csv, counted from 0, ...]}

An image is named by its id, or by its file's name or path. One that several clients hold is allowed, since published
partitions have such, and counted; named twice for one client it counts once.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np

from ... import console
from ...console import counted
from ...errors import FedcliError, UsageError, nearest
from ...io.files import read_text, regular
from .. import manifest
from ..pool import TEST, TRAIN, Pool
from ..sources.tables import naming_column, number, read_cells, spellings
from .integer_pickle import read_npy
from .scheme import Division, Scheme, register

COLUMNS = (
    "client",
    "client_id",
    "center",
    "centre",
    "site",
    "hospital",
    "node",
)  # the first that is there counts
SUFFIXES = ".csv", ".json", ".npy"
LARGEST = 2**28  # bytes of a file
NO_CLIENT = "give a file with a client for each image"
CSV_HINT = "give a CSV in UTF-8 with a header"


def read(
    path: Path,
    ids: Sequence[str],
    training: np.ndarray,
    *,
    column: str | None = None,
    order: Path | None = None,
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Read a file of clients: each one's rising rows of the pool, and images that the pool does not have.

    Clients are in the order of the file; those of a CSV sorted, numbers by size. Raises FedcliError.

    Args:
        ids: of the pool's images, in its order.
        training: the rows of the pool that an .npy counts in where `order` is None, in the order of that counting.
        column: of the clients in a CSV; None takes the first of COLUMNS that is there.
        order: the train.csv (a column id) whose rows an .npy means.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise FedcliError(
            f"{path} is no file of clients that is known", f"give one of {', '.join(SUFFIXES)}"
        )
    if (size := path.stat().st_size) > LARGEST:
        raise FedcliError(f"{path} has {size} bytes", f"a file of clients has at most {LARGEST}")
    unknown: list[str] = []
    if suffix == ".npy":
        numbers = read_npy(path)
        images = _order(order) if order else None
        _check_numbers(path, numbers, len(training if images is None else images), order)
        if images is None:
            rows_of = {name: training[np.array(at, np.int64)] for name, at in numbers.items()}
        else:
            rows_of, unknown = _find_rows(
                path, {name: [images[i] for i in at] for name, at in numbers.items()}, ids
            )
    else:
        rows_of, unknown = _find_rows(
            path, _read_csv(path, ids, column) if suffix == ".csv" else _read_json(path), ids
        )
    if not rows_of:
        raise FedcliError(f"{path} names no client", NO_CLIENT)
    if not any(map(len, rows_of.values())):
        raise FedcliError(f"{path} names clients, but no image", NO_CLIENT)
    return {name: np.unique(rows) for name, rows in rows_of.items()}, unknown


def rows_in_order(path: Path, ids: Sequence[str]) -> np.ndarray:
    """Rows of the pool in the order in which the column id of a train.csv names them. Raises FedcliError."""
    rows_of, unknown = _find_rows(path, {"": _order(path)}, ids)
    if unknown:
        images = counted(len(unknown), "image", "images")
        hint = "prepare with --split-file and the same file"
        raise FedcliError(
            f"{path} names {images} that the dataset does not have: {unknown[0]}", hint
        )
    return rows_of[""]


def _check_numbers(
    path: Path, numbers: dict[str, list[int]], count: int, order: Path | None
) -> None:
    for name, at in numbers.items():
        if odd := [i for i in at if not 0 <= i < count]:
            rows, images = (
                counted(count, "row", "rows"),
                counted(count, "training image", "training images"),
            )
            there = (
                f"{order.name} has {rows}"
                if order
                else f"there {'is' if count == 1 else 'are'} {images}"
            )
            hint = "rows count from 0; give the train.csv that they count in with --order-file"
            raise FedcliError(f"{path}: client {name} holds row {odd[0]}, but {there}", hint)


def _find_rows(
    path: Path, images_of: dict[str, list[str]], ids: Sequence[str]
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Client -> rows of the pool that its list names, and names that the pool does not have."""
    exact = {id: [row] for row, id in enumerate(ids)}
    loose: dict[str, list[int]] = {}
    for row, id in enumerate(ids):
        for name in spellings(id):
            loose.setdefault(name, []).append(row)
    rows_of, unknown = dict[str, np.ndarray](), list[str]()
    for client, images in images_of.items():
        rows: list[int] = []
        for image in images:
            at = exact.get(image) or next(
                (loose[name] for name in spellings(image) if name in loose), []
            )
            if len(at) > 1:
                both = " or ".join(ids[row] for row in at[:2])
                raise FedcliError(
                    f"{path}: {image} may be {both}", "write the whole id, as in the dataset"
                )
            rows += at
            unknown += [] if at else [image]
        rows_of[client] = np.array(rows, np.int64)
    if rows_of and not any(map(len, rows_of.values())):
        first = next((image for images in images_of.values() for image in images), "nothing")
        count = counted(len(ids), "image", "images")
        raise FedcliError(
            f"{path} names none of the {count}", f"it names {first}; an image here is {ids[0]}"
        )
    return rows_of, unknown


# tables


def _read_csv(path: Path, ids: Sequence[str], column: str | None) -> dict[str, list[str]]:
    head, records = read_cells(path, CSV_HINT)
    lower = [name.lower() for name in head]
    if column is not None and column not in head:
        raise FedcliError(f"{path} has no column {column!r}", nearest(column, head))
    named = next((lower.index(name) for name in COLUMNS if name in lower), None)
    client = named if column is None else head.index(column)
    if client is None:
        hint = f"name it with --client-column; columns: {', '.join(head)}"
        raise FedcliError(f"{path} has no column of clients", hint)
    image = naming_column(
        path, records, [spellings(id) for id in ids], other=client, spelt=spellings
    )
    images_of: dict[str, list[str]] = {}
    for record in records:
        if record[client]:
            images_of.setdefault(record[client], []).append(record[image])
    by_size = all(number(name) is not None for name in images_of)
    return {
        name: images_of[name]
        for name in sorted(images_of, key=lambda name: (float(name) if by_size else 0.0, name))
    }


def _order(path: Path) -> list[str]:
    head, records = read_cells(path, CSV_HINT)
    lower = [name.lower() for name in head]
    column = next(
        (lower.index(name) for name in ("id", "image_id", "image") if name in lower), None
    )
    if column is None:
        raise FedcliError(f"{path} has no column 'id'", f"columns: {', '.join(head)}")
    return [record[column] for record in records]


# JSON


def _read_json(path: Path) -> dict[str, list[str]]:
    hint = 'give {"client": ["image", ...], ...}'
    text = read_text(path, hint, "utf-8-sig")
    try:
        pairs = json.loads(text, object_pairs_hook=list)
    except (ValueError, RecursionError) as error:
        raise FedcliError(f"{path} is not a readable JSON file: {error}", hint) from None
    if not isinstance(pairs, list) or not all(isinstance(pair, tuple) for pair in pairs):
        raise FedcliError(f"{path} holds no object of clients", hint)
    images_of: dict[str, list[str]] = {}
    for name, images in pairs:
        if not isinstance(images, list) or not all(type(image) in (str, int) for image in images):
            raise FedcliError(f"{path}: client {name} holds no list of images", hint)
        if name.strip() in images_of:
            raise FedcliError(
                f"{path} names the client {name.strip()!r} twice", "put its images into one list"
            )
        images_of[name.strip()] = [str(image) for image in images]
    return images_of


@register("file")
@dataclass(frozen=True, kw_only=True)
class FromFile(Scheme):
    """Clients as a CSV, a JSON or FedISM's .npy says; test images that it names are the clients' own tests."""

    whole: ClassVar[bool] = True
    clients_file: Annotated[Path, "a CSV, {client: [id, ...]} as JSON, or FedISM's .npy"]
    order_file: Annotated[
        Path | None, "the train.csv whose rows an .npy means; none: training images by class"
    ] = None
    client_column: Annotated[
        str | None, "of a CSV; none: client, center, site, hospital or node"
    ] = None

    def check(self, dataset: Mapping[str, Any]) -> None:
        name, suffix = self.clients_file.name, self.clients_file.suffix.lower()
        if self.order_file and suffix != ".npy":
            raise UsageError(
                f"{name} names images, so no order of rows is needed", "leave the order file out"
            )
        if self.client_column and suffix != ".csv":
            raise UsageError(f"{name} has no columns", "leave the client column out")
        for path in filter(None, (self.clients_file, self.order_file)):
            regular(path, "give the file of clients, and the order file of an .npy")

    def recorded(self, dataset: Mapping[str, Any]) -> dict[str, Any]:
        given = {
            key: value for key, value in super().recorded(dataset).items() if value is not None
        }
        return {
            key: manifest.named(value) if isinstance(value, Path) else value
            for key, value in given.items()
        }

    def divide(self, pool: Pool, dataset: Mapping[str, Any], seed: int, minimum: int) -> Division:
        training = np.flatnonzero(pool.split == TRAIN)
        training = training[
            np.argsort(pool.single[training], kind="stable")
        ]  # FedISM's train.csv is sorted by class
        name, is_test = self.clients_file.name, pool.split == TEST
        rows_of, unknown = read(
            self.clients_file,
            pool.id.tolist(),
            training,
            column=self.client_column,
            order=self.order_file,
        )
        if unknown:
            images = counted(len(unknown), "image", "images")
            console.say(f"{name} names {images} that the dataset does not have: {unknown[0]}")
        if absent := [client for client, rows in rows_of.items() if not len(rows)]:
            clients, are = (
                counted(len(absent), "client", "clients"),
                "is" if len(absent) == 1 else "are",
            )
            console.say(
                f"{clients} of {name} without an image in the dataset {are} left out: {absent[0]}"
            )
        if given := sum(int(is_test[rows].sum()) for rows in rows_of.values()):
            images, are = (
                counted(given, "image", "images"),
                "is a test image" if given == 1 else "are test images",
            )
            console.say(
                f"{images} that {name} gives to clients {are} here, of their own test parts"
            )
        train = {client: rows[~is_test[rows]] for client, rows in rows_of.items() if len(rows)}
        test = {client: rows[is_test[rows]] for client, rows in rows_of.items() if len(rows)}
        return Division(train, test, {"not_in_dataset": len(unknown)})

    def advice(self) -> str:
        return "the dataset, and the split, that the file is about"
