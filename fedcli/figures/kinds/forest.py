"""Scores of each group with their intervals, one below the other, and a mark per system."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Annotated

import numpy as np
from pandas import DataFrame

from ...errors import FedcliError
from ...scores.parts import MODELS
from ...scores.scores import Scores
from .. import drawing
from ..drawing import INK, Axes, Panel, Picture
from ..figure import Figure, Options, register
from ..seen import VERSION
from ..system import System, usual

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
    systems: list[System], *, metric: Annotated[str, "default: balanced_accuracy"] = "",
    version: Annotated[str, VERSION] = "clean",
) -> DataFrame:  # fmt: skip
    """Lines of of_groups() for each attribute, of the first run. Raises FedcliError where no group has a score."""
    (system,) = systems
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
        raise FedcliError(f"no group of {system.one} has a {version} {metric}", hint)
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
    panels = [
        Panel(str(title), partial(_panel, part, table.attrs["score"]), part["about"].iloc[0])
        for title, part in table.groupby("panel", sort=False)
    ]
    groups, systems = table.groupby("panel")["group"].nunique().max(), table["system"].nunique()
    size = WIDTH, 0.9 + max(LINE * groups, DOT * groups * systems, 1.0)
    places = table.drop_duplicates("system").set_index("system")["place"]
    legend = {str(name): mark(place) for name, place in places.items()} if systems > 1 else {}
    return Picture(table.attrs["title"], panels, legend, table.attrs["caption"], size)


def mark(place: int) -> drawing.Look:
    return {"color": drawing.look(place)["color"], "marker": "o" if place < len(drawing.COLOURS) else "s",
            "linestyle": "", "markersize": 5.5}  # fmt: skip


def _panel(part: DataFrame, score: str, axes: Axes) -> None:
    groups = part.drop_duplicates("group")
    rows = {name: row for row, name in enumerate(groups["group"])}
    systems = part.groupby("place", sort=False)
    step = 0.8 / len(systems)
    for k, (place, own) in enumerate(systems):
        y = own["group"].map(rows) + (k - (len(systems) - 1) / 2) * step
        axes.hlines(y, own["low"], own["high"], color=mark(place)["color"], linewidth=2.2, alpha=0.45)
        axes.plot(own["value"], y, **mark(place))
    overall = part.drop_duplicates("place")["overall"]
    if len(overall) == 1 and np.isfinite(overall.iloc[0]):
        axes.axvline(overall.iloc[0], color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
    named = zip(groups["group"], groups["small"], groups["n"], strict=True)
    axes.set_yticks(range(len(rows)), [f"{drawing.short(name)}{'†' * small} (n = {n:,})" for name, small, n in named])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel(f"{score} (%)")
    axes.grid(axis="y", visible=False)
    for edge in np.arange(len(rows) - 1) + 0.5 if len(systems) > 1 else ():
        axes.axhline(edge, color=INK, linewidth=0.8, alpha=0.15)


def _variants(system: System) -> Iterator[Options]:
    scores = system.scores
    for version in (version for version in MODELS if version in scores.versions):
        for metric in usual(scores):
            columns = [versions.get(version, {}).get(metric, {}) for versions in scores.groups.values()]
            if any(score.last is not None for column in columns for score in column.values()):
                yield {"metric": metric, "version": version}


register(
    Figure("forest", "How good is the model for each group?", "systems", frame, draw, alone=True, variants=_variants)
)
