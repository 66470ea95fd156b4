"""Confusion matrices, forest plots of groups, severities by group, and overall score against worst group."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ...scores.bca import BCA
from ...scores.parts import MODELS, Group, Interval
from ...scores.scores import Scores
from ..columns import area, shown
from ..drawing import INK, short
from .graphic import MOST_LINES, OF_ALL, Graphic, Panel, marked, point, style
from .seen import Seen

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FOREST = 4.4, 0.55  # inches: width, height beside the lines
LINE = 0.3  # inches of a group in a forest plot
GREY = "#9a9a9a"
DARK = 0.6  # share from which the text on a cell is white
PRINTED = 10  # classes up to which the cells of a matrix hold numbers
BOOTSTRAP = (
    "Intervals: 95 % {}, 1,000 bootstrap resamples of the patients or lesions of a group (of its images where "
    "patients are unknown)."
)
FOREST_ABOUT = (
    "Score of the last round's model for each group with its interval and number of images; the vertical line is the "
    "score of all images. † marks a group of fewer than 30 images, or without a class."
)
MOST_NAMED = 12  # systems of a plane; of more, the first and those on the front are named
NEAR = 0.03  # of the width and height of all points; points within it share a label
PLANE_ABOUT = (
    "Each system's score on all clean test images against that of its worst group, means over the last five rounds and "
    "over seeds. The line joins the systems that no other one beats in both."
)
GREY_ABOUT = " Grey: systems that are on no such line."
SEVERITY_ABOUT = (
    "Score of the last round's model under test images corrupted at each severity; 0 is the clean test set. Nothing "
    "was trained for it."
)


def confusion(system: str, images: Seen) -> Iterator[Graphic]:
    """A matrix of all images and of each group, for each attribute; not of several labels per image."""
    if images.y.ndim == 2:
        return
    guess, count = images.chances.argmax(1), len(images.classes)
    for attribute in images.groupings or ("",):
        panels = []
        for name, _, at in images.members(attribute):
            cells = np.bincount(images.y[at] * count + guess[at], minlength=count**2).reshape(count, count)
            panels.append(Panel(f"{name} (n = {len(at)})", partial(_matrix, cells, images.classes)))
        yield Graphic(
            "-".join(filter(None, ["confusion", attribute, images.version])),
            f"Confusion matrices{f' by {attribute}' if attribute else ''}, {images.version} test images: {system}",
            "Images by true and predicted class (the most likely one) of the last round's model; the colour is the "
            "share of the true class.",
            len(images.ids), panels, size=(max(3.0, 0.45 * count), max(2.8, 0.42 * count)),
        )  # fmt: skip


def _matrix(cells: np.ndarray, classes: Sequence[str], axes: "Axes") -> None:
    share = cells / np.maximum(cells.sum(1, keepdims=True), 1)
    axes.imshow(share, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.grid(False)
    names = [short(name)[:10] for name in classes]
    axes.set_xticks(range(len(names)), names, rotation=60, ha="right")
    axes.set_yticks(range(len(names)), names)
    axes.set(xlabel="predicted", ylabel="true")
    for (row, column), number in np.ndenumerate(cells) if len(classes) <= PRINTED else ():
        colour = "#ffffff" if share[row, column] > DARK else "#000000"
        axes.text(column, row, f"{number}", ha="center", va="center", fontsize=8, color=colour)


def forest(system: str, scores: Scores) -> Iterator[Graphic]:
    """A figure for each metric and version, a panel for each attribute."""
    for version in (version for version in MODELS if version in scores.versions):
        for metric in shown(scores):
            panels, most = [], 1
            for attribute, versions in scores.groups.items():
                groups = versions[version]
                lines = [
                    (name, group, groups.intervals.get(metric, {}).get(name))
                    for name, group in groups.last_round.groups.items()
                    if group.metrics.get(metric) is not None
                ]
                if lines:
                    most = max(most, len(lines))
                    panels.append(
                        Panel(f"by {attribute}", partial(_forest, lines, _last(scores, version, metric), metric))
                    )
            if panels:
                yield Graphic(
                    f"forest-{metric}-{version}", f"{metric} of each group, {version} test images: {system}",
                    FOREST_ABOUT, scores.versions[version].count, panels, BOOTSTRAP.format(_kind(scores)),
                    size=(FOREST[0], FOREST[1] + max(1.0, LINE * most) + 0.6),
                )  # fmt: skip


def _kind(scores: Scores) -> str:
    """How the intervals of groups were made."""
    groups = [each for versions in scores.groups.values() for each in versions.values()]
    methods = {known.method for each in groups for values in each.intervals.values() for known in values.values()}
    return "BCa" if BCA in methods else "percentile"


def _last(scores: Scores, version: str, metric: str) -> float | None:
    known = scores.versions[version].metrics.get(metric)
    return known.last if known else None


def _forest(
    lines: Sequence[tuple[str, Group, Interval | None]], overall: float | None, metric: str, axes: "Axes"
) -> None:
    for y, (_, group, interval) in enumerate(lines):
        colour, value = style(0)["color"], group.metrics[metric]
        if interval and interval.low is not None and interval.high is not None:
            axes.hlines(y, 100 * interval.low, 100 * interval.high, color=colour, linewidth=1.8)
        axes.plot([100 * (value or 0)], [y], "s", color=colour, markersize=6)
    if overall is not None:
        axes.axvline(100 * overall, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
    names = [f"{short(name)}{'†' * group.small} (n = {group.count:,})" for name, group, _ in lines]
    axes.set_yticks(range(len(lines)), names)
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.set_xlabel(f"{metric} (%)")


def severities(system: str, scores: Scores) -> Iterator[Graphic]:
    """A figure for each attribute, a panel for each kind of corruption: a line for all images and for each group."""
    metric = area(scores)
    for attribute, versions in scores.groups.items() if scores.severities else ():
        names = list(versions["clean"].last_round.groups)[:MOST_LINES]
        panels = []
        for kind, levels in scores.severities.items():
            lines = {OF_ALL: [(0, _last(scores, "clean", metric))]}
            lines |= {
                k: [(0, versions["clean"].last_round.groups[name].metrics.get(metric))] for k, name in enumerate(names)
            }
            for severity in sorted(levels, key=int):
                at, groups = int(severity), levels[severity].groups[attribute].last_round.groups
                known = levels[severity].scores.metrics.get(metric)
                lines[OF_ALL].append((at, known.last if known else None))
                for k, name in enumerate(names):
                    lines[k].append((at, groups[name].metrics.get(metric)))
            panels.append(Panel(kind, partial(_fall, lines, metric)))
        legend = {"all images": OF_ALL} | {name: k for k, name in enumerate(names)}
        yield Graphic(
            f"severities-{attribute}", f"{metric} by severity and {attribute}: {system}", SEVERITY_ABOUT,
            scores.versions["clean"].count, panels, legend=legend, look=marked, size=(3.6, 2.7),
        )  # fmt: skip


def _fall(lines: dict[int, list[tuple[int, float | None]]], metric: str, axes: "Axes") -> None:
    for place, points in lines.items():
        known = [(at, 100 * value) for at, value in points if value is not None]
        if known:
            axes.plot(*zip(*known, strict=True), **marked(place))
    axes.set(xlabel="severity", ylabel=f"{metric} (%)")
    axes.set_xticks(sorted({at for points in lines.values() for at, _ in points}))


def plane(systems: Sequence[tuple[str, Sequence[Scores]]]) -> Iterator[Graphic]:
    """Overall score against worst group, a figure for each metric and a panel for each attribute; of two systems or
    more. systems: name, and the scores of each run."""
    for metric in shown(systems[0][1][0]) if len(systems) > 1 else ():
        attributes = [name for name in systems[0][1][0].groups if all(name in runs[0].groups for _, runs in systems)]
        by = {name: points for name in attributes if (points := _points(systems, name, metric))}
        if by:
            images = systems[0][1][0].versions["clean"].count
            yield of_points([name for name, _ in systems], by, metric, images)


def of_points(
    systems: Sequence[str], by: Mapping[str, Mapping[int, tuple[float, float]]], metric: str, images: int
) -> Graphic:
    """by: attribute -> overall score and worst group in percent, by a system's place."""
    if many := len(systems) > MOST_NAMED:
        places: Iterable[int] = sorted({0} | {at for points in by.values() for at in front(points)})
    else:
        places = range(len(systems))
    looks = {at: look for look, at in enumerate(places)}
    return Graphic(
        f"overall-and-worst-{metric}", f"Overall score and worst group: {metric}", PLANE_ABOUT + GREY_ABOUT * many,
        images, [Panel(f"by {name}", partial(_plane, points, looks, metric)) for name, points in by.items()],
        legend={f"{look + 1} {systems[at]}": look for at, look in looks.items()}, look=point,
        size=(3.8, 3.2),
    )  # fmt: skip


def _points(
    systems: Sequence[tuple[str, Sequence[Scores]]], attribute: str, metric: str
) -> dict[int, tuple[float, float]]:
    """Overall and worst group of each system that has both, by its place."""
    return {at: point for at, (_, runs) in enumerate(systems) if (point := _point(runs, attribute, metric))}


def _point(runs: Sequence[Scores], attribute: str, metric: str) -> tuple[float, float] | None:
    """Overall and worst group, in percent."""
    pairs = []
    for scores in runs:
        overall = scores.versions["clean"].metrics.get(metric)
        between = scores.groups[attribute]["clean"].over_rounds.metrics.get(metric)
        if overall is None or between is None or overall.mean_last5 is None or between.worst.mean_last5 is None:
            return None
        pairs.append((100 * overall.mean_last5, 100 * between.worst.mean_last5))
    first, second = np.mean(pairs, axis=0)
    return float(first), float(second)


def front(points: Mapping[int, tuple[float, float]]) -> list[int]:
    """Places of the points that no other one beats in one number without losing in the other, by the first number."""
    kept = [
        at for at, (x, y) in points.items()
        if not any((a >= x and b >= y) and (a > x or b > y) for a, b in points.values())
    ]  # fmt: skip
    return sorted(kept, key=lambda at: points[at])


def _plane(points: Mapping[int, tuple[float, float]], looks: Mapping[int, int], metric: str, axes: "Axes") -> None:
    """looks: of the systems that the legend names and numbers; others are grey."""
    best = [points[at] for at in front(points)]
    axes.plot(*zip(*best, strict=True), color=INK, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
    for at, (x, y) in points.items():
        if at in looks:
            axes.plot([x], [y], **point(looks[at]))
        else:
            axes.plot([x], [y], "o", color=GREY, markersize=3.5, zorder=0)
    near = NEAR * np.maximum(np.ptp(list(points.values()), axis=0), 1e-9)  # [2]
    numbers: dict[tuple[float, float], list[int]] = {}
    for at in sorted(points.keys() & looks.keys()):
        beside = next((p for p in numbers if (np.abs(np.subtract(p, points[at])) <= near).all()), points[at])
        numbers.setdefault(beside, []).append(looks[at] + 1)
    for place, shared in numbers.items():
        axes.annotate(", ".join(map(str, shared)), place, (4, 4), textcoords="offset points", fontsize=7)
    axes.set(xlabel=f"{metric}, all images (%)", ylabel="worst group (%)")
    axes.margins(0.15)
