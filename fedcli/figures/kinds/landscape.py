"""The loss around trained models, along random directions.

Source: Li, Xu, Taylor, Studer and Goldstein, NeurIPS 2018, arXiv 1712.09913, section 4: a Gaussian direction of which
each filter is scaled to the norm of the model's filter ("filter normalisation"), f(a) = L(theta + a d) or
f(a, b) = L(theta + a d + b e), a and b from -1 to 1.
All models are moved along the same random numbers, each scaled to its own filters, so that their widths compare.
The loss is the mean cross-entropy of test images in eval mode; it is for looking, nothing is chosen by it.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas
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
AXES = "first random direction", "second random direction"
VERSION = "of the test images; default: corrupted where every run has such images, else clean"


def frame(
    runs: Mapping[str, Record],
    *,
    dims: Annotated[Literal["1d", "2d"], "curves along one direction, or maps along two"] = "1d",
    version: Annotated[str, VERSION] = "",
    points: Annotated[int, "along each direction, odd; default: 41, or 21 of 2d"] = 0,
    seed: Annotated[int, "of the directions"] = 0,
    device: Annotated[str, "cpu, cuda or cuda:N"] = "cpu",
) -> DataFrame:
    """run, first, second (a step along each direction; 0 in one dimension), loss: around the last global models.

    Raises FedcliError, UsageError, HashError.
    """
    from ..trained import around  # torch

    ways = int(dims[0])
    points = points or POINTS[ways]
    if points < 3 or points % 2 == 0:
        raise UsageError(
            f"{points} points have no middle, where the model itself is",
            "give an odd number, 3 or more",
        )
    version = version or usual(runs.values())
    steps = np.linspace(-1, 1, points)
    parts = []
    for name, record in runs.items():
        how: dict[str, Any] = {
            "dims": ways,
            "version": version,
            "seed": seed,
            "points": points,
            "device": device,
        }
        losses = around(Path(record.folder), name, **how).reshape(points, -1)
        first, second = np.meshgrid(steps, steps if ways == 2 else [0.0], indexing="ij")
        columns = {"first": first.ravel(), "second": second.ravel(), "loss": losses.ravel()}
        parts.append(DataFrame(columns).assign(run=name))
    table = pandas.concat(parts, ignore_index=True)
    datasets = sorted({record.dataset for record in runs.values()})
    table.attrs |= {"images": f"{version} test images of {', '.join(datasets)}", "dims": ways}
    return table


def usual(records: Iterable[Record]) -> str:
    """The test images that are taken where none are asked for."""
    return "corrupted" if all("corruption ratio" in record.data for record in records) else "clean"


def draw(table: DataFrame) -> Picture:
    if table.attrs["dims"] == 2:
        return _maps(table)
    looks = {run: {"marker": ""} | look for run, look in looks_of(table, "run").items()}
    return Picture(
        TITLE, [Panel(table.attrs["images"], partial(_curves, table, looks))], looks, size=CURVE
    )


def _curves(table: DataFrame, looks: Mapping[str, Look], axes: Axes) -> None:
    stretch(axes, table["loss"].to_numpy())
    words: dict[str, Any] = {"xlabel": "step along a random direction", "ylabel": "cross-entropy"}
    lines(table, axes, x="first", y="loss", hue="run", looks=looks, **words)


def _maps(table: DataFrame) -> Picture:
    every = table["loss"][np.isfinite(table["loss"])].to_numpy()
    if len(np.unique(every)) < 2:
        raise FedcliError(
            "the loss around these models is the same everywhere, so there is no map of it",
            "draw 1d",
        )
    far = spread_far(every) == "log"
    drawn = partial(_map, _levels(every.min(), every.max(), far), far, table["run"].iloc[-1])
    maps = panels(table, "run", drawn, wrapped)
    return Picture(f"{TITLE}\n{table.attrs['images']}", maps, size=SQUARE, below=AXES[0])


def _map(levels: np.ndarray, far: bool, last: str, part: DataFrame, axes: Axes) -> None:
    """Rows are drawn upwards: the second direction. last: of all maps, beside which the scale stands."""
    from matplotlib.colors import LogNorm, Normalize
    from matplotlib.patheffects import withStroke

    grid = part.pivot(index="second", columns="first", values="loss")
    labelled = levels if len(levels) < 9 else levels[::2]
    norm = (LogNorm if far else Normalize)(levels[0], levels[-1])
    around = grid.columns, grid.index, np.ma.masked_invalid(grid.to_numpy()), levels
    filled = axes.contourf(*around, norm=norm, cmap="viridis_r")
    lines = axes.contour(*around, norm=norm, colors="black", linewidths=0.5, alpha=0.6)
    for number in axes.clabel(lines, labelled, fmt="%g", fontsize=8, inline=False, colors="black"):
        number.set_path_effects([withStroke(linewidth=2, foreground="white")])
        number.set_alpha(1)
        number.set_visible(max(map(abs, number.get_position())) < EDGE)
    axes.plot(0, 0, marker="+", color="#D55E00", markersize=9, markeredgewidth=2)
    axes.set(ylabel=AXES[1], xticks=TICKS, yticks=TICKS, aspect="equal")
    axes.grid(False)
    if part["run"].iloc[0] == last:
        bar = axes.figure.colorbar(
            filled, ax=axes.figure.axes, label="cross-entropy", shrink=0.9, ticks=labelled
        )
        bar.ax.set_yticklabels([f"{level:g}" for level in labelled])
        bar.ax.minorticks_off()


def _levels(low: float, high: float, far: bool) -> np.ndarray:
    """Round numbers from at most `low` to at least `high`, evenly spaced or by factors, about LEVELS of them."""
    from matplotlib.ticker import MaxNLocator

    if not far:
        return np.asarray(MaxNLocator(LEVELS, steps=[1, 2, 5, 10]).tick_values(low, high))
    tens = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    for steps in ([1, 1.5, 2, 3, 5, 7], [1, 2, 5], [1]):
        grid = np.outer(tens, steps).ravel()
        levels = grid[np.searchsorted(grid, low, "right") - 1 : np.searchsorted(grid, high) + 1]
        if len(levels) <= LEVELS + 2:
            break
    return levels


register(Figure("landscape", "How flat is the loss around the models?", "runs", frame, draw))
