"""Damage to one file, drawn from a seed: bytes, JSON values, tables, HDF5 datasets."""

import contextlib
import csv
import hashlib
import io
import json
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from . import formats

VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    7,
    2**63,
    1e308,
    float("nan"),
    -0.5,
    "",
    "x",
    "nan",
    "0",
    "../../outside",
    "/etc/passwd",
    "\x1b[31mred",
    "a\nb",
    "é" * 5000,
    "\ud800",
    [],
    {},
    [[]],
    [None],
    {"": None},
    [-1],
    [2**40],
    ["a", 1],
]
CELLS = [
    "",
    "nan",
    "-1",
    "1.0",
    "0.5",
    "x" * 5000,
    "=1+1",
    "\x1b[31m",
    "../../outside.png",
    "a;b",
    '"',
    "é\u202e",
    "1e400",
]


def mutate(path: Path, draw: np.random.Generator) -> str:
    """Change one file; returns what was done, in words."""
    change = FORMATS.get(path.suffix.lower())
    if not change or draw.random() < 0.25:
        return damage(path, draw)
    before = path.read_bytes()
    for _ in range(9):
        note = change(path, draw)
        if path.read_bytes() != before:
            break
    return note


def reseal(work: Path, changed: Path) -> None:
    """Write the digest of a changed file into the manifest that lists it, as an attacker or a script would."""
    digest = hashlib.sha256(changed.read_bytes()).hexdigest()
    for path in work.rglob("*.json"):
        with contextlib.suppress(ValueError, AttributeError, TypeError, RecursionError):
            manifest = json.loads(path.read_text(encoding="utf-8"))
            name = changed.relative_to(path.parent).as_posix()
            if name in manifest.get("files", {}):
                manifest["files"][name] = digest
                path.write_text(
                    json.dumps(manifest, indent=1, sort_keys=True) + "\n", encoding="utf-8"
                )


def damage(path: Path, draw: np.random.Generator) -> str:
    """Change bytes."""
    before = path.read_bytes()
    while (note := _damaged(path, draw)) and path.read_bytes() == before:
        pass  # a NUL where there was one
    return note


def _damaged(path: Path, draw: np.random.Generator) -> str:
    data = bytearray(path.read_bytes())
    index = int(draw.integers(max(1, len(data))))
    match str(
        draw.choice(["flip", "cut", "empty", "nul", "repeat", "text", "start", "nested", "latin"])
    ):
        case "flip" if data:
            data[index] ^= 1 << int(draw.integers(8))
            note = f"a bit of byte {index} flipped"
        case "cut" if data:
            del data[index:]
            note = f"cut after {index} bytes"
        case "nul" if data:
            data[index : index + 1] = b"\0"
            note = f"byte {index} is NUL"
        case "repeat":
            data = data * 2
            note = "written twice"
        case "text":
            data = bytearray(b"this is text\n")
            note = "replaced by text"
        case "start":
            data[:8] = b"\xef\xbb\xbf\xff\xfe"
            note = "other first bytes"
        case "nested":
            data = bytearray(b"[" * 3000)
            note = "3,000 brackets"
        case "latin":
            data[index:index] = "é".encode("latin-1")
            note = f"a byte that is not UTF-8 at {index}"
        case _:
            data = bytearray()
            note = "empty"
    path.write_bytes(bytes(data))
    return note


def _places(value: Any, above: tuple = ()) -> Iterator[tuple]:
    items: Iterable[tuple[Any, Any]] = enumerate(value) if isinstance(value, list) else ()
    if isinstance(value, dict):
        items = value.items()
    for key, item in items:
        yield (*above, key)
        yield from _places(item, (*above, key))


def _json(path: Path, draw: np.random.Generator) -> str:
    text = path.read_text(encoding="utf-8")
    whole = (
        [json.loads(line) for line in text.splitlines()]
        if path.suffix == ".jsonl"
        else json.loads(text)
    )
    places = list(_places(whole))
    # the same chance for each depth: else thousands of numbers hide the keys that say what a file is
    depth = int(draw.choice(sorted({len(path_in_file) for path_in_file in places})))
    path_in_file = [p for p in places if len(p) == depth][
        int(draw.integers(sum(len(p) == depth for p in places)))
    ]
    holder: Any = whole
    for key in path_in_file[:-1]:
        holder = holder[key]
    key = path_in_file[-1]
    where = "/".join(map(str, path_in_file))
    match str(draw.choice(["value", "value", "value", "drop", "add", "double"])):
        case "drop":
            del holder[key]
            note = f"{where} removed"
        case "add" if isinstance(holder, dict):
            holder["another"] = holder[key]
            note = f"{where} stands also as another"
        case "double" if isinstance(holder, list):
            holder.append(holder[key])
            note = f"{where} twice"
        case _:
            holder[key] = VALUES[int(draw.integers(len(VALUES)))]
            note = f"{where} = {str(holder[key])[:40]!r}"
    lines = (
        [json.dumps(line) + "\n" for line in whole]
        if path.suffix == ".jsonl"
        else [json.dumps(whole)]
    )
    path.write_text("".join(lines), encoding="utf-8", errors="surrogatepass")
    return note


def _table(path: Path, draw: np.random.Generator) -> str:  # noqa: C901, PLR0912, PLR0915 - a case for each kind of change
    rows = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"))))
    row = int(draw.integers(len(rows)))
    column = int(draw.integers(len(rows[0])))
    kinds = [
        "cell",
        "cell",
        "column",
        "row",
        "short",
        "header",
        "twice",
        "separator",
        "case",
        "semicolons",
        "tabs",
        "bom",
        "utf-16",
        "cr",
        "quotes",
        "blank lines",
        "shuffled",
        "decomposed",
        "spaces",
        "rename",
        "thousand",
        "swap",
    ]
    kind = str(draw.choice(kinds))
    dialect: dict[str, Any] = {}
    encoding = "utf-8"
    match kind:
        case "semicolons" | "tabs":
            dialect = {"delimiter": ";" if kind == "semicolons" else "\t"}
            note = f"with {kind}"
        case "bom" | "utf-16":
            encoding = {"bom": "utf-8-sig"}.get(kind, kind)
            note = f"as {kind}"
        case "cr":
            dialect = {"lineterminator": "\r"}
            note = "lines end with CR"
        case "quotes":
            dialect = {"quoting": csv.QUOTE_ALL}
            note = "everything in quotes"
        case "blank lines":
            rows = [line for r in rows for line in (r, [])]
            note = "with blank lines"
        case "shuffled":
            rows = [rows[0], *(rows[1:][i] for i in draw.permutation(len(rows) - 1))]
            note = "lines in another order"
        case "decomposed":
            rows = _each_cell(rows, _decomposed)
            note = "with accents, decomposed"
        case "spaces":
            rows = _each_cell(rows, " {}\u00a0".format)
            note = "spaces around each cell"
        case "rename":
            rows[0][column] = str(
                draw.choice(
                    ["", "label", "image", "test", "client", "a/b", "a*b", "nan", "0", "all"]
                )
            )
            note = f"column {column} is called {rows[0][column]!r}"
        case "thousand":
            rows = [
                rows[0],
                *(
                    [*r[:column], f"{r[column]}{k}", *r[column + 1 :]]
                    for k, r in enumerate(rows[1:])
                ),
            ]
            note = f"column {column} has a value for each line"
        case "swap":
            other = int(draw.integers(len(rows[0])))
            rows = [_swapped(r, column, other) for r in rows]
            note = f"columns {column} and {other} in each other's place"
        case "cell":
            rows[row][column] = str(draw.choice(CELLS))
            note = f"row {row}, column {column} = {rows[row][column][:20]!r}"
        case "column":
            value = str(draw.choice(CELLS))
            rows = [rows[0], *([*r[:column], value, *r[column + 1 :]] for r in rows[1:])]
            note = f"all of column {column} = {value[:20]!r}"
        case "row":
            del rows[1:]
            note = "a header only"
        case "short":
            del rows[row][column:]
            note = f"row {row} ends after {column} cells"
        case "header":
            rows[0][column] = rows[0][0]
            note = "a column name twice"
        case "twice":
            rows.append(rows[row])
            note = f"row {row} twice"
        case "case":
            rows = _each_cell(rows, str.upper)
            note = "in capitals"
        case _:
            rows = [[*r, ""] for r in rows]
            note = "a separator at every row's end"
    with path.open("w", encoding=encoding, newline="") as file:
        csv.writer(file, **dialect).writerows(rows)
    return note


def _each_cell(rows: list[list[str]], change: Callable[[str], str]) -> list[list[str]]:
    return [[*map(change, row)] for row in rows]


def _decomposed(cell: str) -> str:
    return unicodedata.normalize("NFD", cell.replace("a", "ä"))


def _swapped(row: list[str], left_column: int, right_column: int) -> list[str]:
    row = list(row)
    row[left_column], row[right_column] = row[right_column], row[left_column]
    return row


def _hdf5(path: Path, draw: np.random.Generator) -> str:  # noqa: C901, PLR0912, PLR0915 - a case for each kind of change
    with h5py.File(path, "r+") as file:
        names: list[str] = []
        file.visit(
            lambda name: names.append(name) if isinstance(file[name], h5py.Dataset) else None
        )
        if not names:
            return damage(path, draw)
        name = names[int(draw.integers(len(names)))]
        data = file[name][()] if file[name].shape is not None else np.zeros(1)
        kinds = [
            "drop",
            "type",
            "rank",
            "long",
            "short",
            "negative",
            "huge",
            "nan",
            "words",
            "group",
            "external link",
            "soft link",
            "loop",
            "virtual",
            "external data",
            "nested",
            "another",
            "object",
            "chunks",
            "big-endian",
            "packed",
            "compound",
            "floats",
            "enum",
            "reference",
            "bool",
            "attribute",
            "f2",
            "shuffled",
            "zeros",
            "twice",
        ]
        kind = str(draw.choice(kinds))
        if kind not in ("another", "nested", "attribute", "twice"):
            del file[name]
        array = np.asarray(data)
        flat = array.reshape(-1)
        match kind:
            case "type":
                file[name] = (
                    array.astype(str(draw.choice(["f8", "i1", "u8", "c8"])))
                    if array.dtype.kind in "biuf"
                    else 5
                )
            case "rank":
                file[name] = array[None]
            case "long":
                file[name] = np.concatenate([flat, flat])
            case "short":
                file[name] = array[: len(array) // 2] if array.ndim else np.zeros(0)
            case "negative" if array.dtype.kind in "if":
                file[name] = np.full_like(array, -3)
            case "huge" if array.dtype.kind in "iuf":
                file[name] = np.full_like(array, 100 if array.dtype.itemsize == 1 else 30000)
            case "nan":
                file[name] = np.full(array.shape, np.nan, np.float32)
            case "words":
                file.create_dataset(name, array.shape, h5py.string_dtype())
            case "group":
                file.create_group(name)
            case "external link":
                file[name] = h5py.ExternalLink("other.h5", "/x")
            case "soft link":
                file[name] = h5py.SoftLink("/" + names[0])
            case "loop":
                file[name] = h5py.SoftLink("/" + name)
            case "virtual":
                layout = h5py.VirtualLayout(array.shape or (1,), array.dtype)
                file.create_virtual_dataset(name, layout)
            case "external data" if array.dtype.kind in "iuf" and array.size:
                file.create_dataset(
                    name, array.shape, array.dtype, external=[("/etc/hostname", 0, array.nbytes)]
                )
            case "nested":
                group = file
                for _ in range(300):
                    group = group.create_group("g")
            case "another":
                file["another"] = np.arange(3)
            case "object":
                file[name] = h5py.Empty("f4")
            case "big-endian" if array.dtype.kind in "iuf":
                file[name] = array.astype(array.dtype.newbyteorder(">"))
            case "packed" if array.ndim and array.size:
                filters = [
                    {"compression": "gzip"},
                    {"compression": "lzf"},
                    {"scaleoffset": 2},
                    {"fletcher32": True},
                ]
                if array.dtype.kind in "iu":
                    file.create_dataset(
                        name, data=array, **filters[int(draw.integers(len(filters)))]
                    )
            case "compound":
                file[name] = np.zeros(array.shape, [("a", "i4"), ("b", "f8")])
            case "floats" if array.dtype.kind in "iub":
                file[name] = array + 0.5
            case "f2" if array.dtype.kind in "iuf":
                file[name] = array.astype("f2")
            case "enum" if array.dtype.kind in "iu":
                file.create_dataset(name, array.shape, h5py.enum_dtype({"a": 0, "b": 1}, "u1"))
            case "reference":
                file.create_dataset(name, array.shape or (1,), h5py.ref_dtype)
            case "bool":
                file[name] = np.ones(array.shape, bool)
            case "attribute":
                file[name].attrs["x"] = "é" * 1000
            case "shuffled" if array.ndim and array.dtype.kind in "iufS":
                file[name] = array[draw.permutation(len(array))]
            case "zeros" if array.dtype.kind in "iufS":
                file[name] = np.zeros_like(array)
            case "twice":
                file["twice"] = file[name]
            case "chunks" if array.dtype.kind in "iuf":
                shape = (2**40, *array.shape[1:]) if array.ndim else (2**40,)
                file.create_dataset(
                    name, shape, array.dtype, chunks=(1, *array.shape[1:]) if array.ndim else (1,)
                )
    return f"{name}: {kind}"


FORMATS: dict[str, Callable[[Path, np.random.Generator], str]] = {
    ".json": _json,
    ".jsonl": _json,
    ".csv": _table,
    ".h5": _hdf5,
    **formats.MUTATIONS,
}
