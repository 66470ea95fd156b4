"""The most confident errors of each group, as images."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
from pandas import DataFrame

from ...data import manifest
from ...data.pool import pool_of
from ...errors import FedcliError
from ...scores.scores import Scores
from ..drawing import ALL, Axes, Panel, Picture
from ..figure import Figure, Options, register
from ..seen import BY, Seen
from ..system import System

CASES = 4  # of each group
ABOUT = (
    "Errors of the last round's model on clean test images with the highest probability of the wrong class; above each "
    "its group, its id, the predicted class with its probability, and the true class."
)


def frame(systems: list[System], *, by: Annotated[str, BY] = "") -> DataFrame:
    """group, image, predicted, probability, true; attrs hold the pixels [H, W, C] of each.

    Raises FedcliError where every answer is right, and of several labels per image.
    """
    (system,) = systems
    images = system.images("clean", by)
    cases = [] if images.y.ndim == 2 else list(_cases(images, by))
    if not cases:
        raise FedcliError(f"{system.one} has no errors to show", "draw roc")
    lines = [
        (group, images.ids[k], images.classes[guess], images.chances[k, guess], images.classes[images.y[k]])
        for group, k in cases
        for guess in [int(images.chances[k].argmax())]
    ]
    table = DataFrame(lines, columns=["group", "image", "predicted", "probability", "true"])
    pool = pool_of(_dataset(system.paths[0], system.scores))
    rows = {name: row for row, name in enumerate(pool.id.tolist())}
    table.attrs |= {
        "title": f"Most confident errors{f' by {by}' if by else ''}: {system.one}",
        "caption": f"{ABOUT} n = {len(images.ids):,} images.",
        "pixels": [pool.pixels(np.array([rows[str(name)]]))[0] for name in table["image"]],
    }
    return table


def _cases(images: Seen, by: str) -> Iterator[tuple[str, int]]:
    for group, _, rows in images.members(by)[1 if by else 0 :]:
        yield from ((group, case) for case in worst(images, rows))


def worst(images: Seen, rows: np.ndarray) -> list[int]:
    """The errors among some images, the surest first; of equals the first by id."""
    guess = images.chances.argmax(1)
    wrong = rows[guess[rows] != images.y[rows]]
    order = np.lexsort((images.ids[wrong], -images.chances[wrong, guess[wrong]]))
    return wrong[order[:CASES]].tolist()


def _dataset(path: Path, scores: Scores) -> Path:
    """The dataset of the test images, which `evaluate --on` may have named."""
    tested = manifest.parent(path, scores.external.kind) if scores.external else None  # a parent before any further one
    if tested:
        return tested if manifest.read(tested).kind == "dataset" else manifest.above(tested, "dataset")
    return manifest.above(path, "dataset")


def draw(table: DataFrame) -> Picture:
    panels = []
    for pixels, case in zip(table.attrs["pixels"], table.to_dict("records"), strict=True):
        guess = f"{case['predicted']} {case['probability']:.2f}, is {case['true']}"
        lines = [*([] if case["group"] == ALL else [case["group"]]), str(case["image"]), guess]
        panels.append(Panel("\n".join(lines), partial(_image, pixels)))
    return Picture(table.attrs["title"], panels, caption=table.attrs["caption"], size=(2.3, 2.3), columns=CASES)


def _image(pixels: np.ndarray, axes: Axes) -> None:
    shown = pixels if pixels.shape[2] == 3 else pixels[..., pixels.shape[2] // 2]  # of a volume the middle slice
    axes.imshow(shown, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    axes.set_axis_off()


def _variants(system: System) -> Iterator[Options]:
    images = system.versions.get("clean")
    if images and not system.scores.several_labels:
        yield from ({"by": by} for by in images.groupings or ("",) if any(_cases(images, by)))


register(
    Figure(
        "errors",
        "Which images is the model surely wrong about?",
        "systems",
        frame,
        draw,
        alone=True,
        variants=_variants,
    )
)
