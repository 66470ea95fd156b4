"""Scores of all images and of each group against the severity of a corruption: a panel a kind."""

from functools import partial
from typing import Annotated

from pandas import DataFrame

from ... import metrics
from ..drawing import ALL, MOST_LINES, OF_ALL, Look, Picture, marked
from ..figure import Figure, NothingToDraw, register
from ..shapes import lines, looks_of, panels, picture, titled
from ..system import LAST_ROUND, System

ABOUT = f"Score on test images corrupted at each severity; 0: the clean ones. {LAST_ROUND}"


def frame(
    system: System, *, by: Annotated[str, "an attribute, whose groups are shown"] = ""
) -> DataFrame:
    """kind, group, place, severity (0: the clean images), value in percent.

    Raises NothingToDraw where `evaluate --corrupt` was not asked for.
    """
    scores = system.scores
    metric = scores.usual[1]  # the area under the curve
    groups: list[str] = []
    sweep = "severity"
    command = "fedcli evaluate RUN --corrupt KIND"
    if by:
        sweep = f"severity and {by}"
        command = f"{command} --by {by}"
    if not scores.severities or (by and by not in scores.groups):
        raise NothingToDraw(f"{system.run_name} has no scores by {sweep}", command)
    caption = ABOUT
    if by:
        every_group = list(scores.members(by))
        groups = every_group[:MOST_LINES]
        if len(every_group) > MOST_LINES:
            caption += f" Shown are the first {MOST_LINES} of {len(every_group)} groups."
    lines = []
    for kind, levels in scores.severities.items():
        corrupted_versions = {int(level): f"{kind} {level}" for level in levels}
        versions = {0: "clean"} | corrupted_versions
        for severity, version in sorted(versions.items()):
            overall = scores.part().overall[version].get(metric)
            value_of_all = overall.last if overall else None
            lines.append((kind, ALL, OF_ALL, severity, value_of_all))
            for position, group in enumerate(groups):
                score = scores.part().groups[by][version][metric][group]
                lines.append((kind, group, position, severity, score.last))
    table = DataFrame(lines, columns=["kind", "group", "place", "severity", "value"])
    table["value"] = table["value"].astype(float) * 100
    words = metrics.title(metric)
    title = f"{words} by {sweep}: {system.run_name}"
    return titled(table, title, caption, scores.images, score=words)


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
        **words,
    )
    by_kind = panels(table, "kind", draw_panel)
    return picture(table, by_kind, looks, size=(3.6, 2.7))


QUESTION = "How does a score fall with the severity of a corruption?"
register(Figure("severities", QUESTION, "system", frame, draw, usual=True))
