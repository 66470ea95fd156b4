"""The most confident errors of each group, as images."""

from functools import partial
from pathlib import Path

import numpy as np
from numpy import ndarray
from pandas import DataFrame

from ...data import manifest
from ...data.pool import pool_of
from ...scores.scores import RunScores
from ..drawing import ALL, Axes, Panel, Picture, distinct, short
from ..figure import Figure, NothingToDraw, register
from ..shapes import picture, titled
from ..system import LAST_ROUND, AnsweredImages, By, System, largest_alone

CASES = 4  # of each group
SIDE = 2.3  # inches of a panel, wider where its words are
BOLD = 0.085  # inches of a letter of these words
ABOUT = (
    "Errors on clean test images with the highest probability of the wrong class; above each its "
    "group, its id, the predicted class with its probability, and the true class. "
    f"{LAST_ROUND}"
)


def frame(system: System, *, by: By = "") -> DataFrame:
    """group, image, predicted, probability, true; attrs hold the pixels [H, W, C] of each.

    Raises NothingToDraw where every answer is right, and of several labels per image.
    """
    images = system.images("clean", by)
    lines = _lines(images, by)
    if not lines:
        raise NothingToDraw(f"{system.run_name} has no errors to show", "draw roc")
    table = DataFrame(lines, columns=["group", "image", "predicted", "probability", "true"])
    dataset = dataset_of(system.paths[0], system.scores)
    if not dataset:
        sentence = f"the images of {system.run_name} are not here"
        raise NothingToDraw(sentence, "draw it where the images are")
    pool = pool_of(dataset)
    ids = pool.id.tolist()
    row_of = {name: row for row, name in enumerate(ids)}
    pixels = []
    for name in table["image"]:
        row = row_of[str(name)]
        row_alone = np.array([row])
        pixels.append(pool.pixels(row_alone)[0])
    heading = "Most confident errors"
    if by:
        heading = f"{heading} by {by}"
    title = f"{heading}: {system.run_name}"
    caption = ABOUT + largest_alone(images, by)
    return titled(table, title, caption, len(images.ids), pixels=pixels)


def _lines(images: AnsweredImages, attribute: str) -> list[tuple]:
    if images.y.ndim != 1:
        return []
    guesses = images.chances.argmax(1)
    groups = images.members(attribute)
    if attribute:
        groups = groups[1:]  # without all images
    lines = []
    for group, _, rows in groups:
        for k in worst(images, rows):
            guess = guesses[k]
            predicted = images.classes[guess]
            true = images.classes[images.y[k]]
            probability = images.chances[k, guess]
            lines.append((group, images.ids[k], predicted, probability, true))
    return lines


def worst(images: AnsweredImages, rows: ndarray) -> list[int]:
    """The errors among some images, the surest first; of equals the first by id."""
    guess = images.chances.argmax(1)
    wrong = rows[guess[rows] != images.y[rows]]
    of_guess = images.chances[wrong, guess[wrong]]
    order = np.lexsort((images.ids[wrong], -of_guess))
    return wrong[order[:CASES]].tolist()


def dataset_of(path: Path, scores: RunScores) -> Path | None:
    """The dataset of the test images, which `evaluate --on` may have named; None if not there."""
    if scores.external:
        tested = manifest.parent(path, scores.external.kind)  # a parent before any further one
        if tested and manifest.read(tested).kind == "dataset":
            return tested
        if tested:
            return manifest.parent(tested, "dataset")
    return manifest.parent(path, "dataset")


def draw(table: DataFrame) -> Picture:
    panels = []
    letters = 0
    classes = list({*table["predicted"], *table["true"]})
    text_of = dict(zip(classes, distinct(classes), strict=True))
    cases = zip(table.attrs["pixels"], table.itertuples(), strict=True)
    for pixels, case in cases:
        answer = f"{text_of[case.predicted]} {case.probability:.2f}"
        words = [short(str(case.image)), answer, f"is {text_of[case.true]}"]
        if case.group != ALL:
            words = [short(case.group), *words]
        letters = max(letters, *map(len, words))
        panels.append(Panel("\n".join(words), partial(_case, pixels)))
    width = max(SIDE, BOLD * letters)
    return picture(table, panels, size=(width, SIDE), columns=CASES)


def _case(pixels: ndarray, axes: Axes) -> None:
    show_image(pixels, axes)
    axes.set_anchor("W")  # below the beginning of its words


def show_image(
    pixels: ndarray,
    axes: Axes,
    extent: tuple[float, float, float, float] | None = None,
) -> None:
    """Draw an image [H, W, C] as it is. extent: left, right, bottom, top; by default pixels."""
    if pixels.shape[2] != 3:
        middle = pixels.shape[2] // 2  # slice of a volume
        pixels = pixels[..., middle]
    axes.imshow(
        pixels,
        cmap="gray",
        vmin=0,
        vmax=255,
        interpolation="nearest",
        extent=extent,
    )
    axes.set_axis_off()


QUESTION = "Which errors is the model most confident of?"
register(Figure("errors", QUESTION, "system", frame, draw, usual=True))
