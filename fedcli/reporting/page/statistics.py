"""Certainty of the numbers: intervals by patient, and every system against one of them."""

from collections.abc import Iterator, Sequence

import numpy as np

from ... import console
from ...compare.systems import Quantity
from ...compare.tested import order
from ...compare.verdict import INCONCLUSIVE, MODELS_ONLY, RESAMPLES, Against
from ...errors import UsageError, nearest
from ...metrics import RESAMPLED, title
from ...scores.parts import VERSIONS
from ...scores.statistics.bootstrap import LEVEL
from ...scores.table import Where
from ..comparison import tests_against
from ..row import Row
from ..table import Column, Heads, Table

UNCLEAR = "Not shown to differ"  # said of the first metric alone: the tables of tests have the others
MOST_NAMED = 3  # systems whose difference is not clear, of which each is named
ON = {"average": "clean and corrupted images", "clean": "clean images"}


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
    tested, said, warnings = [], [], []
    for metric in (metric for metric in reversed(metrics) if metric in RESAMPLED):
        words = title(metric)
        console.say(f"testing {words} against {base}")
        against = order(systems, base, metric, version)
        tested.append((f"{words}, {ON[version]}", base, against))
        found = list(sentences(against, base, f"{words.partition(',')[0]} on {ON[version]}"))
        said += found if len(tested) == 1 else [text for text in found if not text.startswith(UNCLEAR)]
        warnings += [f"{row.name}: {row.warning}" for row in against if row.warning]
    return said + list(_reasons(tested)), tests_against(tested)[1], warnings


def sentences(rows: Sequence[Against], base: str, what: str) -> Iterator[str]:
    """How much higher or lower each system is than the reference in a score; those that cannot be told apart last."""
    unclear = []
    for row in rows:
        if row.is_reference or row.difference is None:
            continue
        bounds = "" if row.low is None or row.high is None else f"{100 * row.low:+.1f} to {100 * row.high:+.1f}"
        if row.verdict == INCONCLUSIVE:
            unclear.append(f"{row.name} ({100 * row.difference:+.1f} points, 95 % interval {bounds})")
        else:
            way = "higher" if row.difference > 0 else "lower"
            points = f"{100 * abs(row.difference):.1f} points {way} than {base} in {what}"
            yield f"{row.name} scores {points} (95 % interval {bounds})."
    if unclear:
        named = "; ".join(unclear) if len(unclear) <= MOST_NAMED else f"{len(unclear)} other systems"
        yield f"{UNCLEAR} from {base} in {what}: {named}."


def _reasons(tested: Sequence[tuple[str, str, Sequence[Against]]]) -> Iterator[str]:
    """The reason why differences may not be the methods'."""
    alone = [row for *_, rows in tested for row in rows if row.verdict == MODELS_ONLY]
    samples = {(row.samples or 0, (row.over or "seeds")) for row in alone if "few" in (row.reason or "")}
    for count, over in sorted(samples):
        named = f"One {over[:-1]}" if count == 1 else f"Only {count} {over}"
        yield f"{named}: this may be luck of training."
    if any("few" not in (row.reason or "") for row in alone):
        yield "The differences vary from seed to seed: they may be luck of training."


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
    columns: Heads = ["method", *(Column(version, "%", title(metric)) for version, metric in shown)]
    lines = [[row.name, *texts] for row, *texts in zip(compared, *shown.values(), strict=True)]
    return [Table.of(f"Scores with {level} intervals by {unit}", columns, lines, legend)]


def _bounds(row: Row, version: str, metric: str) -> str | None:
    """A score with its low and high, in percent."""
    value, ends = row.system.value(Where(version, metric=metric)), row.system.bounds(Quantity(version, metric))
    return "{:.1f} ({:.1f} – {:.1f})".format(value, *ends) if np.isfinite([value, *ends]).all() else None
