"""A partition that somebody published or made: a CSV, JSON or .npy file that says which client
holds which image.

    .csv    a column of images and one of clients
    .json   {client: [image, ...]}
    .npy    what FedISM's authors publish (arXiv 2503.09587): {client: [row of their train.csv,
            counted from 0, ...]}

An image is named by its id, or by its file's name or path. One that several clients hold is
allowed, since published partitions have such, and counted; named twice for one client it counts
once.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from numpy import ndarray

from ... import console
from ...console import counted
from ...errors import FedcliError, UsageError, nearest
from ...io.files import read_text, regular
from .. import manifest
from ..manifest import Body
from ..pool import TEST, TRAIN, Pool
from ..sources.tables import columns_found, naming_column, number, read_cells, spellings
from .integer_pickle import read_npy
from .scheme import Dataset, Division, Parts, Scheme, register

# of clients in a CSV; the first that is there counts
COLUMNS = "client", "client_id", "center", "centre", "site", "hospital", "node"
ID_COLUMNS = "id", "image_id", "image"  # of a train.csv
SUFFIXES = ".csv", ".json", ".npy"
LARGEST = 2**28  # bytes of a file
NO_CLIENT = "give a file with a client for each image"
CSV_HINT = "give a CSV in UTF-8 with a header"
Images = dict[str, list[str]]  # names of images, by client


def read(
    path: Path,
    ids: Sequence[str],
    training: ndarray,
    *,
    column: str | None = None,
    order: Path | None = None,
) -> tuple[Parts, list[str]]:
    """Read a file of clients: each one's rising rows of the pool, and images that the pool does not
    have.

    Clients are in the order of the file; those of a CSV sorted, numbers by size. Raises
    FedcliError.

    Args:
        ids: of the pool's images, in its order.
        training: the rows of the pool that an .npy counts in where `order` is None, in the order of
            that counting.
        column: of the clients in a CSV; None takes the first of COLUMNS that is there.
        order: the train.csv (a column id) whose rows an .npy means.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        suffixes = ", ".join(SUFFIXES)
        sentence = f"{path} is no file of clients that is known"
        raise FedcliError(sentence, f"give one of {suffixes}")
    size = path.stat().st_size
    if size > LARGEST:
        limit = f"a file of clients has at most {LARGEST}"
        raise FedcliError(f"{path} has {size} bytes", limit)
    unknown: list[str] = []
    if suffix == ".npy" and order is not None:
        rows, unknown = _find_rows(path, _read_npy(path, order), ids)
    elif suffix == ".npy":
        rows = _read_training_rows(path, training)
    elif suffix == ".csv":
        rows, unknown = _find_rows(path, _read_csv(path, ids, column), ids)
    else:
        rows, unknown = _find_rows(path, _read_json(path), ids)
    if not rows:
        raise FedcliError(f"{path} names no client", NO_CLIENT)
    if not any(map(len, rows.values())):
        raise FedcliError(f"{path} names clients, but no image", NO_CLIENT)
    return {name: np.unique(client_rows) for name, client_rows in rows.items()}, unknown


def rows_in_order(path: Path, ids: Sequence[str]) -> ndarray:
    """Parts of the pool in the order in which the column id of a train.csv names them. Raises
    FedcliError."""
    rows, unknown = _find_rows(path, {"": _order(path)}, ids)
    if unknown:
        images = counted(len(unknown), "image", "images")
        sentence = f"{path} names {images} that the dataset does not have: {unknown[0]}"
        raise FedcliError(sentence, "prepare with --split-file and the same file")
    return rows[""]


def _read_training_rows(path: Path, training: ndarray) -> Parts:
    """Client -> rows of the pool, by an .npy that counts in its training images."""
    numbers = read_npy(path)
    count = len(training)
    verb = "is" if count == 1 else "are"
    images = counted(count, "training image", "training images")
    _check_numbers(path, numbers, count, f"there {verb} {images}")
    rows = {}
    for name, indices in numbers.items():
        rows[name] = training[np.array(indices, np.int64)]
    return rows


def _read_npy(path: Path, order: Path) -> Images:
    """Client -> names of its images, by an .npy that counts in the rows of a train.csv."""
    numbers = read_npy(path)
    names = _order(order)
    rows = counted(len(names), "row", "rows")
    size_text = f"{order.name} has {rows}"
    _check_numbers(path, numbers, len(names), size_text)
    images = {}
    for client, indices in numbers.items():
        images[client] = [names[i] for i in indices]
    return images


def _check_numbers(
    path: Path,
    numbers: dict[str, list[int]],
    count: int,
    limit: str,
) -> None:
    """Raises FedcliError for a row that is not there. limit: the number of rows, as a sentence."""
    for name, indices in numbers.items():
        for index in indices:
            if not 0 <= index < count:
                hint = "rows count from 0; give the train.csv that they count in with --order-file"
                sentence = f"{path}: client {name} holds row {index}, but {limit}"
                raise FedcliError(sentence, hint)


def _find_rows(
    path: Path,
    images: Images,
    ids: Sequence[str],
) -> tuple[Parts, list[str]]:
    """Client -> rows of the pool that its list names, and names that the pool does not have."""
    rows_by_id = {id: [row] for row, id in enumerate(ids)}
    rows_by_spelling: dict[str, list[int]] = {}
    for row, id in enumerate(ids):
        for spelling in spellings(id):
            rows_by_spelling.setdefault(spelling, []).append(row)
    rows: Parts = {}
    unknown: list[str] = []
    for client, names in images.items():
        client_rows: list[int] = []
        for name in names:
            named_rows = rows_by_id.get(name) or _spelt(name, rows_by_spelling)
            if len(named_rows) > 1:
                first_rows = named_rows[:2]
                both = " or ".join(ids[row] for row in first_rows)
                hint = "write the whole id, as in the dataset"
                raise FedcliError(f"{path}: {name} may be {both}", hint)
            if not named_rows:
                unknown.append(name)
            client_rows += named_rows
        rows[client] = np.array(client_rows, np.int64)
    if rows and not any(map(len, rows.values())):
        example = unknown[0] if unknown else "nothing"
        count = counted(len(ids), "image", "images")
        hint = f"it names {example}; an image here is {ids[0]}"
        raise FedcliError(f"{path} names none of the {count}", hint)
    return rows, unknown


def _spelt(name: str, rows_by_spelling: Mapping[str, list[int]]) -> list[int]:
    """The rows of the first spelling of a name that the pool has."""
    for spelling in spellings(name):
        if spelling in rows_by_spelling:
            return rows_by_spelling[spelling]
    return []


def _column_of(names: Sequence[str], head: list[str]) -> int | None:
    """The position of the first of these names that a header has, in small or capital letters."""
    lower = [name.lower() for name in head]
    for name in names:
        if name in lower:
            return lower.index(name)
    return None


# tables


def _read_csv(path: Path, ids: Sequence[str], column: str | None) -> Images:
    head, records = read_cells(path, CSV_HINT)
    if column is not None and column not in head:
        raise FedcliError(f"{path} has no column {column!r}", nearest(column, head))
    client_column = _column_of(COLUMNS, head) if column is None else head.index(column)
    if client_column is None:
        hint = f"name it with --client-column; columns: {', '.join(head)}"
        raise FedcliError(f"{path} has no column of clients", hint)
    spellings_of_ids = [spellings(id) for id in ids]
    image_column = naming_column(
        path, records, spellings_of_ids, other=client_column, spelt=spellings
    )
    images: Images = {}
    for record in records:
        client = record[client_column]
        if client:
            images.setdefault(client, []).append(record[image_column])
    clients = sorted(images)
    if all(number(client) is not None for client in clients):
        clients.sort(key=float)
    return {client: images[client] for client in clients}


def _order(path: Path) -> list[str]:
    head, records = read_cells(path, CSV_HINT, fewest=1)
    column = _column_of(ID_COLUMNS, head)
    if column is None:
        raise FedcliError(f"{path} has no column 'id'", columns_found(head))
    return [record[column] for record in records]


# JSON


def _read_json(path: Path) -> Images:
    hint = 'give {"client": ["image", ...], ...}'
    text = read_text(path, hint, "utf-8-sig")
    try:
        pairs = json.loads(text, object_pairs_hook=list)
    except (ValueError, RecursionError) as error:
        raise FedcliError(f"{path} is not a readable JSON file: {error}", hint) from None
    if not isinstance(pairs, list) or not all(isinstance(pair, tuple) for pair in pairs):
        raise FedcliError(f"{path} holds no object of clients", hint)
    images: Images = {}
    for name, names in pairs:
        if not isinstance(names, list) or not all(type(image) in (str, int) for image in names):
            raise FedcliError(f"{path}: client {name} holds no list of images", hint)
        client = name.strip()
        if client in images:
            sentence = f"{path} names the client {client!r} twice"
            raise FedcliError(sentence, "put its images into one list")
        images[client] = [str(image) for image in names]
    return images


@register("file")
@dataclass(frozen=True, kw_only=True)
class FromFile(Scheme):
    """Clients as a CSV, a JSON or FedISM's .npy says; test images that it names are the clients'
    own tests."""

    whole: ClassVar[bool] = True
    clients_file: Annotated[Path, "a CSV, {client: [id, ...]} as JSON, or FedISM's .npy"]
    order_file: Annotated[
        Path | None, "the train.csv whose rows an .npy means; none: training images by class"
    ] = None
    client_column: Annotated[
        str | None, "of a CSV; none: client, center, site, hospital or node"
    ] = None

    def check(self, dataset: Dataset) -> None:
        name = self.clients_file.name
        suffix = self.clients_file.suffix.lower()
        if self.order_file and suffix != ".npy":
            sentence = f"{name} names images, so no order of rows is needed"
            raise UsageError(sentence, "leave the order file out")
        if self.client_column and suffix != ".csv":
            raise UsageError(f"{name} has no columns", "leave the client column out")
        for path in (self.clients_file, self.order_file):
            if path:
                regular(path, "give the file of clients, and the order file of an .npy")

    def recorded(self, dataset: Dataset) -> Body:
        recorded = {}
        for key, value in super().recorded(dataset).items():
            if isinstance(value, Path):
                recorded[key] = manifest.named(value)
            elif value is not None:
                recorded[key] = value
        return recorded

    def divide(
        self,
        pool: Pool,
        dataset: Dataset,
        seed: int,
        minimum: int,
    ) -> Division:
        training = np.flatnonzero(pool.split == TRAIN)
        by_class = np.argsort(pool.single[training], kind="stable")
        ids = pool.id.tolist()
        sorted_by_class = training[by_class]  # as FedISM's train.csv
        rows, unknown = read(
            self.clients_file,
            ids,
            sorted_by_class,
            column=self.client_column,
            order=self.order_file,
        )
        is_test = pool.split == TEST
        train = {}
        test = {}
        for client, client_rows in rows.items():
            if len(client_rows):
                train[client] = client_rows[~is_test[client_rows]]
                test[client] = client_rows[is_test[client_rows]]
        absent = [client for client in rows if client not in train]
        tested = sum(len(client_rows) for client_rows in test.values())
        self._report(unknown, absent, tested)
        return Division(train, test, {"not_in_dataset": len(unknown)})

    def _report(
        self,
        unknown: list[str],
        absent: list[str],
        tested: int,
    ) -> None:
        """Say what of the file is not trained on.

        unknown: images that the dataset does not have; absent: clients without an image; tested:
            test images.
        """
        name = self.clients_file.name
        if unknown:
            images = counted(len(unknown), "image", "images")
            console.say(f"{name} names {images} that the dataset does not have: {unknown[0]}")
        if absent:
            clients = counted(len(absent), "client", "clients")
            verb = "is" if len(absent) == 1 else "are"
            without = f"without an image in the dataset {verb} left out: {absent[0]}"
            console.say(f"{clients} of {name} {without}")
        if tested:
            images = counted(tested, "image", "images")
            are_test = "is a test image" if tested == 1 else "are test images"
            gives = f"that {name} gives to clients {are_test} here"
            console.say(f"{images} {gives}, of their own test parts")

    def advice(self) -> str:
        return "the dataset, and the split, that the file is about"
