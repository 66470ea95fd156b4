"""A report as one HTML file that needs nothing beside it: no server, no network; its script only sorts tables.

The first screen says what data, asks the question, and answers it in words and one figure; scores follow, and all else
is folded by interest. Every number is of the same rounds, the mean of the last ones unless others are asked for.
Figures are inline SVG in the colours of the page, light or dark. Equal scores give equal bytes but for what the clocks
of their runs say, which a page can leave out.
"""

import base64
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ... import __version__
from ...compare.systems import LAST5
from ...data import manifest
from ...errors import FedcliError
from ...figures import inline, series
from ...figures import report as figures
from ...figures.figure import NothingToDraw
from ...figures.kinds import FIGURES, convergence
from ...metrics import METRICS, PARITY, get
from ...metrics import title as in_words
from .. import by_severity, choice, clinical, comparison, cross_site
from ..columns import POOLED, SHOWN, shown
from ..row import Row
from ..rows import compared, rows, shortened
from ..section import Section
from ..table import Table
from ..tables import Report, report
from . import answer, clients, group_tables, images, lead, leakage, lineage, statistics, table_one
from .markup import HERE, PAGE, environment

__all__ = ["PageOptions", "write"]
BANDED = "A line is the mean over runs, its band one sample standard deviation to either side."
LOOKED_AT = " Test curves are for looking at: they choose nothing."
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
    in their names. more: sections behind those by group. warned: whether what cannot be compared was said before.
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
    more: Sequence[Section] = ()
    warned: bool = False


def write(path: Path, scores: list[Path], options: PageOptions = PageOptions()) -> Path:
    """Write the page of these scores.json and return its path. Raises FedcliError, HashError, UsageError."""
    page = render(scores, options)
    path.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_text(path, page)
    return path


def render(scores: list[Path], asked: PageOptions) -> str:
    """The page as text."""
    lines = rows(
        scores, metrics=asked.metrics, at=asked.at, spread=asked.spread, minutes=asked.minutes and asked.clocks,
        traffic=True, warned=asked.warned,
    )  # fmt: skip
    systems = compared(lines := shortened(lines))  # the page says first what all share
    asked = replace(asked, metrics=shown(systems[0].scores, asked.metrics))
    if not asked.tables and asked.spread and asked.at == LAST5:
        findings, tests, remarks = statistics.tests(systems, asked.metrics, asked.reference)
        asked = replace(asked, findings=findings, tests=tests, notes=[*asked.notes, *remarks])
    scored = report([replace(line, bytes=None) for line in lines])  # what clients send stands among the methods
    sections = _sections(scored, systems, asked)
    tables = [table for section in sections for table in (*section.tables, *section.folded)]
    words = _terms(asked.metrics, {text for table in tables for column in table.columns for text in column.levels})
    said, made_up = lead.sentence(systems), lead.generated(systems)
    return document(asked.title or lead.title(systems), said, lead.facts(systems), sections, words, made_up)


def document(
    title: str,
    lead: str,
    numbers: Sequence[tuple[str, str]],
    sections: Sequence[Section],
    words: Sequence[tuple[str, str]] = (),
    generated: str = "",
) -> str:
    """A page of its own of any sections. lead: a sentence below the title; words: terms and what they mean; generated:
    a sentence that says so of images that are, the first line of the page."""
    template = environment().get_template(PAGE)
    return template.render(
        title=title,
        sentence=lead,
        generated=generated,
        facts=numbers,
        sections=[section for section in sections if section.there],
        terms=words,
        version=__version__,
        css=_beside("page.css"),
        script=_beside("page.js"),
    )


def _sections(made: Report, systems: list[Row], asked: PageOptions) -> list[Section]:
    notes = list(dict.fromkeys([*asked.notes, *made.notes]))
    named = [(row.name, row.scores) for row in systems]
    falls = list(by_severity.tables(named, asked.metrics))
    of_partition = {row.stage("partition"): row for row in reversed(systems) if row.run_files}  # the first of each
    ranks = comparison.rank_tables(comparison.rank_tests(systems))
    certain = [*statistics.tables(systems, asked.metrics), *asked.tests, *ranks]
    first_images = [table for row in reversed(of_partition.values()) for table in table_one.of_row(row)]
    drawn = (
        [inline.of_picture(picture) for _, picture in figures.of_systems(systems, asked.draw)] if asked.figures else []
    )
    closed = [
        Section("certainty", "How certain are these numbers?", certain),
        *group_tables.sections(systems, asked.metrics),
        *asked.more,
        group_tables.of_labels(systems),
        images.section(systems),
        Section("severities", "Other corruptions", falls, folded=list(by_severity.by_group(named))),
        Section("adapted", "Adapted to the test images", list(cross_site.adapted(named))),
        replace(clinical.section(named), text=()),  # without advice that nobody asked for
        clients.section(systems, asked.metrics),
        Section("cross-site", "Trained at and tested on", list(cross_site.tables(named))),
        Section("choice", "Model choice", list(choice.tables(systems))),
        leakage.section(systems),
        Section("training", "How training went", panels=list(_convergence(systems))),
        Section("curves", "Curves and errors", folded_panels=drawn),
        Section("data", "Data", first_images),
        lineage.settings(systems, asked.clocks),
        lineage.section(systems),
    ]
    first = [answer.section(systems, asked.findings, notes, asked=bool(asked.tables)), _scores(made, asked)]
    return [*(reversed(first) if asked.tables else first), *(replace(section, closed=True) for section in closed)]


def _scores(made: Report, asked: PageOptions) -> Section:
    first, *between = made.tables
    title = "All scores" if asked.tables else ""
    legend = " ".join([*made.measured, made.legend("Bold")])
    every = [replace(first, title=title, legend=legend), *between]
    drawn = pictures(asked.pictures)
    if asked.tables:
        return Section("scores", "Results", asked.tables, folded=every, panels=drawn)
    return Section("scores", "Scores", every, panels=drawn)


def pictures(files: Sequence[tuple[str, Path]]) -> list[inline.Panels]:
    """Files of pictures as the page holds them. files: (what it shows, .png or .svg). Raises FedcliError."""
    drawn = []
    for title, path in files:
        kind = KINDS.get(path.suffix.lower())
        if kind is None:
            raise FedcliError(f"{path} is no picture that a page can hold", "give a .png or .svg")
        data = base64.b64encode(path.read_bytes()).decode()
        drawn.append(inline.Figure(title, image=f"data:{kind};base64,{data}"))
    return [inline.Panels("", drawn, layout="wide")] if drawn else []


def _convergence(systems: list[Row]) -> Iterator[inline.Panels]:
    """Loss and test curves of all systems, and the weight that the server gave each client."""
    runs = {row.name: [series.read(run.parent) for run in row.run_files] for row in systems}
    records = [record for one in runs.values() for record in one]
    scored = dict.fromkeys(
        name for record in records for name, series in record.series.items()
        if name.split(" ")[0] in SCORED and series.scalar and series.kind != "group"
    )  # fmt: skip
    curves = convergence.of_series(runs, ["loss", *scored])
    if len(curves):
        legend = BANDED * any(len(one) > 1 for one in runs.values()) + LOOKED_AT * bool(scored)
        yield replace(inline.of_picture(convergence.draw(curves)), title="Convergence", legend=legend)
    with suppress(NothingToDraw):
        yield inline.of_picture(FIGURES["weights"].picture(runs))


def _terms(names: Sequence[str], heads: set[str]) -> list[tuple[str, str]]:
    """The metrics that a page shows, then all other terms. names: of metrics; heads: of tables."""
    heads = {head.partition(": ")[2] or head for head in heads}  # "by sex: AUC"
    shown = [
        name for name in METRICS if name in names or heads & {in_words(name) + unit for unit in ("", ", %", " (%)")}
    ]
    terms: dict[str, str] = {in_words(name): get(name).meaning for name in shown}
    for term, meaning in tomllib.loads(_beside("terms.toml")).items():
        terms |= {term: meaning} if meaning else {in_words(name): get(name).meaning for name in PARITY}
    return list(terms.items())


def _beside(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")
