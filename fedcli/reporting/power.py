"""Widths of intervals that a dataset's or partition's test images will have, and gaps that they can
show.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..data import manifest, units
from ..data.pool import holdings
from ..errors import UsageError, nearest
from ..metrics import Task
from ..scores.statistics import power
from .table import Column, Heads, ReportTable

Facts = dict[str, Any]
ALL = "all"
RATES = "sensitivity", "specificity"
WIDTHS = (
    "± in percentage points: half the 95 % interval of a sensitivity or specificity of "
    f"{100 * power.SHARE:g} % (Wilson) and of an AUC of {power.AREA:g} (Hanley and McNeil), with "
    "each patient counted once."
)
GAPS = (
    "The smallest gap, in percentage points, that a two-sided test at 5 % detects "
    f"with a power of 80 % if the first group has {100 * power.SHARE:g} %; -: not "
    "even the largest gap."
)


def of_manifest(path: Path, name: str) -> Facts:
    """Attribute -> widths of its groups and detectable gaps, of one class. Raises FedcliError,
    UsageError.
    """
    body = manifest.read(path, "dataset", "partition", "corruption").body
    if name not in body["classes"]:
        raise UsageError(f"--power {name!r} is no class", nearest(name, body["classes"]))
    pool, _, rows = holdings(path)
    known_rows, label = Task.of(pool.y).of_class(pool.y[rows], body["classes"].index(name))
    rows = rows[known_rows]
    patients = (pool.id if pool.patient is None else pool.patient)[rows]
    groups = {ALL: (np.zeros(len(rows), int), [ALL])}
    for attribute, values in body["attributes"].items():
        groups[attribute] = (pool.groups[attribute][rows], values)
    facts = {}
    for attribute, (codes, values) in groups.items():
        widths = list(power.widths(label, patients, codes, values, power.SHARE))
        facts[attribute] = {"groups": widths, "gaps": list(power.detectable(widths, power.SHARE))}
    return facts


def tables(facts: Facts, name: str, noun: str = units.PATIENT) -> Iterator[ReportTable]:
    """Two tables of what of_manifest() gives for a class. noun: of the ids of the dataset."""
    heads: Heads = ["attribute", "group", "images", units.plural(noun), f"with {name}"]
    heads += [Column(f"± {rate}", "points") for rate in (*RATES, "AUC")]
    lines = _lines(
        facts,
        "groups",
        ["group", "images", "patients", "positives", *RATES, "auc"],
    )
    yield ReportTable.of(
        f"Expected intervals on test images: {name}", heads, lines, units.worded(WIDTHS, noun)
    )
    lines = _lines(facts, "gaps", ["first", "second", *RATES])
    if lines:
        heads = ["attribute", "group", "other group"]
        heads += [Column(f"gap in {rate}", "points") for rate in RATES]
        yield ReportTable.of(f"Detectable gaps on test images: {name}", heads, lines, GAPS)


def _lines(facts: Facts, part: str, keys: list[str]) -> list[list[Any]]:
    lines = []
    for attribute, parts in facts.items():
        for numbers in parts[part]:
            lines.append([attribute, *map(numbers.get, keys)])
    return lines
