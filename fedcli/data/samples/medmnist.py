"""PathMNIST in little: pathmnist.npz with MedMNIST's six arrays, labels [N, 1]."""

from pathlib import Path

import numpy as np

from ..sources.drawing import picture

EACH = {"train": 5, "val": 1, "test": 2}  # images of each of nine classes
CLASSES = 9


def make(folder: Path) -> None:
    arrays: dict[str, np.ndarray] = {}
    for part, each in EACH.items():
        labels = np.arange(each * CLASSES, dtype=np.uint8) % CLASSES
        images = [picture(f"{part}-{i}", int(label), height=28, width=28) for i, label in enumerate(labels)]
        arrays |= {f"{part}_images": np.stack(images), f"{part}_labels": labels[:, None]}
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / "pathmnist.npz", **arrays)  # type: ignore[arg-type]  # any name is an array's
