"""The rows of a report on a terminal."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from .. import console

if TYPE_CHECKING:
    from ..reporting.row import Row
    from ..reporting.table import Table


def show_groups(path: Path, file: TextIO, metrics: Sequence[str] = ()) -> None:
    """Print a line for each group of a scores.json, for every attribute: of the AUC and of these metrics."""
    from ..reporting import by_group, writers
    from ..scores.scores import Scores

    scores = Scores.read(path)
    for table in (table for metric in ("", *metrics) for table in by_group.tables(scores, metric)):
        writers.show(table, file)
        print(table.legend, file=file)
    if scores.groups:
        console.say(by_group.legend(scores, metrics))


def show_rows(rows: "list[Row]", file: TextIO) -> None:
    """Print the rows of a report as tables, and for a person what the numbers are."""
    from ..reporting import writers
    from ..reporting.tables import report

    made = report(rows)
    for table in made.tables:
        writers.show(table, file)
    console.say(made.legend())


def show_tables(tables: "Iterable[Table]", file: TextIO) -> None:
    """Print tables, and what their numbers are once."""
    from ..reporting import writers

    legends: list[str] = []
    for table in tables:
        writers.show(table, file)
        legends.append(table.legend)
    for legend in dict.fromkeys(legends):
        console.say(legend)
