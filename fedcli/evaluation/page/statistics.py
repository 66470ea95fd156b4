"""How sure the numbers are: intervals by patient, and every system against one of them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ... import console
from ...errors import UsageError, nearest
from ..cells import VERSIONS
from ..compare import order
from ..findings import HIGHER, LOWER, NONE, PATIENTS, SEEDS
from ..statistics import METRICS
from .systems import System
from .tables import Table

SAID = {
    HIGHER: "higher",
    LOWER: "lower",
    PATIENTS: "these models differ; another seed may turn it",
    SEEDS: "seeds agree; other patients may turn it",
    NONE: "no difference can be told",
}
TESTS = (
    "In percent, each score the mean over the last five rounds and the seeds. The difference, with its 95 % interval, and "
    "the p over patients come from bootstrap resamples of the same patients for both; the p over seeds from a paired t test; "
    "both adjusted by Holm over the rows. A difference is told where both are below 0.05. No p over patients counts "
    "training again; no difference told does not mean that there is none."
)


def tests(compared: list[System], metrics: Sequence[str], reference: str) -> list[Table]:
    """A table per metric: all systems against one, on the average of clean and corrupted images where there are both.

    reference: a name, label or method; default: the first. Raises UsageError for an unknown one.
    """
    if len(compared) < 2:
        return []
    base = _reference(compared, reference) if reference else compared[0]
    systems = {one.name: one.paths for one in compared}
    version = VERSIONS[2] if all("corrupted" in one.body["versions"] for one in compared) else VERSIONS[0]
    found = []
    for metric in (metric for metric in metrics if metric in METRICS):
        console.say(f"testing {version} {metric} against {base.name}")
        lines = [_tested(row) for row in order(systems, base.name, metric, version)]
        heads = [
            "method",
            f"{version} {metric} (%)",
            "difference",
            "95 % interval",
            "p over patients",
            "p over seeds",
            "told",
        ]
        found.append(Table(f"Against {base.name}: {version} {metric}", heads, lines))
    return [*found[:-1], *(replace(last, legend=TESTS) for last in found[-1:])]


def _reference(compared: list[System], word: str) -> System:
    names = {text: one for one in reversed(compared) for text in (one.row["method"], one.row["label"], one.name)}
    if word not in names:
        raise UsageError(f"no row of the report is named {word!r}", nearest(word, names))
    return names[word]


def _tested(row: dict[str, Any]) -> list[str]:
    if row["difference"] is None:
        return [row["name"], _percent(row["mean"]), "-", "-", "-", "-", row["note"]]
    low, high = (None, None) if row["low"] is None else (row["low"], row["high"])
    span = "-" if low is None else f"{100 * low:+.2f} to {100 * high:+.2f}".replace("-", "−")
    difference = f"{100 * row['difference']:+.2f}".replace("-", "−")
    told = "; ".join(filter(None, [SAID[row["verdict"]], row["note"]]))
    return [row["name"], _percent(row["mean"]), difference, span, _p(row["p_holm"]), _p(row["p_seeds_holm"]), told]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.2f}"


def _p(p: float | None) -> str:
    return "-" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def tables(compared: list[System], metrics: Sequence[str]) -> list[Table]:
    """The bootstrap intervals of each system's last model; none where the scores have none."""
    names = [(v, m) for v in VERSIONS for m in metrics if any(bounds(one, v, m) for one in compared)]
    if not names:
        return []
    lines = [[one.name, *(_text(bounds(one, v, m)) for v, m in names)] for one in compared]
    first = next(found for one in compared for v, m in names if (found := interval(one.body, v, m)))
    unit = "patients or lesions" if first["unit"].startswith("patient") else "images"
    legend = (
        f"In percent: {100 * first['level']:g} % interval of the last round's model, from {first['resamples']:,} bootstrap "
        f"resamples of the {first['units']:,} {unit} of the test set{_averaged(compared)}. It says how much the score owes to "
        "which patients happened to be in the test set, not how much training again would change it. Two methods whose "
        "intervals overlap may still differ: tests on the same patients say so."
    )
    return [Table("Intervals over patients", ["method", *(f"{v} {m} (%)" for v, m in names)], lines, legend)]


def interval(body: dict[str, Any], version: str, metric: str) -> dict[str, Any] | None:
    found = body.get("intervals", {}).get(version, {}).get(metric)
    return found if found and found["low"] is not None else None


def bounds(system: System, version: str, metric: str) -> tuple[float, float] | None:
    """Low and high, each the mean over the system's runs."""
    return mean_bounds([interval(body, version, metric) for body in system.bodies])


def mean_bounds(found: list[dict[str, Any] | None]) -> tuple[float, float] | None:
    """Low and high of several intervals, averaged; None where one has no number."""
    if any(one is None or one["low"] is None for one in found):
        return None
    return float(np.mean([one["low"] for one in found])), float(np.mean([one["high"] for one in found]))


def _averaged(compared: list[System]) -> str:
    return ", its bounds averaged over seeds" if any(len(one.scores) > 1 for one in compared) else ""


def _text(found: tuple[float, float] | None) -> str:
    return f"{100 * found[0]:.1f} – {100 * found[1]:.1f}" if found else "-"
