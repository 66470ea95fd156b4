"""Numbers as people type them; those between groups in either of two ways:

gap(sex) of balanced_accuracy on noisy      as --fail-if has it; without a metric it is the AUC
noisy gap balanced_accuracy by sex          as columns are named; without a version --metric takes
all

Both have `gap` and `worst` (or `worst group`), of the groups' means, and the same `in each round`.
"""

import re
from dataclasses import dataclass

from ..scores import views
from ..scores.parts import AVERAGE, MODELS

VERSION_NAMES = {
    "clean": MODELS[0],
    "noisy": MODELS[1],
    "corrupted": MODELS[1],
    "both": AVERAGE,
}
MEASURES = {
    "gap": views.GAP,
    "worst": views.WORST,
    "worst group": views.WORST,
    views.GAP_IN_EACH: views.GAP_IN_EACH,
    views.WORST_IN_EACH: views.WORST_IN_EACH,
    f"worst{views.IN_EACH_ROUND}": views.WORST_IN_EACH,
}
WORDS = "|".join(sorted(MEASURES, key=len, reverse=True))
OF_METRIC = r"(?:of\s+)?(?P<metric>.*?)\s*(?:\bon\s+(?P<version>\w+))?"
CALLED = re.compile(rf"(?P<measure>{WORDS})\s*\((?P<attribute>[^()]+)\)\s*{OF_METRIC}")
NAMED = re.compile(
    r"(?:(?P<before>clean|noisy|corrupted|both)\s+)?"
    rf"(?P<measure>{WORDS})\s+(?P<metric>\S.*?)\s+by\s+(?P<attribute>\S+)"
    r"(?:\s+on\s+(?P<version>\w+))?"
)
AMONG_CLIENTS = re.compile(rf"(?:(?P<measure>{'|'.join(views.AMONG)})\s*)?{OF_METRIC}")


@dataclass(frozen=True)
class Quantity:
    """A number between groups, among clients or of all images; "" for what is not typed."""

    measure: str = ""
    attribute: str = ""
    metric: str = ""
    version: str = ""


def quantity(text: str) -> Quantity:
    """The number between groups, among clients or of all images that a text names; empty of another
    text.
    """
    between = between_groups(text)
    if between:
        return between
    match = AMONG_CLIENTS.fullmatch(text)
    return Quantity(**match.groupdict(default="")) if match else Quantity()


def between_groups(text: str) -> Quantity | None:
    """The number between groups that a text names in one of the two ways; None of another text."""
    match = CALLED.fullmatch(text) or NAMED.fullmatch(text)
    if match is None:
        return None
    parts = match.groupdict()
    version = parts["version"] or parts.get("before") or ""
    measure = MEASURES[parts["measure"]]
    return Quantity(
        measure,
        parts["attribute"].strip(),
        parts["metric"],
        version,
    )
