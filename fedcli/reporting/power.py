"""Widths of intervals that a dataset's or partition's test images will have, and gaps that they can show."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..data import manifest
from ..data.pool import holdings
from ..errors import UsageError, nearest
from ..metrics import Task
from ..scores.statistics import power
from .table import Column, Heads, Table

ALL = "all"
WIDTHS = (
    f"± in percentage points: half the 95 % interval of a sensitivity or specificity of {100 * power.SHARE:g} % "
    f"(Wilson) and of an AUC of {power.AREA:g} (Hanley and McNeil), with each patient counted once."
)
GAPS = (
    f"The smallest gap, in percentage points, that a two-sided test at 5 % finds with a power of 80 % where the first "
    f"group has {100 * power.SHARE:g} %; -: not even the largest."
)


def of_manifest(path: Path, name: str) -> dict[str, Any]:
    """Attribute -> widths of its groups and detectable gaps, of one class. Raises FedcliError, UsageError."""
    made = manifest.read(path, "dataset", "partition", "corruption")
    classes, attributes = made.body["classes"], made.body["attributes"]
    if name not in classes:
        raise UsageError(f"--power {name!r} is no class", nearest(name, classes))
    pool, _, rows = holdings(path)
    known, label = Task.of(pool.y).of_class(pool.y[rows], classes.index(name))
    rows = rows[known]
    units = (pool.id if pool.patient is None else pool.patient)[rows]
    groups = {ALL: (np.zeros(len(rows), int), [ALL])}
    groups |= {
        attribute: (pool.groups[attribute][rows], values)
        for attribute, values in attributes.items()
    }
    facts = {}
    for attribute, (place, values) in groups.items():
        widths = list(power.widths(label, units, place, values, power.SHARE))
        facts[attribute] = {"groups": widths, "gaps": list(power.detectable(widths, power.SHARE))}
    return facts


def tables(facts: dict[str, Any], name: str) -> Iterator[Table]:
    """Two tables of what of_manifest() gives for a class."""
    rates = "sensitivity", "specificity"

    def lines(part: str, *keys: str) -> list[list[Any]]:
        every = ((attribute, each) for attribute, known in facts.items() for each in known[part])
        return [[attribute, *(each[key] for key in keys)] for attribute, each in every]

    columns = ["attribute", "group", "images", "patients", f"with {name}"]
    points = [Column(f"± {rate}", "points") for rate in (*rates, "AUC")]
    groups = lines("groups", "group", "images", "patients", "positives", *rates, "auc")
    yield Table.of(
        f"Expected intervals on test images: {name}", [*columns, *points], groups, WIDTHS
    )
    if gaps := lines("gaps", "first", "second", *rates):
        heads: Heads = [
            "attribute",
            "group",
            "other group",
            *(Column(f"gap in {rate}", "points") for rate in rates),
        ]
        yield Table.of(f"Detectable gaps on test images: {name}", heads, gaps, GAPS)
