"""Messages between sites and coordinators, changed by a seed: their bytes, text and numbers."""

import io
import json
from pathlib import Path

import numpy as np

from fedcli.sites.transport import sockets
from fedcli.sites.transport.frames import HEAD, MAGIC, decoded, encoded

from .mutations import VALUES, damage, mutate

NUMBERS = [*VALUES, 10**12, 10**30, 10**400, -(10**400), 1.5, False]  # of a scalar
LIES = [
    0,
    -1,
    3,
    10**9,
    2**40,
    3e38,
    1e20,
    float("nan"),
    float("inf"),
]  # of an array: a factor, or one of its numbers


def as_bytes(message) -> bytes:
    return b"".join(bytes(piece) for piece in encoded(message))


def of_bytes(data: bytes):
    stream = io.BytesIO(data)

    def fill(buffer):
        if stream.readinto(buffer) < len(buffer):
            raise sockets.Closed

    return decoded(fill)


def changed(data: bytes, draw: np.random.Generator, scratch: Path) -> tuple[bytes, str]:
    """A message of which bytes, the head, the text or the arrays are changed; (its bytes, what was done)."""
    ways = [
        "bytes",
        "text",
        "text",
        "text",
        "head",
        "array",
        "scalar",
        "scalar",
        "twice",
        "cut",
        "numbers",
        "numbers",
    ]
    how = str(draw.choice(ways))
    length = HEAD.unpack(data[: HEAD.size])[1]
    text = data[HEAD.size : HEAD.size + length]
    body = data[HEAD.size + length :]
    if how == "bytes":
        (scratch / "m.bin").write_bytes(data)
        note = damage(scratch / "m.bin", draw)
        return (scratch / "m.bin").read_bytes(), note
    if how == "head":
        size = int(draw.choice([0, 1, length - 1, length + 1, 2**24, 2**24 + 1, 2**40, 2**62]))
        return HEAD.pack(MAGIC, size) + text + body, f"a text of {size} bytes is announced"
    if how == "cut":
        end = int(draw.integers(len(data)))
        return data[:end], f"cut after {end} bytes"
    if how == "twice":
        return data + data, "sent twice"
    content = json.loads(text)
    if how == "numbers" and content["arrays"]:
        return lied(data, draw)
    if how == "array" and content["arrays"]:
        entry = content["arrays"][int(draw.integers(len(content["arrays"])))]
        values = [
            [1] * 70,
            [0, 2**70],
            [2**62, 0],
            [],
            [0],
            [-1],
            [2**40],
            [1, -1],
            "x",
            None,
            ["a"],
            [1.5],
            [True],
            [len(body) // 4 + 1],
            [3, 5],
        ]
        kinds = [
            "float64",
            "int64",
            "uint8",
            "bool",
            "object",
            "float16",
            "<f4",
            "O",
            "",
            None,
            7,
            "U9",
        ]
        if draw.random() < 0.5:
            entry[2] = values[int(draw.integers(len(values)))]
        elif draw.random() < 0.5:
            entry[1] = kinds[int(draw.integers(len(kinds)))]
        else:
            entry[0] = str(
                draw.choice(
                    ["theta", "", "x" * 500, "start/", "columns/loss", "all/table", "memory/a/b"]
                )
            )
        note = f"an array is {str(entry)[:80]}"
    elif how == "scalar" and content["scalars"]:
        key = str(draw.choice(sorted(content["scalars"])))
        content["scalars"][key] = value = NUMBERS[int(draw.integers(len(NUMBERS)))]
        note = f"{key} = {str(value)[:40]!r}"
    else:
        (scratch / "m.json").write_bytes(text)
        note = mutate(scratch / "m.json", draw)
        text = (scratch / "m.json").read_bytes()
        return HEAD.pack(MAGIC, len(text)) + text + body, note
    text = json.dumps(content).encode("utf-8", "surrogatepass")
    return HEAD.pack(MAGIC, len(text)) + text + body, note


def lied(data: bytes, draw: np.random.Generator) -> tuple[bytes, str]:
    """A message in which an array, or one number of it, is another; (its bytes, what was done)."""
    scalars, arrays = of_bytes(data)
    name = str(draw.choice(sorted(arrays)))
    lie = LIES[int(draw.integers(len(LIES)))]
    with np.errstate(all="ignore"):
        if arrays[name].size and draw.random() < 0.5:
            arrays[name].flat[int(draw.integers(arrays[name].size))] = np.array(lie).astype(
                arrays[name].dtype
            )
        else:
            arrays[name] = (arrays[name] * lie).astype(arrays[name].dtype)
    return as_bytes((scalars, arrays)), f"{name} with {lie}"
