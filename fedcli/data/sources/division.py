"""The choice of test images: by the seed, by fold or by class.

A patient's or lesion's images are kept together.
"""

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy import ndarray

from ... import console
from ...console import counted
from ...errors import FedcliError
from ...labels import single_of
from ...seeds import derive
from ..pool import Row
from ..prepare_options import PrepareOptions
from .source import Listing

# splits that the files say, and the rows already have
AS_LISTED = "official", "paper", "fedheal", "folder"

ByClass = list[tuple[int, ndarray]]  # each class with its patients


def divided(
    listing: Listing,
    choices: PrepareOptions,
    unit: str = "",
) -> Listing:
    """A listing with its test part by the split that was chosen.

    Where no patient is known, images stand alone.
    unit: a patient or lesion, for a note on how many images name none; "" for no note.
    """
    by_patient = choices.split != "image"
    if unit and by_patient:
        _note_alone(listing.rows, unit)
    if choices.split in AS_LISTED:
        return listing
    split = fold_rows if choices.split == "folds" else split_rows
    return replace(listing, rows=split(listing.rows, choices, by_patient=by_patient))


def _note_alone(rows: list[Row], unit: str) -> None:
    alone = [row for row in rows if not row.patient]
    if alone:
        count = f"{len(alone)} of {len(rows)} images name no {unit}"
        console.say(f"{count}; each of them is split on its own")


def sample_rows(rows: list[Row], choices: PrepareOptions) -> list[Row]:
    """The images that --sample-images draws by the seed, in their order.

    All where no number is given; stratified draws each class in proportion. Raises FedcliError
    where there are fewer.
    """
    count = choices.sample_images
    if count is None or count == len(rows):
        return rows
    if count > len(rows):
        usable = counted(len(rows), "usable image", "usable images")
        sentence = f"--sample-images {count}, but there are only {usable}"
        raise FedcliError(sentence, "lower it, or leave it out")
    labels = [0] * len(rows)
    if choices.stratified:
        labels = single_of([row.label for row in rows])
    ids_by_label: dict[int, list[str]] = {}
    for row, label in zip(rows, labels, strict=True):
        ids_by_label.setdefault(label, []).append(row.id)
    sampled: set[str] = set()
    for label, quota in _quotas(Counter(labels), count).items():
        ids = sorted(ids_by_label[label])
        seed = derive("sample-images", choices.seed, label)
        np.random.default_rng(seed).shuffle(ids)
        sampled.update(ids[:quota])
    return [row for row in rows if row.id in sampled]


def _quotas(sizes: Counter[int], count: int) -> dict[int, int]:
    """The number of images of each class, in proportion, the largest remainders first."""
    quotas = {}
    remainders = {}
    for label in sorted(sizes):
        share = Fraction(count * sizes[label], sizes.total())
        quotas[label] = math.floor(share)
        remainders[label] = share - quotas[label]
    rest = count - sum(quotas.values())
    by_remainder = sorted(remainders, key=lambda label: (-remainders[label], label))
    for label in by_remainder[:rest]:
        quotas[label] += 1
    return quotas


def split_rows(
    rows: list[Row],
    choices: PrepareOptions,
    *,
    by_patient: bool,
) -> list[Row]:
    """Mark the test part: per class, all but floor((1 - test) * n) images of those sampled.

    They are drawn by the seed. A patient that would overfill the test part stays in train, so the
    floor is met as closely as it can be.
    """
    rows = sample_rows(rows, choices)
    patient, images, by_class = _patients(rows, by_patient)
    train_share = 1 - Fraction(str(choices.test))
    test = np.zeros(len(images), bool)  # [P]
    for label, members in by_class:
        seed = derive("split", choices.seed, label)
        np.random.default_rng(seed).shuffle(members)
        total = int(images[members].sum())
        room = total - math.floor(train_share * total)
        for member in members:
            if images[member] <= room:
                test[member] = True
                room -= images[member]
    return _marked(rows, test[patient])


def fold_rows(
    rows: list[Row],
    choices: PrepareOptions,
    *,
    by_patient: bool,
    other_folds: int = 0,
) -> list[Row]:
    """Mark fold `choices.fold` of `choices.folds` as the test part, of those sampled.

    other_folds: those that have other rows; these are divided among the folds that remain.

    The folds are stratified, by the seed. Rarest class first, each patient goes to the fold that
    has the fewest images of its class, then the fewest in all.
    """
    rows = sample_rows(rows, choices)
    patient, images, by_class = _patients(rows, by_patient)
    folds = range(choices.folds - other_folds)
    fold_of = np.zeros(len(images), int)  # [P]
    totals = [0] * len(folds)
    for label, members in by_class:
        seed = derive("folds", choices.seed, label)
        np.random.default_rng(seed).shuffle(members)
        counts = [0] * len(folds)  # of images of this class
        for member in members:
            _, _, fold = min(zip(counts, totals, folds, strict=True))
            counts[fold] += images[member]
            totals[fold] += images[member]
            fold_of[member] = fold
    test_fold = choices.fold - 1 - other_folds
    return _marked(rows, fold_of[patient] == test_fold)


def _marked(rows: list[Row], test: ndarray) -> list[Row]:
    """The images with their part. test: bool [N]."""
    row_tests = test.tolist()
    return [replace(row, test=tests) for row, tests in zip(rows, row_tests, strict=True)]


def _patients(rows: list[Row], by_patient: bool) -> tuple[ndarray, ndarray, ByClass]:
    """The patient of each image [N], the images of each patient [P], and each class's patients.

    The rarest class is first. by_patient keeps the images of a patient or lesion together, else
    each stands alone. A patient with several classes counts for the rarest of them.
    """
    if not rows:
        return np.zeros(0, int), np.zeros(0, int), []
    names = [row.id for row in rows]
    if by_patient:
        names = [row.patient or row.id for row in rows]
    patients, patient = np.unique(names, return_inverse=True)
    labels = single_of([row.label for row in rows])
    rarest_first = np.argsort(np.bincount(labels), kind="stable")  # [C]
    rank = np.full(len(patients), len(rarest_first))  # [P]
    np.minimum.at(rank, patient, np.argsort(rarest_first)[labels])
    by_class = []
    for k, label in enumerate(rarest_first):
        by_class.append((label, np.flatnonzero(rank == k)))
    return patient, np.bincount(patient), by_class
