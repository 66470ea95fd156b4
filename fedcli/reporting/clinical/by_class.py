"""Decisions at one threshold, group by group: the table that `evaluate --clinical` prints of each class."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ... import console
from ...scores import numbers
from ...scores.clinical.shape import POOLED, select
from ...scores.scores import Scores
from ..table import Column, Table
from .topics import FOUND, NAMED, rate, rule_in_words

WITH_INTERVAL = "sensitivity", "specificity"
USUAL = "sensitivity=0.95"  # the rule of several that is shown
RATES = [column if name in WITH_INTERVAL else replace(column, digits=None) for name, column in FOUND.items()]
INTERVALS = "In %, with 95 % Wilson intervals, of the last round's model; a slope of 1 is ideal, below 1 overconfident."
MORE = f"More: --show {', '.join(NAMED)}, or all."
Facts = dict[str, Any]


def by_class(scores: Scores) -> Iterator[Table]:
    """A table of each described class: on every version of the test images of one class, of several on clean ones."""
    clinical = scores.clinical or {"classes": {}}
    several = len(clinical["classes"]) > 1
    for (label, version), known in select(clinical, "classes/*/*"):
        if not (several and version != "clean"):
            yield _table(scores, label, version, known)


def _table(scores: Scores, label: str, version: str, known: Facts) -> Table:
    pooled = [each for each in known["operating"] if each["choice"] == POOLED]
    pooled = [each for each in pooled if each["overall"]["threshold"] is not None]
    point = next((each for each in pooled if each["rule"] == USUAL), pooled[0] if pooled else None)
    word = numbers.versions([scores]).get(version, version)
    images = f", {word} images" if len(scores.versions) > 1 else ""
    chosen = console.counted((scores.clinical or {})["validation"], "validation image", "validation images")
    if not point:
        title = f"{label}{images}: no threshold from {chosen}; fedcli partition --val 0.2 keeps some"
    else:
        rule, threshold = rule_in_words(point["rule"]), point["overall"]["threshold"]
        title = f"{label}{images}, threshold {threshold:.3g}: {rule} on {chosen}"
    lines = [_line("all", known["overall"], point and point["overall"])]
    for attribute, groups in known["groups"].items():
        before = f"{attribute} " if len(known["groups"]) > 1 else ""
        at = point["groups"].get(attribute, {}) if point else {}
        lines += [_line(f"{before}{group}", described, at.get(group)) for group, described in groups.items()]
    heads = ["", "images", *RATES, Column("AP", "%"), Column("calibration slope")]
    kept = [at for at in range(len(heads)) if any(line[at] is not None for line in lines)]
    shown = [[line[at] for at in kept] for line in lines]
    counts = _counts(scores, label, point["overall"], pooled) if point else ""
    return Table.of(title, [heads[at] for at in kept], shown, counts)


def _line(name: str, described: Facts, point: Facts | None) -> list[Any]:
    rates = [rate(point[key]) if key in WITH_INTERVAL else point[key]["value"] for key in FOUND] if point else []
    rates = rates or [None] * len(FOUND)
    return [name, described["count"], *rates, described["average_precision"], described["calibration_slope"]]


def _counts(scores: Scores, label: str, point: Facts, pooled: list[Facts]) -> str:
    """The errors of all images in numbers, and which other thresholds there are."""
    found, passed = point["sensitivity"], point["specificity"]
    others = [name for name in scores.classes if name != label]
    other = others[0] if len(others) == 1 and not scores.several_labels else "others"
    errors = f"{found['total'] - found['counted']} of {found['total']} {label} missed, "
    errors += f"{passed['total'] - passed['counted']} of {passed['total']} {other} are false alarms."
    return f"{errors} Other thresholds ({len(pooled) - 1}): --show thresholds." if len(pooled) > 1 else errors
