"""The loss around trained models, along random directions.

Source: Li, Xu, Taylor, Studer and Goldstein, NeurIPS 2018, arXiv 1712.09913, section 4: a Gaussian direction of which
each filter is scaled to the norm of the model's filter ("filter normalisation"), f(a) = L(theta + a d) or
f(a, b) = L(theta + a d + b e), a and b from -1 to 1.
A filter is what makes one output: a row of a tensor's first dimension. Entries of batch norm and biases are 0, as in
the authors' code, and so is all else of one dimension; statistics of batch norm and what is frozen stay put.
All models are moved along the same random numbers, each scaled to its own filters, so that their widths compare.
The loss is the mean cross-entropy of test images in eval mode; it is for looking, nothing is chosen by it.
"""

from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .. import console
from ..errors import FedcliError, UsageError
from ..methods.losses import plain_loss
from ..runs import finished as runs
from ..seeds import derive
from . import curves, drawing, labels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = {1: 41, 2: 21}  # along each direction
LEVELS = 12  # of the lines of equal loss
SQUARE = 4.1, 3.6  # inches
TICKS = -1, -0.5, 0, 0.5, 1
TITLE = "Loss along filter-normalised random directions"
EDGE = 0.85  # step beyond which a number on a line would be cut
AXES = "first random direction", "second random direction"


def picture(
    paths: list[Path],
    out: Path,
    *,
    dims: int,
    version: str = "",
    seed: int = 0,
    points: int = 0,
    device: str = "cpu",
    names: list[str] | None = None,
) -> dict[str, np.ndarray]:
    """Draw the loss around the last global model of these runs into a .png or .svg file.

    dims: 1 for a curve of each run, 2 for a map of each.
    version: of the test images; "" takes corrupted where every run has such images, else clean.
    seed: of the directions.
    points: along each direction, odd so that the model itself is one; 0 takes 41 or 21.
    names: of the runs, each its own; None for their methods and what else distinguishes them.
    Returns the losses by run, [points] or [points, points] with the second direction along the columns.
    Raises FedcliError, UsageError, HashError.
    """
    points = points or POINTS[dims]
    if points < 3 or points % 2 == 0:
        raise UsageError(f"{points} points have no middle, where the model itself is", "give an odd number, 3 or more")
    records = [curves.read(path) for path in paths]
    version = version or usual(records)
    named = dict(zip(names, records, strict=True)) if names else labels.labels(records)
    losses = {
        name: around(record.folder, name, dims=dims, version=version, seed=seed, points=points, device=device)
        for name, record in named.items()
    }
    datasets = sorted({record.dataset for record in named.values()})
    drawing.draw(
        partial(_curves if dims == 1 else _maps, losses, f"{version} test images of {', '.join(datasets)}"), out
    )
    return losses


def usual(records: list[curves.Record]) -> str:
    """The test images that are taken where none are asked for."""
    return "corrupted" if all("corruption ratio" in record.data for record in records) else "clean"


def around(folder: Path, label: str, *, dims: int, version: str, seed: int, points: int, device: str) -> np.ndarray:
    """Losses around the last global model of one run, [points] or [points, points]."""
    run = runs.open_run(folder, device)
    if runs.trains_alone(run):
        raise FedcliError(f"the clients of {folder} trained alone, so it has no global model", "draw another run")
    if version not in run.data.test:
        hint = f"give one of {', '.join(run.data.test)}"
        raise UsageError(f"the data of {folder} has no {version} test images", hint)
    if not run.rounds:
        raise FedcliError(f"{folder} kept no model", "train the run again")
    runs.load_model(run, run.rounds[-1])
    shard = run.data.test[version]
    y = shard.y.cpu()

    def loss() -> float:
        logits = torch.from_numpy(runs.logits(run.net, shard, run.method.local))  # [N, C]
        several = y.ndim == 2
        return float(plain_loss(logits.double(), y) / len(y) if several else F.cross_entropy(logits.double(), y))

    return surface(run.net, loss, dims=dims, seed=seed, points=points, label=f"loss around {label}")


def surface(
    net: nn.Module,
    loss: Callable[[], float],
    *,
    dims: int,
    seed: int,
    points: int,
    label: str = "loss around the model",
) -> np.ndarray:
    """loss() on a grid around net, [points] or [points, points]; net is as it was afterwards."""
    moved = {name: tensor for name, tensor in net.named_parameters() if tensor.requires_grad}
    start = {name: tensor.detach().clone() for name, tensor in moved.items()}
    ways = [direction(start, seed, axis) for axis in range(dims)]
    steps = np.linspace(-1, 1, points)
    steps[points // 2] = 0
    grid = list(product(steps, repeat=dims))
    losses = []
    try:
        for place in console.progress(grid, label=label, total=len(grid)):
            _move(moved, start, ways, place)
            losses.append(loss())
    finally:
        _move(moved, start, [], ())
    return np.array(losses).reshape([points] * dims)


def direction(weights: dict[str, Tensor], seed: int, axis: int) -> dict[str, Tensor]:
    """A random direction with filters as long as these weights'; each tensor has random numbers of its own, so that
    models which share some tensors share their directions."""
    out = {}
    for name, weight in weights.items():
        if weight.ndim < 2:
            out[name] = torch.zeros_like(weight)
            continue
        random = torch.Generator().manual_seed(derive("landscape", seed, axis, name))
        way = torch.randn(weight.shape, generator=random).to(weight.device)
        length, own = (torch.linalg.vector_norm(t.flatten(1), dim=1) for t in (weight, way))  # [filters]
        scale = length / own.clamp_min(1e-10)  # a filter of one number may draw 0
        out[name] = way * scale.view(-1, *[1] * (weight.ndim - 1))
    return out


@torch.no_grad()
def _move(
    moved: dict[str, Tensor], start: dict[str, Tensor], ways: list[dict[str, Tensor]], place: tuple[float, ...]
) -> None:
    for name, tensor in moved.items():
        tensor.copy_(start[name])
        for way, step in zip(ways, place, strict=True):
            tensor.add_(way[name], alpha=step)


def _steps(points: int) -> np.ndarray:
    return np.linspace(-1, 1, points)


def _curves(losses: dict[str, np.ndarray], title: str) -> "Figure":
    figure, (axes,) = drawing.panels(1, TITLE, (5.2, 3.6))
    axes.set_title(title, loc="left")
    axes.set(xlabel="step along a random direction", ylabel="cross-entropy")
    drawing.stretch(axes, np.concatenate(list(losses.values())))
    legend = {
        name: axes.plot(_steps(len(line)), line, **drawing.look(k))[0] for k, (name, line) in enumerate(losses.items())
    }
    drawing.name_all(figure, legend)
    return figure


def _maps(losses: dict[str, np.ndarray], title: str) -> "Figure":
    """A map per run, with lines at the same losses in all of them."""
    from matplotlib.colors import LogNorm, Normalize
    from matplotlib.patheffects import withStroke

    figure, axes = drawing.panels(len(losses), f"{TITLE}\n{title}", SQUARE)
    every = np.concatenate([table.ravel() for table in losses.values()])
    every = every[np.isfinite(every)]
    if len(np.unique(every)) < 2:
        raise FedcliError("the loss around these models is the same everywhere, so there is no map of it", "draw 1d")
    far = drawing.spread_far(every) == "log"
    levels = _levels(every.min(), every.max(), far)
    labelled = levels if len(levels) < 9 else levels[::2]
    norm = (LogNorm if far else Normalize)(levels[0], levels[-1])
    for panel, (name, table) in zip(axes, losses.items(), strict=True):
        at = _steps(len(table))
        shown = np.ma.masked_invalid(table.T)  # rows are drawn upwards: the second direction
        filled = panel.contourf(at, at, shown, levels, norm=norm, cmap="viridis_r")
        lines = panel.contour(at, at, shown, levels, norm=norm, colors="black", linewidths=0.5, alpha=0.6)
        for number in panel.clabel(lines, labelled, fmt="%g", fontsize=8, inline=False, colors="black"):
            number.set_path_effects([withStroke(linewidth=2, foreground="white")])
            number.set_alpha(1)
            number.set_visible(max(map(abs, number.get_position())) < EDGE)
        panel.plot(0, 0, marker="+", color="#D55E00", markersize=9, markeredgewidth=2)
        panel.set_title(drawing.wrapped(name), loc="left")
        panel.set_ylabel(AXES[1])
        panel.set_aspect("equal")
        panel.set(xticks=TICKS, yticks=TICKS)
        panel.grid(False)
    for panel in drawing.lowest(axes):
        panel.set_xlabel(AXES[0])
    bar = figure.colorbar(filled, ax=axes, label="cross-entropy", shrink=0.9, ticks=labelled)
    bar.ax.set_yticklabels([f"{level:g}" for level in labelled])
    bar.ax.minorticks_off()
    return figure


def _levels(low: float, high: float, far: bool) -> np.ndarray:
    """Round numbers from at most `low` to at least `high`, evenly spaced or by factors, about LEVELS of them."""
    from matplotlib.ticker import MaxNLocator

    if not far:
        return MaxNLocator(LEVELS, steps=[1, 2, 5, 10]).tick_values(low, high)
    tens = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    for steps in ([1, 1.5, 2, 3, 5, 7], [1, 2, 5], [1]):
        grid = np.outer(tens, steps).ravel()
        levels = grid[np.searchsorted(grid, low, "right") - 1 : np.searchsorted(grid, high) + 1]
        if len(levels) <= LEVELS + 2:
            break
    return levels
