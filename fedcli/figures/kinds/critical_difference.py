"""Methods by their mean rank over several datasets, with bars over those that do not differ.

Source: Demsar, "Statistical comparisons of classifiers over multiple data sets", Journal of Machine
Learning Research 7 (2006), 1-30, figure 1 (a): the axis has the best rank on the right, and a bar
joins methods whose mean ranks are less than the critical difference of Nemenyi's test apart.
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated

from pandas import DataFrame

from ...comparison.ranks import Ranks, by_method, datasets_of, friedman
from ...metrics import title
from ...scores.numbers import is_lower
from ...scores.table import Where
from ..drawing import INK, Axes, Look, Panel, Picture, short
from ..figure import Figure, NothingToDraw, register
from ..shapes import picture, titled
from ..system import System

STEM: Look = {"color": INK, "linewidth": 0.9, "solid_capstyle": "butt"}
BAR: Look = {"color": INK, "linewidth": 3.2, "solid_capstyle": "round"}
TICK = 0.12  # of the height of a line, on both sides of the axis
STEP = 0.3  # between two bars
REACH = 0.02  # of the axis: how far a bar goes beyond its outermost methods
ABOUT = (
    "Mean rank of each method over {datasets}, 1 the best. A bar joins methods whose "
    "mean ranks are less than the critical difference (CD, Nemenyi, level 0.05) "
    "apart: these data do not distinguish them. {said}{caution}"
)


def frame(
    systems: list[System], *, metric: Annotated[str, "default: the area under the curve"] = ""
) -> DataFrame:
    """The frame of of_scores() for the clean test images of every dataset.

    Raises NothingToDraw where there are fewer than two datasets or methods that each one has.
    """
    metric = metric or systems[0].scores.usual[1]
    where = Where("clean", metric=metric)
    names = datasets_of([system.scores for system in systems])
    images = {name: system.scores.images for name, system in zip(names, systems, strict=True)}
    scores = {}
    scores_of_methods = ((system.scores, system.percent(where)) for system in systems)
    numbers_by_method = by_method(scores_of_methods)
    for method, means in numbers_by_method.items():
        numbers = [mean for mean in means if mean is not None and math.isfinite(mean)]
        if len(numbers) == len(images):
            scores[method] = numbers
    if len(images) < 2 or len(scores) < 2:
        sentence = f"no two methods have {title(metric)} once on each of two datasets or more"
        raise NothingToDraw(sentence, "give runs of the same methods on several datasets")
    return of_scores(metric, scores, lower=is_lower(where), images=sum(images.values()))


def of_scores(
    metric: str, scores: Mapping[str, Sequence[float]], *, images: int, lower: bool = False
) -> DataFrame:
    """The methods by rank, the best first.

    scores: method -> its score on each dataset. images: of all test sets together.
    Columns: method, rank, and `until`, the method where the bar ends that begins at this one, None
    where none begins.
    """
    rows = {name: list(row) for name, row in scores.items()}
    ranks = friedman(metric, rows, lower=lower)
    bars = groups(list(ranks.ranks.values()), ranks.critical_difference)
    names = list(ranks.ranks)
    mean_ranks = list(ranks.ranks.values())
    table = DataFrame({"method": names, "rank": mean_ranks})
    ends = {begin: names[end] for begin, end in bars}
    positions = range(len(names))
    table["until"] = [ends.get(position) for position in positions]
    heading = f"Mean ranks and critical difference: {title(metric)}"
    return titled(
        table,
        heading,
        _about(ranks),
        images,
        critical_difference=ranks.critical_difference,
    )


def _about(ranks: Ranks) -> str:
    caution = f" {ranks.caution}" if ranks.caution else ""
    datasets = f"{ranks.datasets} datasets"
    return ABOUT.format(datasets=datasets, said=ranks.said, caution=caution)


def groups(ranks: Sequence[float], critical_difference: float) -> list[tuple[int, int]]:
    """First and last place of each bar: the longest rows of ranks, ascending, within less than the
    critical difference, of two or more."""
    bars: list[tuple[int, int]] = []
    for begin in range(len(ranks)):
        end = begin
        while end + 1 < len(ranks) and ranks[end + 1] - ranks[begin] < critical_difference:
            end += 1
        if end > begin and (not bars or end > bars[-1][1]):
            bars.append((begin, end))
    return bars


def draw(table: DataFrame) -> Picture:
    """The better half of the methods is named on the right, the other one on the left."""
    lines = -(-len(table) // 2)
    bars = int(table["until"].notna().sum())
    panel = Panel("", partial(_panel, table))
    levels = lines + STEP * bars + 2.5
    height = 0.24 * levels
    return picture(table, [panel], size=(7.2, height))


def _panel(table: DataFrame, axes: Axes) -> None:
    count = len(table)
    ranks = table["rank"].to_numpy()
    names = [short(name) for name in table["method"]]
    bars = int(table["until"].notna().sum())
    depth = STEP * (bars + 1) + 0.4  # of the first name
    right = -(-count // 2)
    on_left = count - right
    margin = 0.06 * (count - 1)
    axes.set_axis_off()
    limits = (count + margin, 1 - margin)
    heights = (-depth - right, 2.2)
    axes.set(xlim=limits, ylim=heights)
    axes.plot([1, count], [0, 0], **STEM)
    step = max(1, count // 10)
    ticks = (1, *range(1 + step, count - step + 1, step), count)
    for rank in ticks:
        tick_ends = [0, 2 * TICK]
        axes.plot([rank, rank], tick_ends, **STEM)
        axes.text(rank, 0.45, f"{rank}", ha="center", va="bottom", fontsize=8)
    _critical(table.attrs["critical_difference"], count, axes)
    for position, (name, rank) in enumerate(zip(names, ranks)):
        better = position < right
        line = position if better else on_left - (position - right) - 1
        y = -depth - line
        edge = 1 - margin if better else count + margin
        axes.plot([rank, rank, edge], [0, y, y], **STEM)
        words = f" {name}  {rank:.2f}" if better else f"{rank:.2f}  {name} "
        alignment = "left" if better else "right"
        axes.text(edge, y, words, ha=alignment, va="center", fontsize=8)
    reach = REACH * (count - 1)
    position_of = {name: position for position, name in enumerate(table["method"])}
    bar_lines = table[table["until"].notna()]
    bar_pairs = zip(bar_lines.index, bar_lines["until"])
    for level, (position, until) in enumerate(bar_pairs, 1):
        start = ranks[position] - reach
        end = ranks[position_of[until]] + reach
        ends = start, end
        heights_of_bar = [-STEP * level] * 2
        axes.plot(ends, heights_of_bar, **BAR)


def _critical(width: float, count: int, axes: Axes) -> None:
    """The critical difference as a line above the axis, cut where it is longer."""
    end = min(1 + width, count)
    axes.plot([1, end], [1.35, 1.35], **STEM)
    ticks = (1, end) if end == 1 + width else (1,)
    for rank in ticks:
        tick_ends = [1.35 - TICK, 1.35 + TICK]
        axes.plot([rank, rank], tick_ends, **STEM)
    addition = "" if end == 1 + width else ", longer than the axis"
    text = f"CD = {width:.2f}" + addition
    centre = (1 + end) / 2
    axes.text(centre, 1.5, text, ha="center", va="bottom", fontsize=8)


QUESTION = "Which methods do ranks over several datasets distinguish?"
register(Figure("critical-difference", QUESTION, "systems", frame, draw, every=True))
