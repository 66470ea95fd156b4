"""A partition that somebody published or made: a CSV, JSON or .npy file that says which client holds which image.

    .csv    a column of images and one of clients
    .json   {client: [image, ...]}
    .npy    what FedISM's authors publish (arXiv 2503.09587): {client: [row of their train.csv, counted from 0, ...]}

An image is named by its id, or by its file's name or path. One that several clients hold is allowed, since published
partitions have such, and counted; named twice for one client it counts once.

The .npy holds a pickle, which can run any program. Its operations are looked through before any is done, and of the
names that it may call only the four by which numpy pickles integers are known, each replaced by a harmless one of ours.
"""

import csv
import io
import json
import math
import pickle
import pickletools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from ..console import counted
from ..errors import FedcliError, nearest

COLUMNS = "client", "client_id", "center", "centre", "site", "hospital", "node"  # the first that is there counts
LARGEST = 2**28  # bytes of a file
OPERATIONS = {
    "PROTO", "FRAME", "STOP", "MARK", "POP", "POP_MARK", "MEMOIZE", "BINPUT", "LONG_BINPUT", "PUT", "BINGET",
    "LONG_BINGET", "GET", "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "NONE", "NEWTRUE", "NEWFALSE",
    "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "EMPTY_LIST",
    "LIST", "APPEND", "APPENDS", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_DICT", "DICT", "SETITEM",
    "SETITEMS", "GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD",
}  # fmt: skip


@dataclass(frozen=True)
class Clients:
    """Who holds what, as a file says.

    Attributes:
        names: clients, in the order of the file; those of a CSV sorted, numbers by size.
        rows: each client's rising rows of the pool, without repetitions.
        unknown: images that the file names and the pool does not have.
        absent: clients none of whose images the pool has; `names` leaves them out.
    """

    names: list[str]
    rows: list[np.ndarray]
    unknown: list[str]
    absent: list[str]


def read(
    path: Path, ids: Sequence[str], training: np.ndarray, *, column: str | None = None, order: Path | None = None
) -> Clients:
    """Read a file of clients. Raises FedcliError.

    Args:
        ids: of the pool's images, in its order.
        training: the rows of the pool that an .npy counts in where `order` is None, in the order of that counting.
        column: of the clients in a CSV; None takes the first of COLUMNS that is there.
        order: the train.csv (a column id) whose rows an .npy means.
    """
    readers: dict[str, Callable[[], dict[str, list]]] = {
        ".csv": lambda: _read_csv(path, ids, column),
        ".json": lambda: _read_json(path),
        ".npy": lambda: _read_npy(path),
    }
    if path.suffix.lower() not in readers:
        raise FedcliError(f"{path} is no file of clients that is known", f"give one of {', '.join(readers)}")
    if not path.is_file():
        raise FedcliError(f"no such file: {path}", "give the .csv, .json or .npy that says who holds which image")
    if path.stat().st_size > LARGEST:
        raise FedcliError(f"{path} has {path.stat().st_size} bytes", f"a file of clients has at most {LARGEST}")
    held = readers[path.suffix.lower()]()
    if not held:
        raise FedcliError(f"{path} names no client", "give a file with a client for each image")
    numbered = path.suffix.lower() == ".npy"
    if numbered and order is None:
        rows, unknown = [_positions(path, name, at, training) for name, at in held.items()], []
    else:
        listed = _order(order) if numbered else None
        images = [[listed[i] for i in _checked(path, name, at, len(listed), order)] if numbered else at
                  for name, at in held.items()]  # fmt: skip
        rows, unknown = _found(path, images, ids)
    there = {name: np.unique(part).astype(np.int64) for name, part in zip(held, rows, strict=True) if len(part)}
    if not there:
        raise FedcliError(f"{path} names clients, but no image", "give a file with a client for each image")
    return Clients(list(there), list(there.values()), unknown, [name for name in held if name not in there])


def _positions(path: Path, name: str, at: list[int], training: np.ndarray) -> np.ndarray:
    """Rows of the pool for positions among its training images."""
    return training[np.array(_checked(path, name, at, len(training), None), np.int64)]


def _checked(path: Path, name: str, at: list[int], count: int, order: Path | None) -> list[int]:
    if odd := [i for i in at if not 0 <= i < count]:
        rows, images = counted(count, "row", "rows"), counted(count, "training image", "training images")
        of = f"{order.name} has {rows}" if order else f"there {'is' if count == 1 else 'are'} {images}"
        hint = "rows count from 0; give the train.csv that they count in with --order-file"
        raise FedcliError(f"{path}: client {name} holds row {odd[0]}, but {of}", hint)
    return at


def _found(path: Path, images: list[list[str]], ids: Sequence[str]) -> tuple[list[list[int]], list[str]]:
    """Rows of the pool that each list names, and names that it does not have."""
    exact = {id: [row] for row, id in enumerate(ids)}
    loose: dict[str, list[int]] = {}
    for row, id in enumerate(ids):
        for name in _names(id):
            loose.setdefault(name, []).append(row)
    rows: list[list[int]] = []
    unknown: list[str] = []
    for part in images:
        rows.append([])
        for image in part:
            at = exact.get(image) or next((loose[name] for name in _names(image) if name in loose), [])
            if len(at) > 1:
                both = " or ".join(ids[row] for row in at[:2])
                raise FedcliError(f"{path}: {image} may be {both}", "write the whole id, as in the dataset")
            rows[-1] += at
            unknown += [] if at else [image]
    if not any(rows):
        first = next((image for part in images for image in part), "nothing")
        images = counted(len(ids), "image", "images")
        raise FedcliError(f"{path} names none of the {images}", f"it names {first}; an image here is {ids[0]}")
    return rows, unknown


def _names(text: str) -> list[str]:
    """Ways to write an image's name, the whole one first."""
    file = PurePosixPath(text.replace("\\", "/"))
    return list(dict.fromkeys([text, file.name, file.stem]))


# tables


def _read_csv(path: Path, ids: Sequence[str], column: str | None) -> dict[str, list[str]]:
    head, records = _table(path)
    known = {name for id in ids for name in _names(id)}
    client = _client_column(path, head, column)
    named = [
        sum(not known.isdisjoint(_names(record[k])) for record in records) if k != client else 0
        for k in range(len(head))  # clients may be numbers, as files may
    ]
    if not max(named):
        hint = f"its first line of values is: {', '.join(records[0])}; an image here is {ids[0]}"
        raise FedcliError(f"{path} names none of the {counted(len(ids), 'image', 'images')}", hint)
    image = named.index(max(named))
    held: dict[str, list[str]] = {}
    for record in records:
        if record[client]:
            held.setdefault(record[client], []).append(record[image])
    return {name: held[name] for name in sorted(held, key=lambda name: _by_size(name, held))}


def _client_column(path: Path, head: list[str], column: str | None) -> int:
    if column is not None:
        if column not in head:
            raise FedcliError(f"{path} has no column {column!r}", nearest(column, head))
        return head.index(column)
    lower = [name.lower() for name in head]
    found = next((lower.index(name) for name in COLUMNS if name in lower), None)
    if found is None:
        hint = f"name it with --client-column; columns found: {', '.join(head)}"
        raise FedcliError(f"{path} has no column of clients", hint)
    return found


def _by_size(name: str, names: Iterable[str]) -> tuple[float, str]:
    return (float(name) if all(_is_number(other) for other in names) else 0.0, name)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _order(path: Path) -> list[str]:
    """The column id of a train.csv."""
    head, records = _table(path)
    lower = [name.lower() for name in head]
    column = next((lower.index(name) for name in ("id", "image_id", "image") if name in lower), None)
    if column is None:
        raise FedcliError(f"{path} has no column 'id'", f"columns found: {', '.join(head)}")
    return [record[column] for record in records]


def _table(path: Path) -> tuple[list[str], list[list[str]]]:
    """Header and other lines of a CSV, whose separator is the one that the header has most of."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise FedcliError(f"{path} is not a readable CSV file: {error}", "give a CSV in UTF-8 with a header") from None
    separator = max(",;\t", key=text.partition("\n")[0].count)
    try:
        lines = [[cell.strip() for cell in line] for line in csv.reader(io.StringIO(text), delimiter=separator) if line]
    except csv.Error as error:
        raise FedcliError(f"{path} is not a readable CSV file: {error}", "give a CSV in UTF-8 with a header") from None
    if len(lines) < 2:
        held = counted(len(lines), "line", "lines")
        raise FedcliError(f"{path} is not a readable CSV file: it has {held}", "give a header and rows")
    head, *records = lines
    if odd := next((record for record in records if len(record) != len(head)), None):
        cells = counted(len(odd), "cell", "cells")
        raise FedcliError(f"{path}: {separator.join(odd)!r} has {cells}, not {len(head)}", "correct that line")
    return head, records


# JSON


def _read_json(path: Path) -> dict[str, list[str]]:
    hint = 'give {"client": ["image", ...], ...}'
    try:
        pairs = json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=list)
    except (OSError, ValueError, RecursionError) as error:
        raise FedcliError(f"{path} is not a readable JSON file: {error}", hint) from None
    if not isinstance(pairs, list) or not all(isinstance(pair, tuple) for pair in pairs):
        raise FedcliError(f"{path} holds no object of clients", hint)
    held: dict[str, list[str]] = {}
    for name, images in pairs:
        if not isinstance(images, list) or not all(type(image) in (str, int) for image in images):
            raise FedcliError(f"{path}: client {name} holds no list of images", hint)
        if name.strip() in held:
            raise FedcliError(f"{path} names the client {name.strip()!r} twice", "put its images into one list")
        held[name.strip()] = [str(image) for image in images]
    return held


# pickles


def _read_npy(path: Path) -> dict[str, list[int]]:
    """{client: positions} of an .npy with one pickled dict in it, without letting the pickle do anything else."""
    stream = io.BytesIO(path.read_bytes())
    try:
        version = np.lib.format.read_magic(stream)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = header(stream)
    except Exception as error:  # numpy parses the header as Python text: ValueError, SyntaxError, TokenError and more
        raise FedcliError(f"{path} is not a readable .npy file: {error}", "download it again") from None
    if not dtype.hasobject or shape != ():
        raise FedcliError(
            f"{path} holds an array of {dtype} {list(shape)}, not one dict", "give {client: [row, ...]} saved by numpy"
        )
    held = _value(path, _unpickled(path, stream.read()))
    if not isinstance(held, dict):
        raise FedcliError(f"{path} holds no dict but a {type(held).__name__}", "give {client: [row, ...]}")
    clients: dict[str, list[int]] = {}
    for key, rows in held.items():
        rows = _value(path, rows)
        if not (_is_whole(key) or isinstance(key, str)):
            raise FedcliError(f"{path} has a client that is neither a number nor a name", "give {client: [row, ...]}")
        if not isinstance(rows, list) or not all(map(_is_whole, rows)):
            raise FedcliError(f"{path}: client {key} holds no list of row numbers", "give {client: [row, ...]}")
        name = f"client-{key:02d}" if type(key) is int else str(key).strip()
        if name in clients:
            raise FedcliError(f"{path} names the client {name!r} twice", "put its rows into one list")
        clients[name] = rows
    return clients


def _is_whole(value: Any) -> bool:
    """Whether it is an integer that could be a row number."""
    return type(value) is int and abs(value) < 2**63


def _unpickled(path: Path, data: bytes) -> Any:
    hint = "do not use a file from a source you do not trust; nothing of it was run"
    try:
        for operation, argument, _ in pickletools.genops(data):
            if operation.name not in OPERATIONS:
                raise FedcliError(f"{path} holds a pickle with the operation {operation.name}, not only integers", hint)
            if "PUT" in operation.name and not 0 <= int(argument) <= len(data):  # it would take that much memory
                raise FedcliError(f"{path} holds a pickle that counts {argument} values in {len(data)} bytes", hint)
        return _OnlyIntegers(io.BytesIO(data)).load()
    except _Foreign as error:
        raise FedcliError(
            f"{path} holds a pickle that calls {error}, not only integers, lists and dicts", hint
        ) from None
    except FedcliError:
        raise
    except Exception as error:  # a damaged pickle: a dozen unrelated types
        what = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FedcliError(f"{path} is truncated or damaged: {what}", "download it again") from None


class _Foreign(Exception):
    """A name that a pickle of integers does not need."""


class _Array:
    """What stands for a numpy array while it is read; written only by the pickle's BUILD."""

    def __setstate__(self, state: tuple) -> None:
        _, self.shape, self.kind, _, self.data = state


class _Kind:
    """What stands for a numpy dtype; its byte order comes with the pickle's BUILD."""

    def __init__(self, text: str, *_: Any):
        self.text, self.order = text, "<"

    def __setstate__(self, state: tuple) -> None:
        self.order = state[1]

    def integers(self, data: bytes) -> list[int]:
        if self.text not in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"):
            raise _Foreign(f"numpy.dtype({self.text!r})")
        return np.frombuffer(data, np.dtype(self.text).newbyteorder(">" if self.order == ">" else "<")).tolist()


def _scalar(kind: _Kind, data: bytes) -> int:
    (value,) = kind.integers(data)
    return value


class _Call:
    """What a pickle may call; unlike a function it cannot be changed by the pickle's BUILD."""

    __slots__ = ("does",)

    def __init__(self, does: Callable):
        self.does = does

    def __call__(self, *given: Any) -> Any:
        return self.does(*given)

    def __setstate__(self, _: Any) -> None:
        raise _Foreign("BUILD on a function")


class _OnlyIntegers(pickle.Unpickler):
    MULTIARRAY = "numpy.core.multiarray", "numpy._core.multiarray"  # numpy 1, numpy 2
    KNOWN = {("numpy", "dtype"): _Call(_Kind), ("numpy", "ndarray"): None}
    KNOWN |= {(home, "_reconstruct"): _Call(lambda *_: _Array()) for home in MULTIARRAY}
    KNOWN |= {(home, "scalar"): _Call(_scalar) for home in MULTIARRAY}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.KNOWN:
            raise _Foreign(f"{module}.{name}")
        return self.KNOWN[module, name]


def _value(path: Path, found: Any) -> Any:
    """An array as the list that it holds, or as its only value if it has no shape; anything else as it is."""
    if not isinstance(found, _Array):
        return found
    data = getattr(found, "data", None)
    try:
        if isinstance(data, bytes):
            return found.kind.integers(data)
        return data[0] if found.shape == () else data
    except (AttributeError, TypeError, IndexError, ValueError):
        raise FedcliError(
            f"{path} is truncated or damaged: it holds an array without values", "download it again"
        ) from None
    except _Foreign as error:
        raise FedcliError(f"{path} holds {error}, not only integers, lists and dicts", "download it again") from None
