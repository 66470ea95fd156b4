"""The first screen of a page: the question, its answer in sentences with sizes and intervals, and one figure."""

from collections.abc import Iterator, Sequence

import numpy as np

from ...compare.cautions import small_groups
from ...console import listed
from ...errors import FedcliError
from ...figures import inline
from ...figures.kinds import FIGURES
from ...metrics import title
from ...scores.numbers import versions
from ...scores.parts import MODELS
from ...scores.table import Where
from ...scores.views import GAP, worst_of
from ..comparison import spoken
from ..row import Row
from ..section import Section

MOST_NAMED = 4  # systems whose numbers stand in a sentence


def section(compared: Sequence[Row], findings: Sequence[str], notes: Sequence[str], *, asked: bool) -> Section:
    """findings: of tests between systems. asked: whether they are those that a page was given, under their own head."""
    alone = _alone(compared[0]) if len(compared) == 1 and not asked else ()
    said = [*findings, *alone, *(() if asked else _groups(compared))]
    try:
        panels = [inline.of_picture(FIGURES["forest"].picture(compared))]
    except FedcliError:  # no score that it shows
        panels = []
    return Section("answer", "What these runs show" if asked else question(compared), panels=panels,
                   findings=said, notes=notes)  # fmt: skip


def question(compared: Sequence[Row]) -> str:
    """The question that a reader has of these systems."""
    attributes = list(dict.fromkeys(name for row in compared for name in row.attributes))
    groups = f" for every group by {listed(attributes)}" if attributes else ""
    if len(compared) == 1:
        return f"How good is {compared[0].label}" + (f", and is it as good{groups}?" if groups else "?")
    others = [row.label for row in compared[1:]]
    named = listed(list(dict.fromkeys(others)), "or") if len(others) < MOST_NAMED else "any of the others"
    return f"Is {named} better than {compared[0].label}" + (f", and{groups}?" if groups else "?")


def _alone(row: Row) -> Iterator[str]:
    words = versions(row.each)
    for metric in row.scores.usual[::-1]:
        parts = []
        for version in MODELS:
            value, (low, high) = (
                row.percent(Where(version, metric=metric)),
                row.bounds(Where(version, metric=metric)),
            )
            bounds = f" (95 % interval {low:.1f} to {high:.1f})" if np.isfinite(low) else ""
            parts += [f"{value:.1f} %{bounds} on {words.get(version, version)} images"] if np.isfinite(value) else []
        if parts:
            yield f"{row.name} scores {' and '.join(parts)} in {title(metric)}."


def _groups(compared: Sequence[Row]) -> Iterator[str]:
    """For each attribute the groups that fare worst, and the gap, on clean images."""
    area = compared[0].scores.usual[1]
    for attribute in compared[0].scores.groups:
        known = [
            (row, worst) for row in compared if attribute in row.scores.groups and (worst := _worst(row, attribute))
        ]
        if not known:
            continue
        gaps = [row.percent(Where("clean", attribute=attribute, metric=area, measure=GAP)) for row, _ in known]
        names = list(dict.fromkeys(group for _, (group, _) in known))
        small = " (not a reliable score)" * all(group in small_groups(known[0][0].scores, attribute) for group in names)
        if len(known) > MOST_NAMED:
            lows = [value for _, (_, value) in known]
            numbers = f"{min(lows):.1f} to {max(lows):.1f} %, up to {max(gaps):.1f} points below the best group"
        else:
            numbers = ", ".join(f"{value:.1f} %{f' ({row.label})' * (len(known) > 1)}" for row, (_, value) in known)
            distances = listed([f"{gap:.1f}" for gap in gaps])
            numbers += f"; the gap to the best group is {distances} points"
        lowest = f"{listed(names, 'or')}{small} has the lowest {spoken(area)} on clean images"
        yield f"By {attribute}, {lowest}: {numbers}."


def _worst(row: Row, attribute: str) -> tuple[str, float] | None:
    metric = row.scores.usual[1]
    values = {
        group: row.percent(Where("clean", attribute=attribute, group=group, metric=metric))
        for group in row.scores.members(attribute)
    }
    group = worst_of(values, metric)
    return (group, values[group]) if np.isfinite([*values.values()]).sum() > 1 else None
