"""Patients or lesions on both sides of a split: their count, made here alone, and the sentence that
tells a person.

A manifest's body has the count of its own images under KEY, where there is any. Validation images
are a part of the
training images: a patient of a test image who has validation images is counted too.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .. import console
from . import manifest, units
from .pool import Holdings, Pool, Row

KEY = "shared_patients"  # of a manifest's body
WORDS = {"test": "test", "val": "validation"}  # part -> its adjective
Shared = Mapping[str, Any]
Entry = dict[str, Any]  # KEY and its value, or nothing
Ids = Iterable[str]  # of the patient of each image


def counted(unit: str | None, train: Ids, val: Ids, test: Ids) -> Entry:
    """The entry KEY of a body as a dictionary; an empty one where no patient is on both sides.

    unit: the name of the ids. train, val, test: the id of each image, "" where none is known.
    """
    train_ids = set(train) - {""}
    val_ids = set(val) - {""}
    test_ids = set(test) - {""}
    shared_by_part = {"test": test_ids & (train_ids | val_ids), "val": val_ids & train_ids}
    totals = {"test": len(test_ids), "val": len(val_ids)}
    parts = {}
    for part, shared in shared_by_part.items():
        if shared:
            parts[part] = {"shared": len(shared), "of": totals[part]}
    if not parts:
        return {}
    return {KEY: {"unit": units.plural(units.noun(unit)), **parts}}


def of_rows(unit: str | None, rows: Iterable[Row]) -> Entry:
    """The entry of a dataset's rows, which have no validation images."""
    train = []
    test = []
    for row in rows:
        if row.test:
            test.append(row.patient)
        else:
            train.append(row.patient)
    return counted(unit, train, [], test)


def of_parts(unit: str | None, pool: Pool, rows: Mapping[str, Any]) -> Entry:
    """The entry of rows of a pool by part: train, val and test."""
    if pool.patient is None:
        return {}
    ids = {part: pool.patient[part_rows].tolist() for part, part_rows in rows.items()}
    return counted(unit, ids["train"], ids["val"], ids["test"])


def with_tests(unit: str | None, holdings: Holdings, tested: Ids) -> Entry:
    """The entry of images that clients hold and other test images. tested: the patient of each of
    the latter."""
    patient = holdings.pool.patient
    if patient is None:
        return {}
    rows: list[np.ndarray] = []
    for parts in holdings.rows.values():
        rows += [parts["train"], parts["val"]]
    return counted(unit, patient[np.concatenate(rows)].tolist(), [], tested)


def sentence(shared: Shared | None) -> str:
    """A sentence about an entry KEY; "" without one."""
    if not shared:
        return ""
    parts = [part for part in WORDS if part in shared]
    texts = []
    for part in parts:
        count = shared[part]
        of_all = f"{count['shared']:,} of {count['of']:,}"
        texts.append(f"{of_all} {WORDS[part]} {shared['unit']}")
    is_one_patient = len(parts) == 1 and shared[parts[0]]["shared"] == 1
    verb = "has" if is_one_patient else "have"
    return f"{console.listed(texts)} also {verb} training images"


def of_body(body: manifest.Body) -> str:
    """The sentence about a manifest's body; "" where no patient is on both sides."""
    return sentence(body.get(KEY))


def warn(path: Path, remedy: str = "") -> None:
    """Say the sentence about the manifest at this path, and behind it what would help; nothing
    without shared patients."""
    text = of_body(manifest.read(path, whole=True).body)
    if text:
        console.warn(text + remedy)
