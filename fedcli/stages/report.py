"""The report stage: what runs scored, a row per system, as a table in any format."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import console
from ..comparison.systems import BEST, LAST
from ..data.quality import NAMES
from ..errors import UsageError, nearest
from ..io.files import write_text
from ..options import Source
from ..reporting import choice, clinical, comparison
from ..reporting.columns import SHOWN, check_names
from ..reporting.row import Row
from ..reporting.rows import compared, rows
from ..reporting.table import Table
from ..reporting.tables import Report as Tabled
from ..reporting.tables import render
from ..reporting.tables import report as tabled
from ..reporting.writers import titled
from ..scores import own_metrics
from ..scores.choice import check_rule
from ..scores.evaluation_options import EvaluateOptions, ReportOptions
from ..scores.scores import Scores
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
    """

    scores: Sequence[Path]
    options: ReportOptions

    @cached_property
    def rows(self) -> list[Row]:
        """A row per system, and one for each further view of it. Raises FedcliError, HashError, UsageError."""
        return rows(list(self.scores), traffic=self.options.bytes, **self._shown())

    @property
    def operating(self) -> list[Table]:
        """Operating points, calibration and net benefit of each run that `evaluate --clinical` scored."""
        return list(clinical.tables(self._named, clinical.HEADLINE))

    @property
    def choices(self) -> list[Table]:
        """The round and the run that each rule takes by validation images, where --choose asked for it."""
        return list(choice.tables(self.rows))

    @cached_property
    def by_quality(self) -> "Section | None":
        """Scores by image quality, and what it explains of gaps, where --quality asked for it. Raises FedcliError."""
        if not (measure := self.options.quality):
            return None
        from ..reporting.page import by_quality

        own = [row for row in self.rows if not row.is_view]
        return by_quality.section(own, measure, self.options.metric)

    @property
    def ranks(self) -> list[Table]:
        """Mean ranks of methods that every one of several datasets has, and the tests of Friedman and Nemenyi."""
        return comparison.rank_tables(comparison.rank_tests(self.rows))

    @property
    def _named(self) -> list[tuple[str, Scores]]:
        return [(row.name, row.scores) for row in self.rows if not row.is_view]

    def tables(self) -> list[Table]:
        """The tables that `fedcli report` prints, in percent."""
        return [*self._tabled.tables, *self.ranks, *self.choices, *self.operating]

    def words(self) -> list[str]:
        """The legend of the numbers, and what is to be known before comparing."""
        made = self._tabled
        return [*made.about, *made.measured, " ".join(made.legends), *made.notes]

    @cached_property
    def _tabled(self) -> Tabled:
        return tabled(self.rows)

    def to_frame(self, *, percent: bool = False) -> "pandas.DataFrame":
        """A row per system: method, rule, runs, then the mean and the std of each score that some row has.

        Scores are shares from 0 to 1, with percent in percent; `attrs["unit"]` says which. `minutes` and `bytes` of the
        options add columns of these names.
        """
        import pandas

        frame = pandas.DataFrame(map(_line, self.rows)).dropna(axis="columns", how="all")
        scores = [name for row in self.rows for cell in row.cells for name in (cell, f"{cell} std")]
        return in_unit(frame, [name for name in frame.columns if name in scores], percent)

    def figures(
        self, folder: Source, formats: Sequence[str] = ("svg",), draw: Sequence[str] = ()
    ) -> list[Path]:
        """Write curves, matrices and plots for a paper, each as svg, pdf or png, and their captions; the paths.

        draw: "all", or those with one of these texts in their names, such as "roc"; default: a handful.
        Raises FedcliError, UsageError.
        """
        from ..figures.report import FORMATS, write_all

        for name in formats:
            if name not in FORMATS:
                raise UsageError(f"figures cannot be written as {name!r}", nearest(name, FORMATS))
        return write_all(compared(self.rows), Path(folder), formats, draw)

    def cards(self, folder: Source) -> list[Path]:
        """Write the model card and the dataset card of one system as markdown and html; the paths.

        Raises FedcliError, UsageError.
        """
        from ..reporting.cards import cards

        made = cards(self.one_row("a card"))
        return [
            write_into(Path(folder) / f"{each.name}.{ending}", text)
            for each in made
            for ending, text in (("md", each.markdown), ("html", each.html))
        ]

    def evidence(self, folder: Source) -> list[Path]:
        """Write which manifest answers which item of CLAIM, TRIPOD+AI and others as evidence.json and .html; the paths.

        Raises FedcliError, UsageError.
        """
        from ..reporting import cards, evidence

        row = self.one_row("evidence")
        made = evidence.guidelines(row.paths[0], row.scores)
        page = cards.evidence_page(row, made)
        texts = {"evidence.json": evidence.as_json(made), "evidence.html": page.html}
        return [write_into(Path(folder) / name, text) for name, text in texts.items()]

    def one_row(self, what: str) -> Row:
        """The row of the one system that a card or evidence is of. Raises UsageError for several."""
        own = [row for row in self.rows if not row.is_view]
        if len(own) > 1:
            names = ", ".join(row.name for row in own)
            raise UsageError(
                f"{what} is of one system, and these runs are {len(own)}: {names}"[:300],
                "name one run",
            )
        return own[0]

    def to(self, format: str, *, figures: bool = False, draw: Sequence[str] = ()) -> str:
        """The text of a markdown, latex, csv or json table or of an html page. Raises FedcliError, UsageError.

        figures: of a page, whether it holds what figures() draws too; draw: as there.
        """
        if format == "html":
            from ..reporting.page import PageOptions  # matplotlib and torch, for no other format
            from ..reporting.page import render as page

            asked = PageOptions(
                reference=self.options.against,
                figures=figures,
                draw=draw,
                more=[self.by_quality] if self.by_quality else [],
                warned="rows" in vars(self),
                **self._shown(),  # warned of when the rows were made
            )
            return page(list(self.scores), asked)
        tables = [*self.ranks, *self.choices, *self.operating] if format == "markdown" else []
        tables += self.by_quality.tables if self.by_quality and format == "markdown" else []
        return "\n".join([render(self.rows, format), *map(titled, tables)])

    def _shown(self) -> dict[str, Any]:
        asked = self.options
        spread = None if asked.separate else asked.spread
        at = BEST if asked.choose else asked.at
        return {
            "metrics": asked.metric or SHOWN,
            "at": at,
            "spread": spread,
            "minutes": asked.minutes,
        }


def write_into(path: Path, text: str) -> Path:
    """Write a file, and return its path."""
    write_text(path, text)
    return path


def _line(row: Row) -> dict[str, Any]:
    scores = {
        name: number
        for column, value in row.cells.items()
        for name, number in ((column, value.mean), (f"{column} std", value.std))
    }
    traffic = {f"bytes {way}": count for way, count in (row.bytes or {}).items()}
    about = {"method": row.name, "rule": row.scores.rule, "runs": row.runs}
    return about | scores | traffic | {"minutes": row.minutes}


def run(options: ReportOptions) -> Report:
    """Compare runs; one that has no scores yet is evaluated first. Raises FedcliError, UsageError.

    Runs that differ in nothing but the seed are one row.
    """
    check_rule(options.choose)
    if options.quality and options.quality not in NAMES:
        raise UsageError(
            f"there is no measure of image quality {options.quality!r}",
            nearest(options.quality, NAMES),
        )
    if options.choose and options.at == LAST:
        raise UsageError("--choose and --at last exclude each other", "give one of them")
    asked = EvaluateOptions(
        by=options.by, shots=options.shots, choose=options.choose, interval=options.interval
    )
    with own_metrics.asked_for(
        [name for name in options.metric if own_metrics.is_own(name)]
    ) as own:
        names = [name for name in options.metric if not own_metrics.is_own(name)] + own
        check_names(names, own)
        paths = named_runs.every(options.runs, Path(options.work))
        scores = scores_of_all(paths, asked) if paths else scores_under(Path(options.work), asked)
        made = Report(scores, replace(options, metric=names))
        for name in own:
            known = [row.scores.versions["clean"].get(name) for row in made.rows]
            if not any(number and number.mean is not None for number in known):
                console.warn(f"{name} has no number for any run, so it has no column")
        return made


report = called_with("report", ReportOptions, run)
