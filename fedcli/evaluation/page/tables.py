"""A table of the page: text in cells, numbers told from words by how they look."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..cells import Cell, joined, mark_best, text


@dataclass(frozen=True)
class Table:
    """Attributes:
    lines: rows of text; a cell that ends in " *" is the best of its column.
    legend: what the numbers are, below the table.
    """

    title: str
    columns: Sequence[str]
    lines: Sequence[Sequence[str]]
    legend: str = ""

    @property
    def numeric(self) -> list[bool]:
        """Of each column, whether all its cells are numbers."""
        return [all(_number(line[place]) for line in self.lines) for place in range(len(self.columns))]


def of_cells(
    title: str, names: Sequence[str], runs: Sequence[Sequence[dict[str, Cell]]], spread: str, *, first: str = "method",
    head: Callable[[str], str] = str, legend: str = "",
) -> list[Table]:  # fmt: skip
    """A table with a row per system, from the cells of each of its runs; none where no system has a number."""
    found = [joined(list(columns), spread) for columns in runs]
    mark_best(found)
    columns = [
        c for c in dict.fromkeys(name for cells in found for name in cells) if any(_has(cells, c) for cells in found)
    ]
    if not columns:
        return []
    lines = [[name, *(text(cells.get(c)) for c in columns)] for name, cells in zip(names, found, strict=True)]
    return [Table(title, [first, *map(head, columns)], lines, legend)]


def _has(cells: dict[str, Cell], name: str) -> bool:
    return name in cells and cells[name]["mean"] is not None


def _number(cell: str) -> bool:
    return cell in ("", "-") or cell.lstrip("*-+−< ")[:1].isdigit() and "_" not in cell
