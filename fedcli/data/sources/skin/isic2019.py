"""ISIC 2019: dermoscopy of eight kinds of skin lesion, from the ISIC archive's files.

Source: HAM10000 (Tschandl et al., Scientific Data 5:180161, 2018), BCN_20000 (Combalia et al.,
arXiv 1908.02288) and MSK (Codella et al., arXiv 1710.05006), as the challenge of 2019 put them
together. The split "image" follows FedISM (arXiv 2503.09587): floor(0.8 n) of every class train.
Many lesions were photographed several times, so the default keeps a lesion's images together; some
2,000 images name no lesion, and each of these stands alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from ....errors import FedcliError
from ...prepare_options import PrepareOptions
from ..described import listed
from ..division import divided
from ..drawing import picture, save, save_picture, table
from ..formats.photographs import PHOTOGRAPHS, files_of, photograph
from ..source import Listing, Source
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
    "image": "image",
    "age_approx": "age",
    "anatom_site_general": "anatomic_site",
    "lesion_id": "lesion_id",
    "sex": "sex",
}
TRUTH = "ISIC_2019_Training_GroundTruth.csv"
METADATA = "ISIC_2019_Training_Metadata.csv"
FOLDER = "ISIC_2019_Training_Input"
FOLDERS = FOLDER, f"{FOLDER}/{FOLDER}", f"{FOLDER}_preprocessed", "."  # archive, Kaggle, FLamby
SHRUNK = "_downsampled"  # ends the names of MSK's images in some tables and folders


def rows(raw: Path, choices: PrepareOptions) -> Listing:
    """Every image with a known class that is there, with the facts of the tables on it."""
    return divided(collect(raw, read_tables(raw)), choices, "lesion")


def read_tables(raw: Path) -> DataFrame:
    """One line per image, indexed by key(image).

    Its columns are image, label, sex, age (banded), anatomic_site and lesion_id.
    """
    for name in (TRUTH, METADATA):
        first_of(
            raw,
            [name],
            "give the folder with the ISIC archive's two tables of 2019",
        )
    metadata = read_table(
        raw / METADATA,
        COLUMNS,
        dtype=dict.fromkeys(COLUMNS, str),
    )
    metadata = by_key(metadata, METADATA)
    metadata["age"] = age_bands(metadata.age)
    return _labels(raw).join(metadata.drop(columns="image"))


def _labels(raw: Path) -> DataFrame:
    """Image and label by key, the label -1 where it is UNK."""
    table = read_table(raw / TRUTH, ["image", *CLASSES], dtype={"image": str})
    columns = [*CLASSES, UNKNOWN] if UNKNOWN in table else CLASSES
    label = one_hot(raw / TRUTH, table, columns, "image")
    has_class = label < len(CLASSES)
    label = np.where(has_class, label, -1)
    return by_key(table[["image"]].assign(label=label), TRUTH)


def by_key(table: DataFrame, name: str) -> DataFrame:
    """A table indexed by key(image), repeated lines left out.

    Raises FedcliError for two that contradict.
    """
    unnamed = table.image.isna()
    if unnamed.any():
        line = int(unnamed.argmax()) + 2
        raise FedcliError(f"{name}: line {line} names no image", "correct that line")
    table = table.drop_duplicates()
    keys = table.image.map(key)
    check_once(Path(name), keys)
    return table.set_axis(keys.array)


def key(image: str) -> str:
    """An image's name in one spelling: some tables and folders mark the shrunken ones."""
    return image.removesuffix(SHRUNK)


def collect(
    raw: Path,
    table: DataFrame,
    other_tables: Sequence[str] = (),
    skipped: Sequence[tuple[str, str]] = (),
) -> Listing:
    """The images of a table that are there, in train where it has no column "test".

    Its column "center" becomes an attribute too.
    other_tables: beside the two. skipped: images that they name and these do not.
    """
    files = files_of(raw, FOLDERS, PHOTOGRAPHS, lambda path: key(path.stem))
    ordered = table.sort_values("image")
    table = ordered.rename(columns={"image": "id", "lesion_id": "patient"})
    unknown_reason = f"{TRUTH} says {UNKNOWN}, which is no class"
    why = np.where(
        table.label < 0,
        unknown_reason,
        "",
    )
    paths = table.index.map(files)
    names = table.id + ".jpg"
    facts = table.assign(
        file=paths,
        name=names,
        why=why,
    )
    table_names = [TRUTH, METADATA, *other_tables]
    absent_reason = f"listed in {TRUTH}, in none of the image folders"
    return listed(
        facts,
        _attributes(facts),
        table_names,
        patient="lesion_id",
        absent=absent_reason,
        skipped=skipped,
    )


def _attributes(table: DataFrame) -> dict[str, list[str]]:
    """The attributes of which the table knows a value, hospitals in the order of their numbers."""
    places = sorted(table.anatomic_site.dropna().unique())
    attributes = {}
    for name, values in (("sex", SEXES), ("age", AGE_BANDS), ("anatomic_site", places)):
        if table[name].isin(values).any():
            attributes[name] = values
    if "center" in table:
        attributes["center"] = list(table.center.cat.categories)
    return attributes


# the synthetic sample

BODY = [
    "anterior torso",
    "head/neck",
    "lateral torso",
    "lower extremity",
    "oral/genital",
    "palms/soles",
    "posterior torso",
    "upper extremity",
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
    """64 images, as many times, each time others, several of a lesion.

    One has a single channel, one is spelt in another way than in the tables.
    """
    photographs = [_photograph(i) for i in range(64 * times)]
    write(folder, photographs)
    grey = picture("grey", 1)[..., 0]
    grey_path = folder / FOLDER / f"{photographs[9].image}.jpg"
    save(grey_path, grey)
    shrunk = folder / FOLDER / f"{photographs[7].image}.jpg"
    shrunk.rename(shrunk.with_stem(key(shrunk.stem)))


def _photograph(i: int) -> Photograph:
    """The i-th line of the tables.

    Of every eight images of a class two share a lesion, one has none, and one comes from MSK.
    """
    k = i % 8
    image = f"ISIC_{i:07d}"
    lesion = f"HAM_{i:07d}"
    years = 25 + 10 * (i % 6)
    age = f"{years}.0"
    site = BODY[k]
    if k == 1:
        lesion = f"HAM_{i - 1:07d}"
    elif k == 4:
        site = ""
    elif k == 5:
        age = ""
    elif k == 6:
        lesion = ""
    elif k == 7:
        image += SHRUNK
        lesion = f"MSK4_{i:07d}"
    sex = SEXES[i % 2] if i % 9 else ""
    label = i // 8 % 8
    return Photograph(image, label, age, site, lesion, sex)


def write(folder: Path, photographs: Sequence[Photograph]) -> None:
    """The images and both tables, in the archive's columns."""
    labels = []
    metadata = []
    for i, line in enumerate(photographs):
        path = folder / FOLDER / f"{line.image}.jpg"
        height = 24 if i % 2 else 32
        save_picture(
            path,
            line.label,
            height=height,
            tint=line.tint,
        )
        labels.append([line.image, *hot(line.label)])
        metadata.append([line.image, line.age, line.site, line.lesion, line.sex])
    table(folder / TRUTH, ["image", *CLASSES, UNKNOWN], labels)
    table(folder / METADATA, list(COLUMNS), metadata)


def hot(label: int) -> list[str]:
    cells = ["0.0"] * (len(CLASSES) + 1)
    cells[label] = "1.0"
    return cells


SOURCE = Source(
    rows,
    photograph,
    sample,
    partial(sample, times=6),
    per_file=True,
)
