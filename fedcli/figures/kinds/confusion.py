"""Confusion matrices of all images and of each group."""

from typing import Annotated

import numpy as np
from pandas import DataFrame

from ..drawing import OF_TURNED, Axes, Picture, distinct, longest
from ..figure import Figure, NothingToDraw, register
from ..shapes import matrix, panels, picture, titled, wide
from ..system import LAST_ROUND, VERSION, By, System, largest_alone

PRINTED = 10  # classes up to which the cells of a matrix hold numbers
ABOUT = (
    "Images by true and predicted class (the most likely one); colour: share of the true class. "
    f"{LAST_ROUND}"
)


def frame(
    system: System,
    *,
    by: By = "",
    version: Annotated[str, VERSION] = "clean",
) -> DataFrame:
    """group, true, predicted, images. Raises NothingToDraw for several labels per image."""
    images = system.images(version, by)
    if images.y.ndim == 2:
        dataset = system.scores.dataset
        sentence = f"images of {dataset} have several labels, so no confusion matrix"
        raise NothingToDraw(sentence, "draw roc")
    names = images.classes
    guesses = images.chances.argmax(1)
    cells_of = images.y * len(names) + guesses
    lines = []
    for group, _, rows in images.members(by):
        cell_count = len(names) ** 2
        counts = np.bincount(cells_of[rows], minlength=cell_count)
        for cell, count in enumerate(counts):
            true, predicted = divmod(cell, len(names))
            lines.append((group, names[true], names[predicted], count))
    table = DataFrame(lines, columns=["group", "true", "predicted", "images"])
    title = system.heading("Confusion matrices", by, version)
    caption = ABOUT + largest_alone(images, by)
    return titled(table, title, caption, len(images.ids))


def draw(table: DataFrame) -> Picture:
    sizes = table.groupby("group")["images"].sum()
    titles = dict(zip(sizes.index, distinct(sizes.index), strict=True))
    names = table["true"].unique()
    beside = OF_TURNED * longest(names)  # inches, on both axes
    width = max(2.3, 0.45 * len(names)) + beside
    height = max(2.1, 0.42 * len(names)) + beside
    size = width, height
    by_group = panels(
        table,
        "group",
        _panel,
        lambda group: f"{titles[group]} (n = {sizes[group]:,})",
    )
    return picture(table, by_group, size=size)


def _panel(part: DataFrame, axes: Axes) -> None:
    counts = wide(part, "true", "predicted", "images")
    of_class = counts.sum(axis=1).clip(lower=1)
    share = counts.div(of_class, axis=0)
    texts = counts.to_numpy() if len(counts) <= PRINTED else None
    matrix(share, axes, texts=texts, cmap="Blues", vmin=0, vmax=1)
    axes.set(xlabel="predicted", ylabel="true")


register(Figure("confusion", "Which classes are taken for which?", "system", frame, draw))
