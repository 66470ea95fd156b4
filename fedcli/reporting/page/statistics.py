"""Certainty of the numbers: intervals by patient, and every system against one of them."""

from collections.abc import Sequence

import numpy as np

from ... import console
from ...compare.resampling import bounds_of_mean, can_pool
from ...compare.systems import Quantity
from ...compare.tested import order
from ...errors import UsageError, nearest
from ...metrics import RESAMPLED
from ...scores.parts import VERSIONS
from ...scores.scores import Scores
from ...scores.statistics.bootstrap import LEVEL
from ...scores.statistics.intervals import RESAMPLES
from ...scores.table import Score
from ..comparison import tests_against
from ..row import Row
from ..table import Column, Table


def tests(compared: Sequence[Row], metrics: Sequence[str], reference: str) -> tuple[list[str], list[Table], list[str]]:
    """All systems against one, on the average of clean and corrupted images where there are both: what it says in
    sentences, a table per metric, and what to beware of.

    reference: a name, label or method; default: the first. Raises UsageError for an unknown one.
    """
    if len(compared) < 2:
        return [], [], []
    names = {text: row.name for row in reversed(compared) for text in (row.scores.method, row.scores.label, row.name)}
    if reference and reference not in names:
        raise UsageError(f"no row of the report is named {reference!r}", nearest(reference, names))
    base = names[reference] if reference else compared[0].name
    systems = {row.name: row.scored for row in compared}
    version = "average" if all("corrupted" in row.scores.versions for row in compared) else "clean"
    tested, warnings = [], []
    for metric in (metric for metric in metrics if metric in RESAMPLED):
        console.say(f"testing {version} {metric} against {base}")
        against = order(systems, base, metric, version)
        tested.append((f"{version} {metric}", base, against))
        warnings += [f"{row.name}: {row.warning}" for row in against if row.warning]
    sentences, tables = tests_against(tested)
    return [f"{text[0].upper()}{text[1:]}" for text in sentences], tables, warnings


def tables(compared: Sequence[Row], metrics: Sequence[str]) -> list[Table]:
    """Each system's last model and the bootstrap interval of its score; none where the scores have no intervals."""
    names = [(v, m) for v in VERSIONS for m in metrics if any(bounds(row, v, m) for row in compared)]
    if not names:
        return []
    columns = [Column("method"), *(Column(metric, "%", version) for version, metric in names)]
    lines = [[row.name, *(_text(bounds(row, v, m)) for v, m in names)] for row in compared]
    first = next(estimate for row in compared for v, m in names if (estimate := interval(row.scores, v, m)))
    unit, units = ("patient", "patients or lesions") if first.unit.startswith("patient") else ("image", "images")
    level = f"{100 * LEVEL:g} %"
    kind = "BCa " if first.is_bca else ""
    legend = (
        f"In percent: the score of the last round's model{_averaged(compared)}, with its {level} {kind}interval from "
        f"{RESAMPLES:,} bootstrap resamples of the {first.units:,} {units} of the test set in parentheses. "
        "The table of scores shows means over the last rounds, or models that validation images chose, so its numbers "
        "may lie outside. An interval shows how much a score depends on the sample of test patients, not how much it "
        "would vary if training were repeated. "
        "Two methods whose intervals overlap may still differ significantly; the paired tests show this."
    )
    title = f"Last round, with {level} intervals by {unit}"
    return [Table.of(title, columns, lines, legend)]


def interval(scores: Scores, version: str, metric: str) -> Score | None:
    """A score with its interval; None where it has no bounds."""
    estimate = scores.versions.get(version, {}).get(metric)
    return estimate if estimate and estimate.low is not None else None


def bounds(row: Row, version: str, metric: str) -> tuple[float, float, float] | None:
    """The last round's score, the mean over the system's runs, and its low and high."""
    each = [interval(scores, version, metric) for scores in row.each]
    ends = bounds_of_mean(row.scored, Quantity(version, metric), each)
    last = [score.last for score in each if score and score.last is not None]
    return ends and (float(np.mean(last)), *ends)


def _averaged(compared: Sequence[Row]) -> str:
    several = [row.scored for row in compared if row.runs > 1]
    if not several:
        return ""
    if not all(map(can_pool, several)):
        return ", mean over seeds of the score and, where their answers to images are not there, of the bounds"
    return ", mean over seeds in each resample (of the same patients where the seeds share a test set)"


def _text(bounds: tuple[float, float, float] | None) -> str:
    return "{:.1f} ({:.1f} – {:.1f})".format(*(100 * share for share in bounds)) if bounds else "-"
