"""A report as one HTML file that needs nothing beside it: no server, no network; its script only
sorts tables.

The first screen says what data, asks the question, and answers it in words and one figure; scores
follow, and all else is folded by interest. Every number is of the same rounds, the mean of the last
ones unless others are asked for. Figures are inline SVG in the colours of the page, light or dark.
Equal scores give equal bytes but for what the clocks of their runs say, which a page can leave out.
"""

import base64
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path

from ... import __version__
from ...comparison.systems import LAST5
from ...data import manifest
from ...errors import FedcliError
from ...figures import inline, series
from ...figures import report as figures
from ...figures.drawing import MOST_SYSTEMS
from ...figures.figure import NothingToDraw
from ...figures.kinds import FIGURES, convergence
from ...metrics import METRICS, PARITY, get
from ...metrics import title as in_words
from .. import choice, clinical, comparison, robustness, single_runs, writers
from ..columns import POOLED, SHOWN, shown
from ..rows import Rows, SystemRow, compared, led_by, rows, shortened
from ..sections import of_leaf
from ..table import ReportTable, Section
from ..tables import ScoresReport, report
from . import images, lead, provenance, subgroups
from .markup import HERE, PAGE, environment

BANDED = "A line is the mean over runs, its band one sample standard deviation to either side."
CURVES = (
    f"Curves are drawn for up to {MOST_SYSTEMS} methods: `fedcli report` of some of these runs."
)
LOOKED_AT = " Test curves are for looking at: they choose nothing."
SCORED = "clean", "corrupted", "validation"  # the first words of curves of scores
KINDS = {".png": "image/png", ".svg": "image/svg+xml"}


@dataclass(frozen=True)
class PageOptions:
    """Options of a page: what it shows beside the tables of all scores.

    title: default: the methods and the dataset. tables: stand before the tables of all scores,
    which are then folded.
    findings: what the runs show, above all tables; tests: tables of tests, below the figures; both
    are the page's own where no tables are given. notes: stand before those of the scores. pictures:
    (what it shows, .png or .svg file). at, spread, metrics, minutes: as in rows.rows. reference:
    the row that the page's own tests are against; default: the first. clocks: whether to say how
    long training took and how much memory; without it equal scores give equal bytes. figures:
    whether those of figures/report.py stand on it too, folded; draw: only those with such a text in
    their names. more: sections behind those by group. samples: whether training images are shown
    at its head. warned: whether what cannot be compared was said before. lesson: sentences that it
    begins with.
    """

    title: str = ""
    tables: Sequence[ReportTable] = ()
    findings: Sequence[str] = ()
    tests: Sequence[ReportTable] = ()
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
    samples: bool = False
    columns: Sequence[str] = ()
    warned: bool = False
    lesson: str = ""


@dataclass(frozen=True)
class Document:
    """Sections of any kind as a page of its own, or as text.

    lead: a sentence below the title; terms: words and what they mean; generated: a sentence that
    says so of images that are, above all else; name: of a file without its ending.
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
        parts = {
            "version": __version__,
            "css": _file_text("page.css"),
            "script": _file_text("page.js"),
            "sections": [section for section in self.sections if section.there],
        }
        return environment().get_template(PAGE).render(vars(self) | parts)

    @property
    def markdown(self) -> str:
        blocks = [self.generated] if self.generated else []
        blocks += [f"# {self.title}", self.lead, *_items(self.facts)]
        for section in self.sections:
            blocks += [f"## {section.title}", *section.text]
            blocks += [f"- {note}" for note in section.notes]
            blocks += _items(section.pairs)
            for table in section.tables:
                title = f"### {table.title}" if table.title else ""
                blocks += filter(None, [title, writers.markdown(table), table.legend])
        text = blocks[0]
        for before, block in pairwise(blocks):
            in_list = before.startswith("- ") and block.startswith("- ")
            text += f"\n{block}" if in_list else f"\n\n{block}"
        return text + "\n"


def _items(pairs: Sequence[tuple[str, str]]) -> list[str]:
    return [f"- {name}: {value}" for name, value in pairs]


def write(
    path: Path,
    scores: list[Path],
    options: PageOptions = PageOptions(),
) -> Path:
    """Write the page of these scores.json and return its path. Raises FedcliError, HashError,
    UsageError.
    """
    page = render(scores, options)
    manifest.write_text(path, page)
    return path


def render(scores: list[Path], options: PageOptions) -> str:
    """The page as text."""
    every_row = rows(
        scores,
        metrics=options.metrics,
        at=options.at,
        spread=options.spread,
        minutes=options.minutes and options.clocks,
        columns=options.columns,
        warned=options.warned,
    )
    every_row = led_by(every_row, options.reference)
    every_row = shortened(every_row)  # the page says first what all share
    systems = compared(every_row)
    options = replace(options, metrics=shown(systems[0].scores, options.metrics))
    scores_report = report(every_row, best="Bold")
    if not options.tables and options.spread:
        tests, remarks = lead.tests(systems, scores_report.tests)
        notes = [*options.notes, *remarks]
        findings = scores_report.verdicts
        options = replace(options, findings=findings, tests=tests, notes=notes)
    sections = [*_open_sections(scores_report, systems, options)]
    sections += [replace(section, closed=True) for section in _closed_sections(systems, options)]
    heads: set[str] = set()
    for section in sections:
        for table in (*section.tables, *section.folded):
            heads.update(*(column.levels for column in table.columns))
    return Document(
        options.title or lead.heading(systems),
        f"{options.lesson} {lead.sentence(systems)}".lstrip(),
        lead.facts(systems),
        sections,
        terms=_terms(options.metrics, heads),
        generated=lead.generated(systems),
    ).html


def _open_sections(
    scores_report: ScoresReport,
    systems: Rows,
    options: PageOptions,
) -> Iterator[Section]:
    """The answer, and the scores: below the tables that a page was given, which come first, they
    are folded. Above all, where they were asked for, training images.
    """
    notes = list(dict.fromkeys([*options.notes, *scores_report.notes]))
    legend = " ".join([*scores_report.measured, *scores_report.legends])
    title = "All scores" if options.tables else ""
    scores = replace(scores_report.tables[0], title=title, legend=legend)
    tables = [scores, *scores_report.tables[1:]]
    panels = pictures(options.pictures)
    if options.samples:
        yield images.samples(systems)
    if options.tables:
        yield Section("scores", "Results", options.tables, folded=tables, panels=panels)
    yield lead.section(systems, options.findings, notes, answered=bool(options.tables))
    if not options.tables:
        yield Section("scores", "Scores", tables, panels=panels)


def _closed_sections(systems: Rows, options: PageOptions) -> Iterator[Section]:
    """All else by interest, in the order of the page."""
    scores_by_name = [(row.run_name, row.scores) for row in systems]
    certainty = lead.intervals(systems, options.metrics)
    certainty += options.tests
    certainty += comparison.rank_tables(comparison.rank_tests(systems))
    yield Section("certainty", "How certain are these numbers?", certainty)
    yield from subgroups.of_groups(systems, options.metrics)
    yield from options.more
    yield subgroups.of_labels(systems)
    yield images.section(systems)
    falls = list(single_runs.by_severity(scores_by_name, options.metrics))
    falls_of_groups = list(single_runs.by_severity_and_group(scores_by_name))
    if falls:
        falls = [*robustness.tables(systems, options.reference), *falls]
    yield Section("severities", "Other corruptions", falls, folded=falls_of_groups)
    adapted = list(single_runs.adapted(scores_by_name))
    yield Section("adapted", "Adapted to the test images", adapted)
    points = list(clinical.tables(scores_by_name))
    yield Section("clinical", "Operating points and calibration", points)
    yield subgroups.of_clients(systems, options.metrics)
    cross_site = list(single_runs.cross_site(scores_by_name))
    yield Section("cross-site", "Trained at and tested on", cross_site)
    yield Section("choice", "Model choice", list(choice.tables(systems)))
    yield from of_leaf("page.leakage", systems)
    yield _training(systems)
    panels = []
    if options.figures:
        pictures = figures.of_systems(systems, options.draw)
        panels = [inline.of_picture(picture) for _, picture in pictures]
    yield Section("curves", "Curves and errors", folded_panels=panels)
    yield Section("data", "Data", list(_images_by_partition(systems)))
    yield provenance.settings(systems, options.clocks)
    yield provenance.lineage(systems, chain.from_iterable(map(provenance.operating, systems)))


def _images_by_partition(systems: Rows) -> Iterator[ReportTable]:
    """The tables of images of the first system on each partition."""
    first_rows: dict[Path | None, SystemRow] = {}
    for row in reversed(systems):
        if row.run_files:
            first_rows[row.stage("partition")] = row
    for row in reversed(first_rows.values()):
        yield from provenance.images(row)


def pictures(files: Sequence[tuple[str, Path]]) -> list[inline.Panels]:
    """Files of pictures as the page holds them. files: (what it shows, .png or .svg). Raises
    FedcliError.
    """
    drawings = []
    for title, path in files:
        kind = KINDS.get(path.suffix.lower())
        if kind is None:
            raise FedcliError(f"{path} is no picture that a page can hold", "give a .png or .svg")
        data = base64.b64encode(path.read_bytes()).decode()
        drawings.append(inline.Drawing(title, image=f"data:{kind};base64,{data}"))
    return [inline.Panels("", drawings, layout="wide")] if drawings else []


def _training(systems: Rows) -> Section:
    """Curves of all systems; of more than MOST_SYSTEMS nobody could tell them apart."""
    if len(systems) > MOST_SYSTEMS:
        return Section("training", "How training went", text=[CURVES])
    return Section("training", "How training went", panels=list(_convergence(systems)))


def _convergence(systems: Rows) -> Iterator[inline.Panels]:
    """Loss and test curves of all systems, and the weight that the server gave each client."""
    runs = {}
    for row in systems:
        runs[row.name] = [series.read(path.parent) for path in row.run_files]
    scored: dict[str, None] = {}
    for record in chain.from_iterable(runs.values()):
        scored |= dict.fromkeys(_scored(record))
    names = sorted(scored, key=lambda name: not name.startswith("validation"))
    curves = convergence.of_series(runs, ["loss", *names])
    if len(curves):
        legend = ""
        if max(map(len, runs.values())) > 1:
            legend += BANDED
        legend += _looked_at(scored)
        panels = inline.of_picture(convergence.draw(curves))
        yield replace(panels, title="Convergence", legend=legend)
    with suppress(NothingToDraw):
        yield inline.of_picture(FIGURES["weights"].picture(runs))


def _looked_at(names: Iterable[str]) -> str:
    """A sentence on curves of test scores; "" where there are none. names: of curves of scores."""
    return "" if all(name.startswith("validation") for name in names) else LOOKED_AT


def _scored(record: series.Record) -> list[str]:
    """The names of a run's curves of scores, without those of groups."""
    return [
        name
        for name, curve in record.series.items()
        if name.split(" ")[0] in SCORED and curve.scalar and curve.kind != "group"
    ]


def _terms(metrics: Sequence[str], heads: set[str]) -> list[tuple[str, str]]:
    """The metrics that a page shows, then all other terms. heads: of tables."""
    heads = {head.partition(": ")[2] or head for head in heads}  # "by sex: AUC"
    terms = {}
    for name in METRICS:
        words = in_words(name)
        if name in metrics or heads & {words, f"{words}, %", f"{words} (%)"}:
            terms[words] = get(name).meaning
    for term, meaning in tomllib.loads(_file_text("terms.toml")).items():
        if meaning:
            terms[term] = meaning
        else:
            terms |= {in_words(name): get(name).meaning for name in PARITY}
    return list(terms.items())


def _file_text(name: str) -> str:
    """The text of a file of this folder."""
    return (HERE / name).read_text(encoding="utf-8")
