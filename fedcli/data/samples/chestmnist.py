"""ChestMNIST in little: chestmnist.npz with MedMNIST's six arrays, grey images and labels [N, 14].

The files name no patient; attributes.csv beside them says what the made-up ones are, by image.
"""

from pathlib import Path

import numpy as np

from ...seeds import derive
from .draw import table

EACH = {"train": 140, "val": 28, "test": 84}  # images
LABELS, SIDE = 14, 28
PERSON = ("female", "30"), ("male", "50"), ("female", "70"), ("male", "35")


def make(folder: Path) -> None:
    arrays: dict[str, np.ndarray] = {}
    for part, count in EACH.items():
        labels = np.stack([_labels(i) for i in range(count)])  # [N, L]
        images = [_picture(f"chestmnist-{part}-{i}", row) for i, row in enumerate(labels)]
        arrays |= {f"{part}_images": np.stack(images), f"{part}_labels": labels}
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / "chestmnist.npz", **arrays)  # type: ignore[arg-type]  # any name is an array's
    people = [[f"{part}-{i:06d}", *PERSON[i % len(PERSON)]] for part, count in EACH.items() for i in range(count)]
    table(folder / "attributes.csv", ["image", "sex", "age"], people)


def _labels(i: int) -> np.ndarray:
    """uint8 [L]: one label, in every second image another one, in every fifth none."""
    row = np.zeros(LABELS, np.uint8)
    if i % 5:
        row[i % LABELS] = 1
        row[(3 * i + i // LABELS) % LABELS] |= i % 2
    return row


def _picture(name: str, labels: np.ndarray) -> np.ndarray:
    """uint8 [SIDE, SIDE]: noise with a bright spot at the place of each label."""
    rng = np.random.default_rng(derive("sample", name))
    y, x = np.mgrid[:SIDE, :SIDE]
    image = 60 + rng.normal(0, 8, (SIDE, SIDE))
    for label in np.flatnonzero(labels):
        row, column = divmod(int(label), 4)
        image += 150 * np.exp(-((y - 4 - 6.5 * row) ** 2 + (x - 4 - 6.5 * column) ** 2) / 8)
    return np.rint(image.clip(0, 255)).astype(np.uint8)
