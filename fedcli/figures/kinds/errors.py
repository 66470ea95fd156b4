"""The most confident errors of each group, as images."""

from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
from pandas import DataFrame

from ...data import manifest
from ...data.pool import pool_of
from ...scores.scores import Scores
from ..drawing import ALL, Axes, Panel, Picture
from ..figure import Figure, NothingToDraw, register
from ..shapes import picture, titled
from ..system import BY, LAST_ROUND, Seen, System

CASES = 4  # of each group
ABOUT = (
    "Errors on clean test images with the highest probability of the wrong class; above each its group, its id, the "
    f"predicted class with its probability, and the true class. {LAST_ROUND}"
)


def frame(system: System, *, by: Annotated[str, BY] = "") -> DataFrame:
    """group, image, predicted, probability, true; attrs hold the pixels [H, W, C] of each.

    Raises NothingToDraw where every answer is right, and of several labels per image.
    """
    images = system.images("clean", by)
    guess = images.chances.argmax(1)
    lines = [
        (
            group,
            images.ids[k],
            images.classes[guess[k]],
            images.chances[k, guess[k]],
            images.classes[images.y[k]],
        )
        for group, _, rows in (images.members(by)[1 if by else 0 :] if images.y.ndim == 1 else ())
        for k in worst(images, rows)
    ]
    if not lines:
        raise NothingToDraw(f"{system.one} has no errors to show", "draw roc")
    table = DataFrame(lines, columns=["group", "image", "predicted", "probability", "true"])
    if not (dataset := dataset_of(system.paths[0], system.scores)):
        raise NothingToDraw(f"the images of {system.one} are not here", "draw it where they are")
    pool = pool_of(dataset)
    rows = {name: row for row, name in enumerate(pool.id.tolist())}
    pixels = [pool.pixels(np.array([rows[str(name)]]))[0] for name in table["image"]]
    title = f"Most confident errors{f' by {by}' if by else ''}: {system.one}"
    return titled(table, title, ABOUT, len(images.ids), pixels=pixels)


def worst(images: Seen, rows: np.ndarray) -> list[int]:
    """The errors among some images, the surest first; of equals the first by id."""
    guess = images.chances.argmax(1)
    wrong = rows[guess[rows] != images.y[rows]]
    order = np.lexsort((images.ids[wrong], -images.chances[wrong, guess[wrong]]))
    return wrong[order[:CASES]].tolist()


def dataset_of(path: Path, scores: Scores) -> Path | None:
    """The dataset of the test images, which `evaluate --on` may have named; None where it is not there."""
    tested = (
        manifest.parent(path, scores.external.kind) if scores.external else None
    )  # a parent before any further one
    if tested:
        return (
            tested
            if manifest.read(tested).kind == "dataset"
            else manifest.parent(tested, "dataset")
        )
    return manifest.parent(path, "dataset")


def draw(table: DataFrame) -> Picture:
    panels = []
    for pixels, case in zip(table.attrs["pixels"], table.itertuples(), strict=True):
        guess = f"{case.predicted} {case.probability:.2f}"
        lines = [
            *([] if case.group == ALL else [case.group]),
            str(case.image),
            guess,
            f"is {case.true}",
        ]
        panels.append(Panel("\n".join(lines), partial(show_image, pixels)))
    return picture(table, panels, size=(2.3, 2.3), columns=CASES)


def show_image(pixels: np.ndarray, axes: Axes) -> None:
    """An image [H, W, C] as it is."""
    shown = (
        pixels if pixels.shape[2] == 3 else pixels[..., pixels.shape[2] // 2]
    )  # of a volume the middle slice
    axes.imshow(shown, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    axes.set_axis_off()


register(
    Figure(
        "errors", "Which images is the model surely wrong about?", "system", frame, draw, usual=True
    )
)
