"""Our numbers in the shape of the paper's table, each above the printed one.

The words of a number's row and column say where it stands; a recipe's layout moves some of them
(shape.PrintedLayout).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from ...reporting import table
from ...reporting.comparison import in_words
from ..findings import heading, shown, sign
from ..recipe import RecipeColumn
from ..record import ResultCell, ResultRow, Results
from ..shape import UNITS, PrintedLayout
from .agreement import OUTSIDE, WITHIN

PRINTED = "Ours, above the paper's"
FURTHER_LINES = "Further rows"
FURTHER_COLUMNS = "Further columns"
OF_CHOSEN = "On test images, the chosen alone"
THEIRS = "  paper"
FAR = "!"  # before a printed number outside of our interval
SIGNS = " ,:"  # between the words of a name


class Spot(NamedTuple):
    """The place of a number in the table: its line, and what stands over its column's head with
    that head."""

    line: str
    head: tuple[str, str]
    row: ResultRow
    column: RecipeColumn

    @property
    def cell(self) -> ResultCell:
        return self.row.cells[self.column.name]

    @property
    def has_number(self) -> bool:
        """Tell whether there is a number, ours or the paper's."""
        return self.cell.mean is not None or self.cell.published is not None


def without_word(name: str, words: Sequence[str]) -> tuple[str, str]:
    """A name without the longest of these words that it has as a whole, and that word."""
    for word in sorted(words, key=len, reverse=True):
        match = re.search(rf"(^|[{SIGNS}]+){re.escape(word)}(?=$|[{SIGNS}])", name)
        if match:
            before = name[: match.start()]
            after = name[match.end() :]
            return f"{before}{after}".strip(SIGNS), word
    return name, ""


def spot_at(
    layout: PrintedLayout,
    row: ResultRow,
    column: RecipeColumn,
) -> Spot:
    """The place of the number of a row in a column."""
    rest, down = without_word(column.name, layout.down)
    rest, over = without_word(rest, layout.over)
    name, across = without_word(row.name, layout.across)
    line = _joined(down, name) if layout.outer else _joined(name, down)
    head = _joined(rest, across)
    if layout.transposed:
        return Spot(_joined(over, head), ("", line), row, column)
    if not head:
        return Spot(line, ("", over), row, column)
    return Spot(line, (over, head), row, column)


def _joined(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def tables(results: Results, legend: str) -> Iterator[table.ReportTable]:
    """The paper's table, then lines and columns that it does not have; one table alone where
    nothing is published."""
    spots = _spots(results)
    printed = [spot for spot in spots if spot.cell.published]
    main_title = "Scores" if results.chosen is None else OF_CHOSEN
    if printed:
        main_title = PRINTED
    lines = {spot.line for spot in printed}
    heads = {spot.head for spot in printed}
    rows = {spot.row.name for spot in printed}
    parts: dict[str, list[Spot]] = {main_title: []}
    for spot in spots:
        title = main_title
        if printed and spot.head not in heads:
            title = FURTHER_COLUMNS
        elif printed and spot.line not in lines and spot.row.name in rows:
            title = FURTHER_LINES
        parts.setdefault(title, []).append(spot)
    for title, part in parts.items():
        if any(spot.has_number for spot in part):
            part_legend = legend if title == main_title else ""
            yield _table(results, title, part, part_legend)


def _spots(results: Results) -> list[Spot]:
    """The places of all numbers on test images that are shown, in the order of their lines."""
    columns = results.shown_columns(validation=False)
    spots = []
    for row in results.rows:
        if results.shows_tests_of(row.name):
            spots += [spot_at(results.layout, row, column) for column in columns]
    if results.layout.outer:
        words = [*results.layout.down, ""]
        spots.sort(key=lambda spot: words.index(without_word(spot.column.name, words)[1]))
    return spots


def _table(
    results: Results,
    title: str,
    spots: list[Spot],
    legend: str,
) -> table.ReportTable:
    spot_of = {(spot.line, spot.head): spot for spot in spots if spot.has_number}
    column_of: dict[tuple[str, str], RecipeColumn] = {}  # the first that stands under a head
    for spot in spot_of.values():
        column_of.setdefault(spot.head, spot.column)
    unlike_heads = dict.fromkeys(spot.head for spot in spots)
    heads = [head for head in unlike_heads if head in column_of]
    rows = []
    for line in dict.fromkeys(spot.line for spot in spots):
        spots_of_line = [spot_of.get((line, head)) for head in heads]
        rows.append(_row(results, line, spots_of_line))
    headings = _headings([column_of[head] for head in heads], heads)
    columns = [table.Column(""), *headings]
    return table.ReportTable(title, columns, rows, legend)


def _row(
    results: Results,
    line: str,
    spots: Sequence[Spot | None],
) -> list[table.Cell]:
    """The cells of a line: its name, and our numbers above the paper's."""
    cells = []
    verdicts = []
    for spot in spots:
        cells.append(_cell(results, spot) if spot else table.Cell())
        if spot and spot.cell.verdict in (WITHIN, OUTSIDE):
            verdicts.append(spot.cell.verdict)
    below = None
    if any(cell.below for cell in cells):
        text = THEIRS
        if verdicts:  # 9/14: nine of fourteen agree
            agreeing = verdicts.count(WITHIN)
            text += f" {agreeing}/{len(verdicts)}"
        below = table.Cell(text)
    return [table.Cell(line, below=below), *cells]


def _headings(
    columns: Sequence[RecipeColumn], heads: Sequence[tuple[str, str]]
) -> list[table.Column]:
    """The heads of columns; what stands over several has the unit of the first."""
    headings = []
    unit_over: dict[str, str] = {}
    for column, (over, name) in zip(columns, heads, strict=True):
        plain = heading(column)
        unit = unit_over.setdefault(over, plain.unit)
        name = in_words(name)
        over = in_words(over)
        if not over or plain.unit == unit:
            unit = plain.unit
        elif plain.unit:
            name = f"{name} ({plain.unit})"
        headings.append(replace(plain, name=name, unit=unit, over=over))
    return headings


def _cell(results: Results, spot: Spot) -> table.Cell:
    cell = spot.cell
    marks = results.marks[spot.column.name]
    is_best = spot.row.name in marks.best
    is_doubtful = spot.row.name in marks.doubtful
    ours = replace(
        shown(cell, spot.column),
        best=is_best,
        doubtful=is_doubtful,
    )
    if not cell.published:
        return ours
    unit_digits = UNITS[spot.column.unit][2]
    digits = min(cell.published.digits, unit_digits)
    theirs = table.number(
        cell.published.mean,
        cell.published.std,
        digits=digits,
        sign=sign(spot.column),
    )
    if cell.verdict == OUTSIDE:
        theirs = replace(theirs, text=FAR + theirs.text)
    return replace(ours, below=theirs)
