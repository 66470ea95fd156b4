"""ChestMNIST in little: chestmnist.npz with MedMNIST's six arrays, grey images and labels [N, 14].

The files name no patient; attributes.csv beside them says what the made-up ones are, by image.
"""

from pathlib import Path

import numpy as np

from ..sources.drawing import labels_of, spots, table

EACH = {"train": 140, "val": 28, "test": 84}  # images
LABELS = 14
PERSON = ("female", "30"), ("male", "50"), ("female", "70"), ("male", "35")


def make(folder: Path) -> None:
    arrays: dict[str, np.ndarray] = {}
    for part, count in EACH.items():
        labels = np.stack([labels_of(i, LABELS) for i in range(count)])  # [N, L]
        images = [spots(f"chestmnist-{part}-{i}", row) for i, row in enumerate(labels)]
        arrays |= {f"{part}_images": np.stack(images), f"{part}_labels": labels}
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / "chestmnist.npz", **arrays)  # type: ignore[arg-type]  # any name is an array's
    people = [[f"{part}-{i:06d}", *PERSON[i % len(PERSON)]] for part, count in EACH.items() for i in range(count)]
    table(folder / "attributes.csv", ["image", "sex", "age"], people)
