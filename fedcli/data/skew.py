"""Differences between the clients of a partition: labels, sizes, and which images are in more than one of them.

The distance of two label distributions p and q is TV(p, q) = sum_c |p_c - q_c| / 2: 0 where they are equal, 1 where no
class is in both. Of several labels per image p is the share of each label among all labels that images have. All that
a client got counts, also what is held out for validation later. Numbers are rounded to six digits, so that the manifest
has the same bytes on every machine.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import labels

DIGITS = 6
PAIRS = 2**20  # of clients, whose distances are in memory at a time


def describe(
    names: Sequence[str],
    parts: Sequence[np.ndarray],
    y: np.ndarray,
    classes: int,
    patients: np.ndarray | None = None,
) -> dict[str, Any]:
    """The entry "skew" of a manifest; the distances between clients are null where there is only one.

    parts: each client's rows of y [N], at least one; a row may be in several clients.
    patients: a number [N] for each image's patient or lesion, None where the dataset knows none.
    """
    counts = np.array([labels.counts(y[part], classes) for part in parts])  # [K, C]
    sizes = np.array([len(part) for part in parts])  # [K]
    mix = counts / np.maximum(counts.sum(1), 1)[:, None]  # [K, C]
    pooled = counts.sum(0) / max(counts.sum(), 1)  # [C]
    images = shared(parts, np.arange(len(y)))
    return {
        "total_variation": _between(names, mix),
        "total_variation_to_pooled": _named(names, np.abs(mix - pooled).sum(1) / 2),
        "entropy_nats": _named(names, entropies(mix)),
        "classes_per_client": _rounded((counts > 0).sum(1).mean()),
        "images": {
            "min": int(sizes.min()),
            "max": int(sizes.max()),
            "ratio": _rounded(sizes.max() / sizes.min()),
        },
        "images_in_several": {
            "count": images,
            "share": _rounded(images / len(np.unique(np.concatenate(parts)))),
        },
        "units_in_several": None if patients is None else shared(parts, patients),
    }


def distances(mix: np.ndarray) -> Iterator[np.ndarray]:
    """Distances between all pairs of label distributions [K, C], in roster order, some million at a time."""
    piece: list[np.ndarray] = []
    pairs = 0
    for k in range(len(mix) - 1):
        piece.append(np.abs(mix[k + 1 :] - mix[k]).sum(1) / 2)
        pairs += len(piece[-1])
        if pairs >= PAIRS:
            yield np.concatenate(piece)
            piece = []
            pairs = 0
    if piece:
        yield np.concatenate(piece)


def entropies(mix: np.ndarray) -> np.ndarray:
    """Entropy [K] of label distributions [K, C] in nats; a class with share 0 adds nothing."""
    return -(mix * np.log(np.where(mix > 0, mix, 1))).sum(1) + 0.0  # + 0.0: no minus zero


def shared(parts: Sequence[np.ndarray], numbers: np.ndarray) -> int:
    """The number of patients (or images), by their number for each row [N], that have rows in more than one client."""
    client = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    pairs = np.unique(np.stack([numbers[np.concatenate(parts)], client]), axis=1)
    _, holders = np.unique(pairs[0], return_counts=True)
    return int((holders > 1).sum())


def readable(skew: dict[str, Any]) -> dict[str, str]:
    """Lines about it for a person."""
    distance, images, several = skew["total_variation"], skew["images"], skew["images_in_several"]
    lines = {}
    if distance["max"] is not None:
        pair = " and ".join(distance["between"])
        lines["distance between label distributions (total variation, 0 to 1)"] = (
            f"{distance['mean']:.3f} in the mean over pairs, {distance['max']:.3f} at most ({pair})"
        )
    lines["distance from all clients together"] = _listed(skew["total_variation_to_pooled"])
    lines["label entropy in nats"] = _listed(skew["entropy_nats"])
    lines["classes per client"] = f"{skew['classes_per_client']:.1f} in the mean"
    lines["images per client"] = (
        f"{images['min']} to {images['max']}, a ratio of {images['ratio']:.1f}"
    )
    lines["images in more than one client"] = f"{several['count']} ({100 * several['share']:.1f} %)"
    if skew["units_in_several"] is not None:
        lines["patients or lesions in more than one client"] = str(skew["units_in_several"])
    return lines


def _between(names: Sequence[str], mix: np.ndarray) -> dict[str, Any]:
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


def _named(names: Sequence[str], values: np.ndarray) -> dict[str, float]:
    return dict(zip(names, map(_rounded, values), strict=True))


def _rounded(value: float) -> float:
    return round(float(value), DIGITS)


def _listed(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.3f}" for name, value in values.items())
