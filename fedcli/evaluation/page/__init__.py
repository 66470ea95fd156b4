"""A report as one HTML file that needs nothing beside it: no server, no network, no script.

Tables, what is to be known before comparing them, curves, groups, pictures of the corruption, clients, and where every
number comes from. Figures are inline SVG in the colours of the page, light or dark; equal scores give equal bytes.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import __version__, console
from ...data import manifest
from ...errors import FedcliError
from ..cells import LAST5, POOLED, SHOWN
from ..report import legend, notes, rows, table_cells
from . import clients, convergence, figures, groups, images, lineage, statistics, terms
from .markup import shown_cell, shown_head
from .systems import System, facts, sentence, systems
from .tables import Table

__all__ = ["Table", "write"]
BETWEEN = "In percent, on the clean test set. A gap is better when low; each attribute has a part of its own below."
KINDS = {".png": "image/png", ".svg": "image/svg+xml"}


@dataclass(frozen=True)
class Section:
    """A part of the page. name: of its anchor."""

    name: str
    title: str
    tables: Sequence[Table] = ()
    panels: Sequence[figures.Panels] = ()
    text: Sequence[str] = ()
    folded: Sequence[Table] = ()
    notes: Sequence[str] = ()
    pairs: Sequence[tuple[str, str]] = ()

    @property
    def there(self) -> bool:
        return bool(self.tables or self.panels or self.text or self.folded or self.notes)


def write(
    path: Path,
    scores: list[Path],
    *,
    title: str = "",
    tables: Sequence[Table] = (),
    notes: Sequence[str] = (),
    pictures: Sequence[tuple[str, Path]] = (),
    at: str = LAST5,
    spread: str | None = POOLED,
    metrics: Sequence[str] = SHOWN,
    minutes: bool = False,
    reference: str = "",
) -> Path:
    """Write the page of these scores.json and return its path.

    title: what it is about; default: the methods and the dataset. tables: stand before the table of all scores, which is
    then folded. notes: stand before those of the scores. pictures: (what it shows, .png or .svg). at, spread, metrics,
    minutes: as in rows.rows. reference: the row that the others are tested against where no tables are given; default: the
    first. Raises FedcliError, HashError, UsageError.
    """
    page = render(
        scores, title=title, tables=tables, more=notes, pictures=pictures, at=at, spread=spread, metrics=metrics,
        minutes=minutes, reference=reference,
    )  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_text(path, page)
    return path


def render(
    scores: list[Path],
    *,
    title: str,
    tables: Sequence[Table],
    more: Sequence[str],
    pictures: Sequence[tuple[str, Path]],
    at: str,
    spread: str | None,
    metrics: Sequence[str],
    minutes: bool,
    reference: str,
) -> str:
    """The page as text; see write."""
    found = rows(scores, metrics=metrics, at=at, spread=spread, minutes=minutes, traffic=True)
    compared = systems(found, scores)
    tested = [] if tables or spread is None or at != LAST5 else statistics.tests(compared, metrics, reference)
    sections = [
        _scores(found, tables),
        _sure(found, compared, list(more), metrics, tested),
        Section("figures", "Figures", panels=[*convergence.panels(compared), *_pictures(pictures)]),
        *(Section(f"group-{name}", f"Groups: {name}", **part) for name, part in groups.parts(compared, at, spread)),
        Section("corruption", "What the corruption did", panels=images.panels(compared)),
        Section("clients", "Clients", **clients.part(compared, at, spread, metrics)),
        Section("settings", "What ran", **lineage.what_ran(compared)),
        Section("lineage", "From data to scores", tables=[lineage.chain(compared)]),
    ]
    return _template().render(
        title=title or _title(compared),
        sentence=sentence(compared),
        facts=facts(compared),
        sections=[section for section in sections if section.there],
        terms=terms.used(
            [*metrics, *(column for table in (s.tables for s in sections) for t in table for column in t.columns)]
        ),
        version=__version__,
        css=(Path(__file__).parent / "page.css").read_text(encoding="utf-8"),
    )


def _scores(found: list[dict[str, Any]], tables: Sequence[Table]) -> Section:
    """The tables given, or that of all scores; what lies between groups stands in a table of its own."""
    columns, lines = table_cells(found)
    names = tuple(f"{name} " for name in dict.fromkeys(name for row in found for name in row["attributes"]))
    between = [place for place, column in enumerate(columns) if names and column.startswith(names)]
    rest = [place for place in range(len(columns)) if place not in between]
    every = [_taken("All scores" if tables else "", columns, lines, rest, legend(columns, found, mark="Bold"))]
    every += [_taken("Between groups", columns, lines, [0, *between], BETWEEN)] if between else []
    if tables:
        return Section("scores", "Results", tables=tables, folded=every)
    return Section("scores", "Scores", tables=every)


def _taken(title: str, columns: list[str], lines: list[list[str]], places: list[int], legend: str) -> Table:
    return Table(title, [columns[at] for at in places], [[line[at] for at in places] for line in lines], legend)


def _sure(
    found: list[dict[str, Any]], compared: list[System], more: list[str], metrics: Sequence[str], tested: list[Table]
) -> Section:
    told = list(dict.fromkeys([*more, *notes(found)]))
    return Section(
        "certainty", "How sure is this?", tables=[*tested, *statistics.tables(compared, metrics)], notes=told
    )


def _title(compared: list[System]) -> str:
    labels = list(dict.fromkeys(system.row["label"] for system in compared))
    named = ", ".join(labels[:-1]) + f" and {labels[-1]}" if len(labels) > 1 else labels[0]
    datasets = list(dict.fromkeys(system.body["dataset"] for system in compared))
    return f"{named if len(labels) < 6 else f'{len(labels)} methods'} on {', '.join(datasets)}"


def _pictures(pictures: Sequence[tuple[str, Path]]) -> list[figures.Panels]:
    return [figures.Panels("", [_picture(told, path) for told, path in pictures], wide=True)] if pictures else []


def _picture(told: str, path: Path) -> figures.Figure:
    kind = KINDS.get(path.suffix.lower())
    if kind is None:
        raise FedcliError(f"{path} is no picture that a page can hold", "give a .png or .svg")
    return figures.Figure(told, image=f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}")


def _template() -> Any:
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ModuleNotFoundError:
        raise FedcliError("a page needs the Python module jinja2", "pip install jinja2") from None
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {"cell": shown_cell, "head": shown_head, "counted": console.counted}
    return environment.get_template("page.html")
