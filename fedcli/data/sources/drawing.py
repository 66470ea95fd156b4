"""Pictures for synthetic samples: tiny images whose classes a network can distinguish.

They are equal on every machine.
"""

import csv
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy import ndarray

from ...seeds import derive

SKIN = np.array([200.0, 160.0, 140.0])
PHASES = np.array([0.0, 2.1, 4.2])  # of red, green and blue


def picture(
    name: str,
    label: int,
    *,
    height: int = 24,
    width: int = 32,
    tint: float = 0.0,
) -> ndarray:
    """uint8 [height, width, 3]: a blob on skin-like ground.

    Its place and colour follow the class, the rest follows the name.
    tint: darkens the ground, in [0, 1], for attributes that show in the image.
    """
    # the word is part of the seed: with another, other images
    rng = np.random.default_rng(derive("twin", name))
    blob = _blob(label, height, width)[..., None]
    ground = (1 - 0.6 * tint) * SKIN
    brightness = 1 + np.sin(_direction(label) + PHASES)
    colour = 60 + 90 * brightness
    noise = rng.normal(0, 8, (height, width, 3))
    background = ground * (1 - blob)
    return _rounded(background + colour * blob + noise)


def pictures(name: str, labels: Iterable[int], side: int) -> ndarray:
    """uint8 [N, side, side, 3]: a picture of each label, called NAME-0, NAME-1 and so on."""
    images = []
    for i, label in enumerate(labels):
        images.append(picture(f"{name}-{i}", int(label), height=side, width=side))
    return np.stack(images)


def scan(name: str, label: int, *, height: int, width: int) -> ndarray:
    """uint8 [height, width]: a bright blob on darker ground, so that noise does not hide it."""
    rng = np.random.default_rng(derive("scan", name))
    noise = rng.normal(0, 40, (height, width))
    brightness = 150 * _blob(label, height, width)
    return _rounded(60 + brightness + noise)


def _direction(label: int) -> float:
    """The angle at which a class has its blob; the golden angle keeps all classes distinct."""
    return 2.4 * label


def _blob(label: int, height: int, width: int) -> ndarray:
    """Share of each pixel that is blob, [height, width]."""
    y, x = np.mgrid[:height, :width]
    angle = _direction(label)
    middle_y = height / 2 + np.sin(angle) * height / 5
    down = y - middle_y
    middle_x = width / 2 + np.cos(angle) * width / 5
    across = x - middle_x
    squared_distance = down**2 + across**2
    variance = (height / 7) ** 2
    return np.exp(-squared_distance / (2 * variance))


def _rounded(image: ndarray) -> ndarray:
    return np.rint(image.clip(0, 255)).astype(np.uint8)


def labels_of(i: int, count: int) -> ndarray:
    """uint8 [L]: the labels of the i-th image, two in every second, none in every fifth."""
    row = np.zeros(count, np.uint8)
    if i % 5:
        row[i % count] = 1
        other = (3 * i + i // count) % count
        row[other] |= i % 2
    return row


def spots(name: str, labels: ndarray, side: int = 28) -> ndarray:
    """uint8 [side, side]: noise with a bright spot for each label of the image, of up to 16."""
    rng = np.random.default_rng(derive("sample", name))
    y, x = np.mgrid[:side, :side]
    image = 60 + rng.normal(0, 8, (side, side))
    for label in np.flatnonzero(labels):
        row, column = divmod(int(label), 4)
        down = y - 4 - 6.5 * row
        across = x - 4 - 6.5 * column
        squared_distance = down**2 + across**2
        image += 150 * np.exp(-squared_distance / 8)
    return _rounded(image)


def save(path: Path, image: ndarray) -> None:
    """Write an image file of the kind its suffix names, making its folder."""
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image.squeeze()).save(path)


def save_picture(
    path: Path,
    label: int,
    *,
    height: int = 24,
    tint: float = 0.0,
) -> None:
    """Write the picture that has the name of the file, without its suffix."""
    save(path, picture(path.stem, label, height=height, tint=tint))


def table(
    path: Path,
    head: list[str],
    rows: list[list],
    *,
    separator: str = ",",
) -> None:
    """Write a CSV file, making its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=separator, lineterminator="\n")
        writer.writerows([head, *rows])
