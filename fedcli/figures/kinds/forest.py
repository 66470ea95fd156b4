"""Scores of all images and of each group with their intervals, one below the other, with a mark for each system."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated

import numpy as np
from pandas import DataFrame

from ...comparison.systems import LAST5
from ...console import capital, listed
from ...metrics import title
from ...scores.numbers import versions as in_words
from ...scores.parts import MODELS
from ...scores.table import Where
from ..drawing import ALL, INK, Axes, Look, Picture, point, short
from ..figure import Figure, NothingToDraw, register
from ..shapes import looks_of, panels, picture, titled
from ..system import VERSION, System

WIDTH, LINE, DOT = (
    4.4,
    0.32,
    0.13,
)  # inches: of a panel, of a group in it, of a system's mark in a group
ABOUT = (
    "{what}, with its 95 % interval over the test patients (images, where no patients are known)."
)
MEAN = "Mean of the last rounds"
SMALL = " † marks a group that is too small, or that lacks a class or has few images of one."
COLUMNS = ["version", "system", "place", "attribute", "group", "n", "small", "value", "low", "high"]


def frame(
    systems: list[System],
    *,
    metric: Annotated[str, "default: the area under the curve"] = "",
    version: Annotated[str, f"{VERSION}; default: both"] = "",
) -> DataFrame:
    """Lines of COLUMNS, in percent, of all images and of each group that all systems have.

    Raises NothingToDraw where no system has the score.
    """
    first = systems[0].scores
    metric = metric or first.usual[1]
    versions = [version] if version else MODELS
    wheres = (where for each in versions for where in _wheres(systems, Where(each, metric=metric)))
    lines = [line for where in wheres for line in _of(systems, where)]
    if not lines:
        raise NothingToDraw(
            f"no system has {title(metric)} on {version or 'any'} images", "ask for another"
        )
    table = DataFrame(lines, columns=COLUMNS)
    what = MEAN if systems[0].at == LAST5 else f"Score of the {systems[0].at} round"
    about = ABOUT.format(what=what) + SMALL * bool(table["small"].any())
    by = (
        f" by {listed(groups)}"
        if (groups := [name for name in table["attribute"].unique() if name])
        else ""
    )
    words = in_words(scores for system in systems for scores in system.each)
    table["version"] = table["version"].map(lambda each: words.get(each, each))
    return titled(table, f"{capital(title(metric))}{by}", about, first.images, score=title(metric))


def _wheres(systems: Sequence[System], overall: Where) -> Iterator[Where]:
    yield overall
    for attribute in systems[0].scores.groups:
        if all(attribute in system.scores.groups for system in systems):
            for group in systems[0].scores.members(attribute):
                yield overall._replace(attribute=attribute, group=group)


def _of(systems: Sequence[System], where: Where) -> Iterator[tuple]:
    for system in systems:
        if np.isfinite(value := system.percent(where)) and (score := system.scored[0].score(where)):
            about = (
                where.version,
                system.name,
                system.place,
                where.attribute,
                where.group or ALL,
                score.count,
            )
            yield *about, bool(score.small), value, *system.bounds(where)


def draw(table: DataFrame) -> Picture:
    rows, looks = table.groupby("version")["group"].size().max(), looks_of(table, "system", point)
    size = WIDTH, 0.9 + max(LINE * rows / len(looks), DOT * rows, 0.7)
    drawn = partial(_panel, looks, f"{table.attrs['score']} (%)", _limits(table))
    shown = panels(table, "version", drawn, "{} test images".format)
    return picture(table, shown, looks if len(looks) > 1 else {}, size=size)


def _limits(table: DataFrame) -> tuple[float, float]:
    """The same for every panel, so that versions can be compared by eye."""
    ends = table[["value", "low", "high"]].to_numpy(float)
    low, high = np.nanmin(ends), np.nanmax(ends)
    beside = max(0.04 * (high - low), 0.5)
    return low - beside, high + beside if high + beside < 100 else max(high, 100) + beside / 4


def _panel(
    looks: dict[str, Look], score: str, limits: tuple[float, float], part: DataFrame, axes: Axes
) -> None:
    groups = part.drop_duplicates(["attribute", "group"])
    keys = list(zip(groups["attribute"], groups["group"], strict=True))
    systems = part.groupby("system", sort=False)
    for k, (system, own) in enumerate(systems):
        beside = (k - (len(systems) - 1) / 2) * 0.7 / len(systems)
        y = [keys.index(key) + beside for key in zip(own["attribute"], own["group"], strict=True)]
        axes.hlines(
            y, own["low"], own["high"], color=looks[system]["color"], linewidth=2.2, alpha=0.45
        )
        axes.plot(own["value"], y, **looks[system] | {"markersize": 5.5})
    several = len({attribute for attribute, _ in keys}) > 2
    names = [
        f"{attribute}: {group}" if several and attribute else group for attribute, group in keys
    ]
    named = zip(names, groups["small"], groups["n"], strict=True)
    axes.set_yticks(
        range(len(keys)), [f"{short(name)}{'†' * small} (n = {n:,})" for name, small, n in named]
    )
    axes.set(ylim=(len(keys) - 0.5, -0.5), xlim=limits, xlabel=score)
    axes.grid(axis="y", visible=False)
    for row in range(1, len(keys)):
        strong = keys[row - 1][0] != keys[row][0]
        axes.axhline(row - 0.5, color=INK, linewidth=0.8, alpha=0.4 if strong else 0.12)


QUESTION = "How good is each method, for all images and for each group?"
register(Figure("forest", QUESTION, "systems", frame, draw, usual=True))
