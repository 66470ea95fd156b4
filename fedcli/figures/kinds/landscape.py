"""The loss around trained models, along random directions.

Source: Li, Xu, Taylor, Studer and Goldstein, NeurIPS 2018, arXiv 1712.09913, section 4: a Gaussian
direction of which each filter is scaled to the norm of the model's filter ("filter normalisation"),
f(a) = L(theta + a d) or f(a, b) = L(theta + a d + b e), a and b from -1 to 1.
All models are moved along the same random numbers, each scaled to its own filters, so that their
widths compare.
The loss is the mean cross-entropy of test images in eval mode; it is for looking, nothing is chosen
by it.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
import pandas
from numpy import ndarray
from pandas import DataFrame

from ...errors import FedcliError, UsageError
from ..drawing import SQUARE, Axes, Look, Panel, Picture, wrapped
from ..figure import Figure, register
from ..series import Record
from ..shapes import lines, looks_of, panels, spread_far, stretch

POINTS = {1: 41, 2: 21}  # along each direction
LEVELS = 12  # of the lines of equal loss
CURVE = 5.2, 3.6  # inches
TICKS = -1, -0.5, 0, 0.5, 1
TITLE = "Loss along filter-normalised random directions"
EDGE = 0.85  # step beyond which a number on a line would be cut
FIRST = "first random direction"
SECOND = "second random direction"
VERSION = "of the test images; default: corrupted if every run has such images, else clean"


def frame(
    runs: Mapping[str, Record],
    *,
    dims: Annotated[Literal["1d", "2d"], "curves along one direction, or maps along two"] = "1d",
    version: Annotated[str, VERSION] = "",
    points: Annotated[int, "along each direction, odd; default: 41, or 21 of 2d"] = 0,
    seed: Annotated[int, "of the directions"] = 0,
    device: Annotated[str, "cpu, cuda or cuda:N"] = "cpu",
) -> DataFrame:
    """run, first, second (a step along each direction), loss: around the last global models.

    second is 0 in one dimension. Raises FedcliError, UsageError, HashError.
    """
    from ..trained import around  # torch

    ways = int(dims[0])
    points = points or POINTS[ways]
    if points < 3 or points % 2 == 0:
        sentence = f"{points} points have no middle, where the model itself is"
        raise UsageError(sentence, "give an odd number, 3 or more")
    version = version or usual(runs.values())
    how: Look = {
        "version": version,
        "seed": seed,
        "points": points,
        "device": device,
    }
    steps = np.linspace(-1, 1, points)
    second_steps = steps if ways == 2 else [0.0]
    x, y = np.meshgrid(steps, second_steps, indexing="ij")
    parts = []
    for name, record in runs.items():
        losses = around(record.folder, name, dims=ways, **how)
        columns = {
            "first": x.ravel(),
            "second": y.ravel(),
            "loss": losses.ravel(),
        }
        parts.append(DataFrame(columns).assign(run=name))
    table = pandas.concat(parts, ignore_index=True)
    names = {record.dataset for record in runs.values()}
    datasets = ", ".join(sorted(names))
    images = f"{version} test images of {datasets}"
    table.attrs |= {"images": images, "dims": ways}
    return table


def usual(records: Iterable[Record]) -> str:
    """The test images that are taken where none are asked for."""
    if all("corruption ratio" in record.data for record in records):
        return "corrupted"
    return "clean"


def draw(table: DataFrame) -> Picture:
    if table.attrs["dims"] == 2:
        return _maps(table)
    looks_by_run = looks_of(table, "run")
    looks = {run: {"marker": ""} | look for run, look in looks_by_run.items()}
    panel = Panel(table.attrs["images"], partial(_curves, table, looks))
    return Picture(TITLE, [panel], looks, size=CURVE)


def _curves(table: DataFrame, looks: Mapping[str, Look], axes: Axes) -> None:
    stretch(axes, table["loss"].to_numpy())
    words: Look = {"xlabel": "step along a random direction", "ylabel": "cross-entropy"}
    lines(table, axes, x="first", y="loss", hue="run", looks=looks, **words)


def _maps(table: DataFrame) -> Picture:
    losses = table["loss"].to_numpy()
    finite = losses[np.isfinite(losses)]
    if len(np.unique(finite)) < 2:
        sentence = "the loss around these models is the same everywhere, so there is no map of it"
        raise FedcliError(sentence, "draw 1d")
    far = spread_far(finite) == "log"
    levels = _levels(finite.min(), finite.max(), far)
    last = table["run"].iloc[-1]
    maps = panels(table, "run", partial(_map, levels, far, last), wrapped)
    title = f"{TITLE}\n{table.attrs['images']}"
    return Picture(
        title,
        maps,
        size=SQUARE,
        below=FIRST,
    )


def _map(
    levels: ndarray,
    far: bool,
    last: str,
    part: DataFrame,
    axes: Axes,
) -> None:
    """Draw rows upwards: the second direction. last: of all maps, beside which the scale stands."""
    from matplotlib.colors import LogNorm, Normalize

    grid = part.pivot(index="second", columns="first", values="loss")
    norm_of = LogNorm if far else Normalize
    norm = norm_of(levels[0], levels[-1])
    heights = np.ma.masked_invalid(grid.to_numpy())
    losses = grid.columns, grid.index, heights, levels
    filled = axes.contourf(*losses, norm=norm, cmap="viridis_r")
    contours = axes.contour(
        *losses,
        norm=norm,
        colors="black",
        linewidths=0.5,
        alpha=0.6,
    )
    labelled = levels if len(levels) < 9 else levels[::2]
    _label(axes, contours, labelled)
    axes.plot(
        0,
        0,
        marker="+",
        color="#D55E00",
        markersize=9,
        markeredgewidth=2,
    )
    axes.set(ylabel=SECOND, xticks=TICKS, yticks=TICKS, aspect="equal")
    axes.grid(False)
    if part["run"].iloc[0] == last:
        maps = axes.figure.axes
        bar = axes.figure.colorbar(
            filled, ax=maps, label="cross-entropy", shrink=0.9, ticks=labelled
        )
        level_labels = [f"{level:g}" for level in labelled]
        bar.ax.set_yticklabels(level_labels)
        bar.ax.minorticks_off()


def _label(axes: Axes, contours: Any, levels: ndarray) -> None:
    """Write the loss onto these levels of the lines."""
    from matplotlib.patheffects import withStroke

    for number in axes.clabel(contours, levels, fmt="%g", fontsize=8, inline=False, colors="black"):
        number.set_path_effects([withStroke(linewidth=2, foreground="white")])
        number.set_alpha(1)
        x, y = number.get_position()
        distance = max(abs(x), abs(y))
        number.set_visible(distance < EDGE)


def _levels(low: float, high: float, far: bool) -> ndarray:
    """Round numbers from at most `low` to at least `high`, about LEVELS of them.

    They are evenly spaced, or by factors where far.
    """
    from matplotlib.ticker import MaxNLocator

    if not far:
        locator = MaxNLocator(LEVELS, steps=[1, 2, 5, 10])
        return np.asarray(locator.tick_values(low, high))
    lowest = np.floor(np.log10(low))
    highest = np.ceil(np.log10(high))
    tens = 10.0 ** np.arange(lowest, highest + 1)
    for steps in ([1, 1.5, 2, 3, 5, 7], [1, 2, 5], [1]):
        grid = np.outer(tens, steps).ravel()
        begin = np.searchsorted(grid, low, "right") - 1
        end = np.searchsorted(grid, high) + 1
        levels = grid[begin:end]
        if len(levels) <= LEVELS + 2:
            break
    return levels


register(Figure("landscape", "How flat is the loss around the models?", "runs", frame, draw))
