"""Scores of each group with their intervals, one below the other, and a mark per system."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Annotated

import numpy as np
from pandas import DataFrame

from ...scores.scores import Scores
from ..drawing import COLOURS, INK, Axes, Look, Picture, look, short
from ..figure import Figure, NothingToDraw, register
from ..shapes import DASHED, looks_of, panels, picture
from ..system import VERSION, System, usual

WIDTH, LINE, DOT = 4.4, 0.32, 0.13  # inches: of a panel, of a group in it, of a system's mark in a group
BOOTSTRAP = (
    "Intervals: 95 % {}, 1,000 bootstrap resamples of the patients or lesions of a group (of its images where "
    "patients are unknown)."
)
ABOUT = (
    "Score of the last round's model for each group with its interval and number of images; the vertical line is the "
    "score of all images. † marks a group of fewer than 30 images, or without a class."
)
COLUMNS = ["panel", "about", "system", "place", "group", "n", "small", "value", "low", "high", "overall"]
Bounds = Callable[[System, str, str, str, str], tuple[float, float] | None]  # of attribute, group, version, metric


def frame(
    system: System, *, metric: Annotated[str, "default: balanced_accuracy"] = "",
    version: Annotated[str, VERSION] = "clean",
) -> DataFrame:  # fmt: skip
    """Lines of of_groups() for each attribute, of the first run. Raises NothingToDraw where no group has a score."""
    scores = system.scores
    metric = metric or usual(scores)[0]
    first = System(system.place, system.one, system.paths[:1], system.each[:1])
    lines = [
        line
        for attribute in scores.groups
        for line in of_groups([first], attribute, version, metric, _interval, panel=f"by {attribute}")
    ]
    if not lines:
        hint = "evaluate it with --by ATTRIBUTE, or ask for another --metric or --version"
        raise NothingToDraw(f"no group of {system.one} has a {version} {metric}", hint)
    table = DataFrame(lines, columns=COLUMNS)
    bca = any(score.is_bca for where, score in scores.table.items() if where.group)
    table.attrs |= {
        "title": f"{metric} of each group, {version} test images: {system.one}", "score": metric,
        "caption": f"{ABOUT} {BOOTSTRAP.format('BCa' if bca else 'percentile')} "
        f"n = {scores.images:,} images.",
    }  # fmt: skip
    return table


def of_groups(
    systems: Sequence[System], attribute: str, version: str, metric: str, bounds: Bounds, *, panel: str, about: str = ""
) -> Iterator[tuple]:
    """Lines of COLUMNS, in percent, of each group and system with a score: the mean over its runs, and its bounds."""
    for system in systems:
        runs = [scores.groups[attribute].get(version, {}).get(metric, {}) for scores in system.each]
        overall = _last(system.scores, version, metric)
        for name, group in runs[0].items():
            scores = [run[name].last if name in run else None for run in runs]
            values = [score for score in scores if score is not None]
            if len(values) < len(scores):
                continue
            low, high = bounds(system, attribute, name, version, metric) or (np.nan, np.nan)
            numbers = 100 * float(np.mean(values)), 100 * low, 100 * high, overall
            yield panel, about, system.name, system.place, name, group.count, bool(group.small), *numbers


def _interval(system: System, attribute: str, group: str, version: str, metric: str) -> tuple[float, float] | None:
    known = system.scores.groups[attribute][version].get(metric, {}).get(group)
    return (known.low, known.high) if known and known.low is not None and known.high is not None else None


def _last(scores: Scores, version: str, metric: str) -> float:
    known = scores.versions.get(version, {}).get(metric)
    return np.nan if known is None or known.last is None else 100 * known.last


def draw(table: DataFrame) -> Picture:
    groups, looks = table.groupby("panel")["group"].nunique().max(), looks_of(table, "system", _mark)
    size = WIDTH, 0.9 + max(LINE * groups, DOT * groups * len(looks), 1.0)
    drawn = partial(_panel, looks, f"{table.attrs['score']} (%)")
    legend = looks if len(looks) > 1 else {}
    return picture(table, panels(table, "panel", drawn, about=table["about"].iloc[0]), legend, size=size)


def _mark(place: int) -> Look:
    return {"color": look(place)["color"], "marker": "o" if place < len(COLOURS) else "s", "linestyle": "",
            "markersize": 5.5}  # fmt: skip


def _panel(looks: dict[str, Look], score: str, part: DataFrame, axes: Axes) -> None:
    groups = part.drop_duplicates("group")
    rows = {name: row for row, name in enumerate(groups["group"])}
    systems = part.groupby("system", sort=False)
    for k, (system, own) in enumerate(systems):
        y = own["group"].map(rows) + (k - (len(systems) - 1) / 2) * 0.8 / len(systems)
        axes.hlines(y, own["low"], own["high"], color=looks[system]["color"], linewidth=2.2, alpha=0.45)
        axes.plot(own["value"], y, **looks[system])
    overall = part.drop_duplicates("system")["overall"]
    if len(overall) == 1 and np.isfinite(overall.iloc[0]):
        axes.axvline(overall.iloc[0], **DASHED)
    named = zip(groups["group"], groups["small"], groups["n"], strict=True)
    axes.set_yticks(range(len(rows)), [f"{short(name)}{'†' * small} (n = {n:,})" for name, small, n in named])
    axes.set(ylim=(len(rows) - 0.5, -0.5), xlabel=score)
    axes.grid(axis="y", visible=False)
    for edge in np.arange(len(rows) - 1) + 0.5 if len(systems) > 1 else ():
        axes.axhline(edge, color=INK, linewidth=0.8, alpha=0.15)


register(Figure("forest", "How good is the model for each group?", "system", frame, draw))
