"""Office-Caltech-10: ten kinds of object in four domains, from a folder per domain and class.

Source: Gong, Shi, Sha, Grauman, CVPR 2012. The split is FedHEAL's (arXiv 2405.16585), whose code is its only
description: within a domain, in the order of class and file name, images 0 to 7 of every ten train, the rest test.
"""

from pathlib import Path

import numpy as np

from ...errors import FedcliError
from ..pool import Row
from ..samples import office_caltech as sample
from .formats.photographs import read_rgb
from .source import Choices, Listing, Source
from .tables import split_rows

DOMAINS = {"amazon": ["amazon"], "caltech": ["caltech", "caltech10"], "dslr": ["dslr"], "webcam": ["webcam"]}
CLASSES = [
    *("backpack", "bike", "calculator", "headphones", "keyboard"),
    *("laptop", "monitor", "mouse", "mug", "projector"),
]
SPELLINGS = {"back_pack": "backpack", "laptop_computer": "laptop", "computer_mouse": "mouse", "coffee-mug": "mug"}
SPELLINGS |= {"touring-bike": "bike", "computer-keyboard": "keyboard", "computer-monitor": "monitor"}
SUFFIXES = ".jpg", ".jpeg", ".png"
TEN_TRAIN = 7  # of every ten images, places 0 to 7 train


def rows(raw: Path, choices: Choices) -> Listing:
    """Every image of every domain folder that is there."""
    folders = {domain: [raw / name for name in names if (raw / name).is_dir()] for domain, names in DOMAINS.items()}
    if absent := [domain for domain, present in folders.items() if not present]:
        raise FedcliError(f"{raw} has no folder {absent[0]!r}", f"it needs one for each of {', '.join(DOMAINS)}")
    images: list[Row] = []
    for place, (domain, (folder, *_)) in enumerate(folders.items()):
        # macOS puts a ._ file beside each image
        files = sorted(p for p in folder.glob("[!.]*/[!.]*") if p.suffix.lower() in SUFFIXES)
        for i, file in enumerate(files):
            id, test = f"{domain}/{file.parent.name}/{file.stem}", i % 10 > TEN_TRAIN
            label = CLASSES.index(_class(file.parent))
            images.append(Row(id, label, file.relative_to(raw).as_posix(), test, {"domain": place}))
    if choices.split == "image":
        images = split_rows(images, choices, by_patient=False)
    return Listing(images, {"domain": list(DOMAINS)})


def decode(raw: Path, row: Row, choices: Choices) -> np.ndarray:
    return read_rgb(raw / row.source)


def _class(folder: Path) -> str:
    name = folder.name.lower().split(".")[-1]  # Caltech-256 numbers its folders
    name = SPELLINGS.get(name, name)
    if name not in CLASSES:
        raise FedcliError(f"{folder} is none of the ten classes", f"known: {', '.join(CLASSES)}")
    return name


SOURCE = Source(rows, decode, sample.make, per_file=True)
