"""Missing attributes: the group of some patients is unknown in training, as where a hospital does not always record it.

Each patient of a client is drawn by itself, with the chance `share`, and loses the named attributes in all of its
training images together; an image without a patient is drawn alone. The draw depends on the seed, the client, the
attribute and the patient alone, so it is not written down but drawn again where the images are loaded. Validation and
test images keep their groups: what is unknown in training can still be measured. What is written is a partition: the
files of the one it was made from, and in its manifest who lost how much.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ... import console
from ...errors import FedcliError, UsageError, nearest
from ...seeds import derive
from .. import manifest
from ..pool import Pool, holdings
from . import mixture

WORD = "attributes"  # in place of a kind of image corruption
KEY = "hidden_attributes"  # of a manifest's body


def make_hidden(
    source: Path,
    hide: Sequence[str],
    share: float,
    to: manifest.Destination,
    on: Sequence[str] = (),
    *,
    seed: int = 0,
) -> Path:
    """Hide attributes of a share of the patients of a partition's clients, all or those named in `on`; returns the
    path of the new partition.json. Raises FedcliError, UsageError.
    """
    source, body = mixture.partition_of(source, "hide attributes", "attributes are hidden")
    known = list(body["attributes"])
    if KEY in body:
        raise FedcliError(
            f"{source} has hidden attributes already", "start from the partition above it"
        )
    if not hide:
        raise UsageError("no attribute to hide", f"--hide {known[0] if known else 'sex'}")
    for name in hide:
        if name not in known:
            hint = nearest(name, known) if known else "this dataset has no attributes"
            raise UsageError(f"--hide names {name!r}, which is no attribute", hint)
    clients = [name for name in mixture.clients_of(body, on) if not on or name in on]
    how = {"hide": list(hide), "share": share, "seed": seed}

    def write(_: Path) -> dict[str, Any]:
        return {**body, KEY: {**how, "images": _counted(source, how, clients)}}

    return mixture.make_changed(
        source, "hidden-attributes", {KEY: {**how, "on": clients}}, to, write
    )


def hidden(
    pool: Pool, rows: np.ndarray, name: str, how: Mapping[str, Any], client: str
) -> np.ndarray:
    """Marks of a client's training images that lose the attribute, bool [N]; rows: of the pool, int64 [N]."""
    patients = (
        pool.id[rows]
        if pool.patient is None
        else np.where(pool.patient[rows] == "", pool.id[rows], pool.patient[rows])
    )
    drawn: dict[str, bool] = {}
    for patient in dict.fromkeys(patients.tolist()):
        stream = np.random.default_rng(
            derive("hidden attribute", how["seed"], client, name, patient)
        )
        drawn[patient] = bool(stream.random() < how["share"])
    return np.array([drawn[patient] for patient in patients.tolist()], dtype=bool)


def groups_without(
    pool: Pool, rows: np.ndarray, body: Mapping[str, Any], client: str
) -> dict[str, np.ndarray]:
    """Attribute -> the groups of a client's training images [N], -1 where hidden; of those that it lost in part."""
    how = body.get(KEY)
    if not how or client not in how["images"]:
        return {}
    return {
        name: np.where(hidden(pool, rows, name, how, client), -1, pool.groups[name][rows])
        for name in how["hide"]
        if name in pool.groups
    }


def _counted(source: Path, how: Mapping[str, Any], clients: list[str]) -> dict[str, Any]:
    """Client -> attribute -> training images that lost it, though they had it."""
    pool, rows, _ = holdings(source)
    lost, had = {}, dict.fromkeys(how["hide"], 0)
    for client in clients:
        at = rows[client]["train"]
        lost[client] = {
            name: int((hidden(pool, at, name, how, client) & (pool.groups[name][at] >= 0)).sum())
            for name in how["hide"]
        }
        had = {name: count + int((pool.groups[name][at] >= 0).sum()) for name, count in had.items()}
    total = {name: sum(each[name] for each in lost.values()) for name in how["hide"]}
    images = {
        name: f"{count} of {console.counted(had[name], 'image', 'images')}"
        for name, count in total.items()
    }
    listed = ", ".join(f"{name} of {said}" for name, said in images.items())
    console.say(f"hidden in training: {listed}; validation and test images keep their groups")
    return lost
