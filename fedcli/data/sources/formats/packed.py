"""One's own images packed in Parquet or Arrow files, or in WebDataset's tar files.

    *.parquet, *.arrow    a row per image, as in Hugging Face datasets: a column of pictures (bytes,
                          or a struct with them), the others as in a CSV
    *.tar                 members of one name are one image: NAME.jpg with NAME.cls, NAME.json or
                          both beside it

Nothing is unpacked: a member of an archive is read at its place, whatever its name is, so none can
leave the folder. A compressed archive has no such places and is refused. Columns of whole numbers
that a Hugging Face dataset calls ClassLabel have the names of their classes.
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

TABLES = ".parquet", ".arrow"
ARCHIVE = ".tar"
COMPRESSED = {
    ".tar.gz": "gunzip",
    ".tgz": "gunzip",
    ".tar.bz2": "bunzip2",
    ".tar.xz": "unxz",
    ".tar.zst": "unzstd",
}
SUFFIXES = *TABLES, ARCHIVE, *COMPRESSED
PICTURES = "jpg", "jpeg", "png", "tif", "tiff", "bmp"
ENDINGS = *PICTURES, "cls", "json"  # of members of an archive
LARGEST = 2**28  # bytes of a picture
LONGEST = 2**16  # bytes of what stands beside a picture in an archive
GROUP = 2**32  # bytes of a row group, which is read whole
# a row's file, or FILE#PLACE; no column of a table can be called so, since its names are stripped
AT = " at"
AGAIN = "copy or download it again"

Record = dict[str, str]  # the columns beside a picture, as texts, and AT


def is_packed(source: str) -> bool:
    """Tell whether a file, or an image of a pool's row, is one of these."""
    file = source.rpartition("#")[0] or source
    return file.lower().endswith(SUFFIXES)


def read_columns(raw: Path, files: list[str]) -> "DataFrame":
    """Columns beside each picture, as texts, and where the picture is. Raises FedcliError."""
    from pandas import DataFrame

    records: list[Record] = []
    for file in files:
        records += _records(raw, file)
    if not records:
        sentence = f"{raw} holds no picture in its {len(files)} packed files"
        raise FedcliError(sentence, "see fedcli datasets images")
    names: dict[str, None] = {}
    for record in records:
        names.update(dict.fromkeys(record))
    columns = {}
    for name in names:
        columns[name] = [record.get(name, "") for record in records]
    return DataFrame(columns, dtype=str)


def picture(raw: Path, source: str) -> bytes:
    """The bytes of one picture. Raises Unreadable."""
    file, _, location = source.rpartition("#")
    path = raw / file
    try:
        if file.lower().endswith(ARCHIVE):
            data: Any = _member(path, location)
        else:
            data = _cell(path, os.getpid(), stamp(path), int(location))
    except OSError as error:
        raise Unreadable(f"{path.name} cannot be read: {error.strerror}") from error
    if isinstance(data, dict):
        data = data.get("bytes")
    if not isinstance(data, bytes) or not data:
        raise Unreadable("holds no bytes of a picture, perhaps only the path of one")
    if len(data) > LARGEST:
        raise Unreadable(f"holds {len(data):,} bytes, more than {LARGEST:,}")
    return data


def _records(raw: Path, file: str) -> Iterator[Record]:
    path = raw / file
    if not path.is_file() or not path.resolve().is_relative_to(raw.resolve()):
        raise FedcliError(f"{path} is no regular file of {raw}", "copy it there")
    for suffix, program in COMPRESSED.items():
        if file.lower().endswith(suffix):
            sentence = f"{path} is compressed, so no picture can be read at its place"
            raise FedcliError(sentence, f"{program} {path}")
    read = _of_archive if file.lower().endswith(ARCHIVE) else _of_table
    try:
        yield from read(path, file)
    except (OSError, ValueError, tarfile.TarError) as error:  # pyarrow's are ValueErrors
        raise FedcliError(f"{path} cannot be read: {_short(error)}", AGAIN) from error


def _short(error: Exception) -> str:
    """The text of an error on one line, not too long."""
    return " ".join(str(error).split())[:150]


# tables


def _arrow() -> Any:
    try:
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        hint = "pip install 'fedcli[parquet]'"
        raise FedcliError("Parquet and Arrow files need the package pyarrow", hint) from None
    return pyarrow


def _of_table(path: Path, file: str) -> Iterator[Record]:
    arrow = _arrow()
    is_parquet = path.suffix.lower() == ".parquet"
    if is_parquet:
        packed = arrow.parquet.ParquetFile(path)
        schema = packed.schema_arrow
    else:
        packed = _stream(arrow, path)
        schema = packed.schema
    names = [column.name for column in schema if not _holds_pictures(arrow, column)]
    if len(names) == len(schema):
        sentence = f"{path} has no column of pictures, only {', '.join(names)}"
        raise FedcliError(sentence[:300], "it holds bytes")
    classes = _class_names(schema)
    table = packed.read(columns=names) if is_parquet else packed.select(names)
    columns = {name: table.column(name).to_pylist() for name in names}
    for i in range(len(table)):
        record = {AT: f"{file}#{i}"}
        for name, column in columns.items():
            record[name] = _text(column[i], classes.get(name))
        yield record


def _holds_pictures(arrow: Any, column: Any) -> bool:
    kind = column.type
    if arrow.types.is_struct(kind):
        field_names = {kind.field(i).name for i in range(kind.num_fields)}
        return "bytes" in field_names
    return arrow.types.is_binary(kind) or arrow.types.is_large_binary(kind)


def _picture_column(arrow: Any, schema: Any) -> str:
    """The name of the column of pictures. Raises Unreadable where there is none."""
    for column in schema:
        if _holds_pictures(arrow, column):
            return column.name
    raise Unreadable("has no column of pictures")


def _stream(arrow: Any, path: Path) -> Any:
    """A table of a file that datasets.save_to_disk() wrote.

    It stays on disk until its values are asked for.
    """
    return arrow.ipc.open_stream(arrow.memory_map(str(path))).read_all()


def _class_names(schema: Any) -> dict[str, list[str]]:
    """Column -> names of its classes, as a Hugging Face dataset describes them."""
    classes = {}
    try:
        text = (schema.metadata or {}).get(b"huggingface", b"{}")
        features = json.loads(text)["info"]["features"]
        for name, feature in features.items():
            if feature.get("_type") == "ClassLabel":
                names = feature["names"]
                if all(isinstance(word, str) for word in names):
                    classes[name] = names
    except (AttributeError, KeyError, TypeError, ValueError):  # no description of that kind
        return {}
    return classes


def _text(value: Any, names: list[str] | None) -> str:
    if names and isinstance(value, int) and 0 <= value < len(names):
        return names[value].strip()
    if value is None or isinstance(value, dict | list):
        return ""
    return str(value).strip()


def _cell(
    path: Path,
    process: int,
    stamp: tuple[int, int],
    position: int,
) -> Any:
    """The content of the column of pictures in a row. Raises Unreadable."""
    arrow = _arrow()
    try:
        if path.suffix.lower() == ".arrow":
            table = _stream(arrow, path)
            name = _picture_column(arrow, table.schema)
            return table.column(name)[position].as_py()
        metadata = arrow.parquet.ParquetFile(path).metadata
        for group in range(metadata.num_row_groups):
            count = metadata.row_group(group).num_rows
            if position < count:
                return _rows_of(path, process, stamp, group)[position]
            position -= count
    except (ValueError, IndexError) as error:  # pyarrow's are ValueErrors
        raise Unreadable(f"{type(error).__name__}: {_short(error)}") from error
    raise Unreadable("is not there")


@lru_cache(maxsize=2)
def _rows_of(
    path: Path,
    process: int,
    stamp: tuple[int, int],
    group: int,
) -> list[Any]:
    """The pictures of a row group, the last ones read; one per process."""
    arrow = _arrow()
    file = arrow.parquet.ParquetFile(path)
    if file.metadata.row_group(group).total_byte_size > GROUP:
        raise Unreadable(f"is in a row group of more than {GROUP:,} bytes: write smaller ones")
    name = _picture_column(arrow, file.schema_arrow)
    table = file.read_row_group(group, columns=[name])
    return table.column(0).to_pylist()


# archives


def _of_archive(path: Path, file: str) -> Iterator[Record]:
    size = path.stat().st_size
    beside: dict[str, Record] = {}
    pictures = {}
    with tarfile.open(path, "r:") as archive, path.open("rb") as opened:
        for member in archive:
            key, ending = _key(member.name)
            if not member.isreg() or member.issparse() or ending not in ENDINGS:
                continue
            if member.offset_data + member.size > size:
                raise FedcliError(f"{path} is truncated: {member.name[:100]!r} is not whole", AGAIN)
            if ending in PICTURES:
                if key in pictures:
                    sentence = f"{path} holds two pictures called {key[:100]!r}"
                    raise FedcliError(sentence, "rename one of them")
                pictures[key] = f"{file}#{member.offset_data}+{member.size}"
                continue
            if member.size > LONGEST:
                member_name = member.name[:100]
                sentence = f"{path}: {member_name!r} has {member.size:,} bytes"
                raise FedcliError(sentence, "it describes one image")
            opened.seek(member.offset_data)
            text = opened.read(member.size).decode("utf-8").strip()
            facts = {"label": text} if ending == "cls" else _described(text)
            beside.setdefault(key, {}).update(facts)
    for key, location in pictures.items():
        yield {**beside.get(key, {}), AT: location}


def _key(member: str) -> tuple[str, str]:
    """The part of its name that an image's members have in common, and the ending."""
    folder, _, name = member.rpartition("/")
    stem, _, ending = name.partition(".")
    return f"{folder}/{stem}", ending.lower()


def _member(path: Path, location: str) -> bytes:
    start, size = map(int, location.split("+"))
    with path.open("rb") as file:
        file.seek(start)
        return file.read(size)


def _described(text: str) -> Record:
    values = json.loads(text)
    if not isinstance(values, dict):
        raise ValueError("a .json beside a picture is no object")
    return {str(name).strip(): _text(value, None) for name, value in values.items()}
