"""ISIC 2019: dermoscopy of eight kinds of skin lesion, from the ISIC archive's files.

Source: HAM10000 (Tschandl et al., Scientific Data 5:180161, 2018), BCN_20000 (Combalia et al., arXiv 1908.02288) and
MSK (Codella et al., arXiv 1710.05006), as the challenge of 2019 put them together. The split "image" follows FedISM
(arXiv 2503.09587): floor(0.8 n) of every class train. Many lesions were photographed several times, so the
default keeps a lesion's images together; some 2,000 images name no lesion, and each of these stands alone.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .... import console
from ....errors import FedcliError
from ...pool import Row
from ...samples import isic2019 as sample
from ..formats.photographs import files_of, read_rgb
from ..source import Choices, Listing, Source
from ..tables import AGE_BANDS, age_band, fold_rows, place, read_table, split_rows

if TYPE_CHECKING:
    from pandas import DataFrame

CLASSES = ["MEL", "NV", "BCC", "AK", "BKL", "DF", "VASC", "SCC"]
UNKNOWN = "UNK"  # the challenge's ninth class, which no training image has
SEXES = ["female", "male"]
TRUTH, METADATA = "ISIC_2019_Training_GroundTruth.csv", "ISIC_2019_Training_Metadata.csv"
FOLDER = "ISIC_2019_Training_Input"
FOLDERS = FOLDER, f"{FOLDER}/{FOLDER}", f"{FOLDER}_preprocessed", "."  # the archive, Kaggle, FLamby, beside
SUFFIXES = ".jpg", ".jpeg", ".png"
SHRUNK = "_downsampled"  # ends the names of MSK's images in some tables and folders


def rows(raw: Path, choices: Choices) -> Listing:
    """Every image with a known class that is there, with what the tables say about it."""
    listing = collect(raw, read_tables(raw))
    return replace(listing, rows=split(listing.rows, choices))


def decode(raw: Path, row: Row, choices: Choices) -> np.ndarray:
    return read_rgb(raw / row.source)


def read_tables(raw: Path) -> "DataFrame":
    """One line per image, indexed by key(image): image, label, sex, age (banded), anatomic_site, lesion_id."""
    from pandas import to_numeric

    for name in (TRUTH, METADATA):
        if not (raw / name).is_file():
            raise FedcliError(f"{raw} has no {name}", "give the folder with the ISIC archive's two tables of 2019")
    columns = ["image", "age_approx", "anatom_site_general", "lesion_id", "sex"]
    metadata = by_key(read_table(raw / METADATA, columns, dtype=dict.fromkeys(columns, str))[columns], METADATA)
    metadata["age"] = to_numeric(metadata.age_approx, errors="coerce").map(age_band)
    metadata = metadata.rename(columns={"anatom_site_general": "anatomic_site"})
    return _labels(raw).join(metadata[["sex", "age", "anatomic_site", "lesion_id"]])


def _labels(raw: Path) -> "DataFrame":
    """Image and label by key, the label -1 where it is UNK."""
    table = read_table(raw / TRUTH, ["image", *CLASSES], dtype={"image": str})
    columns = [*CLASSES, UNKNOWN] if UNKNOWN in table else CLASSES
    hot = table[columns].to_numpy() == 1  # [N, C]
    if (odd := hot.sum(1) != 1).any():
        wrong = table.image[odd].iloc[0]
        raise FedcliError(f"{raw / TRUTH}: {wrong} has {hot[odd][0].sum()} labels, expected one", "correct its row")
    label = hot.argmax(1)
    return by_key(table[["image"]].assign(label=np.where(label < len(CLASSES), label, -1)), TRUTH)


def by_key(table: "DataFrame", name: str) -> "DataFrame":
    """A table indexed by key(image), repeated lines left out. Raises FedcliError for two that contradict."""
    if (unnamed := table.image.isna()).any():
        raise FedcliError(f"{name}: line {int(unnamed.argmax()) + 2} names no image", "correct that line")
    table = table.drop_duplicates()
    table = table.set_axis(table.image.map(key).array)
    if (twice := table.index.duplicated()).any():
        hint = "keep the right one of its lines"
        raise FedcliError(f"{name}: {table.index[twice][0]} is listed twice, with different values", hint)
    return table


def key(image: str) -> str:
    """An image's name however it is spelt: some tables and folders mark the shrunken ones, some do not."""
    return image.removesuffix(SHRUNK)


def collect(raw: Path, table: "DataFrame") -> Listing:
    """The images of a table that are there, all of them in train. A column "center" becomes an attribute too."""
    table, files = table.sort_values("image"), files_of(raw, FOLDERS, SUFFIXES, lambda path: key(path.stem))
    attributes, images, skipped = _attributes(table), [], []
    for id, record in table.to_dict("index").items():
        if record["label"] < 0:
            skipped.append((f"{record['image']}.jpg", f"{TRUTH} says {UNKNOWN}, which is no class"))
            continue
        if id not in files:
            skipped.append((f"{record['image']}.jpg", f"listed in {TRUTH}, in none of the image folders"))
            continue
        groups = {name: place(record[name], values) for name, values in attributes.items()}
        lesion = record["lesion_id"]
        patient = lesion if isinstance(lesion, str) else ""  # NaN where the table does not say
        images.append(Row(record["image"], record["label"], files[id], groups=groups, patient=patient))
    named = "lesion_id" if any(row.patient for row in images) else None
    return Listing(images, attributes, named, [TRUTH, METADATA], skipped)


def _attributes(table: "DataFrame") -> dict[str, list[str]]:
    """Those of which the table knows a value, hospitals in the order of their numbers."""
    offered = {"sex": SEXES, "age": AGE_BANDS, "anatomic_site": sorted(table.anatomic_site.dropna().unique())}
    offered = {name: values for name, values in offered.items() if table[name].isin(values).any()}
    return offered | ({"center": list(table.center.cat.categories)} if "center" in table else {})


def split(images: list[Row], choices: Choices) -> list[Row]:
    """The splits "lesion", "image" and "folds"; says how many images name no lesion where that matters."""
    if choices.split == "image":
        return split_rows(images, choices, by_patient=False)
    if alone := sum(not row.patient for row in images):
        console.say(f"{alone} of {len(images)} images name no lesion; each of them stands alone in the split")
    if choices.split == "folds":
        return fold_rows(images, choices, by_patient=True)
    return split_rows(images, choices, by_patient=True)


SOURCE = Source(rows, decode, sample.make, partial(sample.make, times=6), per_file=True)
