"""Office-Caltech-10: ten kinds of object in four domains, from a folder per domain and class.

Source: Gong, Shi, Sha, Grauman, CVPR 2012. The split is FedHEAL's (arXiv 2405.16585), whose code is its only
description: within a domain, in the order of class and file name, images 0 to 7 of every ten train, the rest test.
"""

from pathlib import Path

from ...errors import FedcliError
from ..pool import Row
from . import cards
from .division import divided
from .drawing import picture, save
from .formats.photographs import photograph, photographs_in
from .source import Choices, Listing, Source

DOMAINS = {
    "amazon": ["amazon"],
    "caltech": ["caltech", "caltech10"],
    "dslr": ["dslr"],
    "webcam": ["webcam"],
}
CLASSES = cards.read("office-caltech")["classes"]
SPELLINGS = {
    "back_pack": "backpack",
    "laptop_computer": "laptop",
    "computer_mouse": "mouse",
    "coffee-mug": "mug",
}
SPELLINGS |= {
    "touring-bike": "bike",
    "computer-keyboard": "keyboard",
    "computer-monitor": "monitor",
}
HOME = "office_caltech_10"  # the folder that the archive becomes
TEN_TRAIN = 7  # of every ten images, places 0 to 7 train


def rows(raw: Path, choices: Choices) -> Listing:
    """Every image of every domain folder that is there."""
    home = raw / HOME if (raw / HOME).is_dir() else raw
    folders = {
        domain: [home / name for name in names if (home / name).is_dir()]
        for domain, names in DOMAINS.items()
    }
    if absent := [domain for domain, present in folders.items() if not present]:
        raise FedcliError(
            f"{home} has no folder {absent[0]!r}", f"it needs one for each of {', '.join(DOMAINS)}"
        )
    images: list[Row] = []
    for place, (domain, (folder, *_)) in enumerate(folders.items()):
        for i, file in enumerate(photographs_in(folder)):
            id, test = f"{domain}/{file.parent.name}/{file.stem}", i % 10 > TEN_TRAIN
            label = CLASSES.index(_class(file.parent))
            images.append(Row(id, label, file.relative_to(raw).as_posix(), test, {"domain": place}))
    return divided(Listing(images, {"domain": list(DOMAINS)}), choices)


def _class(folder: Path) -> str:
    name = folder.name.lower().split(".")[-1]  # Caltech-256 numbers its folders
    name = SPELLINGS.get(name, name)
    if name not in CLASSES:
        raise FedcliError(f"{folder} is none of the ten classes", f"known: {', '.join(CLASSES)}")
    return name


# the synthetic sample

SIDES = {
    "amazon": (32, 32),
    "caltech10": (24, 32),
    "dslr": (40, 40),
    "webcam": (28, 28),
}  # height, width
FIRST = {
    "amazon": 3,
    "caltech10": 7,
    "dslr": 11,
    "webcam": 5,
}  # backpacks; so FedHEAL's test part has every class


def sample(folder: Path) -> None:
    """Four domains with ten classes, 98 photographs in all, of which two are grey, as four of the real ones are."""
    for d, (domain, (height, width)) in enumerate(SIDES.items()):
        for c, label in enumerate(CLASSES):
            for i in range(1, 1 + (2 if c else FIRST[domain])):
                name = f"{c + 3:03d}_{i:04d}" if domain == "caltech10" else f"frame_{i:04d}"
                image = picture(
                    f"{domain}/{label}/{name}", c, height=height, width=width, tint=d / 4
                )
                grey = d < 2 and c == 3 and i == 1
                save(folder / domain / label / f"{name}.jpg", image[..., 0] if grey else image)


SOURCE = Source(rows, photograph, sample, per_file=True)
