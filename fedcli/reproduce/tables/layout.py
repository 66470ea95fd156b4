"""Our numbers in the shape of the paper's table, each above the printed one.

The words of a number's row and column say where it stands; a recipe's layout moves some of them (shape.Layout).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ...reporting.comparison import in_words
from ...reporting.table import Cell as Shown
from ...reporting.table import Column as Heading
from ...reporting.table import Table, number
from ..findings import heading, shown
from ..recipe import Column
from ..record import Cell, Results, Row
from ..shape import UNITS, Layout
from .agreement import OUTSIDE, WITHIN

PRINTED, FURTHER_LINES, FURTHER_COLUMNS = (
    "Ours, above the paper's",
    "Further rows",
    "Further columns",
)
OF_CHOSEN = "On test images, the chosen alone"
THEIRS = "  paper"
FAR = "!"  # before a printed number outside of our interval


class Spot(NamedTuple):
    """The place of a number in the table: its line, and what stands over its column's head with that head."""

    line: str
    head: tuple[str, str]
    row: Row
    column: Column

    @property
    def cell(self) -> Cell:
        return self.row.cells[self.column.name]

    @property
    def known(self) -> bool:
        """Tell whether there is a number, ours or the paper's."""
        return self.cell.mean is not None or self.cell.published is not None


def taken(name: str, words: Sequence[str]) -> tuple[str, str]:
    """A name without the longest of these words that it has as a whole, and that word."""
    for word in sorted(words, key=len, reverse=True):
        if found := re.search(rf"(^|[ ,:]+){re.escape(word)}(?=$|[ ,:])", name):
            return f"{name[: found.start()]}{name[found.end() :]}".strip(" ,:"), word
    return name, ""


def spot(layout: Layout, row: Row, column: Column) -> Spot:
    """Where the number of a row in a column stands."""
    rest, down = taken(column.name, layout.down)
    rest, over = taken(rest, layout.over)
    name, across = taken(row.name, layout.across)
    line, head = _joined(down, name) if layout.outer else _joined(name, down), _joined(rest, across)
    if layout.transposed:
        return Spot(_joined(over, head), ("", line), row, column)
    return Spot(line, (over, head) if head else ("", over), row, column)


def _joined(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def tables(results: Results, legend: str) -> Iterator[Table]:
    """The paper's table, then lines and columns that it does not have; one table alone where nothing is published."""
    columns = results.shown_columns(validation=False)
    rows = [row for row in results.rows if results.shows_tests_of(row.name)]
    spots = [spot(results.layout, row, column) for row in rows for column in columns]
    if results.layout.outer:
        words = [*results.layout.down, ""]
        spots.sort(key=lambda each: words.index(taken(each.column.name, words)[1]))
    printed = [each for each in spots if each.cell.published]
    unprinted = "Scores" if results.chosen is None else OF_CHOSEN
    first, rows_in_print = PRINTED if printed else unprinted, {each.row.name for each in printed}
    lines, heads = {each.line for each in printed}, {each.head for each in printed}
    parts: dict[str, list[Spot]] = {first: []}
    for each in spots:
        title = first
        if printed and each.head not in heads:
            title = FURTHER_COLUMNS
        elif printed and each.line not in lines and each.row.name in rows_in_print:
            title = FURTHER_LINES
        parts.setdefault(title, []).append(each)
    for title, part in parts.items():
        if any(each.known for each in part):
            yield _table(results, title, part, legend * (title == first))


def _table(results: Results, title: str, spots: list[Spot], legend: str) -> Table:
    known = {(each.line, each.head): each for each in spots if each.known}
    columns = {each.head: each.column for each in reversed(known.values())}
    heads = [head for head in dict.fromkeys(each.head for each in spots) if head in columns]
    rows = []
    for line in dict.fromkeys(each.line for each in spots):
        there = [known.get((line, head)) for head in heads]
        row = [_cell(results, each) if each else Shown() for each in there]
        verdicts = [
            each.cell.verdict for each in there if each and each.cell.verdict in (WITHIN, OUTSIDE)
        ]
        tally = (
            f" {verdicts.count(WITHIN)}/{len(verdicts)}" if verdicts else ""
        )  # 9/14: nine of fourteen agree
        rows.append(
            [
                Shown(
                    line, below=Shown(THEIRS + tally) if any(cell.below for cell in row) else None
                ),
                *row,
            ]
        )
    return Table(
        title,
        [Heading(""), *(_head({head: columns[head] for head in heads}, *head) for head in heads)],
        rows,
        legend,
    )


def _head(columns: Mapping[tuple[str, str], Column], over: str, name: str) -> Heading:
    """A column's head; what stands over several has the unit of the first."""
    own, first = (
        heading(columns[over, name]),
        next(heading(each) for key, each in columns.items() if key[0] == over),
    )
    name, over = in_words(name), in_words(over)
    if over and own.unit != first.unit:
        return replace(
            own, name=f"{name} ({own.unit})" if own.unit else name, unit=first.unit, over=over
        )
    return replace(own, name=name, over=over)


def _cell(results: Results, spot: Spot) -> Shown:
    cell, marks = spot.cell, results.marks[spot.column.name]
    ours = replace(
        shown(cell, spot.column),
        best=spot.row.name in marks.best,
        doubtful=spot.row.name in marks.doubtful,
    )
    if not cell.published:
        return ours
    digits = min(cell.published.digits, UNITS[spot.column.unit][2])
    theirs = number(
        cell.published.mean, cell.published.std, digits=digits, sign="+" * bool(spot.column.minus)
    )
    return replace(ours, below=replace(theirs, text=FAR * (cell.verdict == OUTSIDE) + theirs.text))
