"""Scores of all images and of each group against the severity of a corruption, a panel for each kind."""

from functools import partial
from typing import Annotated

import numpy as np
from pandas import DataFrame

from ...errors import FedcliError
from ..drawing import ALL, MOST_LINES, OF_ALL, Axes, Panel, Picture, marked
from ..figure import Figure, Options, register
from ..system import System, area

ABOUT = (
    "Score of the last round's model under test images corrupted at each severity; 0 is the clean test set. Nothing "
    "was trained for it."
)


def frame(systems: list[System], *, by: Annotated[str, "an attribute, whose groups are shown"] = "") -> DataFrame:
    """kind, group, place, severity (0: the clean images), value in percent.

    Raises FedcliError where `evaluate --corrupt` was not asked for.
    """
    (system,) = systems
    scores, metric = system.scores, area(system.scores)
    if not scores.severities or (by and by not in scores.groups):
        hint = f"fedcli evaluate RUN --corrupt KIND{f' --by {by}' if by else ''}"
        raise FedcliError(f"{system.one} has no scores by severity{f' and {by}' if by else ''}", hint)
    groups = list(scores.members(by))[:MOST_LINES] if by else []
    lines = []
    for kind, levels in scores.severities.items():
        shown = {0: "clean"} | {int(severity): f"{kind} {severity}" for severity in levels}
        for severity, version in sorted(shown.items()):
            known = scores.part().overall[version].get(metric)
            lines.append((kind, ALL, OF_ALL, severity, known.last if known else None))
            column = scores.part().groups[by][version][metric] if by else {}
            lines += [(kind, name, place, severity, column[name].last) for place, name in enumerate(groups)]
    table = DataFrame(lines, columns=["kind", "group", "place", "severity", "value"]).astype({"value": float})
    table["value"] *= 100
    table.attrs |= {
        "title": f"{metric} by severity{f' and {by}' if by else ''}: {system.one}", "score": metric,
        "caption": f"{ABOUT} n = {scores.images:,} images.",
    }  # fmt: skip
    return table


def draw(table: DataFrame) -> Picture:
    about = table.attrs
    panels = [
        Panel(str(kind), partial(_panel, part, about["score"])) for kind, part in table.groupby("kind", sort=False)
    ]
    places = table.drop_duplicates("group").set_index("group")["place"]
    legend = {str(name): marked(place) for name, place in places.items()}
    return Picture(about["title"], panels, legend, about["caption"], size=(3.6, 2.7))


def _panel(part: DataFrame, score: str, axes: Axes) -> None:
    for place, points in part.groupby("place", sort=False):
        known = points[np.isfinite(points["value"])]
        axes.plot(known["severity"], known["value"], **marked(place))
    axes.set(xlabel="severity", ylabel=f"{score} (%)")
    axes.set_xticks(sorted(part["severity"].unique()))


def _variants(system: System) -> list[Options]:
    return [{"by": by} for by in system.scores.groups] if system.scores.severities else []


register(Figure("severities", "How does a score fall with the severity of a corruption?", "systems", frame, draw,
                alone=True, variants=_variants))  # fmt: skip
