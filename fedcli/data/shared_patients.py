"""Patients or lesions on both sides of a split: their count, made here alone, and the sentence that tells a person.

A manifest's body has the count of its own images under KEY, where there is any. Validation images are a part of the
training images: a patient of a test image who has validation images is counted too.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .. import console
from . import manifest
from .pool import Holdings, Pool, Row

KEY = "shared_patients"  # of a manifest's body
LESIONS, PATIENTS = "lesions", "patients"
WORDS = {"test": "test", "val": "validation"}  # part -> its adjective
Shared = Mapping[str, Any]


def counted(
    unit: str | None, train: Iterable[str], val: Iterable[str], test: Iterable[str]
) -> dict[str, Any]:
    """The entry KEY of a body as a dictionary; an empty one where no patient is on both sides.

    unit: the name of the ids. train, val, test: the id of each image, "" where none is known.
    """
    train_ids, val_ids, test_ids = ({*ids} - {""} for ids in (train, val, test))
    numbers = {
        "test": {"shared": len(test_ids & (train_ids | val_ids)), "of": len(test_ids)},
        "val": {"shared": len(val_ids & train_ids), "of": len(val_ids)},
    }
    parts = {part: count for part, count in numbers.items() if count["shared"]}
    return {KEY: {"unit": noun(unit), **parts}} if parts else {}


def of_rows(unit: str | None, rows: Iterable[Row]) -> dict[str, Any]:
    """The entry of a dataset's rows, which have no validation images."""
    sides: dict[bool, list[str]] = {False: [], True: []}
    for row in rows:
        sides[row.test].append(row.patient)
    return counted(unit, sides[False], [], sides[True])


def of_parts(unit: str | None, pool: Pool, parts: Mapping[str, Any]) -> dict[str, Any]:
    """The entry of rows of a pool by part: train, val and test."""
    if pool.patient is None:
        return {}
    ids = {part: pool.patient[rows].tolist() for part, rows in parts.items()}
    return counted(unit, ids["train"], ids["val"], ids["test"])


def with_tests(unit: str | None, held: Holdings, tested: Iterable[str]) -> dict[str, Any]:
    """The entry of images that clients hold and other test images. tested: the patient of each of the latter."""
    if held.pool.patient is None:
        return {}
    trained = [parts[part] for parts in held.rows.values() for part in ("train", "val")]
    return counted(unit, held.pool.patient[np.concatenate(trained)].tolist(), [], tested)


def noun(unit: str | None) -> str:
    """A word for several of those whom the ids name."""
    return LESIONS if "lesion" in (unit or "").lower() else PATIENTS


def sentence(shared: Shared | None) -> str:
    """A sentence about an entry KEY; "" without one."""
    if not shared:
        return ""
    parts = [part for part in WORDS if part in shared]
    texts = []
    for part in parts:
        count = shared[part]
        texts.append(f"{count['shared']:,} of {count['of']:,} {WORDS[part]} {shared['unit']}")
    one_patient = len(parts) == 1 and shared[parts[0]]["shared"] == 1
    verb = "has" if one_patient else "have"
    return f"{console.listed(texts)} also {verb} training images"


def of_body(body: Mapping[str, Any]) -> str:
    """The sentence about a manifest's body; "" where no patient is on both sides."""
    return sentence(body.get(KEY))


def warn(path: Path, remedy: str = "") -> None:
    """Say the sentence about the manifest at this path, and behind it what would help; nothing without shared patients."""
    if text := of_body(manifest.read(path).body):
        console.warn(text + remedy)
