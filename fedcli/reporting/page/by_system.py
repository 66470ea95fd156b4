"""Tables of the page whose rows are systems, from the scores of their runs."""

from collections.abc import Mapping, Sequence, Set

from ...scores.numbers import is_lower
from ..columns import Names
from ..row import Row
from ..table import Cell, Column, Table, mark


def by_system(
    title: str, lines: Sequence[Row], names: Names, *,
    heads: Mapping[str, str] = {}, legend: str = "", doubtful: Sequence[Set[str]] = (),
) -> list[Table]:  # fmt: skip
    """A table with a row per system and a column for each number that some system has; none without one.

    heads: of columns that are not called by their name. doubtful: of each system, the columns whose number a small
    group decides.
    """
    columns, cells = [Column("method")], [[Cell(row.name) for row in lines]]
    unsure = doubtful or [set()] * len(lines)
    for name, where in names.items():
        column = [row.cell(where, doubtful=name in some) for row, some in zip(lines, unsure, strict=True)]
        if any(cell.number is not None for cell in column):
            columns.append(Column(heads.get(name, name), lower=is_lower(where)))
            cells.append(best_of(lines, column, is_lower(where)))
    return [Table(title, columns, list(zip(*cells, strict=True)), legend)] if len(columns) > 1 else []


def best_of(lines: Sequence[Row], cells: Sequence[Cell], lower: bool) -> list[Cell]:
    """The systems' cells with the best marked; these scores have no test."""
    return mark(Column("", lower=lower), cells, [row.comparable for row in lines], lambda first, second: True)
