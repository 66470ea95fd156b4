"""Overall score against that of the worst group, of several systems: a panel for each attribute."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated

import numpy as np
from pandas import DataFrame

from ...comparison.cautions import small_decides
from ...metrics import better_low, title
from ...scores.table import Where
from ...scores.views import WORST, is_tied, worst_of
from ..drawing import MOST_SYSTEMS, Axes, Look, Picture, point
from ..figure import Figure, NothingToDraw, register
from ..shapes import DASHED, panels, picture, titled
from ..system import System, shared_attributes, shared_images

GREY: Look = {
    "color": "#9a9a9a",
    "marker": "o",
    "markersize": 3.5,
    "linestyle": "",
    "zorder": 0,
}
NEAR = 0.045  # of the width and height of a panel, which a number takes beside a point
MARGIN = 0.15  # on each side of all points and bars, of the width or height that they take
LEAST = 1.0  # percent that an axis shows, at least
BARS = "overall_low", "overall_high", "worst_low", "worst_high"
COLUMNS = "attribute", "system", "place", "overall", "worst"
WITHOUT = dict.fromkeys(BARS, np.nan) | {"group": "", "small": False}  # further ones, if unknown
ABOUT = (
    "Each method's score on all clean test images against its worst group's, both as "
    "in the tables. The line joins the methods that no other method beats in both."
)
BARRED = (
    " Bars: 95 % bootstrap intervals, of all images and of the group that is worst "
    "on average. The same images choose that group, so its bar lies too {side} if there "
    "are many groups: of five equal ones it holds the true score in about 90 % of "
    "cases."
)
GREYED = " Grey: systems that are on no such line."
SMALL = (
    " † marks a worst group that is too small, or in which a class is missing or has few images: "
    "{}."
)


Point = tuple[float, float]
Labels = dict[Point, list[int]]  # point -> numbers of the systems beside it


def frame(
    systems: list[System], *, metric: Annotated[str, "default: the area under the curve"] = ""
) -> DataFrame:
    """attribute, system, place, overall and worst in percent with their BARS, group, small and
    front.

    group: the worst, several where they tie, "" where all do. small: whether it is too small to be
    reliable. front: whether no other system beats it in both.
    Raises NothingToDraw where fewer than two systems have groups.
    """
    metric = metric or systems[0].scores.usual[1]
    lines = []
    for attribute in shared_attributes(systems):
        for system in systems:
            numbers = _numbers(system, attribute, metric)
            if np.isfinite(numbers[:2]).all():
                lines.append((attribute, system.name, system.place, *numbers))
    if len(systems) < 2:
        sentence = f"there is no other method to compare {systems[0].name} with"
        raise NothingToDraw(sentence, "give two methods or more")
    if not lines:
        sentence = f"no two methods have {title(metric)} of groups to compare"
        raise NothingToDraw(sentence, "give runs evaluated with --by")
    return of_pairs(lines, metric, len(systems), shared_images(systems))


def of_pairs(
    lines: Sequence[tuple],
    metric: str,
    systems: int,
    images: int,
) -> DataFrame:
    """The frame of lines (attribute, system, place, overall, worst), which may go on with BARS,
    group and small.

    systems, images: their numbers.
    """
    defaults = list(WITHOUT.values())
    whole_lines = [(*line, *defaults[len(line) - len(COLUMNS) :]) for line in lines]
    table = DataFrame(whole_lines, columns=[*COLUMNS, *WITHOUT])
    table["front"] = False
    lower = better_low(metric)
    sign = -1 if lower else 1
    for _, part in table.groupby("attribute"):
        goodness = sign * part[["overall", "worst"]]
        pairs = goodness.itertuples(index=False)
        positions = front(dict(zip(part["place"], pairs)))
        is_in_front = part["place"].isin(positions)
        table.loc[part.index, "front"] = is_in_front
    caption = ABOUT
    if table[[*BARS]].notna().any(axis=None):
        caption += BARRED.format(side="high" if lower else "low")
    if systems > MOST_SYSTEMS:
        caption += GREYED
    small = table[table["small"]]
    if len(small):
        groups = small["attribute"] + " " + small["group"]
        caption += SMALL.format(", ".join(groups.str.strip().unique()))
    score = title(metric)
    heading = f"Overall score and worst group: {score}"
    return titled(table, heading, caption, images, score=score, systems=systems)


def _numbers(system: System, attribute: str, metric: str) -> tuple:
    """Overall and worst group, intervals of all images and of the group worst on average, this
    group, and whether it is too small to be reliable.
    """
    overall = Where("clean", metric=metric)
    of_groups = overall._replace(attribute=attribute)
    scores = {}
    for group in system.scores.members(attribute):
        scores[group] = system.percent(of_groups._replace(group=group))
    lowest = worst_of(scores, metric)
    bar_of_worst = (np.nan, np.nan)
    if lowest:
        bar_of_worst = system.bounds(of_groups._replace(group=lowest[0]))
    worst = system.percent(of_groups._replace(measure=WORST))
    bar_of_overall = system.bounds(overall)
    group = "" if is_tied(scores) else ", ".join(lowest)
    is_small = WORST in small_decides(system.each, attribute, "clean", metric, system.at)
    bars = *bar_of_overall, *bar_of_worst
    return system.percent(overall), worst, *bars, group, is_small


def front(points: Mapping[int, Sequence[float]]) -> list[int]:
    """Positions of the points that no other one beats, by the first number.

    Both numbers of a point are better when high. It beats another one in one of them without losing
    in the other.
    """
    unbeaten = []
    for position, xy in points.items():
        is_beaten = any(_beats(other, xy) for other in points.values())
        if not is_beaten:
            unbeaten.append(position)
    return sorted(unbeaten, key=lambda position: points[position][0])


def _beats(other: Sequence[float], xy: Sequence[float]) -> bool:
    a, b = other
    x, y = xy
    if a > x:
        return b >= y
    return a == x and b > y


def draw(table: DataFrame) -> Picture:
    """Systems that the legend names are numbered there and beside their points; others are grey."""
    named_lines = table
    if table.attrs["systems"] > MOST_SYSTEMS:
        is_named = table["front"] | (table["place"] == 0)
        named_lines = table[is_named]
    names = named_lines.sort_values("place", kind="stable")["system"].unique()
    numbers = {}
    legend = {}
    for number, name in enumerate(names, 1):
        numbers[name] = number
        legend[f"{number} {name}"] = point(number - 1)
    draw_panel = partial(_panel, numbers, table.attrs["score"])
    by_attribute = panels(table, "attribute", draw_panel, "by {}".format)
    return picture(table, by_attribute, legend, size=(3.8, 3.2))


def _panel(
    numbers: Mapping[str, int],
    score: str,
    part: DataFrame,
    axes: Axes,
) -> None:
    x_limits = _limits(part, "overall")
    y_limits = _limits(part, "worst")
    axes.set(
        xlim=x_limits,
        ylim=y_limits,
        xlabel=f"{score}, all images (%)",
        ylabel="worst group (%)",
    )
    best = part[part["front"]].sort_values("overall")
    axes.plot(best["overall"], best["worst"], zorder=1, **DASHED)
    labels: Labels = {}
    texts: dict[int, str] = {}
    for line in part.sort_values("place").itertuples(index=False):
        number = numbers.get(line.system)
        if not number:
            axes.plot([line.overall], [line.worst], **GREY)
            continue
        look = point(number - 1)
        axes.plot([line.overall], [line.worst], **look)
        bar: Look = {
            "color": look["color"],
            "linewidth": 1.4,
            "alpha": 0.4,
            "zorder": 0,
        }
        if np.isfinite(line.overall_low):
            axes.hlines(line.worst, line.overall_low, line.overall_high, **bar)
        if np.isfinite(line.worst_low):
            axes.vlines(line.overall, line.worst_low, line.worst_high, **bar)
        texts[number] = f"{number}†" if line.small else f"{number}"
        size = np.ptp(x_limits), np.ptp(y_limits)
        _add_label(labels, (line.overall, line.worst), [number], size)
    for xy, numbers_near in labels.items():
        text = ", ".join(texts[number] for number in sorted(numbers_near))
        axes.annotate(text, xy, (4, 4), textcoords="offset points", fontsize=7)


def _limits(part: DataFrame, score: str) -> tuple[float, float]:
    """The ends of an axis that shows all points and bars of a score."""
    ends = part[[score, f"{score}_low", f"{score}_high"]].to_numpy(float)
    low = np.nanmin(ends)
    high = np.nanmax(ends)
    reach = max(high - low, LEAST) * (0.5 + MARGIN)
    middle = (low + high) / 2
    return middle - reach, middle + reach


def _add_label(
    labels: Labels,
    xy: Point,
    numbers: list[int],
    size: Point,
) -> None:
    """Put numbers beside a point, together with those of labels that they would overlap.

    size: width and height of the axes.
    """
    for corner, others in labels.items():
        distance = np.abs(np.subtract(corner, xy)) / size
        longest = max(len(numbers), len(others))
        if distance[0] <= NEAR * longest and distance[1] <= NEAR:
            del labels[corner]
            rightmost = max(corner, xy)
            _add_label(labels, rightmost, [*others, *numbers], size)
            return
    labels[xy] = numbers


QUESTION = "Which methods are best overall and for the worst group?"
register(Figure("overall-and-worst", QUESTION, "systems", frame, draw, every=True, usual=True))
