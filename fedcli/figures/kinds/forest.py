"""Scores of all images and of each group with their intervals, one below the other.

Each system has a mark of its own. More than MOST_SYSTEMS systems would repeat marks: each has a
line with its name instead, the best at the top, and groups are left out.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated

import numpy as np
from pandas import DataFrame

from ...comparison.cautions import unknown_group
from ...comparison.systems import BEST, LAST, LAST5
from ...console import capital, listed
from ...data import units
from ...metrics import title
from ...scores.numbers import versions as in_words
from ...scores.parts import MODELS
from ...scores.scores import RunScores
from ...scores.table import Where
from ..drawing import ALL, INK, MOST_SYSTEMS, OF_TICK, Axes, Looks, Picture, point, short
from ..figure import Figure, NothingToDraw, register
from ..shapes import DASHED, looks_of, panels, picture, titled
from ..system import VERSION, System, shared_attributes, shared_images

WIDTH = 4.4  # inches of a panel, wider where its names are
SCORES = 2.2  # inches beside the names
LINE = 0.32  # inches of a group in it
DOT = 0.13  # inches of a system's mark in a group
NAME = 0.17  # inches of a system that has a line of its own
ROUNDS = {
    LAST5: "Mean of the last rounds",
    LAST: "Score of the last round",
    BEST: "Score of the round that validation images chose",
}
BARRED = ", with its 95 % interval over the test patients (images, if no patients are known)"
MANY = " The dashed line is at {first}. Groups are shown for up to {most} systems."
SMALL = " † marks a group, or all images, if too small, or if a class is missing or has few images."
COLUMNS = ["version", "system", "place", "attribute", "group", "n", "small", "value", "low", "high"]


def frame(
    systems: list[System],
    *,
    metric: Annotated[str, "default: the area under the curve"] = "",
    version: Annotated[str, f"{VERSION}; default: both"] = "",
) -> DataFrame:
    """Lines of COLUMNS, in percent, of all images and of each group that all systems have.

    More than MOST_SYSTEMS systems have no lines of groups.
    Raises NothingToDraw where no system has the score.
    """
    metric = metric or systems[0].scores.usual[1]
    score = title(metric)
    lines: list[tuple] = []
    for model in [version] if version else MODELS:
        for where in _wheres(systems, Where(model, metric=metric)):
            lines += _lines(systems, where)
    if not lines:
        images = version or "any"
        raise NothingToDraw(f"no system has {score} on {images} images", "ask for another")
    table = DataFrame(lines, columns=COLUMNS)
    table["n"] = table["n"].astype("Int64")  # none where the test sets of folds differ
    caption = ROUNDS[systems[0].at]
    if table["low"].notna().any():
        caption += units.worded(BARRED, systems[0].scores.noun)
    caption += "."
    if len(systems) > MOST_SYSTEMS:
        caption += MANY.format(first=systems[0].name, most=MOST_SYSTEMS)
    if table["small"].any():
        caption += SMALL
    heading = capital(score)
    attributes = [name for name in table["attribute"].unique() if name]
    if attributes:
        heading = f"{heading} by {listed(attributes)}"
    runs = []
    for system in systems:
        runs += system.each
    caption += _unknown(runs, attributes)
    words = in_words(runs)
    table["version"] = table["version"].map(lambda version: words.get(version, version))
    return titled(
        table,
        heading,
        caption,
        shared_images(systems),
        score=score,
    )


def _unknown(runs: Sequence[RunScores], attributes: Sequence[str]) -> str:
    """Sentences on the test images whose group is not known; "" where every group is known."""
    notes = [unknown_group(runs, attribute) for attribute in attributes]
    return "".join(f" {capital(note)}." for note in notes if note)


def _wheres(systems: Sequence[System], overall: Where) -> Iterator[Where]:
    yield overall
    if len(systems) > MOST_SYSTEMS:
        return
    for attribute in shared_attributes(systems):
        for group in systems[0].scores.members(attribute):
            yield overall._replace(attribute=attribute, group=group)


def _lines(systems: Sequence[System], where: Where) -> Iterator[tuple]:
    for system in systems:
        value = system.percent(where)
        if np.isnan(value):
            continue
        scores = [run.score(where) for run in system.scored]
        if all(scores):
            group = where.group or ALL
            identity = where.version, system.name, system.place, where.attribute, group
            counts = {score.count for score in scores if score}
            count = counts.pop() if len(counts) == 1 else None
            is_small = any(score.small for score in scores if score)
            yield *identity, count, is_small, value, *system.bounds(where)


def draw(table: DataFrame) -> Picture:
    looks = looks_of(table, "system", point)
    if len(looks) > MOST_SYSTEMS:
        return _ranked(table)
    rows = table.groupby("version")["group"].size().max()
    line_height = LINE * rows / len(looks)
    height = 0.9 + max(line_height, DOT * rows, 0.7)
    score_label = f"{table.attrs['score']} (%)"
    draw_panel = partial(
        _panel,
        looks,
        score_label,
        _limits(table),
    )
    by_version = panels(table, "version", draw_panel, "{} test images".format)
    legend = looks if len(looks) > 1 else {}
    letters = max(map(len, _names(table)))
    width = max(WIDTH, SCORES + OF_TICK * letters)
    return picture(table, by_version, legend, size=(width, height))


def _ranked(table: DataFrame) -> Picture:
    """A line for each system, in the order of their scores on the first version of the images."""
    reference = table.iloc[0]
    on_first_version = table[table["version"] == reference["version"]]
    ordered = on_first_version.sort_values("value", ascending=False, kind="stable")
    draw_panel = partial(
        _ranked_panel,
        ordered["system"].tolist(),
        reference["system"],
        _limits(table),
        f"{table.attrs['score']} (%)",
    )
    mark = "†" if table["small"].any() else ""
    title = f"{{}} test images{mark}{_size(on_first_version)}"
    by_version = panels(table, "version", draw_panel, title.format)
    height = 0.9 + NAME * len(ordered)
    return picture(table, by_version, size=(WIDTH, height))


def _ranked_panel(
    names: Sequence[str],
    reference: str,
    limits: tuple[float, float],
    score: str,
    scores: DataFrame,
    axes: Axes,
) -> None:
    """A version's line of each system; a dashed line at the score of the reference."""
    ordered = scores.set_index("system").reindex(names)
    rows = range(len(names))
    axes.axvline(ordered.at[reference, "value"], **DASHED)
    dot = point(0) | {"markersize": 4}
    axes.hlines(
        rows,
        ordered["low"],
        ordered["high"],
        color=dot["color"],
        linewidth=2.2,
        alpha=0.45,
    )
    axes.plot(ordered["value"], rows, clip_on=False, **dot)
    axes.set_yticks(rows, [short(name) for name in names], fontsize=8)
    vertical_limits = (len(names) - 0.5, -0.5)
    axes.set(ylim=vertical_limits, xlim=limits, xlabel=score)
    axes.grid(axis="y", visible=False)


def _limits(table: DataFrame) -> tuple[float, float]:
    """The limits of every panel, so that versions can be compared by eye."""
    ends = table[["value", "low", "high"]].to_numpy(float)
    low = np.nanmin(ends)
    high = np.nanmax(ends)
    margin = max(0.04 * (high - low), 0.5)
    if high + margin < 100:
        return low - margin, high + margin
    upper = max(high, 100) + margin / 4
    return low - margin, upper


def _panel(
    looks: Looks,
    score: str,
    limits: tuple[float, float],
    part: DataFrame,
    axes: Axes,
) -> None:
    groups = part.drop_duplicates(["attribute", "group"])
    keys = list(zip(groups["attribute"], groups["group"]))
    systems = part.groupby("system", sort=False)
    for k, (system, lines) in enumerate(systems):
        from_middle = k - (len(systems) - 1) / 2
        offset = from_middle * 0.7 / len(systems)
        keys_of_lines = zip(lines["attribute"], lines["group"])
        rows = [keys.index(key) for key in keys_of_lines]
        y = np.add(rows, offset)
        look = looks[system]
        axes.hlines(
            y,
            lines["low"],
            lines["high"],
            color=look["color"],
            linewidth=2.2,
            alpha=0.45,
        )
        dot = look | {"markersize": 5.5}
        axes.plot(lines["value"], y, clip_on=False, **dot)
    axes.set_yticks(range(len(keys)), _names(part))
    vertical_limits = (len(keys) - 0.5, -0.5)
    axes.set(ylim=vertical_limits, xlim=limits, xlabel=score)
    axes.grid(axis="y", visible=False)
    for row in range(1, len(keys)):
        previous = keys[row - 1][0]
        is_same_attribute = previous == keys[row][0]
        alpha = 0.12 if is_same_attribute else 0.4
        axes.axhline(row - 0.5, color=INK, linewidth=0.8, alpha=alpha)


def _names(part: DataFrame) -> list[str]:
    several = part["attribute"].nunique() > 2  # with "", of all images
    names = []
    for (attribute, group), lines in part.groupby(["attribute", "group"], sort=False):
        name = group
        if several and attribute:
            name = f"{attribute}: {name}"
        name = short(name)
        if lines["small"].any():
            name += "†"
        names.append(f"{name}{_size(lines)}")
    return names


def _size(lines: DataFrame) -> str:
    """The number of images of these lines, in brackets; "" where it differs."""
    counts = lines["n"]
    if counts.hasnans or counts.nunique() > 1:
        return ""
    return f" (n = {counts.iloc[0]:,})"


QUESTION = "How good is each method, for all images and for each group?"
register(Figure("forest", QUESTION, "systems", frame, draw, usual=True))
