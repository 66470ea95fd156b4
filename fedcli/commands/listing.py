"""fedcli.ls: what is under a work folder, for Python."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common_options import WORK
from ..errors import UsageError, nearest
from ..options import Source
from ..reporting.table import ReportTable
from ..stages.shown import Shown
from . import ls as command

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, repr=False)
class PrintedList(Shown):
    """Results by kind: dataset, partition, corruption and run, each a list of entries as `ls
    --json` has them.
    """

    entries: dict[str, list[dict[str, Any]]]

    def to_frame(self, kind: str = "run") -> "pandas.DataFrame":
        """A row for each result of a kind; scores are in percent, as their columns say.

        Raises UsageError for another kind.
        """
        import pandas

        if kind not in self.entries:
            hint = nearest(kind, self.entries)
            raise UsageError(f"no kind of result is named {kind!r}", hint)
        return pandas.DataFrame(self.entries[kind])

    def tables(self) -> list[ReportTable]:
        """A table for each kind that is there."""
        tables = []
        for kind, rows in self.entries.items():
            if rows:
                tables.append(ReportTable.of("", command.COLUMNS[kind], map(command.cells, rows)))
        return tables


def ls(work: Source = WORK) -> PrintedList:
    """List datasets, partitions, corruptions and runs, these with seed, rounds and headline score
    in percent.

    Args:
        work: folder that results are looked for in.
    """
    return PrintedList(command.listed(Path(work)))
