"""Tables that describe images: CSV files and spreadsheets, and what their cells mean."""

import csv
import io
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from ...console import counted
from ...errors import FedcliError
from ...io.files import read_text, regular
from ..pool import Row
from .formats import workbooks

if TYPE_CHECKING:
    from pandas import DataFrame, Series
else:
    # pandas takes half a second to import, which functions that need it do
    DataFrame = Series = Any

PARTS = {  # what a part of a split is called -> whether it tests
    "train": False,
    "training": False,
    "val": False,
    "valid": False,
    "validation": False,
    "test": True,
    "testing": True,
}
AGE_BANDS = ["0-39", "40-59", "60+"]
SEXES = ["female", "male"]
NO_ROWS = "give the table with its header and a line for each image"
AGAIN = "download it again"
CORRECT = "correct that line"


def home_in(raw: Path, name: str) -> Path:
    """The folder of this name in the raw folder; where there is none, the raw folder is it."""
    folder = raw / name
    return folder if folder.is_dir() else raw


def present(folder: Path, names: Sequence[str]) -> Path | None:
    """The first of these files that is in the folder; None where none is."""
    for name in names:
        if (folder / name).is_file():
            return folder / name
    return None


def first_of(
    raw: Path,
    names: Sequence[str],
    hint: str,
    sentence: str = "",
) -> Path:
    """The first of these files that is in the raw folder.

    Raises FedcliError with this hint where none is.
    sentence: in words, where "NAME" or "neither NAME nor NAME" would not do.
    """
    path = present(raw, names)
    if path:
        return path
    if not sentence:
        sentence = f"has no {names[0]}" if len(names) == 1 else f"has neither {' nor '.join(names)}"
    raise FedcliError(f"{raw} {sentence}", hint)


def read_table(
    path: Path,
    columns: Collection[str],
    **options: Any,
) -> DataFrame:
    """Read a CSV file. Raises FedcliError naming the file and the columns it lacks.

    columns: those that it must have; a dict of their names in the result leaves all others out.
    """
    import pandas

    try:
        table = pandas.read_csv(regular(path), index_col=False, **options)
    except pandas.errors.EmptyDataError:
        raise FedcliError(f"{path} has no rows", NO_ROWS) from None
    except (pandas.errors.ParserError, UnicodeDecodeError, ValueError) as error:
        raise FedcliError(f"{path} is not a readable CSV file: {error}", AGAIN) from None
    _check_columns(path, table, columns)
    if table.empty:
        raise FedcliError(f"{path} has no rows", NO_ROWS)
    if isinstance(columns, Mapping):
        return table[list(columns)].rename(columns=columns)
    return table


def _check_columns(
    path: Path,
    table: DataFrame,
    columns: Collection[str],
) -> None:
    missing = [column for column in columns if column not in table]
    if missing:
        raise FedcliError(f"{path} has {lacking(missing)}", _columns_of(table))


def _columns_of(table: DataFrame) -> str:
    return columns_found([str(name) for name in table.columns])


def columns_found(head: Sequence[str]) -> str:
    """A hint that names the columns of a table; not of a file that is none, whose lines may be
    anything.
    """
    if len(head) == 1 and not head[0].isidentifier():
        return "the file has one column: give a CSV file with a line of column names"
    return f"columns found: {', '.join(head)}"


def first_column(path: Path, table: DataFrame, names: Sequence[str]) -> str:
    """The first of these columns that a table has. Raises FedcliError where it has none."""
    for name in names:
        if name in table:
            return name
    names_text = " nor ".join(map(repr, names))
    sentence = f"{path} has neither {names_text}"
    raise FedcliError(sentence, _columns_of(table))


def lacking(columns: Sequence[str]) -> str:
    """Columns that a table lacks, in words: "no column 'a'" or "no columns 'a', 'b'"."""
    names = [repr(column) for column in dict.fromkeys(columns)]
    noun = "columns" if len(names) > 1 else "column"
    return f"no {noun} {', '.join(names)}"


def check_once(
    path: Path,
    names: Series,
    hint: str = "keep the right one of its lines",
) -> None:
    """Refuse a table that names something twice, or has a line without a name.

    Raises FedcliError.
    """
    if names.isna().any():
        raise FedcliError(f"{path} has a line without {names.name}", hint)
    repeated = names[names.duplicated()]
    if len(repeated):
        raise FedcliError(f"{path} lists {repeated.iloc[0]} twice", hint)


def check_values(
    path: Path,
    names: Series,
    values: Series,
    allowed: Collection[Any],
    hint: str = "",
    noun: str = "",
) -> None:
    """Refuse a table in which something has a value that is not allowed.

    Raises FedcliError that names it.
    noun: for the value, in words, where its column's name would not do.
    hint: where a list of those allowed would not.
    """
    odd = ~values.isin(allowed)
    if not odd.any():
        return
    name = names[odd].tolist()[0]
    value = values[odd].tolist()[0]
    if not hint and isinstance(allowed, range):
        hint = f"expected {allowed[0]} to {allowed[-1]}"
    elif not hint:
        hint = f"expected {' or '.join(map(str, allowed))}"
    noun_of_value = noun or values.name
    raise FedcliError(f"{path}: {name} has the {noun_of_value} {value!r}", hint)


def one_hot(
    path: Path,
    table: DataFrame,
    columns: Sequence[str],
    image: str,
) -> ndarray:
    """The column of each line [N] that holds a 1.

    Raises FedcliError for a line with none, or several.
    """
    hot = table[list(columns)].to_numpy() == 1  # [N, C]
    counts = hot.sum(1)
    odd = counts != 1
    if odd.any():
        first_image = table[image][odd].iloc[0]
        first_count = counts[odd][0]
        sentence = f"{path}: {first_image} has {first_count} labels, expected one"
        raise FedcliError(sentence, "correct its row")
    return hot.argmax(1)


def check_cells(path: Path) -> None:
    """Refuse a CSV file with a line of more or fewer cells than its header.

    Raises FedcliError naming it.
    """
    head: list[str] = []
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        lines = csv.reader(file)
        for line in lines:
            if not head:
                head = line
            elif line and len(line) != len(head):
                raise _uneven(path, lines.line_num, line, head)


def _uneven(
    path: Path,
    number: int,
    line: Sequence[str],
    head: Sequence[str],
) -> FedcliError:
    """An error that does not show the line: the file may be no table."""
    cells = counted(len(line), "cell", "cells")
    return FedcliError(f"{path}: line {number} has {cells}, not {len(head)}", CORRECT)


def read_sheet(path: Path, columns: list[str], **options: Any) -> DataFrame:
    """The first sheet of an .xlsx file, or what was saved as .csv of it, all texts.

    Raises FedcliError.
    options: of read_table.
    """
    import pandas

    if path.suffix == ".csv":
        return read_table(path, columns, dtype=str, **options)
    workbooks.check_size(path)
    try:
        table = pandas.read_excel(regular(path), dtype=str, engine="openpyxl")
    except ImportError:
        hint = f"pip install openpyxl, or save it as CSV in the same folder: {path.stem}.csv"
        raise FedcliError(f"reading {path.name} needs the Python module openpyxl", hint) from None
    except FedcliError:
        raise
    except Exception as error:  # a broken file raises BadZipFile, KeyError, ValueError and more
        raise FedcliError(f"{path} is not a readable spreadsheet: {error}", AGAIN) from None
    _check_columns(path, table, columns)
    return table


def read_cells(
    path: Path,
    hint: str,
    encoding: str = "utf-8-sig",
    *,
    fewest: int = 2,
) -> tuple[list[str], list[list[str]]]:
    """Header and other lines of a CSV file or Excel workbook that a person made.

    Cells are texts without spaces around them. Commas, semicolons or tabs stand between its cells,
    whichever divides all lines alike, or else the header most. fewest: columns. Raises FedcliError
    with this hint for a file that is neither; no line of it is shown, which may be anything.
    """
    workbooks.refuse_others(path)
    if workbooks.is_workbook(path):
        head, records = _head_and_rows(path, workbooks.read(path))
    else:
        head, records = _read_lines(path, hint, encoding)
    if len(head) < fewest:
        raise FedcliError(f"{path} has one column alone, expected {fewest} or more", hint)
    return head, records


def _read_lines(path: Path, hint: str, encoding: str) -> tuple[list[str], list[list[str]]]:
    """Header and other lines of a CSV file. Raises FedcliError."""
    text = read_text(path, hint, encoding)
    if "\n" not in text:
        text = text.replace("\r", "\n")  # as Excel on old Macs ends lines
    _check_first_line(path, text)
    try:
        tables = [_split(text, separator) for separator in ",;\t"]
    except csv.Error as error:
        raise FedcliError(f"{path} is not a readable CSV file: {error}", hint) from None
    return _head_and_rows(path, max(tables, key=_evenness))


def _check_first_line(path: Path, text: str) -> None:
    """Refuse a first line that is a program's note, and no header. Raises FedcliError."""
    first, *others = text.lstrip().splitlines()[:2] or [""]
    if re.fullmatch(r'"?sep=.?"?[,;\t ]*', first, re.IGNORECASE):
        sentence = f"{path} begins with {first[:5]}, which names the separator of its cells"
        raise FedcliError(sentence, "remove that line: the separator is detected without it")
    widths = {tuple(map(line.count, ",;\t")) for line in (first, *others)}
    if first.startswith("#") and len(widths) > 1:
        sentence = f"{path} begins with a comment, and not with the names of its columns"
        raise FedcliError(sentence, "remove the lines at its start that begin with #")


def _evenness(lines: list[list[str]]) -> tuple[bool, int]:
    """Lines of several cells that are all as wide as the header come before all others."""
    width = len(lines[0])
    is_even = all(len(line) == width for line in lines)
    return width > 1 and is_even, width


def _head_and_rows(path: Path, lines: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """Header and other lines of a table.

    Raises FedcliError where there is none, or one of another width.
    """
    head, *records = lines or [[]]
    if not records:
        state = "has a header and no rows" if head else "is empty"
        raise FedcliError(f"{path} {state}", NO_ROWS)
    for number, record in enumerate(records, 2):  # lines that are not empty
        if len(record) != len(head):
            raise _uneven(path, number, record, head)
    return head, records


def _split(text: str, separator: str) -> list[list[str]]:
    """Header and other lines; a separator at the end of every line but the first begins no cell."""
    lines = []
    for line in csv.reader(io.StringIO(text), delimiter=separator):
        if line:
            lines.append([cell.strip() for cell in line])
    head, *records = lines or [[]]
    width = len(head)
    ends_empty = all(len(record) == width + 1 and not record[-1] for record in records)
    if ends_empty:
        records = [record[:-1] for record in records]
    return [head, *records]


def spellings(image: str) -> list[str]:
    """Ways to write an image's path or id: the whole one, its file's name, that without suffix."""
    file = PurePosixPath(image.replace("\\", "/"))
    return list(dict.fromkeys([image, file.name, file.stem]))


def names_of(row: Row) -> list[str]:
    """Ways to write an image: its id, and where that is a file the spellings of its path."""
    names = [row.id]
    if isinstance(row.source, str):
        names += spellings(row.source)
    return list(dict.fromkeys(names))


def naming_column(
    path: Path,
    records: list[list[str]],
    names: Sequence[Sequence[str]],
    **options: Any,
) -> int:
    """The column that names the most images, by all of their names.

    Raises FedcliError where none names any.
    options: of image_column.
    """
    every = set[str]().union(*names)
    column = image_column(records, every, **options)
    if column is None:
        hint = f"an image here is {names[0][0]}"
        if len(records[0]) > 1:  # a file of one column may be no table
            line = ", ".join(records[0])
            hint = f"its first line of values is: {line}; {hint}"
        count = counted(len(names), "image", "images")
        raise FedcliError(f"{path} names none of the {count}", hint)
    return column


def image_column(
    records: list[list[str]],
    names: Set[str],
    *,
    other: int,
    spelt: Callable[[str], list[str]] = lambda text: [text],
) -> int | None:
    """The column of a table that names the most of these images, None where none names any.

    other: a column of something else, whose numbers may be names of files too.
    spelt: the ways to read a cell as a name.
    """
    counts = []
    for k, column in enumerate(zip(*records, strict=True)):
        cells = set() if k == other else set(column)
        naming = [cell for cell in cells if not names.isdisjoint(spelt(cell))]
        counts.append(len(naming))
    most_images = max(counts)
    return counts.index(most_images) if most_images else None


def number(text: str) -> float | None:
    """The finite number that a cell holds, None where it holds none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def age_band(years: float) -> str:
    """One of AGE_BANDS, "" for an unknown age (NaN)."""
    if math.isnan(years):
        return ""
    young, middle, old = AGE_BANDS
    if years < 40:
        return young
    return middle if years < 60 else old


def age_bands(years: Series) -> Series:
    """The bands of a column of ages, "" where a cell is no number."""
    import pandas

    return pandas.to_numeric(years, errors="coerce").map(age_band)


def place(value: object, values: list[str]) -> int:
    """Index of an attribute's value, -1 where it is missing or unknown."""
    return values.index(value) if value in values else -1
