"""Tables and sentences within a width, on a terminal, in a pipe and in a log alike; no number or
word is ever cut.
"""

import os
import sys
import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, pairwise, zip_longest
from typing import TextIO

from ..console import printable

WIDEST = 100  # characters of a line, unless COLUMNS asks for others
GAP = 2  # blanks between columns
GROUP_GAP = 3  # blanks between columns under different heads
LEAST = 16  # characters that a folded column of text keeps, if it ever had them
INDENT = "  "
Line = Sequence[str]


def width_of(file: TextIO | None = None) -> int:
    """Characters of a line: as COLUMNS says, else a terminal's up to 100, else 100. file: default
    stdout.
    """
    file = file or sys.stdout
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns):
        return int(columns)
    if not file.isatty():
        return WIDEST
    # some terminals report none
    return min(WIDEST, os.get_terminal_size(file.fileno()).columns or 80)


def table(
    columns: Line,
    rows: Sequence[Line],
    *,
    title: str = "",
    over: Line = (),
    file: TextIO | None = None,
) -> None:
    """Print a table and an empty line, in the shape that fits. over, file: as in lines() and
    width_of().
    """
    room = width_of(file) - 1
    out = wrapped(title, room + 1) if title else []
    for line in lines(columns, rows, width=room, over=over):
        out.append(f" {line}".rstrip())
    print(*out, "", sep="\n", file=file or sys.stdout)


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """A sentence in lines of at most `width`, broken between words; indent: before each line but
    the first.
    """
    return textwrap.wrap(
        printable(" ".join(text.split())),
        max(width, 1),
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def lines(
    columns: Line,
    rows: Sequence[Line],
    *,
    width: int,
    over: Line = (),
) -> list[str]:
    """The lines of a table within a width, in the first of these shapes that fits.

    As it is, text folded between words where needed; several tables below each other, each of the
    columns under some heads, which repeat the first column; transposed, a column for each row;
    several tables of some columns each; a list of rows, a line for each column.
    over: of each column a head that it shares with its neighbours of the same one, "" for none.
    """
    grid = _columns(columns, rows, over)
    if _widths(grid, width):
        return _drawn(grid, width)
    if any(column.over for column in grid):
        parts = _parts(grid, width)
        if parts:
            return _stacked(grid, parts, width)
    grid = [column.merged() for column in grid]
    if sum(column.numeric for column in grid) > 2:
        transposed = _transposed(grid)
        if _widths(transposed, width):
            return _drawn(transposed, width)
    parts = _parts(grid, width)
    return _stacked(grid, parts, width) if parts else _listed(grid, width)


def packed(
    least: Sequence[int],
    over: Line,
    width: int,
    gap: int = GAP,
    head_gap: int = GROUP_GAP - GAP,
) -> list[list[int]]:
    """The places of columns in as few tables as fit a width, the first in each, those under one
    head together.

    least: the width of each column. gap: blanks between two columns, head_gap: more of them between
    two heads. Empty where some columns do not fit beside the first.
    """

    def fits(places: list[int]) -> bool:
        changes = sum(over[before] != over[after] for before, after in pairwise(places))
        blanks = gap * (len(places) - 1) + head_gap * changes
        return sum(least[place] for place in places) + blanks <= width

    parts: list[list[int]] = []
    for span in _spans(over, start=1):
        if parts and fits([*parts[-1], *span]):
            parts[-1] += span
        elif fits([0, *span]):
            parts.append([0, *span])
        else:
            return []
    return parts


def _spans(over: Line, start: int = 0) -> list[list[int]]:
    """The places of the columns under each head; a column without one is alone."""
    keys = groupby(range(start, len(over)), lambda column: over[column] or column)
    return [list(columns) for _, columns in keys]


@dataclass(frozen=True)
class _Column:
    """A column of a table: the head that it may share, its own, and the cells below."""

    over: str
    head: str
    cells: Line
    numeric: bool

    def merged(self) -> "_Column":
        """The column with one head, which says both."""
        return replace(
            self,
            over="",
            head=", ".join(filter(None, (self.over, self.head))),
        )

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """The widths as it is and folded; a heading over numbers has two lines, or one a word."""
        words = self.head.split()
        longest_cell = max(map(_length, self.cells), default=0)
        if self.numeric:
            two_lines = []
            for count in range(len(words)):
                above = _length(" ".join(words[:count]))
                two_lines.append(max(above, _length(" ".join(words[count:]))))
            least = max([longest_cell, *map(_length, words)])
            return max(min(two_lines, default=0), longest_cell), least
        for cell in self.cells:
            words += cell.split()
        natural = max(_length(self.head), longest_cell)
        return natural, min(natural, max([LEAST, *map(_length, words)]))


def _columns(heads: Line, rows: Sequence[Line], over: Line) -> list[_Column]:
    columns = []
    for column, head in enumerate(heads):
        shared = over[column] if over else ""
        title = printable((head or shared).replace("\n", " "))
        cells = [printable(row[column].replace("\n", " ")) for row in rows]
        above = printable(shared) if head else ""
        columns.append(_Column(above, title, cells, all(map(_is_number, cells))))
    return columns


def _transposed(columns: list[_Column]) -> list[_Column]:
    """A column for each row, after one of the heads."""
    names, *others = columns
    turned = [_Column("", names.head, [column.head for column in others], numeric=False)]
    for head, *cells in zip(*[column.cells for column in columns], strict=True):
        turned.append(_Column("", head, cells, numeric=True))
    return turned


def _bounds(columns: list[_Column]) -> list[tuple[int, int]]:
    """The natural and the least width of each column, of which the shared heads take their part."""
    bounds = [column.bounds for column in columns]
    for span in _spans([column.over for column in columns]):
        start = span[0]
        natural, least = bounds[start]
        longest_word = max(map(_length, columns[start].over.split()), default=0)
        room = sum(bounds[column][1] for column in span) + GAP * (len(span) - 1)
        if longest_word > room:
            least += longest_word - room
            bounds[start] = max(natural, least), least
    return bounds


def _gaps(columns: list[_Column]) -> list[int]:
    """Blanks before each column."""
    gaps = [0]
    for before, after in pairwise(columns):
        gaps.append(GAP if before.over == after.over else GROUP_GAP)
    return gaps


def _widths(columns: list[_Column], width: int) -> list[int]:
    """The width of each column, text folded as far as needed; [] where the table does not fit."""
    bounds = _bounds(columns)
    widths = [natural for natural, _ in bounds]
    room = width - sum(_gaps(columns))
    while sum(widths) > room:
        wide = [column for column, (_, least) in enumerate(bounds) if widths[column] > least]
        if not wide:
            return []
        widths[max(wide, key=widths.__getitem__)] -= 1
    return widths


def _parts(columns: list[_Column], width: int) -> list[list[int]]:
    least = [least for _, least in _bounds(columns)]
    return packed(least, [column.over for column in columns], width)


def _drawn(columns: list[_Column], width: int) -> list[str]:
    widths = _widths(columns, width)
    gaps = _gaps(columns)
    numeric = [column.numeric for column in columns]
    heads = [_folded(column.head, w) for column, w in zip(columns, widths)]
    out = _shared_heads(columns, gaps, widths)
    out += _side_by_side(_at_the_foot(heads), gaps, widths, numeric)
    out.append("─" * (sum(widths) + sum(gaps)))
    for row in zip(*[column.cells for column in columns], strict=True):
        cells = [_folded(cell, w) for cell, w in zip(row, widths)]
        out += _side_by_side(cells, gaps, widths, numeric)
    return out


def _shared_heads(
    columns: list[_Column],
    gaps: list[int],
    widths: list[int],
) -> list[str]:
    """The heads above the heads, each with a line over the columns that share it."""
    over = [column.over for column in columns]
    if not any(over):
        return []
    spans = _spans(over)
    texts = []
    room = []
    for span in spans:
        w = sum(widths[column] for column in span) + GAP * (len(span) - 1)
        text = _folded(over[span[0]], w)
        if len(span) > 1:
            text[-1] = f"{text[-1]} {'─' * (w - _length(text[-1]) - 1)}".rstrip()
        texts.append(text)
        room.append(w)
    alone = [len(span) == 1 for span in spans]
    return _side_by_side(
        _at_the_foot(texts),
        [gaps[span[0]] for span in spans],
        room,
        alone,
    )


def _side_by_side(
    cells: list[list[str]],
    gaps: list[int],
    widths: list[int],
    right: list[bool],
) -> list[str]:
    """Folded cells as lines. gaps: blanks before each cell; right: whether its text ends where it
    does.
    """
    out = []
    for line in zip_longest(*cells, fillvalue=""):
        row = ""
        for gap, text, width, at_end in zip(gaps, line, widths, right):
            blanks = " " * (width - _length(text))
            row += " " * gap + (blanks + text if at_end else text + blanks)
        out.append(row.rstrip())
    return out


def _stacked(
    columns: list[_Column],
    parts: list[list[int]],
    width: int,
) -> list[str]:
    out: list[str] = []
    for part in parts:
        out += ["", *_drawn([columns[column] for column in part], width)]
    return out[1:]


def _at_the_foot(cells: list[list[str]]) -> list[list[str]]:
    tall = max(map(len, cells), default=0)
    return [[""] * (tall - len(cell)) + cell for cell in cells]


def _listed(columns: list[_Column], width: int) -> list[str]:
    """A line for each cell, those of a row indented below the one in the first column."""
    names, *others = columns
    out: list[str] = []
    for row, name in enumerate(names.cells):
        out += _folded(name, width)
        for column in others:
            indent = INDENT
            for text in _folded(f"{column.head}: {column.cells[row]}", width - 2 * len(INDENT)):
                out.append(indent + text)
                indent = 2 * INDENT
    return out


def _folded(text: str, width: int) -> list[str]:
    if _length(text) <= width:
        return [text]
    out = [""]
    for word in text.split():
        if out[-1] and _length(out[-1]) + 1 + _length(word) > width:
            out.append(word)
        else:
            out[-1] = f"{out[-1]} {word}".lstrip()
    return out


def _length(text: str) -> int:
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(unicodedata.combining(letter) > 0 for letter in text)


def _is_number(cell: str) -> bool:
    return cell in ("", "-") or cell.lstrip("!*-+−< ")[:1].isdigit()
