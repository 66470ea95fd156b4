"""Confusion matrices of all images and of each group."""

from typing import Annotated

import numpy as np
from pandas import DataFrame

from ..drawing import Axes, Picture
from ..figure import Figure, NothingToDraw, register
from ..shapes import matrix, panels, picture, titled, wide
from ..system import BY, LAST_ROUND, VERSION, System

PRINTED = 10  # classes up to which the cells of a matrix hold numbers
ABOUT = f"Images by true and predicted class (the most likely one); colour: share of the true class. {LAST_ROUND}"


def frame(
    system: System, *, by: Annotated[str, BY] = "", version: Annotated[str, VERSION] = "clean"
) -> DataFrame:
    """group, true, predicted, images. Raises NothingToDraw for several labels per image."""
    images = system.images(version, by)
    if images.y.ndim == 2:
        what = f"images of {system.scores.dataset} have several labels, so no confusion matrix"
        raise NothingToDraw(what, "draw roc")
    guess, names = images.chances.argmax(1), images.classes
    lines = []
    for group, _, rows in images.members(by):
        cells = np.bincount(images.y[rows] * len(names) + guess[rows], minlength=len(names) ** 2)
        lines += [
            (group, names[k // len(names)], names[k % len(names)], count)
            for k, count in enumerate(cells)
        ]
    table = DataFrame(lines, columns=["group", "true", "predicted", "images"])
    return titled(table, system.heading("Confusion matrices", by, version), ABOUT, len(images.ids))


def draw(table: DataFrame) -> Picture:
    sizes, count = table.groupby("group")["images"].sum(), table["true"].nunique()
    size = max(3.0, 0.45 * count), max(2.8, 0.42 * count)
    return picture(
        table,
        panels(table, "group", _panel, lambda group: f"{group} (n = {sizes[group]})"),
        size=size,
    )


def _panel(part: DataFrame, axes: Axes) -> None:
    images = wide(part, "true", "predicted", "images").rename(index=_beginning, columns=_beginning)
    share = images.div(images.sum(axis=1).clip(lower=1), axis=0)
    texts = images.to_numpy() if len(images) <= PRINTED else None
    matrix(share, axes, texts=texts, cmap="Blues", vmin=0, vmax=1)
    axes.set(xlabel="predicted", ylabel="true")


def _beginning(name: str) -> str:
    return name[:10]


register(Figure("confusion", "Which classes are taken for which?", "system", frame, draw))
