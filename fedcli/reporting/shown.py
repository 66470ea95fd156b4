"""Results as a person reads them in Python: as text where they are printed or echoed, as HTML in a notebook."""

import io
from collections.abc import Sequence

from . import writers
from .table import Table


class Shown:
    """A result that shows itself as tables, with sentences below them."""

    def tables(self) -> Sequence[Table]:
        """What it holds."""
        return []

    def words(self) -> Sequence[str]:
        """Sentences below the tables."""
        return []

    def __repr__(self) -> str:
        file = io.StringIO()
        for table in self.tables():
            writers.show(table, file)
            print(table.legend, file=file, end="\n\n" if table.legend else "")
        return "\n".join([file.getvalue().rstrip("\n"), *self.words()]).strip("\n")

    def _repr_html_(self) -> str:
        from .page import markup  # jinja2, for nothing else

        return markup.fragment(self.tables(), self.words())
