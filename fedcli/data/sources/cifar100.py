"""CIFAR-100: 32 x 32 photographs of 100 things in 20 kinds, from the binary files of its makers.

Source: Krizhevsky, Learning multiple layers of features from tiny images, 2009. A record is a byte
for the kind, one for the thing and 3,072 for red, green and blue. The makers' Python version is
pickles, which fedcli does not open.
"""

from pathlib import Path

import numpy as np
from numpy import ndarray

from ...errors import FedcliError
from ...io.files import regular
from ..pool import Row
from ..prepare_options import PrepareOptions
from . import cards
from .division import divided
from .drawing import pictures
from .source import Listing, Source
from .tables import home_in

SIDE = 32
RECORD = 2 + 3 * SIDE**2  # bytes
FILES = {"train": "train.bin", "test": "test.bin"}
HOME = "cifar-100-binary"  # the folder in the makers' archive
CARD = cards.read("cifar100")
CLASSES = CARD["classes"]
KINDS = CARD["attributes"]["kind"]


def rows(raw: Path, choices: PrepareOptions) -> Listing:
    """Every record of both files."""
    home = home_in(raw, HOME)
    images = []
    files = []
    for part, name in FILES.items():
        path = home / name
        file = path.relative_to(raw).as_posix()
        files.append(file)
        for i, (kind, label) in enumerate(_records(path)[:, :2].tolist()):
            if label >= len(CLASSES) or kind >= len(KINDS):
                sentence = f"{path}: record {i} is of class {label} and kind {kind}"
                raise FedcliError(sentence, "download it again")
            is_test = part == "test"
            images.append(Row(f"{part}/{i}", label, file, is_test, {"kind": kind}))
    listing = Listing(images, {"kind": KINDS}, tables=sorted(files))
    return divided(listing, choices)


def decode(raw: Path, row: Row, choices: PrepareOptions) -> ndarray:
    """uint8 [32, 32, 3]."""
    position = int(row.id.partition("/")[2])
    record = _records(raw / str(row.source))[position]
    planes = record[2:].reshape(3, SIDE, SIDE)
    return np.ascontiguousarray(planes.transpose(1, 2, 0))


def _records(path: Path) -> ndarray:
    """uint8 [N, RECORD], read from the file when it is asked for. Raises FedcliError."""
    regular(path, "fedcli datasets cifar100 --download DIR gets it")
    size = path.stat().st_size
    if not size or size % RECORD:
        raise FedcliError(f"{path} is no number of records of {RECORD} bytes", "download it again")
    numbers = np.memmap(path, np.uint8, mode="r")
    return numbers.reshape(-1, RECORD)


# the synthetic sample

EACH = {"train": 3, "test": 1}  # images of a class


def sample(folder: Path) -> None:
    """Three training images and one test image of each class."""
    (folder / HOME).mkdir(parents=True)
    for part, count in EACH.items():
        labels = np.tile(np.arange(len(CLASSES)), count)
        images = pictures(f"cifar100-{part}", labels, SIDE)
        pixels = images.transpose(
            0,
            3,
            1,
            2,
        )
        kinds = labels % len(KINDS)
        flat_pixels = pixels.reshape(len(labels), -1)
        columns = [kinds[:, None], labels[:, None], flat_pixels]
        records = np.concatenate(columns, axis=1).astype(np.uint8)
        path = folder / HOME / FILES[part]
        path.write_bytes(records.tobytes())


SOURCE = Source(rows, decode, sample)
