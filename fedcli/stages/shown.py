"""Results as a person reads them in Python: as text where they are printed or echoed, as HTML in a
notebook.
"""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..reporting import writers
from ..reporting.table import ReportTable

if TYPE_CHECKING:
    from pandas import DataFrame


class Shown:
    """A result that shows itself as tables, with sentences below them."""

    def tables(self) -> Sequence[ReportTable]:
        """The numbers or facts that it holds, scores in percent."""
        return []

    def words(self) -> Sequence[str]:
        """Sentences below the tables."""
        return []

    def __repr__(self) -> str:
        file = io.StringIO()
        for table in self.tables():
            writers.show(table, file)
            if table.legend:
                file.write(f"{table.legend}\n\n")
        lines = [file.getvalue().rstrip("\n"), *self.words()]
        return "\n".join(lines).strip("\n")

    def _repr_html_(self) -> str:
        from ..reporting.page import markup  # jinja2, for nothing else

        return markup.fragment(self.tables(), self.words())


def in_unit(
    frame: "DataFrame",
    columns: Sequence[str],
    percent: bool,
) -> "DataFrame":
    """A frame whose columns of scores, shares from 0 to 1, become percent where that is asked for.

    `attrs["unit"]` says which.
    """
    if percent:
        frame[list(columns)] *= 100
    frame.attrs["unit"] = "%" if percent else "share"
    return frame
