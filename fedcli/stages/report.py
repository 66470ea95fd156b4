"""The report stage: what runs scored, a row per system, as a table in any format."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import console, leaves
from ..comparison.systems import BEST, LAST, grouped, read
from ..data.quality import NAMES
from ..errors import UsageError, nearest
from ..io.files import write_text
from ..options import Source
from ..reporting import choice, clinical, comparison, robustness, sections
from ..reporting.columns import SHOWN, check_names
from ..reporting.rows import SystemRow, compared, led_by, rows, shortened
from ..reporting.table import ReportTable
from ..reporting.tables import ScoresReport as Tabled
from ..reporting.tables import render
from ..reporting.tables import report as tabled
from ..reporting.writers import titled
from ..scores import own_metrics
from ..scores.choice import check_rule
from ..scores.evaluation_options import EvaluateOptions, ReportOptions
from . import named_runs
from .call import called_with
from .collect import scores_of_all, scores_under
from .shown import Shown, in_unit

if TYPE_CHECKING:
    import pandas

    from ..reporting.table import Section


@dataclass(frozen=True, repr=False)
class Report(Shown):
    """Runs compared.

    Attributes:
        scores: the scores.json of each run.
        files: names of the metrics of one's own that are shown.
    """

    scores: Sequence[Path]
    options: ReportOptions
    files: Sequence[str] = ()

    @cached_property
    def rows(self) -> list[SystemRow]:
        """A row per system, and one for each further view of it.

        Raises FedcliError, HashError, UsageError.
        """
        every_row = rows(
            list(self.scores),
            traffic=self.options.bytes,
            **self._columns(),
        )
        return led_by(every_row, self.options.against)

    def _columns(self) -> dict[str, Any]:
        """The arguments by which the tables and the page choose their numbers."""
        options = self.options
        return {
            "metrics": options.metric or SHOWN,
            "at": BEST if options.choose else options.at,
            "spread": None if options.separate else options.spread,
            "minutes": options.minutes,
            "columns": options.columns,
        }

    @property
    def _systems(self) -> list[SystemRow]:
        return [row for row in self.rows if not row.is_view]

    @property
    def _drawn(self) -> list[SystemRow]:
        """The systems of figures, without what all have in their names."""
        return compared(shortened(self.rows))

    @property
    def operating(self) -> list[ReportTable]:
        """Operating points, calibration and net benefit of each system's first run, where `evaluate
        --clinical` scored it.
        """
        scores_by_name = [(row.run_name, row.scores) for row in self._systems]
        return list(clinical.tables(scores_by_name, clinical.HEADLINE))

    @property
    def choices(self) -> list[ReportTable]:
        """The round and the run that each rule takes by validation images, where --choose asked for
        it.
        """
        return list(choice.tables(self.rows))

    @cached_property
    def by_quality(self) -> "Section | None":
        """Scores by image quality, and what it explains of gaps, where --quality asked for it.

        Raises FedcliError.
        """
        measure = self.options.quality
        if not measure:
            return None
        leaves.require("fedcli.reporting.page.by_quality", "--quality")
        from ..reporting.page import by_quality

        return by_quality.section(self._systems, measure, self.options.metric)

    @cached_property
    def of_packages(self) -> "list[Section]":
        """Sections of installed packages, which --section asked for."""
        return list(sections.of_packages(self.options.section, compared(self.rows)))

    @property
    def robustness(self) -> list[ReportTable]:
        """Corruption errors and the mCE of runs that `evaluate --corrupt` scored, relative to
        --against.
        """
        return list(robustness.tables(self.rows, self.options.against))

    @property
    def ranks(self) -> list[ReportTable]:
        """Mean ranks of methods that every one of several datasets has, and the tests of Friedman
        and Nemenyi.
        """
        return comparison.rank_tables(comparison.rank_tests(self.rows))

    def tables(self) -> list[ReportTable]:
        """The tables that `fedcli report` prints, in percent."""
        tables = [*self.tabled.tables, *self._further_tables()]
        for section in self.of_packages:
            tables += section.tables
        return tables

    def _further_tables(self) -> list[ReportTable]:
        return [*self.ranks, *self.robustness, *self.choices, *self.operating]

    def words(self) -> list[str]:
        """The legend of the numbers, and what is to be known before comparing."""
        tabled = self.tabled
        return [*tabled.about, *tabled.measured, " ".join(tabled.legends), *tabled.notes]

    @cached_property
    def tabled(self) -> Tabled:
        """The tables with the tests of their rows, also in metrics of one's own."""
        with own_metrics.asked_for(self.files):
            return tabled(self.rows)

    def to_frame(self, *, percent: bool = False) -> "pandas.DataFrame":
        """A row per system: method, rule, runs, then the mean and the std of each score that some
        row has.

        Scores are shares from 0 to 1, with percent in percent; `attrs["unit"]` says which.
        `minutes` and `bytes` of the options add columns of these names.
        """
        import pandas

        lines = [_line(row) for row in self.rows]
        frame = pandas.DataFrame(lines).dropna(axis="columns", how="all")
        scores: set[str] = set()
        for row in self.rows:
            for name in row.cells:
                scores.update((name, f"{name} std"))
        return in_unit(
            frame,
            [name for name in frame.columns if name in scores],
            percent,
        )

    def figures(
        self,
        folder: Source,
        formats: Sequence[str] = ("svg",),
        draw: Sequence[str] = (),
    ) -> list[Path]:
        """Write curves, matrices and plots for a paper, each as svg, pdf or png, and their
        captions; the paths.

        draw: "all", or those with one of these texts in their names, such as "roc"; default: a
        handful. Raises FedcliError, UsageError.
        """
        from ..figures.report import FORMATS, write_all

        for name in formats:
            if name not in FORMATS:
                raise UsageError(f"figures cannot be written as {name!r}", nearest(name, FORMATS))
        return write_all(self._drawn, Path(folder), formats, draw)

    def cards(self, folder: Source) -> list[Path]:
        """Write the model card and the dataset card of one system as markdown and html; the paths.

        Raises FedcliError, UsageError.
        """
        leaves.require("fedcli.reporting.cards", "--card")
        from ..reporting.cards import cards

        texts = {}
        for card in cards(self.one_system("a card")):
            texts[f"{card.name}.md"] = card.markdown
            texts[f"{card.name}.html"] = card.html
        return _written(Path(folder), texts)

    def evidence(self, folder: Source) -> list[Path]:
        """Write which manifest answers which item of CLAIM, TRIPOD+AI and others as evidence.json
        and .html; the paths.

        Raises FedcliError, UsageError.
        """
        leaves.require("fedcli.reporting.cards", "--evidence")
        from ..reporting import cards, evidence

        system = self.one_system("evidence")
        guidelines = evidence.guidelines(system.paths[0], system.scores)
        page = cards.evidence_page(system, guidelines)
        texts = {"evidence.json": evidence.as_json(guidelines), "evidence.html": page.html}
        return _written(Path(folder), texts)

    def one_system(self, noun: str) -> SystemRow:
        """The only row. Raises UsageError where the runs are several systems."""
        systems = grouped(read(self.scores), lambda run: run.identity)
        if len(systems) > 1:
            names = ", ".join(runs[0].scores.name for runs in systems)
            sentence = f"{noun} is of one system, and these runs are {len(systems)}: {names}"
            raise UsageError(sentence[:300], "name one run")
        return self._systems[0]

    def check_figures(self, draw: Sequence[str]) -> None:
        """Refuse texts that are in the name of no figure. Raises UsageError."""
        if draw:
            from ..figures.report import check

            check(self._drawn, draw)

    def to(
        self,
        format: str,
        *,
        figures: bool = False,
        draw: Sequence[str] = (),
        lesson: str = "",
    ) -> str:
        """The text of a markdown, latex, csv or json table or of an html page.

        Raises FedcliError, UsageError.

        figures: of a page, whether it holds what figures() draws too; draw: as there; lesson:
        sentences that the page begins with.
        """
        with own_metrics.asked_for(self.files):  # their tests draw resamples
            if format == "html":
                return self._page(figures, draw, lesson)
            texts = [render(self.rows, format)]
        if format == "markdown":
            tables = self._further_tables()
            for section in self.more:
                tables += section.tables
            texts += map(titled, tables)
        return "\n".join(texts)

    @property
    def more(self) -> "list[Section]":
        """The sections that options asked for."""
        by_quality = [self.by_quality] if self.by_quality else []
        return [*by_quality, *self.of_packages]

    def _page(self, figures: bool, draw: Sequence[str], lesson: str) -> str:
        from ..reporting.page import (  # matplotlib and torch, for no other format
            PageOptions,
            render,
        )

        options = PageOptions(
            reference=self.options.against,
            figures=figures,
            draw=draw,
            lesson=lesson,
            more=self.more,
            samples=self.options.samples,
            warned="rows" in vars(self),  # warned of when the rows were made
            **self._columns(),
        )
        return render(list(self.scores), options)


def _written(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write files, and return their paths."""
    paths = []
    for name, text in texts.items():
        write_text(folder / name, text)
        paths.append(folder / name)
    return paths


def _line(row: SystemRow) -> dict[str, Any]:
    """A row of the frame."""
    line: dict[str, Any] = {
        "method": row.name,
        "rule": row.scores.rule,
        "runs": row.runs,
    }
    for name, value in row.cells.items():
        line[name] = value.mean
        line[f"{name} std"] = value.std
    for way, count in (row.bytes or {}).items():
        line[f"bytes {way}"] = count
    line["minutes"] = row.minutes
    return line


def run(options: ReportOptions) -> Report:
    """Compare runs; one that has no scores yet is evaluated first. Raises FedcliError, UsageError.

    Runs that differ in nothing but the seed are one row.
    """
    check_rule(options.choose)
    sections.check(options.section)
    if options.quality and options.quality not in NAMES:
        sentence = f"there is no measure of image quality {options.quality!r}"
        raise UsageError(sentence, nearest(options.quality, NAMES))
    if options.choose and options.at == LAST:
        raise UsageError("--choose and --at last exclude each other", "give one of them")
    files = [name for name in options.metric if own_metrics.is_own(name)]
    others = [name for name in options.metric if name not in files]
    with own_metrics.asked_for(files) as user_metrics:
        metrics = [*others, *user_metrics]
        check_names(metrics, user_metrics)
        report = Report(_scores(options), replace(options, metric=metrics), files)
        for name in user_metrics:
            scores = [row.scores.versions["clean"].get(name) for row in report.rows]
            if all(score is None or score.mean is None for score in scores):
                console.warn(f"{name} has no number for any run, so it has no column")
        return report


report = called_with("report", ReportOptions, run)


def _scores(options: ReportOptions) -> list[Path]:
    """The scores of the runs that options name, or of the newest that can be compared."""
    evaluate_options = EvaluateOptions(
        by=options.by,
        shots=options.shots,
        choose=options.choose,
        interval=options.interval,
        corrupt=options.corrupt,
        severity=options.severity,
    )
    work = Path(options.work)
    paths = named_runs.every(options.runs, work)
    if paths:
        return scores_of_all(paths, evaluate_options)
    return scores_under(work, evaluate_options)
