"""Confusion matrices of all images and of each group."""

from functools import partial
from typing import Annotated

import numpy as np
from pandas import DataFrame

from ...errors import FedcliError
from ..drawing import Axes, Panel, Picture, short
from ..figure import Figure, Options, register
from ..seen import BY, VERSION, heading
from ..system import System

DARK = 0.6  # share from which the text on a cell is white
PRINTED = 10  # classes up to which the cells of a matrix hold numbers
ABOUT = (
    "Images by true and predicted class (the most likely one) of the last round's model; the colour is the share of "
    "the true class."
)


def frame(
    systems: list[System], *, by: Annotated[str, BY] = "", version: Annotated[str, VERSION] = "clean"
) -> DataFrame:  # fmt: skip
    """group, true, predicted, images. Raises FedcliError for several labels per image."""
    (system,) = systems
    images = system.images(version, by)
    if images.y.ndim == 2:
        raise FedcliError(f"images of {system.scores.dataset} have several labels, so no confusion matrix", "draw roc")
    guess, names = images.chances.argmax(1), images.classes
    lines = []
    for group, _, rows in images.members(by):
        cells = np.bincount(images.y[rows] * len(names) + guess[rows], minlength=len(names) ** 2)
        lines += [(group, names[k // len(names)], names[k % len(names)], count) for k, count in enumerate(cells)]
    table = DataFrame(lines, columns=["group", "true", "predicted", "images"])
    table.attrs |= {
        "title": heading("Confusion matrices", by, version, system.one),
        "caption": f"{ABOUT} n = {len(images.ids):,} images.",
    }
    return table


def draw(table: DataFrame) -> Picture:
    panels = [
        Panel(f"{group} (n = {part['images'].sum()})", partial(_matrix, part))
        for group, part in table.groupby("group", sort=False)
    ]
    count = table["true"].nunique()
    size = max(3.0, 0.45 * count), max(2.8, 0.42 * count)
    return Picture(table.attrs["title"], panels, caption=table.attrs["caption"], size=size)


def _matrix(part: DataFrame, axes: Axes) -> None:
    classes = part["true"].unique()
    cells = part["images"].to_numpy().reshape(len(classes), -1)
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


def _variants(system: System) -> list[Options]:
    return [] if system.scores.several_labels else list(system.variants)


register(
    Figure("confusion", "Which classes are taken for which?", "systems", frame, draw, alone=True, variants=_variants)
)
