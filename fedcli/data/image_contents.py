"""Images that show next to nothing, and images that are equal to another one of their part,
whatever reader they had.

They are counted in the pool, as they are trained and tested on, so that an image that its reader or
a resize made flat counts too. Nothing is left out for it: a mask or an empty slice may be meant.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..io.files import remembered
from . import image_counts, manifest
from .pool import ALL, Pool, holdings, iterate, read_pool

FEWEST = 4  # values in some channel, from which an image shows something
PARTS = {"train": "training images", "test": "test images"}


@dataclass(frozen=True)
class Contents:
    """Facts of each image of a pool.

    Attributes:
        digests: bytes [N], equal where all pixels are; of 16 bytes, so that chance makes no two
            equal.
        blank: bool [N]: fewer than FEWEST values in every channel.
    """

    digests: np.ndarray
    blank: np.ndarray


@remembered(2)
def of_pool(path: Path) -> Contents:
    pool = read_pool(path)
    digests = []
    blank = []
    for _, images in iterate(pool, np.arange(pool.shape[0])):
        for image in images:
            digests.append(hashlib.blake2b(image.tobytes(), digest_size=16).hexdigest())
            blank.append(is_blank(image))
    return Contents(np.array(digests, "S32"), np.array(blank, bool))


def is_blank(image: np.ndarray) -> bool:
    """Tell whether an image uint8 [H, W, C] has fewer than FEWEST values in every channel.

    One colour with black added at its borders is blank, and so is a mask that no resize has
    smoothed.
    """
    for channel in range(image.shape[2]):
        counts = np.bincount(image[..., channel].ravel(), minlength=256)
        if np.count_nonzero(counts) >= FEWEST:
            return False
    return True


def of_manifest(path: Path) -> dict[str, Any]:
    """Blank images by part and class, and images by part that are equal to another one of it;
    without empty parts."""
    pool, rows_by_client, test = holdings(path)
    training = [test[:0]]
    for parts in rows_by_client.values():
        training += [parts["train"], parts["val"]]
    train = np.unique(np.concatenate(training))
    contents = of_pool(pool.path)
    body = manifest.read(path).body
    blank: dict[str, dict[str, int]] = {}
    equal: dict[str, int] = {}
    for part, rows in (("train", train), ("test", test)):
        blank_rows = rows[contents.blank[rows]]
        if len(blank_rows):
            blank[part] = _by_class(pool, blank_rows, body)
        _, counts = np.unique(contents.digests[rows], return_counts=True)
        repeated = int(counts[counts > 1].sum())
        if repeated:
            equal[part] = repeated
    return {"nearly_one_colour": blank, "identical_within_part": equal}


def _by_class(
    pool: Pool,
    rows: np.ndarray,
    body: manifest.Body,
) -> dict[str, int]:
    classes = {"classes": body["classes"], "attributes": {}}
    by_client = image_counts.counted(pool, {ALL: {"": rows}}, classes)[image_counts.CLASS]
    counts = by_client[ALL][""]
    return {name: count for name, count in counts.items() if count}
