"""Scores of all images and of each group against the severity of a corruption, a panel for each kind."""

from functools import partial
from typing import Annotated, Any

from pandas import DataFrame

from ... import metrics
from ..drawing import ALL, MOST_LINES, OF_ALL, Picture, marked
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
    scores, metric = system.scores, system.scores.usual[1]  # the area under the curve
    if not scores.severities or (by and by not in scores.groups):
        hint = f"fedcli evaluate RUN --corrupt KIND{f' --by {by}' if by else ''}"
        raise NothingToDraw(
            f"{system.one} has no scores by severity{f' and {by}' if by else ''}", hint
        )
    groups = list(scores.members(by))[:MOST_LINES] if by else []
    lines = []
    for kind, levels in scores.severities.items():
        shown = {0: "clean"} | {int(severity): f"{kind} {severity}" for severity in levels}
        for severity, version in sorted(shown.items()):
            known = scores.part().overall[version].get(metric)
            lines.append((kind, ALL, OF_ALL, severity, known.last if known else None))
            column = scores.part().groups[by][version][metric] if by else {}
            lines += [
                (kind, name, place, severity, column[name].last)
                for place, name in enumerate(groups)
            ]
    table = DataFrame(lines, columns=["kind", "group", "place", "severity", "value"]).astype(
        {"value": float}
    )
    table["value"] *= 100
    words = metrics.title(metric)
    heading = f"{words} by severity{f' and {by}' if by else ''}: {system.one}"
    return titled(table, heading, ABOUT, scores.images, score=words)


def draw(table: DataFrame) -> Picture:
    looks = looks_of(table, "group", marked)
    ticks, score = sorted(set(table["severity"])), f"{table.attrs['score']} (%)"
    words: Any = {"xlabel": "severity", "ylabel": score, "xticks": ticks}
    drawn = partial(lines, x="severity", y="value", hue="group", looks=looks, **words)
    return picture(table, panels(table, "kind", drawn), looks, size=(3.6, 2.7))


QUESTION = "How does a score fall with the severity of a corruption?"
register(Figure("severities", QUESTION, "system", frame, draw, usual=True))
