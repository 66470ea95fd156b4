"""Overlap between the sides of a split: patients or lesions, and images that are equal to the last pixel.

A test score counts what a model has learnt about others only if neither is in both parts. Images are compared as they
are in the pool, so a copy that was stored anew, or under another name, is found where it comes out the same.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..console import counted
from . import image_contents, manifest, shared_patients, sources
from .pool import Pool, holdings

EXAMPLES = 3
ZEROS = re.compile(r"^([^\d]*)0+(?=\d)")
UNKNOWN = "nobody can tell whether train and test share a patient: the dataset names no patients"


def find(path: Path) -> dict[str, Any]:
    """Overlap of a dataset's or partition's training (with validation) and test images: counts and a few examples.

    "patients" is None where the dataset names no patient or lesion; "nobody" then says that its images show no people.
    "alike" has patient ids that may mean one patient.
    """
    pool, rows_of, test = holdings(path)
    rows_by_part = {"test": test}
    for part in ("train", "val"):
        rows_by_part[part] = np.concatenate([test[:0], *(rows[part] for rows in rows_of.values())])
    train = np.unique(np.concatenate([rows_by_part["train"], rows_by_part["val"]]))
    body = manifest.read(manifest.above(path, "dataset")).body
    found = {
        "patients": _patients(pool.patient, train, test, body.get("unit")),
        "pixels": _pixels(pool, train, test),
        **shared_patients.of_parts(body.get("unit"), pool, rows_by_part),
    }
    if pool.patient is None:
        return (
            found
            if body.get("people", sources.shows_people(body["name"]))
            else found | {"nobody": True}
        )
    pairs = alike(pool.patient[np.concatenate([train, test])].tolist())
    return found | (
        {"alike": {"count": len(pairs), "examples": [list(pair) for pair in pairs[:EXAMPLES]]}}
        if pairs
        else {}
    )


def alike(ids: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of ids that differ only in leading zeros, blanks or case, and so may be one patient's."""
    first: dict[str, str] = {}
    pairs = []
    for name in sorted(set(ids) - {""}):
        other = first.setdefault(ZEROS.sub(r"\1", "".join(name.casefold().split())), name)
        if other != name:
            pairs.append((other, name))
    return pairs


def alike_sentence(pairs: Sequence[Sequence[str]], count: int) -> str:
    """A sentence that names some of them."""
    shown = ", ".join(f"{a!r} and {b!r}" for a, b in pairs[:EXAMPLES])
    more = f" and {count - EXAMPLES} more pairs" if count > EXAMPLES else ""
    return f"patient ids that differ only in zeros, blanks or case count as different patients: {shown}{more}"


def sentence(overlap: dict[str, Any]) -> str:
    """One sentence, or "" where nothing overlaps."""
    parts = []
    if shared := shared_patients.of_body(overlap):
        parts.append(shared)
    if count := overlap["pixels"]["test_images"]:
        same = counted(count, "test image is", "test images are")
        parts.append(
            f"{same} identical to {'a training image' if count == 1 else 'training images'}"
        )
    if odd := overlap.get("alike"):
        parts.append(alike_sentence(odd["examples"], odd["count"]))
    if not parts and overlap["patients"] is None and not overlap.get("nobody"):
        parts.append(UNKNOWN)
    return ", and ".join(parts)


def remedy(overlap: dict[str, Any]) -> str:
    """A hint on how an overlap is mended; of identical images it names a pair."""
    if (patients := overlap["patients"]) and patients["count"]:
        return "prepare again with a split that keeps them together, or correct the files"
    if shared_patients.KEY in overlap:
        return "partition again with --keep-units, which keeps a patient's images at one client"
    if count := overlap["pixels"]["count"]:
        pair = overlap["pixels"]["examples"][0].replace(" = ", " (train) and ") + " (test)"
        more = f", and {count - 1} more, which --json names" if count > 1 else ""
        return f"{pair} are one picture{more}: remove one of the two, or give both one patient, and prepare again"
    if overlap.get("alike"):
        return "write each patient's id in one way and prepare again; leave --strict out where they are several"
    return "prepare again and say which column names patients, or leave --strict out"


def _patients(
    ids: np.ndarray | None, train: np.ndarray, test: np.ndarray, name: str | None
) -> dict[str, Any] | None:
    if ids is None:
        return None
    both = np.setdiff1d(np.intersect1d(ids[train], ids[test]), [""])
    return {
        "name": name or "patient",
        **_counts(both, ids[train], ids[test]),
        "examples": both[:EXAMPLES].tolist(),
    }


def _pixels(pool: Pool, train: np.ndarray, test: np.ndarray) -> dict[str, Any]:
    """Pictures that are in both parts; an example is "training id = test id"."""
    digests = image_contents.of_pool(pool.path).digests
    train_digests = digests[train]  # [N]
    test_digests = digests[test]  # [M]
    both, first, second = np.intersect1d(train_digests, test_digests, return_indices=True)
    pairs = sorted(
        f"{pool.id[train[i]]} = {pool.id[test[j]]}" for i, j in zip(first, second, strict=True)
    )
    return {**_counts(both, train_digests, test_digests), "examples": pairs[:EXAMPLES]}


def _counts(both: np.ndarray, train: np.ndarray, test: np.ndarray) -> dict[str, int]:
    images = {
        "train_images": int(np.isin(train, both).sum()),
        "test_images": int(np.isin(test, both).sum()),
    }
    return {"count": len(both), **images}
