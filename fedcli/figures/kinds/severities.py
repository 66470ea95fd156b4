"""Scores of all images and of each group against the severity of a corruption: a panel a kind."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

from pandas import DataFrame

from ... import console, metrics
from ...comparison.cautions import small_groups
from ...data import units
from ...scores.scores import RunScores
from ...scores.table import Score
from ..drawing import ALL, MOST_LINES, OF_ALL, Look, Picture, marked
from ..figure import Figure, NothingToDraw, register
from ..shapes import (
    FAINT,
    bands_of_groups,
    legend_of_groups,
    lines,
    looks_of,
    panels,
    picture,
    titled,
)
from ..system import LAST_ROUND, OF_GROUPS, SMALL, System

Beside = Callable[[Path], Iterator[tuple[Path, RunScores]]]
NUMBERS = ["value", "low", "high"]
COLUMNS = ["kind", "group", "place", "severity", *NUMBERS]
BANDS = " Bands: 95 % intervals over the test patients (images, if no patients are known)"
ABOUT = f"Score on test images corrupted at each severity; 0: the clean ones. {LAST_ROUND}"


def frame(
    system: System,
    *,
    by: Annotated[str, "an attribute, whose groups are shown"] = "",
    beside: Beside | None = None,
) -> DataFrame:
    """kind, group, place, severity (0: the clean images), value in percent with its interval.

    beside: finds other scores of the run, which are taken if those of the system have none by
    severity.
    Raises NothingToDraw where `evaluate --corrupt` was not asked for.
    """
    scores = _by_severity(system, by, beside)
    metric = scores.usual[1]  # the area under the curve
    members: dict[str, Score] = {}
    groups: list[str] = []
    caption = ABOUT
    if by:
        members = scores.members(by)
        groups = list(members)[:MOST_LINES]
        if len(members) > MOST_LINES:
            caption += f" Shown are the first {MOST_LINES} of {len(members)} groups."
    lines = []
    for kind, levels in scores.severities.items():
        corrupted_versions = {int(level): f"{kind} {level}" for level in levels}
        versions = {0: "clean"} | corrupted_versions
        for severity, version in sorted(versions.items()):
            score = scores.part().overall[version].get(metric, Score())
            lines.append((kind, ALL, OF_ALL, severity, score.last, score.low, score.high))
            for position, group in enumerate(groups):
                score = scores.part().groups[by][version][metric][group]
                lines.append((kind, group, position, severity, score.last, score.low, score.high))
    table = DataFrame(lines, columns=COLUMNS)
    table[NUMBERS] = table[NUMBERS].astype(float) * 100
    if table["low"].notna().any():
        caption += units.worded(BANDS, scores.noun) + (OF_GROUPS if by else "") + "."
    small = [group for group in small_groups(scores, by, metric) if group in groups]
    if small:
        caption += SMALL
    sizes = {group: members[group].count for group in groups}
    words = metrics.title(metric)
    title = f"{words} by {_sweep(by)}: {system.run_name}"
    return titled(
        table,
        title,
        caption,
        scores.images,
        score=words,
        sizes=sizes,
        small=small,
    )


def _by_severity(system: System, attribute: str, beside: Beside | None) -> RunScores:
    """The scores by severity, and by an attribute if one is given. Raises NothingToDraw."""
    if _has_severities(system.scores, attribute):
        return system.scores
    for path, scores in beside(system.paths[0]) if beside else ():
        if _has_severities(scores, attribute):
            console.say(f"using {path}")
            return scores
    command = "fedcli evaluate RUN --corrupt KIND"
    if attribute:
        command = f"{command} --by {attribute}"
    raise NothingToDraw(f"{system.run_name} has no scores by {_sweep(attribute)}", command)


def _has_severities(scores: RunScores, attribute: str) -> bool:
    return bool(scores.severities) and (not attribute or attribute in scores.groups)


def _sweep(attribute: str) -> str:
    return f"severity and {attribute}" if attribute else "severity"


def draw(table: DataFrame) -> Picture:
    looks = looks_of(table, "group", marked)
    ticks = sorted(set(table["severity"]))
    ylabel = f"{table.attrs['score']} (%)"
    words: Look = {
        "xlabel": "severity",
        "ylabel": ylabel,
        "xticks": ticks,
    }
    draw_panel = partial(
        lines,
        x="severity",
        y="value",
        hue="group",
        looks=looks,
        bounds=("low", "high"),
        shade=FAINT,
        **words,
    )
    by_kind = panels(bands_of_groups(table), "kind", draw_panel)
    legend = legend_of_groups(looks, table.attrs["sizes"], table.attrs["small"])
    return picture(table, by_kind, legend, size=(3.6, 2.7))


QUESTION = "How does a score fall with the severity of a corruption?"
register(Figure("severities", QUESTION, "system", frame, draw, usual=True))
