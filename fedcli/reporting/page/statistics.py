"""Certainty of the numbers: intervals by patient, and every system against one of them."""

from collections.abc import Sequence

import numpy as np

from ... import console
from ...compare.tested import order
from ...compare.verdict import INCONCLUSIVE, RESAMPLES, Against
from ...errors import UsageError, nearest
from ...metrics import RESAMPLED, title
from ...scores.numbers import versions
from ...scores.parts import AVERAGE, VERSIONS
from ...scores.statistics.bootstrap import LEVEL
from ...scores.table import Where
from ..comparison import said_against, spoken, tests_against
from ..row import Row
from ..table import Column, Heads, Table


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
    version = AVERAGE if all("corrupted" in row.scores.versions for row in compared) else "clean"
    words_of = versions(run for row in compared for run in row.each)
    on = f"clean and {words_of['corrupted']} images" if version == AVERAGE else "clean images"
    tested: list[tuple[str, str, list[Against]]] = []
    said, warnings = [], []
    for metric in (metric for metric in reversed(metrics) if metric in RESAMPLED):
        words = title(metric)
        console.say(f"testing {words} against {base}")
        against = order(systems, base, metric, version)
        shown = [row for row in against if not tested or row.verdict != INCONCLUSIVE]  # else in the tables alone
        said += said_against(shown, base, f"{spoken(metric)} on {on}", intervals=True)
        tested.append((f"{words}, {on}", base, against))
        warnings += [f"{row.name}: {row.warning}" for row in against if row.warning]
    return said, tests_against(tested)[1], warnings


def tables(compared: Sequence[Row], metrics: Sequence[str]) -> list[Table]:
    """The scores of the report's tables with their intervals over patients; none where there are no intervals."""
    every = {(v, m): [_bounds(row, v, m) for row in compared] for m in metrics for v in VERSIONS}
    shown = {name: column for name, column in every.items() if any(column)}
    if not shown:
        return []
    known = ((row, name) for k, row in enumerate(compared) for name, column in shown.items() if column[k])
    some, (version, metric) = next(known)
    first = some.scores.versions[version][metric]
    unit, units = ("patient", "patients or lesions") if first.unit.startswith("patient") else ("image", "images")
    level = f"{100 * LEVEL:g} %"
    kind = "BCa " if first.is_bca else ""
    legend = (
        f"In percent: the scores of the tables, each with its {level} {kind}interval over {RESAMPLES:,} bootstrap "
        f"resamples of the {first.units:,} {units} of the test set. It shows how much a score depends on the test "
        "patients, not on training again. Two methods whose intervals overlap may still differ: see the tests below."
    )
    words = versions(run for row in compared for run in row.each)
    heads: Heads = ["method", *(Column(words.get(of, of), "%", title(metric)) for of, metric in shown)]
    lines = [[row.name, *texts] for row, *texts in zip(compared, *shown.values(), strict=True)]
    return [Table.of(f"Scores with {level} intervals by {unit}", heads, lines, legend)]


def _bounds(row: Row, version: str, metric: str) -> str | None:
    where = Where(version, metric=metric)
    value, ends = row.percent(where), row.bounds(where)
    return "{:.1f} ({:.1f} – {:.1f})".format(value, *ends) if np.isfinite([value, *ends]).all() else None
