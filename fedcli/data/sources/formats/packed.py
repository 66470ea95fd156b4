"""One's own images packed in Parquet or Arrow files, as Hugging Face datasets are, or in WebDataset's tar files.

    *.parquet, *.arrow    a row per image: a column of pictures (bytes, or a struct with them), the others as in a CSV
    *.tar                 members of one name are one image: NAME.jpg with NAME.cls, NAME.json or both beside it

Nothing is unpacked: a member of an archive is read at its place, whatever its name is, so none can leave the folder. A
compressed archive has no such places and is refused.
Columns of whole numbers that a Hugging Face dataset calls ClassLabel have the names of their classes.
"""

import json
import os
import tarfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....errors import FedcliError
from ..source import Unreadable, stamp

if TYPE_CHECKING:
    from pandas import DataFrame

TABLES, ARCHIVE = (".parquet", ".arrow"), ".tar"
COMPRESSED = {
    ".tar.gz": "gunzip",
    ".tgz": "gunzip",
    ".tar.bz2": "bunzip2",
    ".tar.xz": "unxz",
    ".tar.zst": "unzstd",
}
PICTURES = "jpg", "jpeg", "png", "tif", "tiff", "bmp"
LARGEST = 2**28  # bytes of a picture
LONGEST = 2**16  # bytes of what stands beside a picture in an archive
GROUP = 2**32  # bytes of a row group, which is read whole
AT = " at"  # a row's file, or FILE#PLACE; no column of a table can be called so, since its names are stripped
AGAIN = "copy or download it again"


def is_packed(source: str) -> bool:
    """Tell whether a file, or an image of a pool's row, is one of these."""
    return (source.rpartition("#")[0] or source).lower().endswith((*TABLES, ARCHIVE, *COMPRESSED))


def read_columns(raw: Path, files: list[str]) -> "DataFrame":
    """Columns beside each picture, as texts, and where the picture is. Raises FedcliError."""
    from pandas import DataFrame

    records = [record for file in files for record in _records(raw, file)]
    if not records:
        raise FedcliError(
            f"{raw} holds no picture in its {len(files)} packed files", "see fedcli datasets images"
        )
    names = dict.fromkeys(name for record in records for name in record)
    return DataFrame(
        {name: [record.get(name, "") for record in records] for name in names}, dtype=str
    )


def picture(raw: Path, source: str) -> bytes:
    """The bytes of one picture. Raises Unreadable."""
    file, _, place = source.rpartition("#")
    path = raw / file
    try:
        if file.lower().endswith(ARCHIVE):
            start, size = map(int, place.split("+"))
            with path.open("rb") as opened:
                opened.seek(start)
                data: Any = opened.read(size)
        else:
            data = _column(path, os.getpid(), stamp(path), int(place))
    except OSError as error:
        raise Unreadable(f"{path.name} cannot be read: {error.strerror}") from error
    if isinstance(data, dict):
        data = data.get("bytes")
    if not isinstance(data, bytes) or not data:
        raise Unreadable("holds no bytes of a picture, perhaps only the path of one")
    if len(data) > LARGEST:
        raise Unreadable(f"holds {len(data):,} bytes, more than {LARGEST:,}")
    return data


def _records(raw: Path, file: str) -> Iterator[dict[str, str]]:
    path = raw / file
    if not path.is_file() or not path.resolve().is_relative_to(raw.resolve()):
        raise FedcliError(f"{path} is no regular file of {raw}", "copy it there")
    if program := next((COMPRESSED[end] for end in COMPRESSED if file.lower().endswith(end)), ""):
        raise FedcliError(
            f"{path} is compressed, so no picture can be read at its place", f"{program} {path}"
        )
    try:
        yield from (
            _of_archive(path, file) if file.lower().endswith(ARCHIVE) else _of_table(path, file)
        )
    except (
        OSError,
        ValueError,
        tarfile.TarError,
        UnicodeDecodeError,
    ) as error:  # pyarrow's are ValueErrors
        raise FedcliError(
            f"{path} cannot be read: {' '.join(str(error).split())[:150]}", AGAIN
        ) from error


# tables


def _arrow() -> Any:
    try:
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise FedcliError(
            "Parquet and Arrow files need the package pyarrow", "pip install 'fedcli[parquet]'"
        ) from None
    return pyarrow


def _of_table(path: Path, file: str) -> Iterator[dict[str, str]]:
    arrow = _arrow()
    packed = None if path.suffix.lower() == ".parquet" else _stream(arrow, path)
    schema = arrow.parquet.ParquetFile(path).schema_arrow if packed is None else packed.schema
    wanted = [column.name for column in schema if not _holds_pictures(arrow, column)]
    if len(wanted) == len(schema):
        raise FedcliError(
            f"{path} has no column of pictures, only {', '.join(wanted)}"[:300], "it holds bytes"
        )
    classes = _class_names(schema)
    table = (
        arrow.parquet.ParquetFile(path).read(columns=wanted)
        if packed is None
        else packed.select(wanted)
    )
    columns = {name: table.column(name).to_pylist() for name in wanted}
    for i in range(len(table)):
        yield {AT: f"{file}#{i}"} | {
            name: _text(columns[name][i], classes.get(name)) for name in wanted
        }


def _holds_pictures(arrow: Any, column: Any) -> bool:
    kind = column.type
    if arrow.types.is_struct(kind):
        return "bytes" in {kind.field(i).name for i in range(kind.num_fields)}
    return arrow.types.is_binary(kind) or arrow.types.is_large_binary(kind)


def _stream(arrow: Any, path: Path) -> Any:
    """A table of a file that datasets.save_to_disk() wrote; it stays on disk until its values are asked for."""
    return arrow.ipc.open_stream(arrow.memory_map(str(path))).read_all()


def _class_names(schema: Any) -> dict[str, list[str]]:
    """Column -> names of its classes, as a Hugging Face dataset describes them beside its columns."""
    try:
        features = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))["info"][
            "features"
        ]
        named = {
            name: about["names"]
            for name, about in features.items()
            if about.get("_type") == "ClassLabel"
        }
    except (AttributeError, KeyError, TypeError, ValueError):  # no description of that kind
        return {}
    return {
        name: names for name, names in named.items() if all(isinstance(each, str) for each in names)
    }


def _text(value: Any, names: list[str] | None) -> str:
    if names and isinstance(value, int) and 0 <= value < len(names):
        return names[value].strip()
    return "" if value is None or isinstance(value, dict | list) else str(value).strip()


@lru_cache(maxsize=2)
def _rows_of(path: Path, process: int, stamp: tuple[int, int], group: int) -> list[Any]:
    """The pictures of a row group, the last ones read; one per process."""
    arrow = _arrow()
    file = arrow.parquet.ParquetFile(path)
    if file.metadata.row_group(group).total_byte_size > GROUP:
        raise Unreadable(f"is in a row group of more than {GROUP:,} bytes: write smaller ones")
    name = next(column.name for column in file.schema_arrow if _holds_pictures(arrow, column))
    return file.read_row_group(group, columns=[name]).column(0).to_pylist()


def _column(path: Path, process: int, stamp: tuple[int, int], place: int) -> Any:
    """The content of the column of pictures in a row. Raises Unreadable."""
    arrow = _arrow()
    try:
        if path.suffix.lower() == ".arrow":
            table = _stream(arrow, path)
            name = next(column.name for column in table.schema if _holds_pictures(arrow, column))
            return table.column(name)[place].as_py()
        about = arrow.parquet.ParquetFile(path).metadata
        for group in range(about.num_row_groups):
            if place < (count := about.row_group(group).num_rows):
                return _rows_of(path, process, stamp, group)[place]
            place -= count
    except (ValueError, IndexError, StopIteration) as error:  # pyarrow's are ValueErrors
        raise Unreadable(f"{type(error).__name__}: {' '.join(str(error).split())[:150]}") from error
    raise Unreadable("is not there")


# archives


def _of_archive(path: Path, file: str) -> Iterator[dict[str, str]]:
    whole, beside, pictures = path.stat().st_size, dict[str, dict[str, str]](), dict[str, str]()
    with tarfile.open(path, "r:") as archive, path.open("rb") as opened:
        for member in archive:
            folder, _, name = member.name.rpartition("/")
            key, _, ending = name.partition(".")
            key, ending = f"{folder}/{key}", ending.lower()
            if not member.isreg() or member.issparse() or ending not in (*PICTURES, "cls", "json"):
                continue
            if member.offset_data + member.size > whole:
                raise FedcliError(f"{path} is truncated: {member.name[:100]!r} is not whole", AGAIN)
            if ending in PICTURES:
                if key in pictures:
                    raise FedcliError(
                        f"{path} holds two pictures called {key[:100]!r}", "rename one of them"
                    )
                pictures[key] = f"{file}#{member.offset_data}+{member.size}"
                continue
            if member.size > LONGEST:
                raise FedcliError(
                    f"{path}: {member.name[:100]!r} has {member.size:,} bytes",
                    "it describes one image",
                )
            opened.seek(member.offset_data)
            text = opened.read(member.size).decode("utf-8").strip()
            beside.setdefault(key, {}).update(
                {"label": text} if ending == "cls" else _described(text)
            )
    for key, place in pictures.items():
        yield {**beside.get(key, {}), AT: place}


def _described(text: str) -> dict[str, str]:
    values = json.loads(text)
    if not isinstance(values, dict):
        raise ValueError("a .json beside a picture is no object")
    return {str(name).strip(): _text(value, None) for name, value in values.items()}
