"""Places of the images of clients: in the pool, or among those that corrupt changed."""

from pathlib import Path

import numpy as np

from ..errors import FedcliError
from ..io.hdf5 import open_hdf5
from . import manifest
from .pool import CHANGED, POOL, Pool, holdings

CHANGED_FILE = "changed.h5"  # beside the manifest of a corruption
Place = tuple[Path, str, int]  # of an image's pixels: file, dataset in it, and row there


def held(path: Path) -> tuple[Pool, dict[str, np.ndarray]]:
    """The pool, and client -> rows that it trains and validates on; of a dataset ALL -> its
    training part."""
    pool, parts_by_client, _ = holdings(path)
    rows_by_client = {}
    for client, parts in parts_by_client.items():
        rows_by_client[client] = np.concatenate([parts["train"], parts["val"]])
    return pool, rows_by_client


def places(
    path: Path,
    pool: Pool,
    client: str,
    rows: np.ndarray,
) -> list[Place]:
    """Files and rows of the pixels of a client's images: in the pool, or among those that corrupt
    changed."""
    body = manifest.read(path).body
    if "kind" not in body or client not in body["clients"]:  # a dataset's clients are a number
        return [(pool.path, "x", row) for row in rows.tolist()]
    changed_path = path.parent / CHANGED_FILE
    with open_hdf5(changed_path, CHANGED, hint="corrupt again") as file:
        changed = file["train/rows"][()]  # rising
    indices = np.searchsorted(changed, rows)
    lacks_some = len(rows) and indices.max() >= len(changed)
    if lacks_some or (changed[indices] != rows).any():
        raise FedcliError(f"{changed_path} lacks images of {client}", "corrupt again")
    return [(changed_path, "train/x", index) for index in indices.tolist()]


def pixels(files: list[Place]) -> np.ndarray:
    """uint8 [n, H, W, C], in this order."""
    rows_by_dataset: dict[tuple[Path, str], set[int]] = {}
    for path, name, row in files:
        rows_by_dataset.setdefault((path, name), set()).add(row)
    images: dict[Place, np.ndarray] = {}
    for (path, name), rows in rows_by_dataset.items():
        rising = sorted(rows)
        columns = POOL if name == "x" else CHANGED
        with open_hdf5(path, columns) as file:
            for row, image in zip(rising, file[name][rising], strict=True):
                images[path, name, row] = image
    return np.stack([images[file] for file in files])
