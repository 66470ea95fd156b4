"""Scores as programs read them: the handful of numbers that `--json` gives, limits that --fail-if sets, and all numbers
as one long table, a line per number, for pandas, R or a spreadsheet.

Scores of `--json` are shares from 0 to 1, means over the kept rounds (the last five) and over seeds.
A limit, such as gap(sex) > 5, is read, looked up in scores, and said where it is broken:

    QUANTITY [of METRIC] [on clean|noisy|both] OP NUMBER

QUANTITY is a metric by its name or title, gap(ATTRIBUTE), worst(ATTRIBUTE), or mean, std or worst `among clients`; of
two systems change(QUANTITY) or p(QUANTITY). Gaps and worst groups may also be named as columns are, such as
`worst group balanced_accuracy by age`, see quantities.py. Numbers are in percent or percentage points, p is a share. OP is one of
<, <=, >, >=. Nothing that is typed is run.
"""

import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..comparison.systems import read
from ..comparison.tested import Comparison
from ..errors import UsageError
from ..io.csv_text import csv_text
from ..metrics import METRICS, title
from ..printed import fixed
from ..scores import numbers, views
from ..scores.parts import MODELS, VERSIONS
from ..scores.scores import Scores
from ..scores.table import Where
from . import comparison as texts
from .columns import shown
from .quantities import VERSION_NAMES, Quantity, between_groups
from .rows import Row

Brief = dict[str, Any]
SIGNS = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}
LIMIT = re.compile(r"(.+?)\s*(<=|>=|<|>)\s*([-+]?\d+(?:\.\d+)?)\s*%?")
IN_POINTS = views.GAP, views.GAP_IN_EACH, views.AMONG[1]
COMPARED = re.compile(r"(change|p)\s*\((.*)\)(.*)")
CLIENTS = re.compile(rf"({'|'.join(views.AMONG)})(.*)")
SCORE = re.compile(r"(?:of\s+)?(.*?)\s*(?:\bon\s+(\w+))?")
GRAMMAR = "write for example 'gap(sex) > 5', 'worst(age) of balanced_accuracy on noisy < 40' or 'accuracy < 80'"
CHANGES = (
    "write for example 'change(auc_ovo_macro) < -1', 'change(gap(sex)) > 2' or 'p(accuracy) < 0.05'"
)
FIELDS = (
    *("run", "method", "label", "rule", "dataset", "seed", "fold"),
    *(
        "version",
        "model",
        "attribute",
        "group",
        "client",
        "metric",
        "measure",
        "statistic",
        "value",
    ),
)
Line = tuple[str | int | float | None, ...]


def of_row(row: Row) -> Brief:
    """One system: its scores on each version of the test images, chance, and each attribute's worst group and gap."""
    scores = row.scores
    versions = [version for version in VERSIONS if version in scores.versions]
    own = [name for name in scores.versions["clean"] if name not in METRICS]
    return {
        "name": row.name,
        "method": scores.method,
        "seeds": row.seeds,
        "rounds": row.at,
        "images": scores.images,
        "scores": {
            metric: {
                version: {"mean": value.mean, "std": value.std}
                for version in versions
                for value in [row.value(Where(version, metric=metric))]
            }
            for metric in (*shown(scores), *own)
        },
        "chance": {
            scores.usual[0]: 1 / max(scores.answers(), 1),
            scores.usual[1]: 0.5,
        },  # scores of guessing
        "groups": {
            attribute: {v: _groups(row, attribute, v) for v in of}
            for attribute, of in scores.groups.items()
        },
        "paths": [str(path) for path in row.paths],
    } | ({"adapted": asdict(scores.adapted)} if scores.adapted else {})


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


def of_comparison(compared: Comparison) -> Brief:
    """Two systems: the change of each score and of each gap between groups, B minus A, and what can be said of it."""
    gaps = [(name, row) for name, tests in compared.groups.items() for row in tests.gaps]
    changes = [
        {
            "score": row.metric,
            "on": row.version,
            "gap_by": attribute,
            "a": row.a.mean,
            "b": row.b.mean,
            "change": row.difference,
            "low": row.low,
            "high": row.high,
            "p": row.p_holm,
            "p_seeds": row.p_seeds_holm,
            "verdict": row.verdict,
        }
        for attribute, row in [*(("", row) for row in compared.rows), *gaps]
    ]
    return {"systems": texts.names(compared), "pairs": compared.pairs, "changes": changes}


@dataclass(frozen=True)
class Limit:
    """One limit as typed.

    compares: "change" or "p" of two systems, "" of a score. measure: as views name it, of the groups of an attribute
    or of clients; "" of all images. metric: a name or title, "" for the AUC. version: of the test images.
    """

    text: str
    compares: str
    measure: str
    attribute: str
    metric: str
    version: str
    sign: str
    bound: float

    def breaks(self, value: float | None) -> bool:
        """Tell whether a number is beyond the limit; one that is not there cannot be shown to be within."""
        return value is None or SIGNS[self.sign](value, self.bound)

    def said(self, whose: str, value: float | None) -> str:
        """A sentence on a number that is beyond the limit."""
        if value is None:
            return f"{whose}: --fail-if {self.text!r} cannot be checked, as there is no such number"
        in_points = self.compares == "change" or self.measure in IN_POINTS
        unit = "points" if in_points else "%"
        number = f"{value:.4f}" if self.compares == "p" else f"{fixed(value, 2)} {unit}"
        what = self.text[: self.text.rindex(self.sign)].strip()
        return f"{whose}: {what} is {number}, beyond --fail-if {self.text!r}"


def limits(texts: Iterable[str], *, compares: bool = False) -> list[Limit]:
    """Limits as typed; compares: of two systems. Raises UsageError."""
    return [_read(text, compares) for text in texts]


def _read(text: str, compares: bool) -> Limit:
    hint = CHANGES if compares else GRAMMAR
    whole = LIMIT.fullmatch(text.strip())
    inside = whole and COMPARED.fullmatch(whole[1])
    if not whole or bool(inside) != compares:
        raise UsageError(f"--fail-if {text!r} is no limit that can be checked here", hint)
    what = (inside[2] + inside[3] if inside else whole[1]).strip()
    quantity = _quantity(what)
    version = quantity.version or MODELS[0]
    if version not in VERSION_NAMES or not (quantity.metric or quantity.measure):
        raise UsageError(f"--fail-if {text!r} is no limit that can be checked here", hint)
    return Limit(
        text,
        inside[1] if inside else "",
        quantity.measure,
        quantity.attribute,
        quantity.metric,
        VERSION_NAMES[version],
        whole[2],
        float(whole[3]),
    )


def _quantity(text: str) -> Quantity:
    """A number between groups, among clients or of all images; empty where the text is none of these."""
    between = between_groups(text)
    if between:
        return between
    among = CLIENTS.fullmatch(text)
    measure = among[1] if among else ""
    score = SCORE.fullmatch(among[2].strip() if among else text)
    if score is None:
        return Quantity(measure, "", "", "")
    return Quantity(measure, "", score[1], score[2] or "")


def broken(asked: Sequence[Limit], rows: Sequence[Row]) -> list[str]:
    """A sentence for each limit that a row is beyond. Raises UsageError for a quantity that the scores do not have."""
    own = [row for row in rows if not row.is_view]
    found = (
        (limit, row, row.value(_where(limit, row.scores)).mean) for limit in asked for row in own
    )
    percent = ((limit, row, None if mean is None else 100 * mean) for limit, row, mean in found)
    return [limit.said(row.name, value) for limit, row, value in percent if limit.breaks(value)]


def _where(limit: Limit, scores: Scores) -> Where:
    clean = scores.versions[MODELS[0]]
    metric = _metric(limit, clean, scores.usual[1])
    if limit.measure in views.AMONG:
        return Where(metric=metric, measure=limit.measure)
    if limit.attribute:
        _known(limit, "groups are by", limit.attribute, scores.groups)
        versions: Iterable[str] = scores.groups[limit.attribute]
    else:
        versions = scores.versions
    _known(limit, "scores are on images that are", limit.version, versions)
    return Where(limit.version, attribute=limit.attribute, metric=metric, measure=limit.measure)


def broken_by(asked: Sequence[Limit], comparison: Comparison) -> list[str]:
    """A sentence for each limit that the difference of two systems is beyond. Raises UsageError."""
    said = []
    for limit in asked:
        if limit.measure not in ("", views.GAP):
            raise UsageError(
                f"--fail-if {limit.text!r}: compare has scores of all images and gaps", CHANGES
            )
        if limit.attribute:
            _known(limit, "groups are by", limit.attribute, comparison.groups)
        rows = comparison.groups[limit.attribute].gaps if limit.attribute else comparison.rows
        metric = _metric(limit, [row.metric for row in rows], rows[-1].metric if rows else "")
        found = {row.version: row for row in rows if row.metric == metric}
        _known(limit, "scores are on images that are", limit.version, found)
        row = found[limit.version]
        value = row.p_holm if limit.compares == "p" else row.difference and 100 * row.difference
        said += [limit.said(f"{limit.compares} from A to B", value)] if limit.breaks(value) else []
    return said


def _metric(limit: Limit, names: Iterable[str], default: str) -> str:
    meant = {text.lower(): name for name in names for text in (title(name), name)}
    if limit.metric and limit.metric.lower() not in meant:
        raise UsageError(
            f"--fail-if {limit.text!r}: no score is named {limit.metric!r}",
            f"there are: {', '.join(dict.fromkeys(meant.values()))}",
        )
    return meant[limit.metric.lower()] if limit.metric else default


def _known(limit: Limit, what: str, name: str, names: Iterable[str]) -> None:
    words = {version: word for word, version in VERSION_NAMES.items()} | {MODELS[1]: "noisy"}
    if name not in (there := list(names)):
        listed = ", ".join(words.get(each, each) for each in there) or "none"
        raise UsageError(
            f"--fail-if {limit.text!r}: {what} {listed}, not {words.get(name, name)}", GRAMMAR
        )


def tidy(scores: Sequence[Path]) -> list[Line]:
    """A line in the order of FIELDS for each number of these scores.json.

    statistic: "last", "mean_last5" or "std_last5" of what was scored in several rounds, "best_on_validation" of the
        round that validation chose, else "value". Scores are shares from 0 to 1, None where they have no meaning.
    Raises FedcliError, HashError.
    """
    lines: list[Line] = []
    for run in read(scores):
        about, folder = run.scores, run.path.parent
        name = folder.parent.parent.name if folder.parent.name == "scores" else folder.name
        of_run = name, about.method, about.label, about.rule, about.dataset, run.seed, run.fold
        every = [
            (best, *number)
            for best in (False, True)
            for number in numbers.numbers(about, best=best)
        ]
        for of_best, where, score in every:
            whose = where.version, numbers.model(where), where.attribute, where.group, where.client
            what = numbers.metric(where), where.measure or "score"
            statistics = {"last": score.last, "mean_last5": score.mean, "std_last5": score.std}
            if of_best or not score.rounds:
                statistics = {"best_on_validation" if of_best else "value": score.last}
            lines += [
                (*of_run, *whose, *what, statistic, value)
                for statistic, value in statistics.items()
            ]
    return lines


def comma_separated(scores: Sequence[Path]) -> str:
    """The lines of tidy() as CSV, under their names."""
    return csv_text([FIELDS, *tidy(scores)])
