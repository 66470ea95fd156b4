"""CIFAR-100: 32 x 32 photographs of 100 things in 20 kinds, from the binary files of its makers.

Source: Krizhevsky, Learning multiple layers of features from tiny images, 2009. A record is a byte for the kind, one
for the thing and 3,072 for red, green and blue. The makers' Python version is pickles, which fedcli does not open.
"""

from pathlib import Path

import numpy as np

from ...errors import FedcliError
from ...io.files import regular
from ..pool import Row
from . import cards
from .division import divided
from .drawing import picture
from .source import Choices, Listing, Source

SIDE = 32
RECORD = 2 + 3 * SIDE**2  # bytes
FILES = {"train": "train.bin", "test": "test.bin"}
HOME = "cifar-100-binary"  # the folder in the makers' archive
CARD = cards.read("cifar100")
CLASSES, KINDS = CARD["classes"], CARD["attributes"]["kind"]


def rows(raw: Path, choices: Choices) -> Listing:
    """Every record of both files."""
    home = raw / HOME if (raw / HOME).is_dir() else raw
    images = []
    for part, name in FILES.items():
        file = (home / name).relative_to(raw).as_posix()
        for at, (kind, label) in enumerate(_records(home / name)[:, :2].tolist()):
            if label >= len(CLASSES) or kind >= len(KINDS):
                sentence = f"{home / name}: record {at} is of class {label} and kind {kind}"
                raise FedcliError(sentence, "download it again")
            images.append(Row(f"{part}/{at}", label, file, part == "test", {"kind": kind}))
    listing = Listing(images, {"kind": KINDS}, tables=sorted({row.source for row in images}))
    return divided(listing, choices)


def decode(raw: Path, row: Row, choices: Choices) -> np.ndarray:
    """uint8 [32, 32, 3]."""
    record = _records(raw / str(row.source))[int(row.id.partition("/")[2])]
    return np.ascontiguousarray(record[2:].reshape(3, SIDE, SIDE).transpose(1, 2, 0))


def _records(path: Path) -> np.ndarray:
    """uint8 [N, RECORD], read from the file when it is asked for. Raises FedcliError."""
    size = regular(path, "fedcli datasets cifar100 --download DIR gets it").stat().st_size
    if not size or size % RECORD:
        raise FedcliError(f"{path} is no number of records of {RECORD} bytes", "download it again")
    return np.memmap(path, np.uint8, mode="r").reshape(-1, RECORD)


def sample(folder: Path) -> None:
    """Three training images and one test image of each class."""
    (folder / HOME).mkdir(parents=True)
    for part, each in (("train", 3), ("test", 1)):
        records = bytearray()
        for i in range(each * len(CLASSES)):
            label = i % len(CLASSES)
            pixels = picture(f"cifar100-{part}-{i}", label, height=SIDE, width=SIDE)
            records += bytes([label % len(KINDS), label]) + pixels.transpose(2, 0, 1).tobytes()
        (folder / HOME / FILES[part]).write_bytes(records)


SOURCE = Source(rows, decode, sample)
