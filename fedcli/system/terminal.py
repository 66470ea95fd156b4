"""Tables of text within the width of a terminal, in which no number and no word is ever cut."""

import os
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import TextIO

from ..console import printable

GAP = 2  # blanks between columns
LEAST = 16  # characters that a folded column of text keeps, if it ever had them
INDENT = "  "
Line = Sequence[str]


def table(columns: Line, rows: Sequence[Line], *, title: str = "", file: TextIO | None = None) -> None:
    """Print a table: on a terminal in the shape that fits it, elsewhere at its full width. file: default stdout."""
    file = file or sys.stdout
    on_terminal = file.isatty()
    shown = lines(columns, rows, width=_columns_of(file) - 1 if on_terminal else None)
    body = [f" {line}".rstrip() for line in shown]
    print(*([title] if title else []), *body, *([""] if on_terminal else []), sep="\n", file=file)


def lines(columns: Line, rows: Sequence[Line], *, width: int | None) -> list[str]:
    """The lines of a table within a width, in the first of these shapes that fits; width None: the first.

    At full width; text folded between words; transposed, a column for each row; several tables below each other, which
    repeat the first column; a list of rows, a line for each column.
    """
    grid = [[printable(cell.replace("\n", " ")) for cell in line] for line in (columns, *rows)]
    numeric = [_numeric(line[i] for line in grid[1:]) for i in range(len(columns))]
    if (widths := _widths(grid, numeric, width)) is not None:
        return _drawn(grid, numeric, widths, ruled=width is not None)
    transposed = [list(line) for line in zip(*grid, strict=True)]
    numbers = [False, *(True for _ in rows)]
    if sum(numeric) > 2 and (widths := _widths(transposed, numbers, width)) is not None:
        return _drawn(transposed, numbers, widths, ruled=True)
    if parts := _parts(grid, numeric, width):
        return [line for part in parts for line in (*part, "")][:-1]
    return _listed(grid, width)


def _widths(grid: list[list[str]], numeric: list[bool], width: int | None) -> list[int] | None:
    """The width of each column, text folded as far as needed; None where the table does not fit."""
    pairs = [_bounds([line[i] for line in grid], numeric[i]) for i in range(len(numeric))]
    widths, least = [natural for natural, _ in pairs], [lowest for _, lowest in pairs]
    if width is None:
        return widths
    while sum(widths) + GAP * (len(widths) - 1) > width:
        wide = max((i for i in range(len(widths)) if widths[i] > least[i]), key=lambda i: widths[i], default=None)
        if wide is None:
            return None
        widths[wide] -= 1
    return widths


def _bounds(column: list[str], numeric: bool) -> tuple[int, int]:
    """The widths that a column has as it is and folded; a heading over numbers takes a line for each word."""
    heading = max(map(_length, column[0].split()), default=0)
    whole = max(map(_length, column[1:]), default=0)
    if numeric:
        return max(heading, whole), max(heading, whole)
    natural = max(_length(column[0]), whole)
    word = max((_length(word) for cell in column for word in cell.split()), default=0)
    return natural, min(natural, max(word, LEAST))


def _drawn(grid: list[list[str]], numeric: list[bool], widths: list[int], *, ruled: bool) -> list[str]:
    head = [cell.split() if of_numbers else _folded(cell, w) for cell, of_numbers, w in zip(grid[0], numeric, widths)]
    tall = max(map(len, head), default=0)
    out = _side_by_side([[""] * (tall - len(cell)) + cell for cell in head], numeric, widths)
    out += ["─" * (sum(widths) + GAP * (len(widths) - 1))] if ruled else []
    for line in grid[1:]:
        out += _side_by_side([_folded(cell, w) for cell, w in zip(line, widths)], numeric, widths)
    return out


def _side_by_side(cells: list[list[str]], right: list[bool], widths: list[int]) -> list[str]:
    """The lines of one row, whose cells may have several."""
    return [
        (" " * GAP).join(_padded(text, w, r) for text, w, r in zip(line, widths, right)).rstrip()
        for line in zip_longest(*cells, fillvalue="")
    ]


def _parts(grid: list[list[str]], numeric: list[bool], width: int | None) -> list[list[str]]:
    """The columns after the first in as few tables as fit; none where the first and some other do not fit together."""
    parts: list[list[int]] = []
    for i in range(1, len(numeric)):
        if parts and _fits(grid, numeric, [*parts[-1], i], width):
            parts[-1].append(i)
        elif _fits(grid, numeric, [0, i], width):
            parts.append([0, i])
        else:
            return []
    out = []
    for chosen in parts:
        part, right = [[line[i] for i in chosen] for line in grid], [numeric[i] for i in chosen]
        out.append(_drawn(part, right, _widths(part, right, width) or [], ruled=True))
    return out


def _fits(grid: list[list[str]], numeric: list[bool], chosen: list[int], width: int | None) -> bool:
    part = [[line[i] for i in chosen] for line in grid]
    return _widths(part, [numeric[i] for i in chosen], width) is not None


def _listed(grid: list[list[str]], width: int | None) -> list[str]:
    out: list[str] = []
    for line in grid[1:]:
        out += _folded(line[0], width)
        for heading, cell in zip(grid[0][1:], line[1:]):
            first, *more = _folded(f"{heading}: {cell}", (width or 0) - 2 * len(INDENT))
            out += [INDENT + first, *(2 * INDENT + text for text in more)]
    return out


def _folded(text: str, width: int | None) -> list[str]:
    """Text in lines of at most `width`, broken between words alone."""
    if width is None or _length(text) <= width:
        return [text]
    out = [""]
    for word in text.split():
        if out[-1] and _length(out[-1]) + 1 + _length(word) > width:
            out.append(word)
        else:
            out[-1] = f"{out[-1]} {word}".lstrip()
    return out


def _padded(text: str, width: int, right: bool) -> str:
    blanks = " " * (width - _length(text))
    return blanks + text if right else text + blanks


def _length(text: str) -> int:
    """The number of columns of a terminal that a text takes."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def _numeric(cells: Iterable[str]) -> bool:
    return all(cell in ("", "-") or cell.lstrip("*-+−< ")[:1].isdigit() for cell in cells)


def _columns_of(file: TextIO) -> int:
    """Characters in a line of this terminal; 80 where that is unknown."""
    return os.get_terminal_size(file.fileno()).columns or 80
