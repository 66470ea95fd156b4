"""The handful of numbers that `--json` gives: what people gate and plot. `--json=full` has all of them.

Scores are shares from 0 to 1, means over the kept rounds (the last five) and over seeds.
"""

from dataclasses import asdict
from typing import Any

from ...compare.tested import Comparison
from ...metrics import METRICS
from ...scores import views
from ...scores.parts import VERSIONS
from ...scores.scores import Scores
from ...scores.table import Where
from .. import comparison as texts
from ..columns import shown
from ..row import Row

Brief = dict[str, Any]


def of_row(row: Row) -> Brief:
    """One system: its scores on each version of the test images, chance, and each attribute's worst group and gap."""
    scores = row.scores
    versions = [version for version in VERSIONS if version in scores.versions]
    own = [name for name in scores.versions["clean"] if name not in METRICS]
    return {
        "name": row.name, "method": scores.method, "seeds": row.seeds, "rounds": row.at, "images": scores.images,
        "scores": {
            metric: {version: _value(row, Where(version, metric=metric)) for version in versions}
            for metric in (*shown(scores), *own)
        },
        "chance": chance(scores),
        "groups": {attribute: {v: _groups(row, attribute, v) for v in of} for attribute, of in scores.groups.items()},
        "paths": [str(path) for path in row.paths],
    } | ({"adapted": asdict(scores.adapted)} if scores.adapted else {})  # fmt: skip


def chance(scores: Scores) -> dict[str, float]:
    """Scores of guessing in the metrics that are shown by default."""
    first, area = scores.usual
    return {first: 1 / max(scores.answers(), 1), area: 0.5}


def _groups(row: Row, attribute: str, version: str) -> Brief:
    metric = row.scores.usual[1]
    where = Where(version, attribute=attribute, metric=metric)
    each = row.scores.groups[attribute][version].get(metric, {})
    return {
        "metric": metric,
        "worst": row.value(where._replace(measure=views.WORST)).mean,
        "gap": row.value(where._replace(measure=views.GAP)).mean,
        "each": {group: row.value(where._replace(group=group)).mean for group in each},
    }


def _value(row: Row, where: Where) -> Brief:
    value = row.value(where)
    return {"mean": value.mean, "std": value.std}


def of_comparison(compared: Comparison) -> Brief:
    """Two systems: the change of each score and of each gap between groups, B minus A, and what can be said of it."""
    gaps = [(name, row) for name, tests in compared.groups.items() for row in tests.gaps]
    changes = [
        {
            "score": row.metric, "on": row.version, "gap_by": attribute, "a": row.a.mean, "b": row.b.mean,
            "change": row.difference, "low": row.low, "high": row.high, "p": row.p_holm, "p_seeds": row.p_seeds_holm,
            "verdict": row.verdict,
        }
        for attribute, row in [*(("", row) for row in compared.rows), *gaps]
    ]  # fmt: skip
    return {"systems": texts.names(compared), "pairs": compared.pairs, "changes": changes}
