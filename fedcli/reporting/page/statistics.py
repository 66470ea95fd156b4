"""Certainty of the numbers: intervals by patient, and every system against one of them."""

from collections.abc import Sequence

import numpy as np

from ... import console
from ...compare.resampling import bounds_of_mean, can_pool
from ...compare.systems import Quantity
from ...compare.tested import order
from ...errors import UsageError, nearest
from ...metrics import RESAMPLED
from ...scores.bootstrap import LEVEL
from ...scores.intervals import RESAMPLES
from ...scores.parts import VERSIONS
from ...scores.scores import Scores
from ...scores.table import Score
from ..comparison import tests_against
from ..table import Cell, Column, Table
from .systems import System


def tests(
    compared: Sequence[System], metrics: Sequence[str], reference: str
) -> tuple[list[str], list[Table], list[str]]:
    """All systems against one, on the average of clean and corrupted images where there are both: what it says in
    sentences, a table per metric, and what to beware of.

    reference: a name, label or method; default: the first. Raises UsageError for an unknown one.
    """
    if len(compared) < 2:
        return [], [], []
    base = _reference(compared, reference) if reference else compared[0]
    systems = {system.name: system.row.scored for system in compared}
    version = "average" if all("corrupted" in system.scores.versions for system in compared) else "clean"
    tested, warnings = [], []
    for metric in (metric for metric in metrics if metric in RESAMPLED):
        console.say(f"testing {version} {metric} against {base.name}")
        tested.append((f"{version} {metric}", base.name, order(systems, base.name, metric, version)))
        warnings += [f"{row.name}: {row.warning}" for row in tested[-1][-1] if row.warning]
    sentences, tables = tests_against(tested)
    return [f"{text[0].upper()}{text[1:]}" for text in sentences], tables, warnings


def _reference(compared: Sequence[System], word: str) -> System:
    names = {
        text: system
        for system in reversed(compared)
        for text in (system.scores.method, system.scores.label, system.name)
    }
    if word not in names:
        raise UsageError(f"no row of the report is named {word!r}", nearest(word, names))
    return names[word]


def tables(compared: Sequence[System], metrics: Sequence[str]) -> list[Table]:
    """Each system's last model and the bootstrap interval of its score; none where the scores have no intervals."""
    names = [(v, m) for v in VERSIONS for m in metrics if any(bounds(system, v, m) for system in compared)]
    if not names:
        return []
    columns = [Column("method"), *(Column(metric, "%", version) for version, metric in names)]
    rows = [[Cell(system.name), *(Cell(_text(bounds(system, v, m))) for v, m in names)] for system in compared]
    first = next(estimate for system in compared for v, m in names if (estimate := interval(system.scores, v, m)))
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
    return [Table(title, columns, rows, legend)]


def interval(scores: Scores, version: str, metric: str) -> Score | None:
    """A score with its interval; None where it has no bounds."""
    estimate = scores.versions.get(version, {}).get(metric)
    return estimate if estimate and estimate.low is not None else None


def bounds(system: System, version: str, metric: str) -> tuple[float, float, float] | None:
    """The last round's score, the mean over the system's runs, and its low and high."""
    each = [interval(scores, version, metric) for scores in system.each]
    ends = bounds_of_mean(system.row.scored, Quantity(version, metric), each)
    return ends and (float(np.mean([estimate.last for estimate in each])), *ends)


def _averaged(compared: Sequence[System]) -> str:
    several = [system.row.scored for system in compared if system.row.runs > 1]
    if not several:
        return ""
    if not all(map(can_pool, several)):
        return ", mean over seeds of the score and, where their answers to images are not there, of the bounds"
    return ", mean over seeds in each resample (of the same patients where the seeds share a test set)"


def _text(bounds: tuple[float, float, float] | None) -> str:
    return "{:.1f} ({:.1f} – {:.1f})".format(*(100 * share for share in bounds)) if bounds else "-"
