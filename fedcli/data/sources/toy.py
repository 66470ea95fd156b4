"""scikit-learn's 1,797 scanned digits: real images without a download, for tests."""

from functools import cache
from pathlib import Path

import numpy as np
from numpy import ndarray

from ..pool import Row
from ..prepare_options import PrepareOptions
from .division import divided
from .source import Listing, Source


def rows(raw: Path | None, choices: PrepareOptions) -> Listing:
    images = []
    for i, label in enumerate(digits()[1]):
        row_id = f"digit-{i:04d}"
        images.append(Row(row_id, int(label), i))
    return divided(Listing(images), choices)


def decode(raw: Path | None, row: Row, choices: PrepareOptions) -> ndarray:
    return digits()[0][row.source]


@cache
def digits() -> tuple[ndarray, ndarray]:
    """uint8 [1797, 8, 8, 1] and class [1797]."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    scaled = images * (255 / 16)
    greys = np.rint(scaled).astype(np.uint8)
    return greys.reshape(-1, 8, 8, 1), labels


SOURCE = Source(rows, decode)
