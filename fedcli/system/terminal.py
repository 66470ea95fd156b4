"""Tables and sentences within a width, on a terminal, in a pipe and in a log alike; no number or word is ever cut."""

import os
import sys
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise, zip_longest
from typing import TextIO

from ..console import printable

WIDEST = 100  # characters of a line, unless COLUMNS asks for others
GAP, GROUP_GAP = 2, 3  # blanks between columns, and between columns under different heads
LEAST = 16  # characters that a folded column of text keeps, if it ever had them
INDENT = "  "
Line = Sequence[str]


def width_of(file: TextIO | None = None) -> int:
    """Characters of a line: as COLUMNS says, else a terminal's up to 100, else 100. file: default stdout."""
    file = file or sys.stdout
    if (asked := os.environ.get("COLUMNS", "")).isdigit() and int(asked):
        return int(asked)
    if not file.isatty():
        return WIDEST
    return min(
        WIDEST, os.get_terminal_size(file.fileno()).columns or 80
    )  # some terminals report none


def table(
    columns: Line,
    rows: Sequence[Line],
    *,
    title: str = "",
    over: Line = (),
    file: TextIO | None = None,
) -> None:
    """Print a table and an empty line, in the shape that fits. over, file: as in lines() and width_of()."""
    room = width_of(file) - 1
    body = [f" {line}".rstrip() for line in lines(columns, rows, width=room, over=over)]
    print(
        *(wrapped(title, room + 1) if title else []), *body, "", sep="\n", file=file or sys.stdout
    )


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """A sentence in lines of at most `width`, broken between words; indent: before each line but the first."""
    whole = printable(" ".join(text.split()))
    return textwrap.wrap(
        whole,
        max(width, 1),
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def lines(columns: Line, rows: Sequence[Line], *, width: int, over: Line = ()) -> list[str]:
    """The lines of a table within a width, in the first of these shapes that fits.

    As it is, text folded between words where needed; several tables below each other, each of the columns under some
    heads, which repeat the first column; transposed, a column for each row; several tables of some columns each; a list
    of rows, a line for each column.
    over: of each column a head that it shares with its neighbours of the same one, "" for none.
    """
    above = ["" if not name else text for name, text in zip(columns, over)] or [""] * len(columns)
    heads = [name or text for name, text in zip(columns, over or above)]
    cells = [[printable(cell.replace("\n", " ")) for cell in line] for line in (heads, *rows)]
    grid = _Grid(cells, [printable(text) for text in above])
    if grid.widths(width):
        return grid.drawn(width)
    if any(grid.over) and (parts := packed(grid.least, grid.over, width)):
        return _stacked(grid, parts, width)
    grid = grid.merged()
    if sum(grid.numeric) > 2 and grid.transposed().widths(width):
        return grid.transposed().drawn(width)
    if parts := packed(grid.least, grid.over, width):
        return _stacked(grid, parts, width)
    return _listed(grid.cells, width)


def packed(
    least: Sequence[int], over: Line, width: int, gap: int = GAP, head_gap: int = GROUP_GAP - GAP
) -> list[list[int]]:
    """The places of columns in as few tables as fit a width, the first in each, those under one head together.

    least: the width of each column. gap: blanks between two columns, head_gap: more of them between two heads.
    Empty where some columns do not fit beside the first.
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
    keys = groupby(range(start, len(over)), lambda place: over[place] or place)
    return [list(places) for _, places in keys]


@dataclass(frozen=True)
class _Grid:
    """cells: the heads, then the rows. over: above the heads."""

    cells: list[list[str]]
    over: Line

    @cached_property
    def numeric(self) -> list[bool]:
        return [_numeric(line[place] for line in self.cells[1:]) for place in range(len(self.over))]

    @cached_property
    def least(self) -> list[int]:
        """The width of each column, folded as far as it can be."""
        return [least for _, least in self._bounds]

    @cached_property
    def _bounds(self) -> list[tuple[int, int]]:
        bounds = [
            _bounds([line[i] for line in self.cells], self.numeric[i])
            for i in range(len(self.over))
        ]
        for span in _spans(self.over):
            words = max(map(_length, self.over[span[0]].split()), default=0)
            if (
                lacking := words - sum(bounds[place][1] for place in span) - GAP * (len(span) - 1)
            ) > 0:
                natural, least = bounds[span[0]]
                bounds[span[0]] = max(natural, least + lacking), least + lacking
        return bounds

    @cached_property
    def gaps(self) -> list[int]:
        """Blanks before each column."""
        return [
            0,
            *(
                GAP if before == after else GROUP_GAP
                for before, after in zip(self.over, self.over[1:])
            ),
        ]

    def widths(self, width: int) -> list[int]:
        """The width of each column, text folded as far as needed; [] where the table does not fit."""
        widths = [natural for natural, _ in self._bounds]
        while sum(widths) + sum(self.gaps) > width:
            wide = max(
                (i for i, w in enumerate(widths) if w > self.least[i]),
                key=lambda i: widths[i],
                default=None,
            )
            if wide is None:
                return []
            widths[wide] -= 1
        return widths

    def merged(self) -> "_Grid":
        """With one head for each column, which says both."""
        heads = [", ".join(filter(None, both)) for both in zip(self.over, self.cells[0])]
        return _Grid([heads, *self.cells[1:]], [""] * len(heads))

    def transposed(self) -> "_Grid":
        grid = _Grid([list(line) for line in zip(*self.cells, strict=True)], [""] * len(self.cells))
        grid.__dict__["numeric"] = [False, *(True for _ in self.cells[1:])]
        return grid

    def of(self, places: Sequence[int]) -> "_Grid":
        return _Grid(
            [[line[i] for i in places] for line in self.cells], [self.over[i] for i in places]
        )

    def drawn(self, width: int) -> list[str]:
        widths = self.widths(width)
        head, *body = ([_folded(cell, w) for cell, w in zip(line, widths)] for line in self.cells)
        out = self._over(widths)
        out += _side_by_side(_at_the_foot(head), self.gaps, widths, self.numeric)
        out.append("─" * (sum(widths) + sum(self.gaps)))
        return out + [
            text for line in body for text in _side_by_side(line, self.gaps, widths, self.numeric)
        ]

    def _over(self, widths: list[int]) -> list[str]:
        """The heads above the heads, each with a line over the columns that share it."""
        if not any(self.over):
            return []
        spans = _spans(self.over)
        room = [sum(widths[i] for i in span) + GAP * (len(span) - 1) for span in spans]
        texts = [_folded(self.over[span[0]], w) for span, w in zip(spans, room)]
        for text, span, w in zip(texts, spans, room):
            text[-1] = (
                f"{text[-1]} {'─' * (w - _length(text[-1]) - 1)}".rstrip()
                if len(span) > 1
                else text[-1]
            )
        gaps, alone = [self.gaps[span[0]] for span in spans], [len(span) == 1 for span in spans]
        return _side_by_side(_at_the_foot(texts), gaps, room, alone)


def _side_by_side(
    cells: list[list[str]], gaps: list[int], widths: list[int], right: list[bool]
) -> list[str]:
    """Folded cells as lines. gaps: blanks before each cell; right: whether its text ends where it does."""
    out = []
    for line in zip_longest(*cells, fillvalue=""):
        parts = zip(gaps, line, widths, right)
        out.append(
            "".join(" " * gap + _padded(text, w, at_end) for gap, text, w, at_end in parts).rstrip()
        )
    return out


def _stacked(grid: _Grid, parts: list[list[int]], width: int) -> list[str]:
    return [line for part in parts for line in (*grid.of(part).drawn(width), "")][:-1]


def _at_the_foot(cells: list[list[str]]) -> list[list[str]]:
    tall = max(map(len, cells), default=0)
    return [[""] * (tall - len(cell)) + cell for cell in cells]


def _bounds(column: list[str], numeric: bool) -> tuple[int, int]:
    """The widths that a column has as it is and folded; a heading over numbers has two lines, or one a word."""
    words = column[0].split()
    heading = max(map(_length, words), default=0)
    whole = max(map(_length, column[1:]), default=0)
    if numeric:
        halves = ((" ".join(words[:at]), " ".join(words[at:])) for at in range(len(words)))
        two_lines = min((max(map(_length, both)) for both in halves), default=0)
        return max(two_lines, whole), max(heading, whole)
    natural = max(_length(column[0]), whole)
    word = max((_length(word) for cell in column for word in cell.split()), default=0)
    return natural, min(natural, max(word, LEAST))


def _listed(cells: list[list[str]], width: int) -> list[str]:
    out: list[str] = []
    for line in cells[1:]:
        out += _folded(line[0], width)
        for heading, cell in zip(cells[0][1:], line[1:]):
            first, *more = _folded(f"{heading}: {cell}", width - 2 * len(INDENT))
            out += [INDENT + first, *(2 * INDENT + text for text in more)]
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


def _padded(text: str, width: int, right: bool) -> str:
    blanks = " " * (width - _length(text))
    return blanks + text if right else text + blanks


def _length(text: str) -> int:
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def _numeric(cells: Iterable[str]) -> bool:
    return all(cell in ("", "-") or cell.lstrip("!*-+−< ")[:1].isdigit() for cell in cells)
