"""ISIC 2019: dermoscopy of eight kinds of skin lesion, from the ISIC archive's files.

Source: HAM10000 (Tschandl et al., Scientific Data 5:180161, 2018), BCN_20000 (Combalia et al., arXiv 1908.02288) and
MSK (Codella et al., arXiv 1710.05006), as the challenge of 2019 put them together. The split "image" follows FedISM
(arXiv 2503.09587): floor(0.8 n) of every class train. Many lesions were photographed several times, so the
default keeps a lesion's images together; some 2,000 images name no lesion, and each of these stands alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from ....errors import FedcliError
from ..described import listed
from ..division import divided
from ..drawing import picture, save, table
from ..formats.photographs import PHOTOGRAPHS, files_of, photograph
from ..source import Choices, Listing, Source
from ..tables import (
    AGE_BANDS,
    SEXES,
    DataFrame,
    age_bands,
    check_once,
    first_of,
    one_hot,
    read_table,
)

CLASSES = ["MEL", "NV", "BCC", "AK", "BKL", "DF", "VASC", "SCC"]
UNKNOWN = "UNK"  # the challenge's ninth class, which no training image has
COLUMNS = {  # of the second table, as they are called here
    **{"image": "image", "age_approx": "age", "anatom_site_general": "anatomic_site"},
    **{"lesion_id": "lesion_id", "sex": "sex"},
}
TRUTH, METADATA = "ISIC_2019_Training_GroundTruth.csv", "ISIC_2019_Training_Metadata.csv"
FOLDER = "ISIC_2019_Training_Input"
FOLDERS = (
    FOLDER,
    f"{FOLDER}/{FOLDER}",
    f"{FOLDER}_preprocessed",
    ".",
)  # the archive, Kaggle, FLamby, beside
SHRUNK = "_downsampled"  # ends the names of MSK's images in some tables and folders


def rows(raw: Path, choices: Choices) -> Listing:
    """Every image with a known class that is there, with what the tables say about it."""
    return divided(collect(raw, read_tables(raw)), choices, "lesion")


def read_tables(raw: Path) -> DataFrame:
    """One line per image, indexed by key(image): image, label, sex, age (banded), anatomic_site, lesion_id."""
    for name in (TRUTH, METADATA):
        first_of(raw, [name], "give the folder with the ISIC archive's two tables of 2019")
    metadata = by_key(
        read_table(raw / METADATA, COLUMNS, dtype=dict.fromkeys(COLUMNS, str)), METADATA
    )
    metadata["age"] = age_bands(metadata.age)
    return _labels(raw).join(metadata.drop(columns="image"))


def _labels(raw: Path) -> DataFrame:
    """Image and label by key, the label -1 where it is UNK."""
    table = read_table(raw / TRUTH, ["image", *CLASSES], dtype={"image": str})
    columns = [*CLASSES, UNKNOWN] if UNKNOWN in table else CLASSES
    label = one_hot(raw / TRUTH, table, columns, "image")
    return by_key(table[["image"]].assign(label=np.where(label < len(CLASSES), label, -1)), TRUTH)


def by_key(table: DataFrame, name: str) -> DataFrame:
    """A table indexed by key(image), repeated lines left out. Raises FedcliError for two that contradict."""
    if (unnamed := table.image.isna()).any():
        raise FedcliError(
            f"{name}: line {int(unnamed.argmax()) + 2} names no image", "correct that line"
        )
    table = table.drop_duplicates()
    keys = table.image.map(key)
    check_once(Path(name), keys)
    return table.set_axis(keys.array)


def key(image: str) -> str:
    """An image's name however it is spelt: some tables and folders mark the shrunken ones, some do not."""
    return image.removesuffix(SHRUNK)


def collect(
    raw: Path, table: DataFrame, more: Sequence[str] = (), skipped: Sequence[tuple[str, str]] = ()
) -> Listing:
    """The images of a table that are there, in train where it has no column "test"; "center" becomes an attribute too.

    more: tables beside the two; skipped: images that they name and these do not.
    """
    files = files_of(raw, FOLDERS, PHOTOGRAPHS, lambda path: key(path.stem))
    table = table.sort_values("image").rename(columns={"image": "id", "lesion_id": "patient"})
    why = np.where(table.label < 0, f"{TRUTH} says {UNKNOWN}, which is no class", "")
    facts = table.assign(file=table.index.map(files), name=table.id + ".jpg", why=why)
    absent = f"listed in {TRUTH}, in none of the image folders"
    tables = [TRUTH, METADATA, *more]
    return listed(
        facts, _attributes(facts), tables, patient="lesion_id", absent=absent, skipped=skipped
    )


def _attributes(table: DataFrame) -> dict[str, list[str]]:
    """Those of which the table knows a value, hospitals in the order of their numbers."""
    offered = {
        "sex": SEXES,
        "age": AGE_BANDS,
        "anatomic_site": sorted(table.anatomic_site.dropna().unique()),
    }
    offered = {name: values for name, values in offered.items() if table[name].isin(values).any()}
    return offered | ({"center": list(table.center.cat.categories)} if "center" in table else {})


# the synthetic sample

BODY = [
    *("anterior torso", "head/neck", "lateral torso", "lower extremity"),
    *("oral/genital", "palms/soles", "posterior torso", "upper extremity"),
]


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


def sample(folder: Path, times: int = 1) -> None:
    """64 images, as many times, each time others: one of a single channel, one spelt in another way than in the tables,
    and several of a lesion."""
    photographs = [_photograph(i) for i in range(64 * times)]
    write(folder, photographs)
    grey = picture("grey", 1)[..., 0]
    save(folder / FOLDER / f"{photographs[9].image}.jpg", grey)
    shrunk = folder / FOLDER / f"{photographs[7].image}.jpg"
    shrunk.rename(shrunk.with_name(shrunk.name.replace(SHRUNK, "")))


def _photograph(i: int) -> Photograph:
    """The i-th line: of every eight images of a class two share a lesion, one has none, and one comes from MSK."""
    k, label = i % 8, i // 8 % 8
    image = f"ISIC_{i:07d}{SHRUNK if k == 7 else ''}"
    lesion = "" if k == 6 else f"{'MSK4' if k == 7 else 'HAM'}_{i - (k == 1):07d}"
    age, site = "" if k == 5 else f"{25 + 10 * (i % 6)}.0", BODY[i % 8] if k != 4 else ""
    return Photograph(image, label, age, site, lesion, SEXES[i % 2] if i % 9 else "")


def write(folder: Path, photographs: Sequence[Photograph]) -> None:
    """The images and both tables, in the archive's columns."""
    for i, p in enumerate(photographs):
        save(
            folder / FOLDER / f"{p.image}.jpg",
            picture(p.image, p.label, tint=p.tint, height=24 if i % 2 else 32),
        )
    table(
        folder / TRUTH,
        ["image", *CLASSES, UNKNOWN],
        [[p.image, *hot(p.label)] for p in photographs],
    )
    table(
        folder / METADATA,
        [*COLUMNS],
        [[p.image, p.age, p.site, p.lesion, p.sex] for p in photographs],
    )


def hot(label: int) -> list[str]:
    return ["1.0" if k == label else "0.0" for k in range(len(CLASSES) + 1)]


SOURCE = Source(rows, photograph, sample, partial(sample, times=6), per_file=True)
