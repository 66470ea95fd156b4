"""Overlap between the sides of a split: patients or lesions, and images that are equal to the last
pixel.

A test score counts what a model has learnt about others only if neither is in both parts. Images
are compared as they are in the pool, so a copy that was stored anew, or under another name, is
found where it comes out the same.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..console import counted
from . import image_contents, manifest, shared_patients, sources, units
from .pool import Pool, holdings

EXAMPLES = 3
Overlap = dict[str, Any]  # of a dataset, or one kind of it
ZEROS = re.compile(r"^([^\d]*)0+(?=\d)")
UNKNOWN = "it is unknown whether train and test share a patient: the dataset names no patients"


def find(path: Path) -> Overlap:
    """Overlap of a dataset's or partition's training (with validation) and test images: counts and
    a few examples.

    "patients" is None where the dataset names no patient or lesion; "nobody" then says that its
    images show no people. "alike" has patient ids that may mean one patient.
    """
    pool, rows_by_client, test = holdings(path)
    rows_by_part = {"test": test}
    for part in ("train", "val"):
        rows = [parts[part] for parts in rows_by_client.values()]
        rows_by_part[part] = np.concatenate([test[:0], *rows])
    train = np.unique(np.concatenate([rows_by_part["train"], rows_by_part["val"]]))
    body = manifest.read(manifest.above(path, "dataset")).body
    unit = body.get("unit")
    overlap = {
        "patients": _patients(pool.patient, train, test, unit),
        "pixels": _pixels(pool, train, test),
        **shared_patients.of_parts(unit, pool, rows_by_part),
    }
    if pool.patient is None:
        if not body.get("people", sources.shows_people(body["name"])):
            overlap["nobody"] = True
        return overlap
    pairs = alike(pool.patient[np.concatenate([train, test])].tolist())
    if pairs:
        examples = [list(pair) for pair in pairs[:EXAMPLES]]
        overlap["alike"] = {"count": len(pairs), "examples": examples}
    return overlap


def alike(ids: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of ids that differ only in leading zeros, blanks or case, and so may be one
    patient's."""
    id_by_key: dict[str, str] = {}
    pairs = []
    for id in sorted(set(ids) - {""}):
        without_blanks = "".join(id.casefold().split())
        key = ZEROS.sub(r"\1", without_blanks)
        other = id_by_key.setdefault(key, id)
        if other != id:
            pairs.append((other, id))
    return pairs


def alike_sentence(pairs: Sequence[Sequence[str]], count: int) -> str:
    """A sentence that names some of them."""
    examples = ", ".join(f"{a!r} and {b!r}" for a, b in pairs[:EXAMPLES])
    others = f" and {count - EXAMPLES} more pairs" if count > EXAMPLES else ""
    ids = "patient ids that differ only in zeros, blanks or case"
    return f"{ids} count as different patients: {examples}{others}"


def sentence(overlap: Overlap) -> str:
    """One sentence, or "" where nothing overlaps."""
    parts = []
    shared = shared_patients.of_body(overlap)
    if shared:
        parts.append(shared)
    count = overlap["pixels"]["test_images"]
    if count:
        test_images = counted(count, "test image is", "test images are")
        training_images = "a training image" if count == 1 else "training images"
        parts.append(f"{test_images} identical to {training_images}")
    if "alike" in overlap:
        parts.append(alike_sentence(overlap["alike"]["examples"], overlap["alike"]["count"]))
    if not parts and overlap["patients"] is None and not overlap.get("nobody"):
        parts.append(UNKNOWN)
    return units.worded(", and ".join(parts), noun(overlap))


def noun(overlap: Overlap) -> str:
    """The noun of what the ids stand for."""
    patients = overlap.get("patients")
    return units.noun(patients["name"] if patients else None)


def remedy(overlap: Overlap) -> str:
    """A hint on how an overlap is mended; of identical images it names a pair."""
    return units.worded(_remedy(overlap), noun(overlap))


def _remedy(overlap: Overlap) -> str:
    patients = overlap["patients"]
    if patients and patients["count"]:
        return "prepare again with a split that keeps them together, or correct the files"
    if shared_patients.KEY in overlap:
        return "partition again with --keep-units, which keeps a patient's images at one client"
    if overlap["pixels"]["count"]:
        return _remedy_of_pixels(overlap["pixels"])
    if overlap.get("alike"):
        remedy = "write each patient's id in one way and prepare again"
        return f"{remedy}; leave --strict out if they are several"
    return "prepare again with the column that names patients, or leave --strict out"


def _remedy_of_pixels(pixels: Overlap) -> str:
    pair = pixels["examples"][0].replace(" = ", " (train) and ")
    others = ""
    if pixels["count"] > 1:
        others = f", and {pixels['count'] - 1} more, which --json names"
    are_one = f"{pair} (test) are one picture{others}"
    return f"{are_one}: remove one of the two, or give both one patient, and prepare again"


def _patients(
    ids: np.ndarray | None,
    train: np.ndarray,
    test: np.ndarray,
    unit: str | None,
) -> Overlap | None:
    if ids is None:
        return None
    in_both = np.setdiff1d(np.intersect1d(ids[train], ids[test]), [""])
    counts = _counts(in_both, ids[train], ids[test])
    examples = in_both[:EXAMPLES].tolist()
    return {"name": unit or "patient", **counts, "examples": examples}


def _pixels(pool: Pool, train: np.ndarray, test: np.ndarray) -> Overlap:
    """Pictures that are in both parts; an example is "training id = test id"."""
    digests = image_contents.of_pool(pool.path).digests
    train_digests = digests[train]  # [N]
    test_digests = digests[test]  # [M]
    in_both, train_indices, test_indices = np.intersect1d(
        train_digests, test_digests, return_indices=True
    )
    pairs = []
    for i, j in zip(train_indices, test_indices, strict=True):
        pairs.append(f"{pool.id[train[i]]} = {pool.id[test[j]]}")
    counts = _counts(in_both, train_digests, test_digests)
    return {**counts, "examples": sorted(pairs)[:EXAMPLES]}


def _counts(
    in_both: np.ndarray,
    train: np.ndarray,
    test: np.ndarray,
) -> dict[str, int]:
    return {
        "count": len(in_both),
        "train_images": int(np.isin(train, in_both).sum()),
        "test_images": int(np.isin(test, in_both).sum()),
    }
