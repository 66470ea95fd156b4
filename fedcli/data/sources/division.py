"""The choice of test images: by the seed, by fold or by class, with a patient's or lesion's images kept together."""

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np

from ... import console
from ...console import counted
from ...errors import FedcliError
from ...labels import single_of
from ...seeds import derive
from ..pool import Row
from .source import Choices, Listing

AS_LISTED = (
    "official",
    "paper",
    "fedheal",
    "folder",
)  # splits that the files say, and the rows already have


def divided(listing: Listing, choices: Choices, unit: str = "") -> Listing:
    """A listing with its test part by the split that was chosen; where no patient is known, images stand alone.

    unit: a patient or lesion, where it is said how many images name none.
    """
    if (
        unit
        and choices.split != "image"
        and (alone := sum(not row.patient for row in listing.rows))
    ):
        console.say(
            f"{alone} of {len(listing.rows)} images name no {unit}; each of them stands alone in the split"
        )
    if choices.split in AS_LISTED:
        return listing
    split = fold_rows if choices.split == "folds" else split_rows
    return replace(listing, rows=split(listing.rows, choices, by_patient=choices.split != "image"))


def sample_rows(rows: list[Row], choices: Choices) -> list[Row]:
    """The images that --sample-images draws by the seed, in their order; all where no number is given.

    stratified draws each class in proportion, the largest remainders first. Raises FedcliError where there are fewer.
    """
    count = choices.sample_images
    if count is None or count == len(rows):
        return rows
    if count > len(rows):
        there = counted(len(rows), "usable image", "usable images")
        raise FedcliError(
            f"--sample-images {count}, but there are only {there}", "lower it, or leave it out"
        )
    labels = single_of([row.label for row in rows]) if choices.stratified else [0] * len(rows)
    label_of = {row.id: label for row, label in zip(rows, labels, strict=True)}
    sizes = Counter(label_of.values())
    exact = {label: Fraction(count * size, len(rows)) for label, size in sorted(sizes.items())}
    quota = {label: math.floor(share) for label, share in exact.items()}
    for label in sorted(exact, key=lambda label: (quota[label] - exact[label], label))[
        : count - sum(quota.values())
    ]:
        quota[label] += 1
    kept: set[str] = set()
    for label, wanted in quota.items():
        ids = sorted(id for id, its in label_of.items() if its == label)
        np.random.default_rng(derive("sample-images", choices.seed, label)).shuffle(ids)
        kept.update(ids[:wanted])
    return [row for row in rows if row.id in kept]


def split_rows(rows: list[Row], choices: Choices, *, by_patient: bool) -> list[Row]:
    """Mark the test part: per class, all but floor((1 - test) * n) images, drawn by the seed, of those sampled.

    A patient that would overfill the test part stays in train, so the floor is met as closely as it can be.
    """
    rows = sample_rows(rows, choices)
    patient, images, by_class = _patients(rows, by_patient)
    test = np.zeros(len(images), bool)  # [P]
    for label, members in by_class:
        np.random.default_rng(derive("split", choices.seed, label)).shuffle(members)
        room = images[members].sum() - math.floor(
            (1 - Fraction(str(choices.test))) * int(images[members].sum())
        )
        for member in members:
            if images[member] <= room:
                test[member] = True
                room -= images[member]
    return [replace(row, test=bool(test[p])) for row, p in zip(rows, patient, strict=True)]


def fold_rows(rows: list[Row], choices: Choices, *, by_patient: bool) -> list[Row]:
    """Mark fold `choices.fold` of `choices.folds` as the test part: stratified folds of those sampled, by the seed.

    Rarest class first, each patient goes to the fold that has the fewest images of its class, then the fewest in all.
    """
    rows = sample_rows(rows, choices)
    patient, images, by_class = _patients(rows, by_patient)
    fold_of, total = np.zeros(len(images), int), [0] * choices.folds  # [P]
    for label, members in by_class:
        np.random.default_rng(derive("folds", choices.seed, label)).shuffle(members)
        own = [0] * choices.folds
        for member in members:
            fold = min(range(choices.folds), key=lambda k: (own[k], total[k]))
            own[fold] += images[member]
            total[fold] += images[member]
            fold_of[member] = fold
    return [
        replace(row, test=bool(fold_of[p] == choices.fold - 1))
        for row, p in zip(rows, patient, strict=True)
    ]


def _patients(
    rows: list[Row], by_patient: bool
) -> tuple[np.ndarray, np.ndarray, list[tuple[int, np.ndarray]]]:
    """The patient of each image [N], the images of each patient [P], and each class's patients, rarest class first.

    by_patient keeps the images of a patient or lesion together, else each stands alone. A patient with several classes
    counts for the rarest of them.
    """
    if not rows:
        return np.zeros(0, int), np.zeros(0, int), []
    patients, patient = np.unique(
        [by_patient and row.patient or row.id for row in rows], return_inverse=True
    )
    labels = single_of([row.label for row in rows])
    rarest_first = np.argsort(np.bincount(labels), kind="stable")  # [C]
    rank = np.full(len(patients), len(rarest_first))  # [P]
    np.minimum.at(rank, patient, np.argsort(rarest_first)[labels])
    return (
        patient,
        np.bincount(patient),
        [(label, np.flatnonzero(rank == k)) for k, label in enumerate(rarest_first)],
    )
