"""Differences between the clients of a partition: labels, sizes, and which images are in more than
one of them.

The distance of two label distributions p and q is TV(p, q) = sum_c |p_c - q_c| / 2: 0 where they
are equal, 1 where no class is in both. Of several labels per image p is the share of each label
among all labels that images have. All that a client got counts, also what is held out for
validation later. Numbers are rounded to six digits, so that the manifest has the same bytes on
every machine.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import labels

Names = Sequence[str]  # of clients
DIGITS = 6
PAIRS = 2**20  # of clients, whose distances are in memory at a time


def describe(
    names: Names,
    parts: Sequence[np.ndarray],
    y: np.ndarray,
    classes: int,
    patients: np.ndarray | None = None,
) -> dict[str, Any]:
    """The entry "skew" of a manifest; the distances between clients are null where there is only
    one.

    parts: each client's rows of y [N], at least one; a row may be in several clients.
    patients: a number [N] for each image's patient or lesion, None where the dataset knows none.
    """
    counts = np.array([labels.counts(y[part], classes) for part in parts])  # [K, C]
    mix = counts / np.maximum(counts.sum(1), 1)[:, None]  # [K, C]
    pooled = counts.sum(0) / max(counts.sum(), 1)  # [C]
    to_pooled = np.abs(mix - pooled).sum(1) / 2  # [K]
    classes_per_client = (counts > 0).sum(1).mean()
    shared_images = shared(parts, np.arange(len(y)))
    share = shared_images / len(np.unique(np.concatenate(parts)))
    return {
        "total_variation": _between(names, mix),
        "total_variation_to_pooled": _named(names, to_pooled),
        "entropy_nats": _named(names, entropies(mix)),
        "classes_per_client": _rounded(classes_per_client),
        "images": _sizes(parts),
        "images_in_several": {"count": shared_images, "share": _rounded(share)},
        "units_in_several": None if patients is None else shared(parts, patients),
    }


def _sizes(parts: Sequence[np.ndarray]) -> dict[str, float]:
    sizes = [len(part) for part in parts]
    smallest = min(sizes)
    largest = max(sizes)
    return {
        "min": smallest,
        "max": largest,
        "ratio": _rounded(largest / smallest),
    }


def distances(mix: np.ndarray) -> Iterator[np.ndarray]:
    """Distances between all pairs of label distributions [K, C], in roster order, some million at a
    time."""
    piece: list[np.ndarray] = []
    pairs = 0
    for k in range(len(mix) - 1):
        differences = np.abs(mix[k + 1 :] - mix[k])
        piece.append(differences.sum(1) / 2)
        pairs += len(differences)
        if pairs >= PAIRS:
            yield np.concatenate(piece)
            piece = []
            pairs = 0
    if piece:
        yield np.concatenate(piece)


def entropies(mix: np.ndarray) -> np.ndarray:
    """Entropy [K] of label distributions [K, C] in nats; a class with share 0 adds nothing."""
    logs = np.log(np.where(mix > 0, mix, 1))
    return -(mix * logs).sum(1) + 0.0  # + 0.0: no minus zero


def shared(parts: Sequence[np.ndarray], numbers: np.ndarray) -> int:
    """The number of patients (or images), by their number for each row [N], that have rows in more
    than one client."""
    client = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    patient = numbers[np.concatenate(parts)]
    pairs = np.unique(np.stack([patient, client]), axis=1)
    _, holders = np.unique(pairs[0], return_counts=True)
    return int((holders > 1).sum())


def readable(skew: dict[str, Any]) -> dict[str, str]:
    """Lines about it for a person."""
    lines = {}
    distance = skew["total_variation"]
    if distance["max"] is not None:
        pair = " and ".join(distance["between"])
        mean = f"{distance['mean']:.3f} in the mean over pairs"
        title = "distance between label distributions (total variation, 0 to 1)"
        lines[title] = f"{mean}, {distance['max']:.3f} at most ({pair})"
    lines["distance from all clients together"] = _listed(skew["total_variation_to_pooled"])
    lines["label entropy in nats"] = _listed(skew["entropy_nats"])
    lines["classes per client"] = f"{skew['classes_per_client']:.1f} in the mean"
    images = skew["images"]
    sizes = f"{images['min']} to {images['max']}"
    lines["images per client"] = f"{sizes}, a ratio of {images['ratio']:.1f}"
    several = skew["images_in_several"]
    share = f"{100 * several['share']:.1f} %"
    lines["images in more than one client"] = f"{several['count']} ({share})"
    if skew["units_in_several"] is not None:
        lines["patients or lesions in more than one client"] = str(skew["units_in_several"])
    return lines


def _between(names: Names, mix: np.ndarray) -> dict[str, Any]:
    if len(names) < 2:
        return {"max": None, "mean": None, "between": None}
    largest = -1.0
    position = 0
    total = 0.0
    pairs = 0
    for piece in distances(mix):
        rounded = piece.round(DIGITS)
        furthest = int(rounded.argmax())  # the first of equals
        if rounded[furthest] > largest:
            largest = float(rounded[furthest])
            position = pairs + furthest
        total += float(rounded.sum())
        pairs += len(rounded)
    first_client, second_client = _pair(position, len(names))
    return {
        "max": _rounded(largest),
        "mean": _rounded(total / pairs),
        "between": [names[first_client], names[second_client]],
    }


def _pair(position: int, count: int) -> tuple[int, int]:
    """The pair at a position among all pairs of so many: (0, 1), (0, 2), ..., (1, 2), ..."""
    row = 0
    pairs_of_row = count - 1
    while position >= pairs_of_row:
        position -= pairs_of_row
        row += 1
        pairs_of_row -= 1
    return row, row + 1 + position


def _named(names: Names, values: np.ndarray) -> dict[str, float]:
    return dict(zip(names, map(_rounded, values), strict=True))


def _rounded(value: float) -> float:
    return round(float(value), DIGITS)


def _listed(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.3f}" for name, value in values.items())
