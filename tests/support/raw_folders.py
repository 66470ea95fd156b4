"""Raw folders as people download them, small enough to write in a test."""

import csv
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
from PIL import Image
from pydicom.dataset import Dataset, FileMetaDataset

from fedcli.data.pool import BlankPool, Row
from fedcli.data.preparation import prepare as stage
from fedcli.data.prepare_options import PrepareOptions
from fedcli.data.sources.source import Listing
from fedcli.errors import FedcliError

HEAD = ["lesion_id", "image_id", "dx", "dx_type", "age", "sex", "localization"]


@contextmanager
def refused(
    sentence: str, hint: str = "", *, of: type[FedcliError] = FedcliError
) -> Iterator[None]:
    """The block ends in an error whose sentence matches and whose hint has these words."""
    with pytest.raises(of, match=sentence) as raised:
        yield
    assert raised.value.hint
    assert hint in raised.value.hint


def write_csv(path: Path, head: list[str], rows: list[list]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([head, *rows])


def rewrite(path: Path, change: Callable) -> None:
    """Read a table as text, change it, write it back."""
    from pandas import read_csv  # half a second, which few tests need

    change(read_csv(path, dtype=str, keep_default_na=False)).to_csv(path, index=False)


def write_skin(raw: Path, rows: list[list], images: Path | None = None) -> Path:
    """HAM10000's layout; a row is lesion, image, class, age, sex."""
    from fedcli.data.sources.skin import isic2018  # a leaf, which the core is tested without

    lines = []
    for lesion, id, dx, age, sex in rows:
        lines.append([lesion, id, dx, "histo", age, sex, "back"])
    write_csv(raw / isic2018.HAM, HEAD, lines)
    folder = images or raw / "images"
    folder.mkdir(exist_ok=True)
    for i, (_, id, *_) in enumerate(rows):
        colour = (10 * i % 256, 100, 200)
        Image.new("RGB", (12, 9), colour).save(folder / f"{id}.jpg")
    return raw


def write_ct(raw: Path, labels: dict[str, str], *, stage: str = "stage_2_train", **fields) -> Path:
    """Kaggle's layout; labels: slice -> subtypes, such as "epidural" or "subdural any"."""
    from fedcli.data.sources import rsna_ich  # likewise

    (raw / stage).mkdir()
    rows = []
    for id, subtypes in labels.items():
        for subtype in [*rsna_ich.CLASSES, "any"]:
            is_present = subtype in subtypes.split()
            rows.append([f"{id}_{subtype}", int(is_present)])
    write_csv(raw / f"{stage}.csv", ["ID", "Label"], rows)
    for i, id in enumerate(labels):
        stored = np.full((8, 8), i, np.int16)
        write_slice(raw / stage / f"{id}.dcm", stored, **fields)
    return raw


def write_slice(path: Path, stored: np.ndarray, **fields) -> Path:
    """A DICOM file with these stored values; bits, sign and any other field as given, None leaves a field out."""
    signed = stored.dtype == np.int16
    lines = {
        "BitsStored": 16,
        "PixelRepresentation": int(signed),
        "RescaleSlope": 1,
        "RescaleIntercept": 0,
        **fields,
    }
    lines = {
        "PhotometricInterpretation": "MONOCHROME2",
        "WindowCenter": 40,
        "WindowWidth": 80,
        **lines,
    }
    file = Dataset()
    file.file_meta = FileMetaDataset()
    file.file_meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
    file.file_meta.MediaStorageSOPClassUID = file.SOPClassUID = pydicom.uid.CTImageStorage
    file.file_meta.MediaStorageSOPInstanceUID = file.SOPInstanceUID = "1.2.3"
    file.Rows, file.Columns = stored.shape[-2:]
    file.SamplesPerPixel, file.BitsAllocated = 1, 16
    for name, value in lines.items():
        if value is not None:
            setattr(file, name, value)
    file.HighBit = fields.get("HighBit", file.BitsStored - 1)
    if "PixelData" not in lines:
        file.PixelData = stored.tobytes()
    file.save_as(path, enforce_file_format=True)
    return path


class _Entries(list):
    """Entries of os.scandir in another order."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


def in_any_order(monkeypatch, backwards: bool) -> None:
    """Let folders be listed from a to z, or backwards: machines differ in it."""
    names = os.listdir
    entries = os.scandir
    monkeypatch.setattr(os, "listdir", lambda path=".": sorted(names(path), reverse=backwards))
    monkeypatch.setattr(
        os,
        "scandir",
        lambda path=".": _Entries(
            sorted(entries(path), key=lambda entry: entry.name, reverse=backwards)
        ),
    )


def ids(listing: Listing, *, test: bool | None = None) -> list[str]:
    """Ids of all images, or of a part of them."""
    return [row.id for row in listing.rows if test is None or row.test == test]


def prepare(name: str, **options: Any) -> Path:
    """The prepare stage; own: options of the dataset."""
    return stage.prepare(PrepareOptions(name, set=options.pop("own", {}), **options))


def completed(size: int, split: str, **options: Any) -> PrepareOptions:
    """The options as a reader of a dataset gets them; own: those of the dataset."""
    dataset_options = options.pop("own", {})
    values = {"size": size, "split": split, "fold": 1, "folds": 5, **options}
    return PrepareOptions("").completed(dataset_options, **values)


def write_pool(
    path: Path, rows: list[Row], images: Iterable[np.ndarray], attributes: Iterable[str]
) -> None:
    """Write rows and their images [H, W, C], which come in the rows' order."""
    images = iter(images)
    first_image = next(images)
    pool = BlankPool.make(path, (len(rows), *first_image.shape))
    for row, image in enumerate(chain([first_image], images)):
        pool.put(row, image[None])
    pool.finish(rows, list(range(len(rows))), attributes)
