"""Shapes that figures are drawn in: each puts the lines of a tidy frame onto axes.

Columns are given by name; `looks` holds the look of each name in the column `hue`. Further words go
to Axes.set: labels, limits, ticks.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy import ndarray
from pandas import DataFrame

from .drawing import (
    ALL,
    COLOURS,
    INK,
    OF_ALL,
    Axes,
    Look,
    Looks,
    Panel,
    Picture,
    distinct,
    look,
    short,
)

FAR = 20  # the largest value over the smallest one, from which an axis is logarithmic
VERY_FAR = 1000  # the same where some values are 0, which then stands beside a logarithmic axis
FITTING = 30  # names along an axis
DARK = 0.6  # value of a cell from which the text on it is white
DOTS = 40  # points; shorter curves have a dot at each
FAINT = 0.12  # of the bands of several groups
DASHED: Look = {"color": INK, "linewidth": 0.9, "linestyle": (0, (4, 3))}  # a line of no group


def picture(
    table: DataFrame,
    panels: Sequence[Panel],
    legend: Mapping[str, Look] | None = None,
    **how: Any,
) -> Picture:
    """Panels under the title and above the caption that a frame has among its attrs. A legend of
    all images alone would say nothing.
    """
    title = table.attrs.get("title", "")
    caption = table.attrs.get("caption", "")
    names = {} if legend is None or list(legend) == [ALL] else legend
    return Picture(title, panels, names, caption, **how)


def titled(
    table: DataFrame,
    title: str,
    caption: str = "",
    images: int = 0,
    **attrs: Any,
) -> DataFrame:
    """A frame with the words of its picture among its attrs: a title, and a caption.

    images: their number, which ends the caption; 0 where test sets differ in it. attrs: further
    ones.
    """
    if caption and images:
        caption = f"{caption} n = {images:,} images."
    table.attrs |= {"title": title, "caption": caption, **attrs}
    return table


def panels(
    table: DataFrame,
    column: str,
    draw: Callable[..., object],
    title: Callable[[str], str] = str,
    words: str = "",
) -> list[Panel]:
    """A panel for each value of a column, in the order in which they come: draw(its lines, axes).

    words: smaller ones behind each title, on a page.
    """
    parts = table.groupby(column, sort=False)
    return [Panel(title(name), partial(draw, part), words) for name, part in parts]


def looks_of(
    table: DataFrame,
    hue: str,
    how: Callable[[int], Look] = look,
) -> Looks:
    """The look of each name in a column, by its position: the column `place`, or else its order."""
    names = table.drop_duplicates(hue)
    positions = names["place"] if "place" in names else range(len(names))
    looks = {}
    for name, position in zip(names[hue], positions):
        looks[str(name)] = how(position)
    return looks


def legend_of_groups(
    looks: Looks,
    sizes: Mapping[str, int],
    small: Collection[str],
) -> Looks:
    """Names of groups with their numbers of images, and † for those that are too small."""
    legend = {}
    for name, text in zip(looks, distinct(list(looks)), strict=True):
        mark = "†" if name in small else ""
        words = name if name == ALL else f"{text}{mark} (n = {sizes[name]:,})"
        legend[words] = looks[name]
    return legend


def bands_of_groups(part: DataFrame) -> DataFrame:
    """Lines of a panel, without the band of all images where it would hide those of groups."""
    of_groups = part["place"] != OF_ALL
    if not of_groups.any():
        return part
    low = part["low"].where(of_groups)
    return part.assign(low=low)


def lines(
    part: DataFrame,
    axes: Axes,
    *,
    x: str,
    y: str | float,
    hue: str | list[str],
    looks: Mapping[Any, Look],
    bounds: tuple[Any, Any] | None = None,
    shade: float = 0.15,
    **words: Any,
) -> None:
    """A line of y over x, or points of it, for each name, in a band between the columns `bounds`.

    A name without bounds has no band.
    """
    from matplotlib.ticker import MaxNLocator

    axes.set(**words)
    if x == "round":
        whole_numbers = MaxNLocator(integer=True, min_n_ticks=1, steps=[1, 2, 5, 10])
        axes.xaxis.set_major_locator(whole_numbers)
        axes.margins(x=0.03)
    for name, curve in part.groupby(hue, sort=False):
        if bounds and curve[bounds[0]].notna().any():
            edges = [curve[bound] for bound in bounds]
            colour = looks[name]["color"]
            axes.fill_between(
                curve[x],
                *edges,
                color=colour,
                alpha=shade,
                linewidth=0,
            )
        points = curve[[x, y]].to_numpy(float)
        line(axes, points, **looks[name])


def line(axes: Axes, curve: ndarray, **look: Any) -> None:
    """A curve [T, 2]; a value between two gaps would be invisible without a dot."""
    dots = np.isfinite(curve[:, 1])
    if len(curve) > DOTS:
        dots = alone(dots)
    markers = {"marker": "o", "markevery": np.flatnonzero(dots).tolist()}
    axes.plot(*curve.T, **markers | look)


def alone(finite: ndarray) -> ndarray:
    """The values [T] that are finite while those before and after them are not."""
    neighbours = np.pad(finite, 1)
    has_left_neighbour = neighbours[:-2]
    has_right_neighbour = neighbours[2:]
    return finite & ~has_left_neighbour & ~has_right_neighbour


def matrix(
    cells: DataFrame,
    axes: Axes,
    *,
    bar: Look | None = None,
    texts: ndarray | None = None,
    **how: Any,
) -> None:
    """A cell for each row and column of a table, with their names.

    bar: a scale of the colours, in words of matplotlib; None for none.
    texts: numbers on the cells. how: of imshow.
    """
    image = axes.imshow(cells.to_numpy(float), aspect="auto", **how)
    axes.grid(False)
    name_ticks(axes.yaxis, cells.index)
    name_ticks(axes.xaxis, cells.columns)
    longest = max(len(str(name)) for name in cells.columns)
    rotation = 90 if longest > 2 else 0
    axes.tick_params(axis="x", rotation=rotation, labelsize=8)
    if bar is not None:
        bar_of_colours = axes.figure.colorbar(image, ax=axes, format="%g", **bar)
        bar_of_colours.minorticks_off()
    if texts is None:
        return
    for (row, column), number in np.ndenumerate(texts):
        is_dark = cells.iat[row, column] > DARK
        colour = "#ffffff" if is_dark else "#000000"
        axes.text(
            column,
            row,
            f"{number}",
            ha="center",
            va="center",
            fontsize=8,
            color=colour,
        )


def amounts(cells: DataFrame, axes: Axes, label: str) -> None:
    """A matrix of numbers above 0; cells of 0 or without a number stay white."""
    from matplotlib.colors import LogNorm, Normalize
    from matplotlib.ticker import LogLocator

    positive = cells.where(cells > 0)
    bar: Look = {"label": label}
    norm = Normalize(vmin=0)
    if spread_far(positive.to_numpy(float)) == "log":
        bar["ticks"] = LogLocator(subs=(1, 2, 5))
        norm = LogNorm()
    matrix(positive, axes, bar=bar, cmap="viridis", norm=norm)


def bars(cells: DataFrame, axes: Axes, label: str) -> None:
    """A bar for each row, cut by the columns of a table.

    The bars of a single column may stand on a logarithmic axis.
    """
    rows = np.arange(len(cells))
    ends = np.zeros(len(cells))
    for position, value in enumerate(cells):
        colour = COLOURS[position % len(COLOURS)]
        axes.barh(
            rows,
            cells[value],
            left=ends,
            color=colour,
            label=short(str(value)),
        )
        ends = ends + cells[value].to_numpy()
    name_ticks(axes.yaxis, cells.index)
    axes.invert_yaxis()
    axes.set_xlabel(label)
    axes.grid(False, axis="y")
    if len(cells.columns) > 1:
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
    else:
        stretch(axes, ends, "x")


def wide(part: DataFrame, rows: str, columns: str, number: str) -> DataFrame:
    """A column as a table over two others, whose names stay in the order in which they come."""
    table = part.pivot(index=rows, columns=columns, values=number)
    names_of_rows = part[rows].unique()
    names_of_columns = part[columns].unique()
    return table.loc[names_of_rows, names_of_columns]


def name_ticks(axis: Any, names: Sequence[Any]) -> None:
    """Names along an axis; of very many every second, third, ..."""
    step = -(-len(names) // FITTING)
    ticks = np.arange(0, len(names), step)
    axis.set_ticks(ticks, distinct(names)[::step])


def stretch(axes: Axes, values: ndarray, along: str = "y") -> None:
    """Make an axis logarithmic where values spread far; 0 has no place on it but beside it."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    scale = scaled(axes, values, along)
    if not scale:
        return
    axis = getattr(axes, f"{along}axis")
    positive = values[values > 0]
    if scale == "log" and positive.max() / positive.min() < VERY_FAR:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}".replace("e-0", "e-")))
    axis.set_minor_locator(NullLocator())


def scaled(axes: Axes, values: ndarray, along: str) -> str:
    """Give an axis the scale of spread_far(), and return it."""
    scale = spread_far(values)
    options = {}
    if scale == "symlog":
        smallest = values[values > 0].min()
        options["linthresh"] = float(smallest)
    if scale:
        set_scale = getattr(axes, f"set_{along}scale")
        set_scale(scale, **options)
    return scale


def spread_far(values: ndarray) -> str:
    """The axis for these values: "log", "symlog" where some are 0, "" for an even one."""
    positive = values[values > 0]
    if (values < 0).any() or not len(positive):
        return ""
    with_zeros = bool((values == 0).any())
    far = VERY_FAR if with_zeros else FAR
    if positive.max() / positive.min() <= far:
        return ""
    return "symlog" if with_zeros else "log"
