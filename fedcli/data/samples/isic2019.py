"""ISIC 2019's layout in little: 64 images, both tables, and what is uneven in the real ones."""

from dataclasses import dataclass
from pathlib import Path

from ..sources.drawing import picture, save, table

CLASSES = ["MEL", "NV", "BCC", "AK", "BKL", "DF", "VASC", "SCC", "UNK"]
SITES = [
    *("anterior torso", "head/neck", "lateral torso", "lower extremity"),
    *("oral/genital", "palms/soles", "posterior torso", "upper extremity"),
]
SEXES = ["female", "male"]
INPUT = "ISIC_2019_Training_Input"


@dataclass(frozen=True)
class Photograph:
    """A line of both tables and its image; an empty text is what nobody knows."""

    image: str
    label: int
    age: str
    site: str
    lesion: str
    sex: str
    tint: float = 0.0


def make(folder: Path, times: int = 1) -> None:
    """times: how many times the 64 images, each time others."""
    photographs = [_photograph(i) for i in range(64 * times)]
    write(folder, photographs)
    grey = picture("grey", 1)[..., 0]  # a JPEG of one channel among those of three
    save(folder / INPUT / f"{photographs[9].image}.jpg", grey)
    shrunk = folder / INPUT / f"{photographs[7].image}.jpg"
    shrunk.rename(shrunk.with_name(shrunk.name.replace("_downsampled", "")))  # the tables' spelling, but not the file's


def _photograph(i: int) -> Photograph:
    """Of every eight images of a class two share a lesion, one has none, and one comes from MSK."""
    k, label = i % 8, i // 8 % 8
    image = f"ISIC_{i:07d}{'_downsampled' if k == 7 else ''}"
    lesion = "" if k == 6 else f"{'MSK4' if k == 7 else 'HAM'}_{i - (k == 1):07d}"
    age, site = "" if k == 5 else f"{25 + 10 * (i % 6)}.0", SITES[i % 8] if k != 4 else ""
    return Photograph(image, label, age, site, lesion, SEXES[i % 2] if i % 9 else "")


def write(folder: Path, photographs: list[Photograph]) -> None:
    """The images and both tables, in the archive's columns."""
    for i, p in enumerate(photographs):
        size = dict(height=24, width=32) if i % 2 else dict(height=32, width=32)
        save(folder / INPUT / f"{p.image}.jpg", picture(p.image, p.label, tint=p.tint, **size))
    table(
        folder / f"{INPUT[:-6]}_GroundTruth.csv",
        ["image", *CLASSES],
        [[p.image, *one_hot(p.label)] for p in photographs],
    )
    head = ["image", "age_approx", "anatom_site_general", "lesion_id", "sex"]
    table(folder / f"{INPUT[:-6]}_Metadata.csv", head, [[p.image, p.age, p.site, p.lesion, p.sex] for p in photographs])


def one_hot(label: int) -> list[str]:
    return ["1.0" if k == label else "0.0" for k in range(len(CLASSES))]
