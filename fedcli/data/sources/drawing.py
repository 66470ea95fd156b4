"""Pictures for synthetic samples: tiny images whose classes a network can distinguish, equal on every machine."""

import csv
from pathlib import Path

import numpy as np

from ...seeds import derive


def picture(
    name: str, label: int, *, height: int = 24, width: int = 32, tint: float = 0.0
) -> np.ndarray:
    """uint8 [height, width, 3]: a blob on skin-like ground; its place and colour follow the class, the rest the name.

    tint: darkens the ground, in [0, 1], for attributes that show in the image.
    """
    rng = np.random.default_rng(
        derive("twin", name)
    )  # the word is part of the seed: with another, other images
    blob, angle = _blob(label, height, width)
    ground = (1 - 0.6 * tint) * np.array([200.0, 160.0, 140.0])
    colour = 60 + 90 * (1 + np.sin(angle + np.array([0.0, 2.1, 4.2])))
    image = (
        ground * (1 - blob[..., None])
        + colour * blob[..., None]
        + rng.normal(0, 8, (height, width, 3))
    )
    return np.rint(image.clip(0, 255)).astype(np.uint8)


def scan(name: str, label: int, *, height: int, width: int) -> np.ndarray:
    """uint8 [height, width]: a bright blob on darker ground, so that its place is seen under noise too."""
    rng = np.random.default_rng(derive("scan", name))
    image = 60 + 150 * _blob(label, height, width)[0] + rng.normal(0, 40, (height, width))
    return np.rint(image.clip(0, 255)).astype(np.uint8)


def _blob(label: int, height: int, width: int) -> tuple[np.ndarray, float]:
    """Share of each pixel that is blob, [height, width], and its direction from the centre, which follows the class."""
    y, x = np.mgrid[:height, :width]
    angle = 2.4 * label  # the golden angle keeps any number of classes distinct
    centre = height / 2 + np.sin(angle) * height / 5, width / 2 + np.cos(angle) * width / 5
    return np.exp(-((y - centre[0]) ** 2 + (x - centre[1]) ** 2) / (2 * (height / 7) ** 2)), angle


def labels_of(i: int, count: int) -> np.ndarray:
    """uint8 [L]: of the i-th image one of several labels, in every second image another one, in every fifth none."""
    row = np.zeros(count, np.uint8)
    if i % 5:
        row[i % count] = 1
        row[(3 * i + i // count) % count] |= i % 2
    return row


def spots(name: str, labels: np.ndarray, side: int = 28) -> np.ndarray:
    """uint8 [side, side]: noise with a bright spot at the place of each label that the image has, of up to 16."""
    rng = np.random.default_rng(derive("sample", name))
    y, x = np.mgrid[:side, :side]
    image = 60 + rng.normal(0, 8, (side, side))
    for label in np.flatnonzero(labels):
        row, column = divmod(int(label), 4)
        image += 150 * np.exp(-((y - 4 - 6.5 * row) ** 2 + (x - 4 - 6.5 * column) ** 2) / 8)
    return np.rint(image.clip(0, 255)).astype(np.uint8)


def save(path: Path, image: np.ndarray) -> None:
    """Write an image file of the kind its suffix names, making its folder."""
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image.squeeze()).save(path)


def table(path: Path, head: list[str], rows: list[list], *, separator: str = ",") -> None:
    """Write a CSV file, making its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=separator, lineterminator="\n").writerows([head, *rows])
