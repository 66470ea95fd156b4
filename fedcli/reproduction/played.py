"""A table whose cells were trained and scored, as Python gets it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..reporting.table import ReportTable
from ..stages import shown
from . import output
from .record import ResultRow, Results
from .shared import Outcome
from .tables import beside

if TYPE_CHECKING:
    import pandas

SHARES = "percent", "points"  # units of columns whose numbers are shares in a frame


@dataclass(frozen=True, repr=False)
class PlayedTable(shown.Shown):
    """A table whose cells were trained and scored.

    Attributes:
        path: the folder of its results.json, table.md and report.html.
        results: the table, its notes and its failures. outcomes: of each training the path of its
            scores, or why not.
    """

    path: Path
    results: Results
    outcomes: Sequence[Outcome]

    @cached_property
    def scores(self) -> list[Path]:
        """The scores.json of each training whose test scores are shown, for report() and
        compare()."""
        return output.with_tests(self.results, self.outcomes)

    def to_frame(self, *, percent: bool = False) -> "pandas.DataFrame":
        """A row per line of the table: row, runs, then the mean and the std of each column.

        Where a number is published, its mean and std follow. Scores are shares from 0 to 1, with
        percent in percent; `attrs["unit"]` says which. Other numbers, such as MB, are in the unit
        of their column.
        """
        import pandas

        lines = [self._line(row) for row in self.results.rows]
        indexed = pandas.DataFrame(lines).set_index(["row", "runs"])
        frame = indexed.astype(float)
        shares: list[str] = []
        for column in self.results.columns:
            if column.unit in SHARES:
                names_of_column = _names(column.name)
                shares += [name for name in frame.columns if name in names_of_column]
        frame[shares] /= 100
        return shown.in_unit(frame, shares, percent).reset_index()

    def _line(self, row: ResultRow) -> dict[str, Any]:
        line: dict[str, Any] = {"row": row.name}
        line["runs"] = max(cell.runs for cell in row.cells.values())
        for name, cell in row.cells.items():
            line[name] = cell.mean
        for name, cell in row.cells.items():
            line[f"{name} std"] = cell.std
        for name, cell in row.cells.items():
            if cell.published:
                line[f"{name} published"] = cell.published.mean
                line[f"{name} published std"] = cell.published.std
        return line

    def tables(self) -> list[ReportTable]:
        """The numbers on validation images where there are some, and those on test images."""
        return beside.main(self.results)

    def words(self) -> list[str]:
        """Findings of its tests, notes, and where its files are."""
        page = f"{self.path}/report.html"
        return [*beside.findings(self.results), *self.results.notes, page]


def _names(column: str) -> tuple[str, ...]:
    """The columns of a frame that a column of the table becomes."""
    return column, f"{column} std", f"{column} published", f"{column} published std"
