"""A report as one HTML file that needs nothing beside it: no server, no network; its script only sorts tables.

Tables, what is to be known before comparing them, curves, groups, pictures of the corruption, clients, and where every
number comes from. Figures are inline SVG in the colours of the page, light or dark. Equal scores give equal bytes but
for what the clocks of their runs say, which a page can leave out.
"""

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ... import __version__
from ...compare.systems import LAST5
from ...data import manifest
from ...errors import FedcliError
from ...figures import inline
from ...figures import report as figures
from ...figures.kinds import convergence, weights
from .. import choice, clinical, cross_site, severities, table_one
from ..columns import POOLED, SHOWN, shown
from ..rows import rows
from ..section import Section
from ..table import Table
from ..tables import Report, report
from . import clients, groups, images, lineage, of_labels, statistics, terms
from .markup import breakable, shown_cell, shown_head
from .systems import System, facts, sentence, systems, without_counts

__all__ = ["PageOptions", "write"]
BANDED = "A line is the mean over runs, its band one sample standard deviation to either side."
SCORED = "clean", "corrupted", "validation"  # the first words of curves of scores
KINDS = {".png": "image/png", ".svg": "image/svg+xml"}


@dataclass(frozen=True)
class PageOptions:
    """Options of a page: what it shows beside the tables of all scores.

    title: default: the methods and the dataset. tables: stand before the tables of all scores, which are then folded.
    findings: what the runs show, above all tables; tests: tables of tests, below the figures; both are the page's own
    where no tables are given. notes: stand before those of the scores. pictures: (what it shows, .png or .svg file).
    at, spread, metrics, minutes: as in rows.rows. reference: the row that the page's own tests are against; default:
    the first. clocks: whether to say how long training took and how much memory; without it equal scores give equal
    bytes. figures: whether those of figures/report.py stand on it too, folded; draw: only those with such a text
    in their names. warned: whether what cannot be compared was said on stderr before.
    """

    title: str = ""
    tables: Sequence[Table] = ()
    findings: Sequence[str] = ()
    tests: Sequence[Table] = ()
    notes: Sequence[str] = ()
    pictures: Sequence[tuple[str, Path]] = ()
    at: str = LAST5
    spread: str | None = POOLED
    metrics: Sequence[str] = SHOWN
    minutes: bool = False
    reference: str = ""
    clocks: bool = True
    figures: bool = False
    draw: Sequence[str] = ()
    warned: bool = False


def write(path: Path, scores: list[Path], options: PageOptions = PageOptions()) -> Path:
    """Write the page of these scores.json and return its path. Raises FedcliError, HashError, UsageError."""
    page = render(scores, options)
    path.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_text(path, page)
    return path


def render(scores: list[Path], asked: PageOptions) -> str:
    """The page as text."""
    how = {"metrics": asked.metrics, "at": asked.at, "spread": asked.spread, "warned": asked.warned}
    lines = without_counts(rows(scores, minutes=asked.minutes and asked.clocks, traffic=True, **how))
    compared = systems(lines)
    asked = replace(asked, metrics=shown(compared[0].scores, asked.metrics))
    if not asked.tables and asked.spread and asked.at == LAST5:
        findings, tests, remarks = statistics.tests(compared, asked.metrics, asked.reference)
        asked = replace(asked, findings=findings, tests=tests, notes=[*asked.notes, *remarks])
    scored = report([replace(line, bytes=None) for line in lines])  # what clients send stands among the methods
    sections = _sections(scored, compared, asked)
    headings = [column.title for section in sections for table in section.tables for column in table.columns]
    words = terms.used([*asked.metrics, *headings])
    return document(asked.title or _title(compared), sentence(compared), facts(compared), sections, words)


def document(
    title: str,
    lead: str,
    numbers: Sequence[tuple[str, str]],
    sections: Sequence[Section],
    words: Sequence[tuple[str, str]] = (),
) -> str:
    """A page of its own of any sections. lead: a sentence below the title; words: terms and what they mean."""
    return _template().render(
        title=title,
        sentence=lead,
        facts=numbers,
        sections=[section for section in sections if section.there],
        terms=words,
        version=__version__,
        css=_beside("page.css"),
        script=_beside("page.js"),
    )


def _sections(made: Report, compared: list[System], asked: PageOptions) -> list[Section]:
    notes = list(dict.fromkeys([*asked.notes, *made.notes]))
    intervals = statistics.tables(compared, asked.metrics)
    named = [(system.name, system.scores) for system in compared]
    about = compared, asked.at, asked.spread, asked.metrics
    return [
        _scores(made, asked),
        Section("certainty", "How certain are these numbers?", tables=intervals, notes=notes),
        choice.section([system.row for system in compared]),
        Section("figures", "Figures", panels=[*_convergence(compared), *_pictures(asked.pictures)]),
        *groups.sections(*about),
        of_labels.section(compared, asked.spread),
        Section("curves", "Curves and errors", folded_panels=_graphics(compared, asked.draw) if asked.figures else ()),
        Section("data", "Data", folded=_data(compared)),
        images.section(compared),
        severities.section(named, asked.metrics),
        clinical.section(named),
        cross_site.section(named),
        clients.section(*about),
        Section("tests", "Tests", tables=asked.tests),
        lineage.settings(compared, asked.clocks),
        lineage.section(compared),
    ]


def _scores(made: Report, asked: PageOptions) -> Section:
    """The tables given, or those of all scores."""
    first, *between = made.tables
    title = "All scores" if asked.tables else ""
    every = [replace(first, title=title, legend=made.legend("Bold")), *between]
    if asked.tables:
        return Section("scores", "Results", tables=asked.tables, folded=every, findings=asked.findings)
    return Section("scores", "Scores", tables=every, findings=asked.findings)


def _title(compared: list[System]) -> str:
    labels = list(dict.fromkeys(system.scores.label for system in compared))
    named = ", ".join(labels[:-1]) + f" and {labels[-1]}" if len(labels) > 1 else labels[0]
    datasets = list(dict.fromkeys(system.scores.dataset for system in compared))
    return f"{named if len(labels) < 6 else f'{len(labels)} methods'} on {', '.join(datasets)}"


def _pictures(pictures: Sequence[tuple[str, Path]]) -> list[inline.Panels]:
    return [inline.Panels("", [_picture(title, path) for title, path in pictures], layout="wide")] if pictures else []


def _data(compared: list[System]) -> list[Table]:
    """Table 1 and the flow of images, once for each partition."""
    by_partition = {system.stage("partition"): system for system in reversed(compared) if system.runs}
    made: list[Table] = []
    for system in reversed(by_partition.values()):
        made += table_one.tables(system.runs[0])
        made += table_one.flow_of(system)
    return made


def _graphics(compared: list[System], draw: Sequence[str]) -> list[inline.Panels]:
    """The figures of a report, with the panels of each side by side."""
    return [inline.of_picture(picture) for _, picture in figures.of_systems(compared, draw)]


def _convergence(compared: list[System]) -> Iterator[inline.Panels]:
    """Loss and test curves of all systems, and the weight that the server gave each client."""
    runs = {system.name: system.records if system.runs else [] for system in compared}
    records = [record for one in runs.values() for record in one]
    scored = dict.fromkeys(
        name for record in records for name, series in record.series.items()
        if name.split(" ")[0] in SCORED and series.scalar and series.kind != "group"
    )  # fmt: skip
    curves = convergence.of_series(runs, ["loss", *scored])
    if len(curves):
        banded = BANDED if any(len(one) > 1 for one in runs.values()) else ""
        tests = " Test curves are for looking at: they choose nothing." if scored else ""
        yield replace(inline.of_picture(convergence.draw(curves)), title="Convergence", legend=banded + tests)
    table = weights.of_systems(runs)
    if len(table):
        yield inline.of_picture(weights.draw(table))


def _picture(title: str, path: Path) -> inline.Figure:
    kind = KINDS.get(path.suffix.lower())
    if kind is None:
        raise FedcliError(f"{path} is no picture that a page can hold", "give a .png or .svg")
    return inline.Figure(title, image=f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}")


def _beside(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def _template() -> Any:
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ModuleNotFoundError:
        raise FedcliError("a page needs the Python module jinja2", "pip install jinja2") from None
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {"cell": shown_cell, "head": shown_head, "breakable": breakable}
    return environment.get_template("page.html")
