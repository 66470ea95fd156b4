"""Missing attributes: the group of some patients is unknown in training, as where a hospital does
not always record it.

Each patient of a client is drawn by itself, with the chance `share`, and loses the named attributes
in all of its training images together; an image without a patient is drawn alone. The draw depends
on the seed, the client, the attribute and the patient alone, so it is not written down but drawn
again where the images are loaded. Validation and
test images keep their groups: what is unknown in training can still be measured. What is written is
a partition: the files of the one it was made from, and in its manifest who lost how much.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ... import console
from ...errors import FedcliError, UsageError, nearest
from ...seeds import derive
from .. import manifest
from ..manifest import Body
from ..pool import Pool, holdings
from . import mixture

WORD = "attributes"  # in place of a kind of image corruption
KEY = "hidden_attributes"  # of a manifest's body
Options = Mapping[str, Any]  # hide, share and seed


def make_hidden(
    source: Path,
    hide: Sequence[str],
    share: float,
    to: manifest.Destination,
    on: Sequence[str] = (),
    *,
    seed: int = 0,
) -> Path:
    """Hide attributes of a share of the patients of a partition's clients; returns the path of the
    new partition.json.

    on: names of the clients; by default all. Raises FedcliError, UsageError.
    """
    source, body = mixture.partition_of(
        source,
        "hide attributes",
        "attributes are hidden",
    )
    _check(source, body, hide)
    clients = mixture.clients_of(body, on)
    if on:
        clients = [name for name in clients if name in on]
    options = {"hide": list(hide), "share": share, "seed": seed}

    def write(_: Path) -> Body:
        return {**body, KEY: {**options, "images": _counted(source, options, clients)}}

    change = {KEY: {**options, "on": clients}}
    return mixture.make_changed(source, "hidden-attributes", change, to, write)


def _check(source: Path, body: Body, hide: Sequence[str]) -> None:
    attributes = list(body["attributes"])
    if KEY in body:
        sentence = f"{source} has hidden attributes already"
        raise FedcliError(sentence, "start from the partition above it")
    if not hide:
        example = attributes[0] if attributes else "sex"
        raise UsageError("no attribute to hide", f"--hide {example}")
    for name in hide:
        if name not in attributes:
            hint = "this dataset has no attributes"
            if attributes:
                hint = nearest(name, attributes)
            raise UsageError(f"--hide names {name!r}, which is no attribute", hint)


def hidden(
    pool: Pool,
    rows: np.ndarray,
    name: str,
    options: Options,
    client: str,
) -> np.ndarray:
    """Marks of a client's training images that lose the attribute, bool [N]; rows: of the pool,
    int64 [N]."""
    patients = pool.id[rows]
    if pool.patient is not None:
        ids = pool.patient[rows]
        patients = np.where(ids == "", patients, ids)
    loses: dict[str, bool] = {}  # by patient
    for patient in dict.fromkeys(patients.tolist()):
        seed = derive(
            "hidden attribute",
            options["seed"],
            client,
            name,
            patient,
        )
        stream = np.random.default_rng(seed)
        loses[patient] = bool(stream.random() < options["share"])
    return np.array([loses[patient] for patient in patients.tolist()], dtype=bool)


def groups_without(
    pool: Pool,
    rows: np.ndarray,
    body: Body,
    client: str,
) -> dict[str, np.ndarray]:
    """Attribute -> the groups of a client's training images [N], -1 where hidden; of those that it
    lost in part."""
    options = body.get(KEY)
    if not options or client not in options["images"]:
        return {}
    groups = {}
    for name in options["hide"]:
        if name in pool.groups:
            loses = hidden(pool, rows, name, options, client)
            groups[name] = np.where(loses, -1, pool.groups[name][rows])
    return groups


def _counted(
    source: Path,
    options: Options,
    clients: list[str],
) -> dict[str, dict[str, int]]:
    """Client -> attribute -> training images that lost it, though they had it."""
    pool, rows_by_client, _ = holdings(source)
    lost: dict[str, dict[str, int]] = {client: {} for client in clients}
    total_lost = dict.fromkeys(options["hide"], 0)
    total = dict.fromkeys(options["hide"], 0)
    for client in clients:
        rows = rows_by_client[client]["train"]
        for name in options["hide"]:
            has_value = pool.groups[name][rows] >= 0
            loses = hidden(pool, rows, name, options, client) & has_value
            lost[client][name] = int(loses.sum())
            total_lost[name] += lost[client][name]
            total[name] += int(has_value.sum())
    parts = []
    for name, count in total_lost.items():
        images = console.counted(total[name], "image", "images")
        parts.append(f"{name} of {count} of {images}")
    listed = ", ".join(parts)
    console.say(f"hidden in training: {listed}; validation and test images keep their groups")
    return lost
