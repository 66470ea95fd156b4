"""A topic of a report: tables and figures under a heading, for the page, a card and, as far as tables go, as text."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..figures.inline import Panels
from .table import Table


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it.

    Attributes:
        name: of its anchor. title: often the question that it answers.
        folded, folded_panels: closed until a reader opens them.
        closed: whether the whole section is.
        pairs: names and values, under a title of their own.
    """

    name: str
    title: str
    tables: Sequence[Table] = ()
    panels: Sequence[Panels] = ()
    text: Sequence[str] = ()
    folded: Sequence[Table] = ()
    notes: Sequence[str] = ()
    pairs: Sequence[tuple[str, str]] = ()
    pairs_title: str = ""
    findings: Sequence[str] = ()
    folded_panels: Sequence[Panels] = ()
    closed: bool = False

    @property
    def there(self) -> bool:
        return any((self.tables, self.panels, self.text, self.folded, self.notes, self.folded_panels))
