"""ChestMNIST: the set of MedMNIST whose images have any of 14 labels, see medmnist.py."""

from pathlib import Path

from ...errors import FedcliError
from ...labels import MULTI_LABEL
from ..samples import chestmnist as sample
from .medmnist import decode
from .medmnist import rows as rows_of_any
from .source import Choices, Listing, Source


def rows(raw: Path, choices: Choices) -> Listing:
    listing = rows_of_any(raw, choices)
    if listing.task != MULTI_LABEL:
        raise FedcliError(f"{raw / listing.tables[0]} has one label per image", "fedcli prepare medmnist reads it")
    return listing


SOURCE = Source(rows, decode, sample.make)
