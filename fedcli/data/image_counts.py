"""Counts of images: of every class and of every value of every attribute, by client and part.

Counted from the pool and the rows of a partition whenever they are asked for, so no manifest repeats them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .. import labels
from ..errors import FedcliError
from . import manifest, skew
from .pool import ALL, Pool, holdings

CLASS, UNKNOWN = "class", "unknown"
MOST_IMAGES = (
    10_000_000  # of a part that a site describes: larger numbers take memory at whoever reads them
)
SKEWED = 0.2  # total variation of an attribute between two clients from which a partition says it
Counts = dict[
    str, dict[str, dict[str, dict[str, int]]]
]  # class or attribute -> client -> part -> value -> images


def of_manifest(path: Path) -> Counts:
    """Counts of a dataset, partition or corruption, whose hashes the caller has verified, without empty parts.

    A client's `train` leaves out what is held out as `val`; `all` has the whole test part, of every hospital.
    """
    body, (pool, rows_of, test) = manifest.read(path).body, holdings(path)
    for name, values in body["attributes"].items():
        column = pool.groups.get(name)
        if column is None or column.max(initial=-1) >= len(values):
            raise FedcliError(
                f"{path}: its values of {name!r} are not those of the pool's images",
                "make it again",
            )
    return counted(pool, {**rows_of, ALL: {**rows_of.get(ALL, {}), "test": test}}, body)


def counted(
    pool: Pool, rows: Mapping[str, Mapping[str, np.ndarray]], body: Mapping[str, Any]
) -> Counts:
    """rows: client -> part -> rows of the pool. body: has classes and attributes."""
    columns = {CLASS: (pool.y, body["classes"])}  # of several labels per image, how many have each
    columns |= {name: (pool.groups[name], values) for name, values in body["attributes"].items()}
    return {
        name: {
            client: {part: _values(column[at], values) for part, at in parts.items() if len(at)}
            for client, parts in rows.items()
        }
        for name, (column, values) in columns.items()
    }


def _values(column: np.ndarray, values: list[str]) -> dict[str, int]:
    if column.ndim == 2:
        return dict(zip(values, labels.counts(column, len(values)).tolist(), strict=True))
    numbers = np.bincount(
        np.where(column < 0, len(values), column), minlength=len(values) + 1
    ).tolist()
    return {
        value: n
        for value, n in zip([*values, UNKNOWN], numbers, strict=True)
        if n or value != UNKNOWN
    }


def lines(
    clients: Mapping[str, Mapping[str, Mapping[str, int]]],
) -> tuple[list[str], list[list[str]]]:
    """The heads and rows of a table of one class or attribute: a row for each client and part."""
    values = list(
        dict.fromkeys(
            value for parts in clients.values() for images in parts.values() for value in images
        )
    )
    rows = [
        [client, part, *(f"{images.get(value, 0):,}" for value in values)]
        for client, parts in clients.items()
        for part, images in parts.items()
    ]
    return ["client", "part", *values], rows


def skewed(
    pool: Pool, parts: list[np.ndarray], attributes: Mapping[str, list[str]]
) -> dict[str, float]:
    """Attribute -> largest distance (total variation) between two clients, where that is SKEWED or more.

    parts: rows of the pool of each client. Images whose value is unknown do not count.
    """
    distances = {}
    for name, values in attributes.items():
        column = pool.groups[name]
        counts = np.array(
            [np.bincount(column[at][column[at] >= 0], minlength=len(values)) for at in parts]
        )  # [K, V]
        counts = counts[counts.sum(1) > 0]
        mix = counts / counts.sum(1, keepdims=True)
        largest = max((float(piece.max()) for piece in skew.distances(mix)), default=0.0)
        if largest >= SKEWED:
            distances[name] = largest
    return distances
