"""Counts of images: of every class and of every value of every attribute, by client and part.

Counted from the pool and the rows of a partition whenever they are asked for, so no manifest
repeats them.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from .. import labels
from ..errors import FedcliError
from . import manifest, skew
from .pool import ALL, Pool, Rows, holdings

CLASS, UNKNOWN = "class", "unknown"
MOST_IMAGES = 10_000_000  # of a part that a site describes: more take memory at whoever reads them
SKEWED = 0.2  # total variation of an attribute between two clients from which a partition says it
ByClient = dict[str, dict[str, dict[str, int]]]  # client -> part -> value -> images
Counts = dict[str, ByClient]  # by class or attribute
Values = Mapping[str, list[str]]  # by attribute


def of_manifest(path: Path) -> Counts:
    """Counts of a dataset, partition or corruption, without empty parts; the caller verified its
    hashes.

    A client's `train` leaves out what is held out as `val`; `all` has the whole test part, of every
    hospital.
    """
    body = manifest.read(path).body
    pool, rows = _held(path)
    for name, values in body["attributes"].items():
        column = pool.groups.get(name)
        if column is None or column.max(initial=-1) >= len(values):
            sentence = f"{path}: its values of {name!r} differ from the pool's images"
            raise FedcliError(sentence, "make it again")
    return counted(pool, rows, body)


def totals(path: Path) -> dict[str, dict[str, int]]:
    """The images of each client and part, without empty parts: client -> part -> images.

    Where an image may have several labels or none, the counts of the labels do not add up to them.
    """
    _, rows = _held(path)
    images: dict[str, dict[str, int]] = {}
    for client, parts in rows.items():
        images[client] = {
            part: len(part_rows) for part, part_rows in parts.items() if len(part_rows)
        }
    return images


def _held(path: Path) -> tuple[Pool, Rows]:
    """The pool, and the rows of each client's parts; those of `all` hold the whole test part."""
    pool, rows_by_client, test_rows = holdings(path)
    rows = dict(rows_by_client)
    rows[ALL] = {**rows.get(ALL, {}), "test": test_rows}
    return pool, rows


def counted(pool: Pool, rows: Rows, body: manifest.Body) -> Counts:
    """The counts of these rows, without empty parts. body: has classes and attributes."""
    # of several labels per image, the number of images that have each
    counts = {CLASS: _by_client(pool.y, body["classes"], rows)}
    for name, values in body["attributes"].items():
        counts[name] = _by_client(pool.groups[name], values, rows)
    return counts


def _by_client(column: np.ndarray, values: list[str], rows: Rows) -> ByClient:
    counts: ByClient = {}
    for client, parts in rows.items():
        counts[client] = {}
        for part, part_rows in parts.items():
            if len(part_rows):
                counts[client][part] = _by_value(column[part_rows], values)
    return counts


def _by_value(column: np.ndarray, values: list[str]) -> dict[str, int]:
    if column.ndim == 2:
        label_counts = labels.counts(column, len(values)).tolist()
        return dict(zip(values, label_counts, strict=True))
    last = len(values)
    indices = np.where(column < 0, last, column)
    *known_counts, unknown_count = np.bincount(indices, minlength=last + 1).tolist()
    counts = dict(zip(values, known_counts, strict=True))
    if unknown_count:
        counts[UNKNOWN] = unknown_count
    return counts


def lines(clients: ByClient) -> tuple[list[str], list[list[str]]]:
    """The heads and rows of a table of one class or attribute: a row for each client and part."""
    values: dict[str, None] = {}  # in the order in which they occur
    for parts in clients.values():
        for counts in parts.values():
            values.update(dict.fromkeys(counts))
    rows = []
    for client, parts in clients.items():
        for part, counts in parts.items():
            cells = [f"{counts.get(value, 0):,}" for value in values]
            rows.append([client, part, *cells])
    return ["client", "part", *values], rows


def skewed(
    pool: Pool,
    parts: list[np.ndarray],
    attributes: Values,
) -> dict[str, float]:
    """Attribute -> largest distance (total variation) between two clients, where that is SKEWED or
    more.

    parts: rows of the pool of each client. Images whose value is unknown do not count.
    """
    distances = {}
    for name, values in attributes.items():
        by_client = []
        for rows in parts:
            indices = pool.groups[name][rows]
            by_client.append(np.bincount(indices[indices >= 0], minlength=len(values)))
        counts = np.array(by_client)  # [K, V]
        counts = counts[counts.sum(1) > 0]
        mix = counts / counts.sum(1, keepdims=True)
        largest = max((float(piece.max()) for piece in skew.distances(mix)), default=0.0)
        if largest >= SKEWED:
            distances[name] = largest
    return distances
