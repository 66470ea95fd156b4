"""Wrong labels: some training labels of some clients are changed. Validation and test images keep theirs.

Source: symmetric and pair flips are those of Han, Yao, Yu, Niu, Xu, Hu, Tsang and Sugiyama, "Co-teaching: robust
training of deep neural networks with extremely noisy labels", NeurIPS 2018, arXiv 1804.06872; the paper's text was not
at hand. Each training image of a client is changed by itself, with the chance `rate`:

    symmetric     to any other class, all equally likely
    pair          to the next class in the dataset's order, of the last one to the first
    asymmetric    only images of the classes that are named, each to the class named for it

The draw depends on the seed, the client and the image's id alone. What is written is a partition: the rows of the one
it was made from, and labels.h5 beside them with the labels of each changed client.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ... import console, labels
from ...errors import FedcliError, UsageError, nearest
from ...io.hdf5 import create_hdf5
from ...seeds import derive
from .. import manifest
from ..pool import LABELS, holdings
from . import mixture
from .mixture import How, Who

KINDS = "symmetric", "asymmetric", "pair"
RATE = 0.2  # where none is given
WORD = "labels"  # in place of a kind of image corruption


def make_label_noise(
    source: Path,
    how: How | None,
    flip: Mapping[str, str],
    to: manifest.Destination,
    who: Who,
    *,
    seed: int,
) -> Path:
    """Change labels of some clients of a partition; returns the path of the new partition.json.

    how: for the clients that `who` chooses by ratio or name; None where only those are changed that it names with a
        kind and rate of their own, "NAME=KIND:RATE". flip: class -> class, of asymmetric noise.
    Raises FedcliError, UsageError.
    """
    source, body = mixture.partition_of(source, "change labels", "labels are changed")
    if labels.is_multi_label(body):
        raise FedcliError(
            f"{source} has several labels per image", "label noise is for one label per image"
        )
    if "label_noise" in body:
        hint = "start from the partition above it; --client NAME=KIND:RATE gives clients different noise"
        raise FedcliError(f"{source} has noisy labels already", hint)
    for name in (*flip, *flip.values()):
        if name not in body["classes"]:
            raise UsageError(
                f"--flip names {name!r}, which is no class", nearest(name, body["classes"])
            )
    classes, rate = body["classes"], str(how[1] if how else RATE)
    read = partial(_how, flip, classes)
    default = read(how[0], rate) if how else None
    each = mixture.each_client(
        body, who, default, read, strength=rate, example="north=symmetric:0.3"
    )
    noise = {
        "each": {name: list(own) for name, own in each.items()},
        "flip": dict(flip),
        "seed": seed,
    }

    def change(client: str, y: np.ndarray, ids: np.ndarray) -> np.ndarray:
        return flipped(
            y, ids.tolist(), each[client], targets(each[client][0], classes, flip), seed, client
        )

    def write(target: Path) -> dict[str, Any]:
        return write_labels(target / LABELS, source, body, each, change)

    return mixture.make_changed(source, "noisy-labels", {"label_noise": noise}, to, write)


def flipped(
    y: np.ndarray, ids: Sequence[str], how: How, to: Sequence[int], seed: int, client: str
) -> np.ndarray:
    """Labels after the flips, int64 [N].

    to: class -> class of pair and asymmetric noise, where -1 leaves it.
    """
    kind, rate = how
    out, classes = y.copy(), len(to)
    for place, (own, id) in enumerate(zip(y.tolist(), ids, strict=True)):
        draw = np.random.default_rng(derive("label noise", seed, client, id))
        if draw.random() >= rate:
            continue
        if kind == "symmetric":
            out[place] = (own + 1 + draw.integers(classes - 1)) % classes  # any class but its own
        elif to[own] >= 0:
            out[place] = to[own]
    return out


def _how(flip: Mapping[str, str], classes: Sequence[str], kind: str, rate: str) -> How:
    if kind not in KINDS:
        raise UsageError(f"unknown label noise {kind!r}", nearest(kind, KINDS))
    try:
        number = float(rate)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise UsageError(
            f"the rate of label noise is {rate}, not in [0, 1]", "0.2 changes one label in five"
        )
    if kind == "asymmetric" and not flip:
        raise UsageError(
            "asymmetric label noise needs the classes it changes",
            f"for example --flip {'='.join(classes[:2])}",
        )
    return kind, number


def write_labels(
    path: Path,
    source: Path,
    body: Mapping[str, Any],
    each: Mapping[str, How],
    change: Callable[[str, np.ndarray, np.ndarray], np.ndarray],
) -> dict[str, Any]:
    """Write labels.h5; returns the manifest's body.

    each: client -> how its labels are changed, for the body; change: (client, labels [N], ids [N]) -> labels [N].
    """
    pool, rows, _ = holdings(source)
    roster = [dict(client) for client in body["roster"]]
    noise: dict[str, dict[str, Any]] = {}
    said: list[str] = []
    with create_hdf5(path) as file:
        for k, client in enumerate(roster):
            if (name := client["client"]) not in each:
                continue
            at, how = rows[name]["train"], each[name]
            y = change(name, pool.y[at], pool.id[at])
            file[f"train/{k}"] = y.astype(np.int16)
            client["class_counts"] = labels.counts(y, len(body["classes"])).tolist()
            noise[name] = {"kind": how[0], "rate": how[1], "changed": int((y != pool.y[at]).sum())}
            said.append(f"{name} {noise[name]['changed']} of {len(y)}")
    listed = ", ".join(said) or "none"
    console.say(f"training labels changed: {listed}; validation and test images keep theirs")
    return {**body, "roster": roster, "label_noise": noise}


def targets(kind: str, classes: Sequence[str], flip: Mapping[str, str]) -> list[int]:
    """The class that each class becomes under pair and asymmetric noise, -1 for what stays."""
    if kind == "pair":
        return [(c + 1) % len(classes) for c in range(len(classes))]
    return [classes.index(flip[name]) if name in flip else -1 for name in classes]
