"""Office-Caltech-10: ten kinds of object in four domains, from a folder per domain and class.

Source: Gong, Shi, Sha, Grauman, CVPR 2012. The split is FedHEAL's (arXiv 2405.16585), whose code is
its only description: within a domain, in the order of class and file name, images 0 to 7 of every
ten train, the rest test.
"""

from pathlib import Path

from ...errors import FedcliError
from ..pool import Row
from ..prepare_options import PrepareOptions
from . import cards
from .division import divided
from .drawing import picture, save
from .formats.photographs import photograph, photographs_in
from .source import Listing, Source
from .tables import home_in

DOMAINS = ["amazon", "caltech", "dslr", "webcam"]
FOLDERS = {"caltech": ["caltech", "caltech10"]}  # of a domain that may be called otherwise
CLASSES = cards.read("office-caltech")["classes"]
SPELLINGS = {
    "back_pack": "backpack",
    "laptop_computer": "laptop",
    "computer_mouse": "mouse",
    "coffee-mug": "mug",
    "touring-bike": "bike",
    "computer-keyboard": "keyboard",
    "computer-monitor": "monitor",
}
HOME = "office_caltech_10"  # the folder that the archive becomes
TEN_TRAIN = 7  # of every ten images, places 0 to 7 train


def rows(raw: Path, choices: PrepareOptions) -> Listing:
    """Every image of every domain folder that is there."""
    home = home_in(raw, HOME)
    folders = [_folder(home, domain) for domain in DOMAINS]
    images = []
    for position, domain in enumerate(DOMAINS):
        groups = {"domain": position}
        for i, file in enumerate(photographs_in(folders[position])):
            row_id = f"{domain}/{file.parent.name}/{file.stem}"
            label = CLASSES.index(_class(file.parent))
            source = file.relative_to(raw).as_posix()
            is_test = i % 10 > TEN_TRAIN
            images.append(Row(row_id, label, source, is_test, groups))
    return divided(Listing(images, {"domain": DOMAINS}), choices)


def _folder(home: Path, domain: str) -> Path:
    for name in FOLDERS.get(domain, [domain]):
        if (home / name).is_dir():
            return home / name
    hint = f"it needs one for each of {', '.join(DOMAINS)}"
    raise FedcliError(f"{home} has no folder {domain!r}", hint)


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
}  # H, W
BACKPACKS = {"amazon": 3, "caltech10": 7, "dslr": 11, "webcam": 5}  # so all classes are tested
EACH = 2  # images of another class
GREY = {("amazon", 3, 1), ("caltech10", 3, 1)}  # as four of the real ones are


def sample(folder: Path) -> None:
    """Four domains with ten classes, 98 photographs in all, of which two are grey."""
    for k, (domain, (height, width)) in enumerate(SIDES.items()):
        for label, name in enumerate(CLASSES):
            count = EACH if label else BACKPACKS[domain]
            for i in range(1, count + 1):
                stem = f"frame_{i:04d}"
                if domain == "caltech10":
                    stem = f"{label + 3:03d}_{i:04d}"
                seed = f"{domain}/{name}/{stem}"
                image = picture(
                    seed,
                    label,
                    height=height,
                    width=width,
                    tint=k / 4,
                )
                if (domain, label, i) in GREY:
                    image = image[..., 0]
                class_folder = folder / domain / name
                save(class_folder / f"{stem}.jpg", image)


SOURCE = Source(rows, photograph, sample, per_file=True)
