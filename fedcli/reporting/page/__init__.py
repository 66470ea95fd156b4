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
from ...comparison.systems import LAST5
from ...data import manifest
from ...errors import FedcliError
from ...figures import inline, series
from ...figures import report as figures
from ...figures.figure import NothingToDraw
from ...figures.kinds import FIGURES, convergence
from ...metrics import METRICS, PARITY, get
from ...metrics import title as in_words
from .. import choice, clinical, comparison, single_runs, writers
from ..columns import POOLED, SHOWN, shown
from ..rows import Row, compared, rows, shortened
from ..table import Section, Table
from ..tables import Report, report
from . import images, lead, leakage, provenance, subgroups
from .markup import HERE, PAGE, environment

__all__ = ["Document", "PageOptions", "write"]
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


@dataclass(frozen=True)
class Document:
    """Sections of any kind as a page of its own, or as text.

    lead: a sentence below the title; terms: words and what they mean; generated: a sentence that says so of images that
    are, above all else; name: of a file without its ending.
    """

    title: str
    lead: str
    facts: Sequence[tuple[str, str]]
    sections: Sequence[Section]
    terms: Sequence[tuple[str, str]] = ()
    generated: str = ""
    name: str = ""

    @property
    def html(self) -> str:
        there = [section for section in self.sections if section.there]
        beside = {"version": __version__, "css": _beside("page.css"), "script": _beside("page.js")}
        return environment().get_template(PAGE).render(vars(self) | beside | {"sections": there})

    @property
    def markdown(self) -> str:
        lines = [
            *filter(None, [self.generated]),
            f"# {self.title}",
            self.lead,
            *(f"- {name}: {value}" for name, value in self.facts),
        ]
        for section in self.sections:
            lines += [
                f"## {section.title}",
                *section.text,
                *(f"- {note}" for note in section.notes),
            ]
            lines += [f"- {name}: {value}" for name, value in section.pairs]
            for table in section.tables:
                lines += [f"### {table.title}"] if table.title else []
                lines += [writers.markdown(table), *([table.legend] if table.legend else [])]
        text = ""
        for before, line in zip(["", *lines], lines, strict=False):
            of_one_list = before.startswith("- ") and line.startswith("- ")
            text += line if not text else ("\n" if of_one_list else "\n\n") + line
        return text + "\n"


def write(path: Path, scores: list[Path], options: PageOptions = PageOptions()) -> Path:
    """Write the page of these scores.json and return its path. Raises FedcliError, HashError, UsageError."""
    page = render(scores, options)
    manifest.write_text(path, page)
    return path


def render(scores: list[Path], asked: PageOptions) -> str:
    """The page as text."""
    lines = rows(
        scores,
        metrics=asked.metrics,
        at=asked.at,
        spread=asked.spread,
        minutes=asked.minutes and asked.clocks,
        warned=asked.warned,
    )
    systems = compared(lines := shortened(lines))  # the page says first what all share
    asked = replace(asked, metrics=shown(systems[0].scores, asked.metrics))
    if not asked.tables and asked.spread and asked.at == LAST5:
        findings, tests, remarks = lead.tests(systems, asked.metrics, asked.reference)
        asked = replace(asked, findings=findings, tests=tests, notes=[*asked.notes, *remarks])
    sections = _sections(report(lines, best="Bold"), systems, asked)
    tables = [table for section in sections for table in (*section.tables, *section.folded)]
    words = _terms(
        asked.metrics,
        {text for table in tables for column in table.columns for text in column.levels},
    )
    said, made_up = lead.sentence(systems), lead.generated(systems)
    return Document(
        asked.title or lead.heading(systems), said, lead.facts(systems), sections, words, made_up
    ).html


def _sections(made: Report, systems: list[Row], asked: PageOptions) -> list[Section]:
    notes = list(dict.fromkeys([*asked.notes, *made.notes]))
    named = [(row.name, row.scores) for row in systems]
    falls = list(single_runs.by_severity(named, asked.metrics))
    of_partition = {
        row.stage("partition"): row for row in reversed(systems) if row.run_files
    }  # the first of each
    ranks = comparison.rank_tables(comparison.rank_tests(systems))
    certain = [*lead.intervals(systems, asked.metrics), *asked.tests, *ranks]
    first_images = [
        table for row in reversed(of_partition.values()) for table in provenance.images(row)
    ]
    drawn = (
        [inline.of_picture(picture) for _, picture in figures.of_systems(systems, asked.draw)]
        if asked.figures
        else []
    )
    closed = [
        Section("certainty", "How certain are these numbers?", certain),
        *subgroups.of_groups(systems, asked.metrics),
        *asked.more,
        subgroups.of_labels(systems),
        images.section(systems),
        Section(
            "severities",
            "Other corruptions",
            falls,
            folded=list(single_runs.by_severity_and_group(named)),
        ),
        Section("adapted", "Adapted to the test images", list(single_runs.adapted(named))),
        Section("clinical", "Operating points and calibration", list(clinical.tables(named))),
        subgroups.of_clients(systems, asked.metrics),
        Section("cross-site", "Trained at and tested on", list(single_runs.cross_site(named))),
        Section("choice", "Model choice", list(choice.tables(systems))),
        leakage.section(systems),
        Section("training", "How training went", panels=list(_convergence(systems))),
        Section("curves", "Curves and errors", folded_panels=drawn),
        Section("data", "Data", first_images),
        provenance.settings(systems, asked.clocks),
        provenance.lineage(systems),
    ]
    legend = " ".join([*made.measured, *made.legends])
    whole = replace(made.tables[0], title="All scores" if asked.tables else "", legend=legend)
    every, shown = [whole, *made.tables[1:]], pictures(asked.pictures)
    first = [lead.section(systems, asked.findings, notes, asked=bool(asked.tables))]
    if asked.tables:
        first.insert(0, Section("scores", "Results", asked.tables, folded=every, panels=shown))
    else:
        first.append(Section("scores", "Scores", every, panels=shown))
    return [*first, *(replace(section, closed=True) for section in closed)]


def pictures(files: Sequence[tuple[str, Path]]) -> list[inline.Panels]:
    """Files of pictures as the page holds them. files: (what it shows, .png or .svg). Raises FedcliError."""
    drawn = []
    for title, path in files:
        kind = KINDS.get(path.suffix.lower())
        if kind is None:
            raise FedcliError(f"{path} is no picture that a page can hold", "give a .png or .svg")
        data = base64.b64encode(path.read_bytes()).decode()
        drawn.append(inline.Drawing(title, image=f"data:{kind};base64,{data}"))
    return [inline.Panels("", drawn, layout="wide")] if drawn else []


def _convergence(systems: list[Row]) -> Iterator[inline.Panels]:
    """Loss and test curves of all systems, and the weight that the server gave each client."""
    runs = {row.name: [series.read(run.parent) for run in row.run_files] for row in systems}
    records = [record for one in runs.values() for record in one]
    scored = dict.fromkeys(
        name
        for record in records
        for name, series in record.series.items()
        if name.split(" ")[0] in SCORED and series.scalar and series.kind != "group"
    )
    names = sorted(scored, key=lambda name: not name.startswith("validation"))
    curves = convergence.of_series(runs, ["loss", *names])
    if len(curves):
        legend = BANDED * any(len(one) > 1 for one in runs.values()) + LOOKED_AT * bool(scored)
        yield replace(
            inline.of_picture(convergence.draw(curves)), title="Convergence", legend=legend
        )
    with suppress(NothingToDraw):
        yield inline.of_picture(FIGURES["weights"].picture(runs))


def _terms(names: Sequence[str], heads: set[str]) -> list[tuple[str, str]]:
    """The metrics that a page shows, then all other terms. names: of metrics; heads: of tables."""
    heads = {head.partition(": ")[2] or head for head in heads}  # "by sex: AUC"
    shown = [
        name
        for name in METRICS
        if name in names or heads & {in_words(name) + unit for unit in ("", ", %", " (%)")}
    ]
    terms: dict[str, str] = {in_words(name): get(name).meaning for name in shown}
    for term, meaning in tomllib.loads(_beside("terms.toml")).items():
        terms |= (
            {term: meaning} if meaning else {in_words(name): get(name).meaning for name in PARITY}
        )
    return list(terms.items())


def _beside(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")
