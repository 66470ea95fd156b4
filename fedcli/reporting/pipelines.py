"""Scores as programs read them: the handful of numbers that `--json` gives, limits that --fail-if
sets, and all numbers as one long table, a line per number, for pandas, R or a spreadsheet.

Scores of `--json` are shares from 0 to 1, means over the kept rounds (the last five) and over
seeds. A limit, such as gap(sex) > 5, is read, looked up in scores, and said where it is broken:

    QUANTITY [of METRIC] [on clean|noisy|both] OP NUMBER

QUANTITY is a metric by its name or title, gap(ATTRIBUTE), worst(ATTRIBUTE), or mean, std or worst
`among clients`; of two systems change(QUANTITY) or p(QUANTITY). Gaps and worst groups may also be
named as columns are, such as `worst group balanced_accuracy by age`, see quantities.py. Numbers are
in percent or percentage points, p is a share. OP is one of <, <=, >, >=. Nothing that is typed is
run.
"""

import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from ..comparison.cautions import small_decides, small_groups
from ..comparison.systems import read
from ..comparison.tested import Comparison
from ..comparison.verdict import ComparedScore, is_untested
from ..errors import UsageError
from ..io.csv_text import csv_text
from ..metrics import METRICS, title
from ..printed import fixed
from ..scores import numbers, views
from ..scores.parts import MODELS, VERSIONS
from ..scores.scores import RunScores
from ..scores.table import Number, Score, Where
from . import comparison as texts
from .columns import shown
from .quantities import VERSION_NAMES, Quantity, quantity
from .rows import Rows, SystemRow, systems_of

Brief = dict[str, Any]
SIGNS = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
LIMIT = re.compile(r"(.+?)\s*(<=|>=|<|>)\s*([-+]?\d+(?:\.\d+)?)\s*%?")
MOST_DIGITS = 15
IN_POINTS = views.GAP, views.GAP_IN_EACH, views.AMONG[1]
COMPARED = re.compile(r"(change|p)\s*\((.*)\)(.*)")
VERSION_WORDS = {version: word for word, version in VERSION_NAMES.items()} | {MODELS[1]: "noisy"}
BY_GROUP, ON_IMAGES = "groups are by", "scores are on images that are"
GRAMMAR = (
    "write for example 'gap(sex) > 5', 'worst(age) of balanced_accuracy on noisy < 40' or "
    "'accuracy < 80'"
)
CHANGES = (
    "write for example 'change(auc_ovo_macro) < -1', 'change(gap(sex)) > 2' or 'p(accuracy) < 0.05'"
)
OF_SCORES = "method", "label", "rule", "dataset"
OF_NUMBER = "version", "model", "attribute", "group", "client", "metric", "measure", "statistic"
FIELDS = ("run", *OF_SCORES, "seed", "fold", *OF_NUMBER, "value")
Line = tuple[str | int | Number, ...]


def of_row(row: SystemRow) -> Brief:
    """One system: its scores on each version of the test images, chance, and each attribute's worst
    group and gap.
    """
    scores = row.scores
    own_metrics = [name for name in scores.versions["clean"] if name not in METRICS]
    by_metric: Brief = {}
    for metric in dict.fromkeys([*scores.usual, *shown(scores), *own_metrics]):
        by_metric[metric] = {}
        for version in VERSIONS:
            if version in scores.versions:
                by_metric[metric][version] = vars(row.value(Where(version, metric=metric)))
    groups: Brief = {}
    for attribute, versions in scores.groups.items():
        groups[attribute] = {version: _groups(row, attribute, version) for version in versions}
    body: Brief = {
        "name": row.name,
        "method": scores.method,
        "seeds": row.seeds,
        "rounds": row.at,
        "images": scores.images,
        "scores": by_metric,
        "chance": _chance(scores),
        "groups": groups,
        "paths": [str(path) for path in row.paths],
    }
    if scores.unscored:
        body["unscored"] = {**asdict(scores.unscored), "sentence": scores.unscored.sentence}
    if scores.adapted:
        body["adapted"] = asdict(scores.adapted)
    return body


def _chance(scores: RunScores) -> Brief:
    """The scores of guessing in the usual metrics; {} where sites show one class alone."""
    if scores.unscored and scores.unscored.of_one_class:
        return {}
    return {scores.usual[0]: 1 / max(scores.answers(), 1), scores.usual[1]: 0.5}


def _groups(row: SystemRow, attribute: str, version: str) -> Brief:
    """The worst group, the gap and every group's score in one metric, with the numbers of images
    and what is not reliable.

    worst_group: None where groups share the lowest score. images: None of groups whose number
    differs between test sets or is hidden. small_group_decides: of which numbers that is so.
    """
    metric = row.scores.usual[1]
    where = Where(version, attribute=attribute, metric=metric)
    column = row.scores.groups[attribute][version].get(metric, {})
    each = {group: row.value(where._replace(group=group)).mean for group in column}
    worst = row.value(where._replace(measure=views.WORST)).mean
    worst_groups = [] if worst is None else views.worst_of(each, metric)
    small: dict[str, str] = {}
    for scores in row.each:
        small |= small_groups(scores, attribute, metric)
    decided = small_decides(row.each, attribute, version, metric, row.at)
    return {
        "metric": metric,
        "worst": worst,
        "worst_group": worst_groups[0] if len(worst_groups) == 1 else None,
        "gap": row.value(where._replace(measure=views.GAP)).mean,
        "each": each,
        "images": {group: _images(row, attribute, group) for group in column},
        "small": small,
        "small_group_decides": sorted(decided),
    }


def _images(row: SystemRow, attribute: str, group: str) -> int | None:
    """The test images of a group; None where the number differs between test sets or is hidden."""
    counts = set()
    for scores in row.each:
        score = scores.members(attribute).get(group, Score())
        counts.add(None if score.hidden else score.count)
    return counts.pop() if len(counts) == 1 else None


def of_comparison(compared: Comparison) -> Brief:
    """Two systems: the change of each score and of each gap between groups, B minus A, and what can
    be said of it.
    """
    changes = [_change(row, "") for row in compared.rows]
    for attribute, tests in compared.groups.items():
        for row in tests.gaps:
            decided = bool(texts.sides_of_small_groups(row, tests))
            changes.append(_change(row, attribute, small_group_decides=decided))
    return {
        "systems": texts.names(compared),
        "pairs": compared.pairs,
        "changes": changes,
    }


def _change(row: ComparedScore, attribute: str, *, small_group_decides: bool = False) -> Brief:
    """One change; its verdict and reason are those of the table of `compare`."""
    return {
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
        "verdict": texts.UNTESTED if is_untested(row) else row.verdict,
        "reason": row.reason or "",
        "small_group_decides": small_group_decides,
    }


@dataclass(frozen=True)
class Limit:
    """One limit as typed.

    compares: "change" or "p" of two systems, "" of a score. quantity: with the version of the test
    images as scores have it.
    """

    text: str
    compares: str
    quantity: Quantity
    sign: str
    bound: float

    def broken_by(self, system: str, value: Number) -> str:
        """A sentence on a number that is beyond the limit, or is not there, which cannot be shown
        to be within; or "".
        """
        option = f"--fail-if {self.text!r}"
        if value is None:
            return f"{system}: {option} cannot be checked, as there is no such number"
        if not SIGNS[self.sign](value, self.bound):
            return ""
        in_points = self.compares == "change" or self.quantity.measure in IN_POINTS
        digits = 4 if self.compares == "p" else 2
        while digits < MOST_DIGITS and not SIGNS[self.sign](round(value, digits), self.bound):
            digits += 1  # until it is seen to be beyond
        number = fixed(value, digits)
        if self.compares != "p":
            number += " points" if in_points else " %"
        name = self.text[: self.text.rindex(self.sign)].strip()
        return f"{system}: {name} is {number}, which {option} forbids"

    def metric(self, names: Iterable[str], default: str) -> str:
        """The one of these metrics that is meant. Raises UsageError."""
        typed = self.quantity.metric.lower()
        if not typed:
            return default
        by_word = {}
        for name in names:
            by_word[title(name).lower()] = name
            by_word[name.lower()] = name
        if typed not in by_word:
            metrics = list(dict.fromkeys(by_word.values()))
            longer = [metric for metric in metrics if metric.startswith(f"{typed}_")]
            hint = f"did you mean {' or '.join(longer)}? " if longer else ""
            raise UsageError(
                f"--fail-if {self.text!r}: no score is named {self.quantity.metric!r}",
                f"{hint}there are: {', '.join(metrics)}",
            )
        return by_word[typed]

    def check(self, name: str, names: Iterable[str], fact: str) -> None:
        """Raises UsageError for a name that is none of these."""
        names = list(names)
        if name not in names:
            *words, word = [VERSION_WORDS.get(other, other) for other in (*names, name)]
            listed = ", ".join(words) or "none"
            raise UsageError(f"--fail-if {self.text!r}: {fact} {listed}, not {word}", GRAMMAR)


def limits(texts: Iterable[str], *, compares: bool = False) -> list[Limit]:
    """Limits as typed; compares: of two systems. Raises UsageError."""
    return [_limit(text, compares) for text in texts]


def _limit(text: str, compares: bool) -> Limit:
    error = UsageError(
        f"--fail-if {text!r} is no limit that can be checked here",
        CHANGES if compares else GRAMMAR,
    )
    match = LIMIT.fullmatch(text.strip())
    if not match:
        raise error
    name, sign, bound = match.groups()
    kind = ""
    change = COMPARED.fullmatch(name)
    if change:
        kind = change[1]
        name = change[2] + change[3]
    typed = quantity(name.strip())
    version = typed.version or MODELS[0]
    is_named = typed.metric or typed.measure
    if bool(change) != compares or version not in VERSION_NAMES or not is_named:
        raise error
    return Limit(
        text,
        kind,
        replace(typed, version=VERSION_NAMES[version]),
        sign,
        float(bound),
    )


def broken(limits: Sequence[Limit], rows: Rows) -> list[str]:
    """A sentence for each limit that a row is beyond. Raises UsageError for a quantity that the
    scores do not have.
    """
    sentences = []
    for limit, row in product(limits, systems_of(rows)):
        share = row.value(_where(limit, row.scores)).mean
        number = None if share is None else 100 * share
        sentences.append(limit.broken_by(row.name, number))
    return list(filter(None, sentences))


def _where(limit: Limit, scores: RunScores) -> Where:
    metric = limit.metric(scores.versions[MODELS[0]], scores.usual[1])
    measure = limit.quantity.measure
    attribute = limit.quantity.attribute
    if measure in views.AMONG:
        return Where(metric=metric, measure=measure)
    versions: Mapping[str, Any] = scores.versions
    if attribute:
        limit.check(attribute, scores.groups, BY_GROUP)
        versions = scores.groups[attribute]
    limit.check(limit.quantity.version, versions, ON_IMAGES)
    return Where(
        limit.quantity.version,
        attribute=attribute,
        metric=metric,
        measure=measure,
    )


def broken_by(limits: Sequence[Limit], comparison: Comparison) -> list[str]:
    """A sentence for each limit that the difference of two systems is beyond. Raises UsageError."""
    sentences = []
    for limit in limits:
        if limit.quantity.measure not in ("", views.GAP):
            raise UsageError(
                f"--fail-if {limit.text!r}: compare has scores of all images and gaps", CHANGES
            )
        rows = comparison.rows
        attribute = limit.quantity.attribute
        if attribute:
            limit.check(attribute, comparison.groups, BY_GROUP)
            rows = comparison.groups[attribute].gaps
        metric = limit.metric([row.metric for row in rows], rows[-1].metric if rows else "")
        by_version = {row.version: row for row in rows if row.metric == metric}
        limit.check(limit.quantity.version, by_version, ON_IMAGES)
        row = by_version[limit.quantity.version]
        number = row.p_holm
        if limit.compares == "change" and row.difference is not None:
            number = 100 * row.difference
        sentences.append(limit.broken_by(f"{limit.compares} from A to B", number))
    return list(filter(None, sentences))


def tidy(scores: Sequence[Path]) -> list[Line]:
    """A line in the order of FIELDS for each number of these scores.json.

    statistic: "last", "mean_last5" or "std_last5" of what was scored in several rounds,
        "best_on_validation" of the round that validation chose, else "value". Scores are shares
        from 0 to 1, None where they have no meaning.
    Raises FedcliError, HashError.
    """
    lines = []
    for run in read(scores):
        folder = run.path.parent
        if folder.parent.name == "scores":
            folder = folder.parent.parent
        about_run = [getattr(run.scores, name) for name in OF_SCORES]
        facts = folder.name, *about_run, run.seed, run.fold
        for where, statistics in _statistics(run.scores):
            of_images = where.version, numbers.model(where), where.attribute, where.group
            of_score = where.client, numbers.metric(where), where.measure or "score"
            for statistic, value in statistics.items():
                lines.append((*facts, *of_images, *of_score, statistic, value))
    return lines


def _statistics(scores: RunScores) -> Iterator[tuple[Where, dict[str, Number]]]:
    """The statistics of each number of a run, by name."""
    for where, score in numbers.numbers(scores):
        if score.rounds:
            yield where, {"last": score.last, "mean_last5": score.mean, "std_last5": score.std}
        else:
            yield where, {"value": score.last}
    for where, score in numbers.numbers(scores, best=True):
        yield where, {"best_on_validation": score.last}


def comma_separated(scores: Sequence[Path]) -> str:
    """The lines of tidy() as CSV, under their names."""
    return csv_text([FIELDS, *tidy(scores)])
