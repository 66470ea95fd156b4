"""Tables that describe images: CSV files and spreadsheets, and what their cells mean."""

import csv
import io
import math
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np

from ...console import counted
from ...errors import FedcliError
from ...io.files import read_text, regular
from ..pool import Row
from .formats import workbooks

if TYPE_CHECKING:
    from pandas import DataFrame, Series
else:
    DataFrame = Series = (
        Any  # pandas takes half a second to import, which functions that need it do
    )

# what a part of a split is called -> whether it tests
PARTS = {"train": False, "training": False, "val": False, "valid": False, "validation": False}
PARTS |= {"test": True, "testing": True}
AGE_BANDS = ["0-39", "40-59", "60+"]
SEXES = ["female", "male"]
NO_ROWS = "give the table with its header and a line for each image"


def first_of(raw: Path, names: Sequence[str], hint: str, what: str = "") -> Path:
    """The first of these files that is in the raw folder. Raises FedcliError with this hint where none is.

    what: in words, where "NAME" or "neither NAME nor NAME" would not do.
    """
    if path := next((raw / name for name in names if (raw / name).is_file()), None):
        return path
    lacks = f"has no {names[0]}" if len(names) == 1 else f"has neither {' nor '.join(names)}"
    raise FedcliError(f"{raw} {what or lacks}", hint)


def read_table(path: Path, columns: Collection[str], **options: Any) -> DataFrame:
    """Read a CSV file. Raises FedcliError naming the file and the columns it lacks.

    columns: those that it must have; a dict of what each is called here leaves the others out.
    """
    import pandas

    try:
        table = pandas.read_csv(regular(path), index_col=False, **options)
    except pandas.errors.EmptyDataError:
        raise FedcliError(f"{path} has no rows", NO_ROWS) from None
    except (pandas.errors.ParserError, UnicodeDecodeError, ValueError) as error:
        raise FedcliError(
            f"{path} is not a readable CSV file: {error}", "download it again"
        ) from None
    _check_columns(path, table, columns)
    if table.empty:
        raise FedcliError(f"{path} has no rows", NO_ROWS)
    return table[list(columns)].rename(columns=columns) if isinstance(columns, Mapping) else table


def _check_columns(path: Path, table: DataFrame, columns: Collection[str]) -> None:
    if missing := [column for column in columns if column not in table]:
        raise FedcliError(
            f"{path} has {lacking(missing)}", f"columns found: {', '.join(map(str, table.columns))}"
        )


def first_column(path: Path, table: DataFrame, names: Sequence[str]) -> str:
    """The first of these columns that a table has. Raises FedcliError where it has none."""
    if column := next((name for name in names if name in table), None):
        return column
    sentence = f"{path} has neither {' nor '.join(map(repr, names))}"
    raise FedcliError(sentence, f"columns found: {', '.join(map(str, table.columns))}")


def lacking(columns: Sequence[str]) -> str:
    """Columns that a table lacks, in words, all at once: "no column 'a'" or "no columns 'a', 'b'"."""
    names = list(map(repr, dict.fromkeys(columns)))
    return f"no column{'s' * (len(names) > 1)} {', '.join(names)}"


def check_once(path: Path, names: Series, hint: str = "keep the right one of its lines") -> None:
    """Refuse a table that names something twice, or has a line that names nothing. Raises FedcliError."""
    if names.isna().any():
        raise FedcliError(f"{path} has a line without {names.name}", hint)
    if (twice := names.duplicated()).any():
        raise FedcliError(f"{path} lists {names[twice].iloc[0]} twice", hint)


def check_values(
    path: Path,
    names: Series,
    values: Series,
    allowed: Collection[Any],
    hint: str = "",
    what: str = "",
) -> None:
    """Refuse a table in which something has a value that is not allowed. Raises FedcliError that names it.

    what: of the value, in words, where its column's name would not do. hint: where a list of those allowed would not.
    """
    if (odd := ~values.isin(allowed)).any():
        name, value = names[odd].tolist()[0], values[odd].tolist()[0]
        sentence = f"{path}: {name} has the {what or values.name} {value!r}"
        ends = (
            [f"{allowed[0]} to {allowed[-1]}"] if isinstance(allowed, range) else map(str, allowed)
        )
        raise FedcliError(sentence, hint or f"expected {' or '.join(ends)}")


def one_hot(path: Path, table: DataFrame, columns: Sequence[str], image: str) -> np.ndarray:
    """The column of each line [N] that holds a 1. Raises FedcliError for a line with none, or several."""
    hot = table[list(columns)].to_numpy() == 1  # [N, C]
    if (odd := hot.sum(1) != 1).any():
        wrong = table[image][odd].iloc[0]
        raise FedcliError(
            f"{path}: {wrong} has {hot[odd][0].sum()} labels, expected one", "correct its row"
        )
    return hot.argmax(1)


def check_cells(path: Path) -> None:
    """Refuse a CSV file with a line of more or fewer cells than its header. Raises FedcliError naming it."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        lines = (line for line in csv.reader(file) if line)
        head = next(lines, [])
        if odd := next((line for line in lines if len(line) != len(head)), None):
            cells = counted(len(odd), "cell", "cells")
            raise FedcliError(
                f"{path}: {','.join(odd)[:80]!r} has {cells}, not {len(head)}", "correct that line"
            )


def read_sheet(path: Path, columns: list[str], **options: Any) -> DataFrame:
    """Read the first sheet of an .xlsx file, or what was saved as .csv of it, all texts. Raises FedcliError.

    options: of read_table.
    """
    import pandas

    if path.suffix == ".csv":
        return read_table(path, columns, dtype=str, **options)
    workbooks.check_size(path)
    try:
        table = pandas.read_excel(regular(path), dtype=str, engine="openpyxl")
    except ImportError:
        hint = f"pip install openpyxl, or save it as CSV beside it: {path.stem}.csv"
        raise FedcliError(f"reading {path.name} needs the Python module openpyxl", hint) from None
    except FedcliError:
        raise
    except (
        Exception
    ) as error:  # broken spreadsheets raise BadZipFile, KeyError, ValueError and more
        raise FedcliError(
            f"{path} is not a readable spreadsheet: {error}", "download it again"
        ) from None
    _check_columns(path, table, columns)
    return table


def read_cells(
    path: Path, hint: str, encoding: str = "utf-8-sig"
) -> tuple[list[str], list[list[str]]]:
    """Header and other lines of a CSV file or Excel workbook that a person made, as texts without spaces around them.

    Commas, semicolons or tabs stand between its cells, whichever divides all lines alike, or else the header most.
    Raises FedcliError with this hint for a file that is neither.
    """
    workbooks.refuse_others(path)
    if workbooks.is_workbook(path):
        return _head_and_rows(path, workbooks.read(path))
    text = read_text(path, hint, encoding)
    try:
        tables = [_split(text, separator) for separator in ",;\t"]
        alike = [
            len(head) > 1 and all(len(line) == len(head) for line in lines)
            for head, lines in tables
        ]
        head, records = tables[max(range(3), key=lambda k: (alike[k], len(tables[k][0])))]
    except csv.Error as error:
        raise FedcliError(f"{path} is not a readable CSV file: {error}", hint) from None
    return _head_and_rows(path, [head, *records])


def _head_and_rows(path: Path, lines: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """Header and other lines of a table. Raises FedcliError where there is none, or one of another width."""
    head, *records = lines or [[]]
    if not records:
        raise FedcliError(f"{path} {'has a header and no rows' if head else 'is empty'}", NO_ROWS)
    if odd := next((record for record in records if len(record) != len(head)), None):
        cells = counted(len(odd), "cell", "cells")
        raise FedcliError(
            f"{path}: {','.join(odd)!r} has {cells}, not {len(head)}", "correct that line"
        )
    return head, records


def _split(text: str, separator: str) -> tuple[list[str], list[list[str]]]:
    """Header and other lines; a separator at the end of every line but the first begins no cell."""
    lines = [
        [cell.strip() for cell in line]
        for line in csv.reader(io.StringIO(text), delimiter=separator)
        if line
    ]
    head, *records = lines or [[]]
    if all(len(record) == len(head) + 1 and not record[-1] for record in records):
        records = [record[:-1] for record in records]
    return head, records


def spellings(image: str) -> list[str]:
    """Ways to write an image's path or id, the whole one first: its file's name and that without suffix too."""
    file = PurePosixPath(image.replace("\\", "/"))
    return list(dict.fromkeys([image, file.name, file.stem]))


def names_of(row: Row) -> list[str]:
    """Ways to write an image: its id, and where that is a file its path, its name, and that without suffix."""
    return list(
        dict.fromkeys([row.id, *(spellings(row.source) if isinstance(row.source, str) else [])])
    )


def naming_column(
    path: Path, records: list[list[str]], names: Sequence[Sequence[str]], **how: Any
) -> int:
    """The column that names the most images, by all of their names. Raises FedcliError where none names any."""
    column = image_column(records, {name for spelt in names for name in spelt}, **how)
    if column is None:
        hint = (
            f"its first line of values is: {', '.join(records[0])}; an image here is {names[0][0]}"
        )
        raise FedcliError(
            f"{path} names none of the {counted(len(names), 'image', 'images')}", hint
        )
    return column


def image_column(
    records: list[list[str]],
    known: Set[str],
    *,
    other: int,
    spelt: Callable[[str], list[str]] = lambda text: [text],
) -> int | None:
    """The column of a table that names the most of the known images, None where none names any.

    other: a column of something else, whose numbers may be names of files too.
    spelt: the ways to read a cell as a name.
    """
    named = [
        sum(not known.isdisjoint(spelt(text)) for text in set(column)) if k != other else 0
        for k, column in enumerate(zip(*records, strict=True))
    ]
    return named.index(max(named)) if max(named) else None


def number(text: str) -> float | None:
    """The finite number that a cell holds, None where it holds none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def age_band(years: float) -> str:
    """One of AGE_BANDS, "" for an unknown age (NaN)."""
    return "" if math.isnan(years) else AGE_BANDS[(years >= 40) + (years >= 60)]


def age_bands(years: Series) -> Series:
    """The bands of a column of ages, "" where a cell is no number."""
    import pandas

    return pandas.to_numeric(years, errors="coerce").map(age_band)


def place(value: object, values: list[str]) -> int:
    """Index of an attribute's value, -1 where it is missing or unknown."""
    return values.index(value) if value in values else -1
