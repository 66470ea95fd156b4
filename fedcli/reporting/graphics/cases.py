"""The most confident errors of each group, as images."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...data import manifest
from ...data.pool import Pool, pool_of
from ...scores.scores import Scores
from .graphic import ALL, Graphic, Panel
from .seen import Seen

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CASES = 4  # of each group
ABOUT = (
    "Errors of the last round's model on clean test images with the highest probability of the wrong class; above each "
    "its group, its id, the predicted class with its probability, and the true class."
)


def graphics(system: str, path: Path, scores: Scores, images: Seen) -> Iterator[Graphic]:
    """A figure for each attribute; none where every answer is right, and none of several labels per image."""
    if images.version != "clean" or images.y.ndim == 2:
        return
    pool = pool_of(_dataset(path, scores))
    rows = {name: row for row, name in enumerate(pool.id.tolist())}
    for attribute in images.groupings or ("",):
        panels = []
        for name, _, at in images.members(attribute)[1 if attribute else 0 :]:
            panels += [_panel(images, pool, rows, name, case) for case in worst(images, at)]
        if panels:
            yield Graphic(
                "-".join(filter(None, ["errors", attribute])),
                f"Most confident errors{f' by {attribute}' if attribute else ''}: {system}",
                ABOUT, len(images.ids), panels, size=(2.3, 2.3), columns=CASES,
            )  # fmt: skip


def worst(images: Seen, at: np.ndarray) -> list[int]:
    """The errors among some images, the surest first; of equals the first by id."""
    guess = images.chances.argmax(1)
    wrong = at[guess[at] != images.y[at]]
    order = np.lexsort((images.ids[wrong], -images.chances[wrong, guess[wrong]]))
    return wrong[order[:CASES]].tolist()


def _dataset(path: Path, scores: Scores) -> Path:
    """The dataset of the test images, which `evaluate --on` may have named."""
    tested = manifest.parent(path, scores.external.kind) if scores.external else None  # a parent before any further one
    if tested:
        return tested if manifest.read(tested).kind == "dataset" else manifest.above(tested, "dataset")
    return manifest.above(path, "dataset")


def _panel(images: Seen, pool: Pool, rows: dict[str, int], group: str, case: int) -> Panel:
    picture = pool.pixels(np.array([rows[str(images.ids[case])]]))[0]  # [H, W, C]
    guess = int(images.chances[case].argmax())
    chance = images.chances[case, guess]
    lines = [
        *([] if group == ALL else [group]), str(images.ids[case]),
        f"{images.classes[guess]} {chance:.2f}, is {images.classes[images.y[case]]}",
    ]  # fmt: skip
    return Panel("\n".join(lines), partial(_image, picture))


def _image(picture: np.ndarray, axes: "Axes") -> None:
    shown = picture if picture.shape[2] == 3 else picture[..., picture.shape[2] // 2]  # of a volume the middle slice
    axes.imshow(shown, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    axes.set_axis_off()
