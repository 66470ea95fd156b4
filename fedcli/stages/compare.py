"""The compare stage: two systems against each other."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..comparison.systems import grouped, read
from ..comparison.tested import Comparison, check_names
from ..comparison.tested import compare as tested
from ..errors import UsageError
from ..reporting import comparison
from ..reporting.table import ReportTable
from ..scores import own_metrics
from ..scores.evaluation_options import CompareOptions, EvaluateOptions
from . import named_runs
from .call import called_with
from .collect import scores_of_all
from .shown import Shown, in_unit

if TYPE_CHECKING:
    import pandas

SCORES = ["a", "b", "difference", "low", "high"]


@dataclass(frozen=True, repr=False)
class Compared(Shown):
    """All that can be said of system B against system A.

    Attributes:
        comparison: its numbers, shares from 0 to 1.
    """

    comparison: Comparison

    def to_frame(self, *, percent: bool = False) -> "pandas.DataFrame":
        """A row per score: version, metric, a, b, difference (b minus a), low and high of its 95 %
        interval, p, p_seeds and verdict.

        Scores are shares from 0 to 1, with percent in percent and points; `attrs["unit"]` says
        which.
        """
        import pandas

        lines = []
        for row in self.comparison.rows:
            scores = [row.a.mean, row.b.mean, row.difference, row.low, row.high]
            tests = [row.p_holm, row.p_seeds_holm, row.verdict]
            lines.append([row.version, row.metric, *scores, *tests])
        columns = ["version", "metric", *SCORES, "p", "p_seeds", "verdict"]
        return in_unit(
            pandas.DataFrame(lines, columns=columns),
            SCORES,
            percent,
        )

    def tables(self) -> list[ReportTable]:
        """Scores and gaps."""
        return [comparison.table(self.comparison)]

    def words(self) -> list[str]:
        """The differences of the two in settings, the verdicts of the tests, and notes on them."""
        compared = self.comparison
        words = [comparison.heading(compared), *comparison.remarks(compared)]
        words += [*comparison.sentences(compared), *comparison.notes(compared)]
        return [*words, comparison.legend(compared)]


def run(options: CompareOptions) -> Compared:
    """Say in what two systems differ, in settings and then in scores, and what can be said of the
    difference.

    Runs that differ in nothing but the seed are one system. Raises FedcliError, UsageError.
    """
    files = [name for name in options.metric if own_metrics.is_own(name)]
    metrics = [name for name in options.metric if name not in files]
    check_names(metrics)
    work = Path(options.work)
    with own_metrics.asked_for(files) as user_metrics:
        paths = named_runs.every(options.runs, work) or named_runs.newest_two(work)
        scores = scores_of_all(paths, EvaluateOptions(by=options.by, interval=options.interval))
        a, b = _two(scores)
        compared = tested(
            a,
            b,
            metrics=[*metrics, *user_metrics],
            resamples=options.resamples,
            seed=options.seed,
            interval=options.interval,
        )
    return Compared(compared)


compare = called_with("compare", CompareOptions, run)


def _two(scores: list[Path]) -> tuple[list[Path], list[Path]]:
    """The scores of the two systems. Raises UsageError where the runs are fewer or more."""
    systems = grouped(read(scores), lambda run: run.identity)
    if len(systems) == 1:
        sentence = "this is one run, which has no other to be compared with"
        if len(scores) > 1:
            sentence = "these runs differ in nothing but the seed: they are one system"
        raise UsageError(sentence, "give runs of another as well")
    if len(systems) > 2:
        labels = ", ".join(runs[0].scores.name for runs in systems)
        sentence = f"these runs are {len(systems)} systems, not two: {labels}"
        raise UsageError(sentence, "give runs of two; fedcli report shows any number")
    a, b = systems
    return [run.path for run in a], [run.path for run in b]
