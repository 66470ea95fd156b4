"""The .npy file that FedISM's authors publish, {client: [row, ...]}, read without trusting it.

It holds a pickle, which can run any program. Of the names that a pickle may call only the four by
which numpy pickles integers are known, as Python's manual advises, and each stands for a class here
that keeps what it is given and does nothing.
"""

import io
import pickle
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ...errors import FedcliError
from ...io.pickles import UNTRUSTED, check_operations, damaged

SHAPE = "give {client: [row, ...]} saved by numpy"
INTEGERS = "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"


def read_npy(path: Path) -> dict[str, list[int]]:
    """{client: rows} of an .npy with one pickled dict in it. Raises FedcliError for anything
    else."""
    loaded = _integers(path, _unpickled(path, _pickle_in(path)))
    if not isinstance(loaded, dict):
        raise FedcliError(f"{path} holds no dict but a {type(loaded).__name__}", SHAPE)
    clients = {}
    for key, value in loaded.items():
        client = _integers(path, key)
        rows = _integers(path, value)
        if not (_is_whole(client) or isinstance(client, str)):
            raise FedcliError(f"{path} has a client that is neither a number nor a name", SHAPE)
        rows = _whole_rows(path, rows)
        if rows is None:
            raise FedcliError(f"{path}: client {client} holds no list of row numbers", SHAPE)
        name = f"client-{client:02d}" if type(client) is int else str(client).strip()
        if name in clients:
            sentence = f"{path} names the client {name!r} twice"
            raise FedcliError(sentence, "put its rows into one list")
        clients[name] = rows
    return clients


def _whole_rows(path: Path, value: Any) -> list[int] | None:
    """The row numbers that a client holds; None where these are none."""
    if not isinstance(value, list):
        return None
    rows = [_integers(path, row) for row in value]
    return rows if all(map(_is_whole, rows)) else None


def _pickle_in(path: Path) -> bytes:
    """The bytes behind the header of an .npy file with one object in it."""
    stream = io.BytesIO(path.read_bytes())
    try:
        read_header = np.lib.format.read_array_header_2_0
        if np.lib.format.read_magic(stream) == (1, 0):
            read_header = np.lib.format.read_array_header_1_0
        shape, _, dtype = read_header(stream)
    # numpy parses the header as Python text: ValueError, SyntaxError, TokenError and more
    except Exception as error:
        sentence = f"{path} is not a readable .npy file: {error}"
        raise FedcliError(sentence, "download it again") from None
    if not dtype.hasobject or shape != ():
        raise FedcliError(f"{path} holds an array of {dtype} {list(shape)}, not one dict", SHAPE)
    return stream.read()


def _is_whole(value: Any) -> bool:
    return type(value) is int and abs(value) < 2**63


class _Kind:
    """Stands for a numpy dtype while it is read; its byte order comes with the pickle's BUILD."""

    __slots__ = "order", "text"

    def __init__(self, text: Any, *_: Any):
        self.text = text
        self.order = "<"

    def __setstate__(self, state: Any) -> None:
        self.order = state[1]


class _Array:
    """Stands for a numpy integer, made by scalar(kind, data), or for an array, whose parts come
    with BUILD."""

    __slots__ = "data", "kind", "shape"

    def __init__(self, kind: Any, data: Any, *_: Any):
        self.shape: tuple[int, ...] = ()
        self.kind = kind
        self.data = data

    def __setstate__(self, state: Any) -> None:
        _, self.shape, self.kind, _, self.data = state


class _OnlyIntegers(pickle.Unpickler):
    """Raises FedcliError for a name that a pickle of integers does not need."""

    KNOWN: ClassVar[dict[tuple[str, str], Any]] = {
        ("numpy", "dtype"): _Kind,
        ("numpy", "ndarray"): None,
        ("numpy.core.multiarray", "_reconstruct"): _Array,
        ("numpy.core.multiarray", "scalar"): _Array,
        ("numpy._core.multiarray", "_reconstruct"): _Array,
        ("numpy._core.multiarray", "scalar"): _Array,
    }

    def __init__(self, path: Path, data: bytes):
        super().__init__(io.BytesIO(data))
        self.path = path

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.KNOWN:
            calls = f"calls {module}.{name}, not only integers, lists and dicts"
            raise FedcliError(f"{self.path} holds a pickle that {calls}", UNTRUSTED)
        return self.KNOWN[module, name]


def _unpickled(path: Path, data: bytes) -> Any:
    try:
        check_operations(path, data, "a pickle")
        return _OnlyIntegers(path, data).load()
    except FedcliError:
        raise
    except Exception as error:
        raise damaged(path, error) from None


def _integers(path: Path, value: Any) -> Any:
    """An array as the list that it holds, or as its only value if it has no shape; anything else as
    it is."""
    if not isinstance(value, _Array):
        return value
    try:
        values = value.data
        if isinstance(values, bytes):
            kind = value.kind
            if kind.text not in INTEGERS:
                numbers = f"numbers of type {kind.text}, not only integers, lists and dicts"
                raise FedcliError(f"{path} holds {numbers}", "save the row numbers as integers")
            dtype = np.dtype(kind.text).newbyteorder(kind.order)
            values = np.frombuffer(values, dtype).tolist()
        return values[0] if value.shape == () else values
    except (AttributeError, TypeError, IndexError, ValueError):
        sentence = f"{path} is truncated or damaged: it holds an array without values"
        raise FedcliError(sentence, "download it again") from None
