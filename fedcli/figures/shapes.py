"""Shapes that figures are drawn in: each puts the lines of a tidy frame onto axes.

Columns are given by name; `looks` says how each name in the column `hue` looks. Further words go to Axes.set:
labels, limits, ticks.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from pandas import DataFrame

from .drawing import COLOURS, INK, Axes, Look, Panel, Picture, look, short

FAR = 20  # the largest value over the smallest one, from which an axis is logarithmic
VERY_FAR = 1000  # the same where some values are 0, which then stands beside a logarithmic axis
FITTING = 30  # names along an axis
DARK = 0.6  # value of a cell from which the text on it is white
DOTS = 40  # points; shorter curves have a dot at each
DASHED: Look = {
    "color": INK,
    "linewidth": 0.9,
    "linestyle": (0, (4, 3)),
}  # a line that belongs to no group


def picture(
    table: DataFrame, panels: Sequence[Panel], legend: Mapping[str, Look] | None = None, **how: Any
) -> Picture:
    """Panels under the title and above the caption that a frame has among its attrs."""
    return Picture(
        table.attrs.get("title", ""), panels, legend or {}, table.attrs.get("caption", ""), **how
    )


def titled(
    table: DataFrame, title: str, about: str = "", images: int = 0, **more: Any
) -> DataFrame:
    """A frame with the words of its picture among its attrs: a title, and a caption that says of how many images."""
    table.attrs |= {
        "title": title,
        "caption": f"{about} n = {images:,} images." if about else "",
        **more,
    }
    return table


def panels(
    table: DataFrame,
    by: str,
    draw: Callable[..., object],
    title: Callable[[str], str] = str,
    about: str = "",
) -> list[Panel]:
    """A panel for each value of a column, in the order in which they come: draw(its lines, axes)."""
    return [
        Panel(title(name), partial(draw, part), about)
        for name, part in table.groupby(by, sort=False)
    ]


def looks_of(table: DataFrame, hue: str, how: Callable[[int], Look] = look) -> dict[str, Look]:
    """Of each name in a column the look at its place, which the column `place` says, or else its order."""
    names = table.drop_duplicates(hue)
    places = names["place"] if "place" in names else range(len(names))
    return {str(name): how(place) for name, place in zip(names[hue], places, strict=True)}


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
    """A line of y over x, or points of it, for each name, in a band between the columns `bounds` where it has any."""
    from matplotlib.ticker import MaxNLocator

    axes.set(**words)
    if x == "round":
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1, steps=[1, 2, 5, 10]))
        axes.margins(x=0.03)
    for name, curve in part.groupby(hue, sort=False):
        if bounds and curve[bounds[0]].notna().any():
            edges = (curve[edge] for edge in bounds)
            axes.fill_between(
                curve[x], *edges, color=looks[name]["color"], alpha=shade, linewidth=0
            )
        line(axes, curve[[x, y]].to_numpy(float), **looks[name])


def line(axes: Axes, curve: np.ndarray, **look: Any) -> None:
    """A curve [T, 2]; a value between two gaps would be invisible without a dot."""
    finite = np.isfinite(curve[:, 1])
    beside = np.pad(finite, 1)
    alone = finite & ~beside[:-2] & ~beside[2:]
    dots = finite if len(curve) <= DOTS else alone
    axes.plot(*curve.T, **{"marker": "o", "markevery": np.flatnonzero(dots).tolist()} | look)


def matrix(
    cells: DataFrame,
    axes: Axes,
    *,
    bar: Look | None = None,
    texts: np.ndarray | None = None,
    **how: Any,
) -> None:
    """A cell for each row and column of a table, with their names.

    bar: a scale of the colours, in words of matplotlib; None for none. texts: numbers on the cells. how: of imshow.
    """
    image = axes.imshow(cells.to_numpy(float), aspect="auto", **how)
    axes.grid(False)
    name_ticks(axes.yaxis, cells.index)
    name_ticks(axes.xaxis, cells.columns)
    longest = max(len(str(name)) for name in cells.columns)
    axes.tick_params(axis="x", rotation=90 if longest > 2 else 0, labelsize=8)
    if bar is not None:
        axes.figure.colorbar(image, ax=axes, format="%g", **bar).minorticks_off()
    for (row, column), number in np.ndenumerate(texts) if texts is not None else ():
        colour = "#ffffff" if cells.iat[row, column] > DARK else "#000000"
        axes.text(column, row, f"{number}", ha="center", va="center", fontsize=8, color=colour)


def amounts(cells: DataFrame, axes: Axes, label: str) -> None:
    """A matrix of numbers above 0; cells of 0 or without a number stay white."""
    from matplotlib.colors import LogNorm, Normalize
    from matplotlib.ticker import LogLocator

    shown = cells.where(cells > 0)
    far = spread_far(shown.to_numpy(float)) == "log"
    bar = {"label": label} | ({"ticks": LogLocator(subs=(1, 2, 5))} if far else {})
    matrix(shown, axes, bar=bar, cmap="viridis", norm=LogNorm() if far else Normalize(vmin=0))


def bars(cells: DataFrame, axes: Axes, label: str) -> None:
    """A bar for each row, cut by the columns of a table; those of a single column may stand on a logarithmic axis."""
    left = np.zeros(len(cells))
    for place, value in enumerate(cells):
        colour = COLOURS[place % len(COLOURS)]
        axes.barh(
            np.arange(len(cells)), cells[value], left=left, color=colour, label=short(str(value))
        )
        left = left + cells[value].to_numpy()
    name_ticks(axes.yaxis, cells.index)
    axes.invert_yaxis()
    axes.set_xlabel(label)
    axes.grid(False, axis="y")
    if len(cells.columns) > 1:
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
    else:
        stretch(axes, left, "x")


def wide(part: DataFrame, rows: str, columns: str, number: str) -> DataFrame:
    """A column as a table over two others, whose names stay in the order in which they come."""
    return part.pivot(index=rows, columns=columns, values=number).loc[
        part[rows].unique(), part[columns].unique()
    ]


def name_ticks(axis: Any, names: Sequence[Any]) -> None:
    """Names along an axis; of very many every second, third, ..."""
    step = -(-len(names) // FITTING)
    axis.set_ticks(np.arange(0, len(names), step), [short(str(name)) for name in names[::step]])


def stretch(axes: Axes, values: np.ndarray, along: str = "y") -> None:
    """A logarithmic axis where values spread far; 0 has no place on it but beside it."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    if not (scale := scaled(axes, values, along)):
        return
    axis = getattr(axes, f"{along}axis")
    if scale == "log" and values[values > 0].max() / values[values > 0].min() < VERY_FAR:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}".replace("e-0", "e-")))
    axis.set_minor_locator(NullLocator())


def scaled(axes: Axes, values: np.ndarray, along: str) -> str:
    """Give an axis the scale of spread_far(), and return it."""
    if scale := spread_far(values):
        more = {"linthresh": float(values[values > 0].min())} if scale == "symlog" else {}
        getattr(axes, f"set_{along}scale")(scale, **more)
    return scale


def spread_far(values: np.ndarray) -> str:
    """The axis for these values: "log", "symlog" where some are 0, "" for an even one."""
    positive, zeros = values[values > 0], bool((values == 0).any())
    if (
        (values < 0).any()
        or not len(positive)
        or positive.max() / positive.min() <= (VERY_FAR if zeros else FAR)
    ):
        return ""
    return "symlog" if zeros else "log"
