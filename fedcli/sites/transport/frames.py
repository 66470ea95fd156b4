"""A message as bytes: a head, a JSON text, then the numbers of the arrays one after another.

Nothing in it is code.

    b"FCLI"  bytes of the text (8, big endian)  text  numbers

where the text is {"scalars": {...}, "arrays": [[name, type, shape], ...]}.

What arrives was written by somebody else, so sizes are bounded before anything is allocated.
"""

import hashlib
import json
import math
import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ... import shapes
from ...errors import FedcliError

Scalars = dict[str, Any]  # what JSON can hold
Arrays = dict[str, np.ndarray]
Message = tuple[Scalars, Arrays]

MAGIC = b"FCLI"
HEAD = struct.Struct(">4sQ")
LONGEST_TEXT = 2**24  # bytes
LARGEST = 2**33  # bytes of all arrays together
MOST_AXES = 32  # of an array
TYPES = "float32", "float64", "int64", "int32", "uint8", "bool"
SAME_VERSION = "both sides need the same version of fedcli"
TEXT = {"scalars": dict, "arrays": [[(str, [int])]]}


class FrameError(FedcliError):
    """Bytes that are no message."""


def encoded(message: Message) -> Iterator[bytes | memoryview]:
    """The bytes of a message in pieces; equal messages have equal bytes.

    Raises FrameError for what it cannot hold.
    """
    scalars, arrays = message
    check(message)
    ordered = {name: np.asarray(arrays[name], order="C") for name in sorted(arrays)}
    listed = [[name, array.dtype.name, list(array.shape)] for name, array in ordered.items()]
    content = {"scalars": scalars, "arrays": listed}
    try:
        text = json.dumps(content, sort_keys=True).encode()
    except RecursionError:
        raise FrameError("a message holds lists or objects too deep in one another") from None
    if len(text) > LONGEST_TEXT or bytes_of(ordered) > LARGEST:
        raise FrameError(
            f"a message has more than {LONGEST_TEXT >> 20} MiB of text "
            f"or {LARGEST >> 30} GiB of arrays"
        )
    yield HEAD.pack(MAGIC, len(text)) + text
    for array in ordered.values():
        yield array.reshape(-1).view(np.uint8).data


def check(message: Message) -> None:
    """Refuse arrays that no message holds, whatever carried them here. Raises FrameError."""
    _, arrays = message
    for name, array in arrays.items():
        if not isinstance(name, str):
            raise FrameError(f"a message holds an array whose name is no text: {str(name)[:40]!r}")
        kind = np.asarray(array).dtype.name
        if kind not in TYPES:
            raise FrameError(f"a message holds no array of type {kind}: {name[:40]!r}")


def decoded(fill: Callable[[memoryview], None], at_most: int | None = None) -> Message:
    """The message whose bytes fill() puts into each buffer that it gets. Raises FrameError.

    at_most: bytes of all its arrays together.
    """
    head = bytearray(HEAD.size)
    fill(memoryview(head))
    magic, length = HEAD.unpack(head)
    if magic != MAGIC or length > LONGEST_TEXT:
        raise FrameError("what arrived is no message of fedcli", SAME_VERSION)
    text = bytearray(length)
    fill(memoryview(text))
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"a message arrived whose text is no JSON: {error}"[:200]) from None
    shapes.check(content, TEXT, "a message arrived damaged", "")
    arrays: Arrays = {}
    allowed = LARGEST if at_most is None else at_most
    for entry in content["arrays"]:
        name, array = _empty(entry, allowed)
        allowed -= array.nbytes
        arrays[name] = array
        fill(array.reshape(-1).view(np.uint8).data)
    return content["scalars"], arrays


def _empty(entry: list, allowed: int) -> tuple[str, np.ndarray]:
    """The name and an array of an entry [name, type, shape]. Raises FrameError.

    allowed: bytes that may still be allocated.
    """
    name, kind, shape = entry if len(entry) == 3 else (None, None, None)
    if not isinstance(name, str) or kind not in TYPES or not isinstance(shape, list):
        raise FrameError(f"a message arrived with an array that cannot be: {str(entry)[:80]}")
    # sides first: the product of any would take forever
    fits = len(shape) <= MOST_AXES and all(0 <= side <= LARGEST for side in shape)
    if not fits or math.prod(shape) * np.dtype(kind).itemsize > allowed:
        shape_text = str(shape)[:40]
        raise FrameError(
            f"a message arrived with an array {name[:40]!r} of shape {shape_text}, "
            "which is too large"
        )
    try:
        return name, np.empty(shape, kind)
    except MemoryError:
        raise FrameError(
            f"a message arrived whose array {name[:40]!r} does not fit into memory"
        ) from None


def bytes_of(arrays: Arrays) -> int:
    """The bytes of some arrays together."""
    return sum(array.nbytes for array in arrays.values())


def plain(text: object, longest: int) -> str:
    """Another side's text, as it may be shown: on one line, without control characters, cut."""
    start = str(text)[: 4 * longest]
    printable = "".join(char if char.isprintable() else " " for char in start)
    words = " ".join(printable.split())
    return words if len(words) <= longest else f"{words[: longest - 1]}…"


def digest(message: Message) -> str:
    """sha256 of the bytes of a message."""
    hashed = hashlib.sha256()
    for piece in encoded(message):
        hashed.update(piece)
    return hashed.hexdigest()
