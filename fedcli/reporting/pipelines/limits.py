"""Limits of --fail-if, such as gap(sex) > 5: read, looked up in scores, and said where they are broken.

    QUANTITY [of METRIC] [on clean|noisy|both] OP NUMBER

QUANTITY is a metric by its name or title, gap(ATTRIBUTE), worst(ATTRIBUTE), or mean, std or worst `among clients`; of
two systems change(QUANTITY) or p(QUANTITY). Numbers are in percent or percentage points, p is a share. OP is one of
<, <=, >, >=. Nothing that is typed is run.
"""

import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...compare.tested import Comparison
from ...errors import UsageError
from ...metrics import title
from ...scores import views
from ...scores.parts import AVERAGE, MODELS
from ...scores.scores import Scores
from ...scores.table import Where
from ..row import Row

SIGNS = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}
VERSIONS = {"clean": MODELS[0], "noisy": MODELS[1], "corrupted": MODELS[1], "both": AVERAGE}
BETWEEN = {"gap": views.GAP, "worst": views.WORST}
LIMIT = re.compile(r"(.+?)\s*(<=|>=|<|>)\s*([-+]?\d+(?:\.\d+)?)\s*%?")
COMPARED = re.compile(r"(change|p)\s*\((.*)\)(.*)")
GROUPS = re.compile(r"(gap|worst)\s*\(([^()]+)\)(.*)")
CLIENTS = re.compile(rf"({'|'.join(views.AMONG)})(.*)")
SCORE = re.compile(r"(?:of\s+)?(.*?)\s*(?:\bon\s+(\w+))?")
GRAMMAR = "write for example 'gap(sex) > 5', 'worst(age) of balanced_accuracy on noisy < 40' or 'accuracy < 80'"
CHANGES = "write for example 'change(auc_ovo_macro) < -1', 'change(gap(sex)) > 2' or 'p(accuracy) < 0.05'"


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
        number = f"{value:.4f}" if self.compares == "p" else f"{value:.2f} {'points' if self._in_points else '%'}"
        what = self.text[: self.text.rindex(self.sign)].strip()
        return f"{whose}: {what} is {number}, beyond --fail-if {self.text!r}"

    @property
    def _in_points(self) -> bool:
        return self.compares == "change" or self.measure in (views.GAP, views.AMONG[1])


def read(texts: Iterable[str], *, compares: bool = False) -> list[Limit]:
    """Limits as typed; compares: of two systems. Raises UsageError."""
    return [_read(text, compares) for text in texts]


def _read(text: str, compares: bool) -> Limit:
    hint = CHANGES if compares else GRAMMAR
    whole = LIMIT.fullmatch(text.strip())
    inside = whole and COMPARED.fullmatch(whole[1])
    if not whole or bool(inside) != compares:
        raise UsageError(f"--fail-if {text!r} is no limit that can be checked here", hint)
    what = (inside[2] + inside[3] if inside else whole[1]).strip()
    measure = attribute = ""
    if groups := GROUPS.fullmatch(what):
        measure, attribute, what = BETWEEN[groups[1]], groups[2].strip(), groups[3].strip()
    elif clients := CLIENTS.fullmatch(what):
        measure, what = clients[1], clients[2].strip()
    of = SCORE.fullmatch(what)
    metric, version = (of[1], of[2] or MODELS[0]) if of else ("", "")
    if version not in VERSIONS or not (metric or measure):
        raise UsageError(f"--fail-if {text!r} is no limit that can be checked here", hint)
    return Limit(
        text, inside[1] if inside else "", measure, attribute, metric, VERSIONS[version], whole[2], float(whole[3])
    )


def broken(limits: Sequence[Limit], rows: Sequence[Row]) -> list[str]:
    """A sentence for each limit that a row is beyond. Raises UsageError for a quantity that the scores do not have."""
    own = [row for row in rows if not row.is_view]
    found = ((limit, row, row.value(_where(limit, row.scores)).mean) for limit in limits for row in own)
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


def broken_by(limits: Sequence[Limit], comparison: Comparison) -> list[str]:
    """A sentence for each limit that the difference of two systems is beyond. Raises UsageError."""
    said = []
    for limit in limits:
        if limit.measure not in ("", views.GAP):
            raise UsageError(f"--fail-if {limit.text!r}: compare has scores of all images and gaps", CHANGES)
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
    words = {version: word for word, version in VERSIONS.items()} | {MODELS[1]: "noisy"}
    if name not in (there := list(names)):
        listed = ", ".join(words.get(each, each) for each in there) or "none"
        raise UsageError(f"--fail-if {limit.text!r}: {what} {listed}, not {words.get(name, name)}", GRAMMAR)
