"""Tables of the page whose rows are systems, from the scores of their runs."""

from collections.abc import Callable, Sequence, Set

from ..columns import Values, joined
from ..table import Cell, Column, Table, mark, percent
from .systems import System


def by_system(
    title: str, compared: Sequence[System], runs: Sequence[Sequence[Values]], spread: str, *,
    head: Callable[[str], str] = str, legend: str = "", doubtful: Sequence[Set[str]] = (),
) -> list[Table]:  # fmt: skip
    """A table with a row per system, from the scores of each of its runs; none where no system has a number.

    doubtful: of each system, the columns whose number a small group decides.
    """
    values = [joined(columns, spread) for columns in runs]
    cells = [
        {name: percent(value.mean, value.std, doubtful=name in unsure) for name, value in row.items()}
        for row, unsure in zip(values, doubtful or [set()] * len(values), strict=True)
    ]
    known = {name for row in cells for name, cell in row.items() if cell.number is not None}
    names = [name for name in dict.fromkeys(name for row in cells for name in row) if name in known]
    if not names:
        return []
    lower = {name: value.lower for row in values for name, value in row.items()}
    columns = [Column(head(name), "", "", lower[name]) for name in names]
    marked = [best_of(compared, [row.get(name, Cell()) for row in cells], lower[name]) for name in names]
    rows = [[Cell(system.name), *row] for system, row in zip(compared, zip(*marked, strict=True), strict=True)]
    return [Table(title, [Column("method"), *columns], rows, legend)]


def best_of(compared: Sequence[System], cells: Sequence[Cell], lower: bool) -> list[Cell]:
    """The systems' cells with the best marked; these scores have no test."""
    return mark(
        Column("", lower=lower), cells, [system.row.comparable for system in compared], lambda first, second: True
    )
