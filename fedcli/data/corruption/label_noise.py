"""Wrong labels: some training labels of some clients are changed. Validation and test images keep
theirs.

Source: symmetric and pair flips are those of Han, Yao, Yu, Niu, Xu, Hu, Tsang and Sugiyama,
"Co-teaching: robust training of deep neural networks with extremely noisy labels", NeurIPS 2018,
arXiv 1804.06872; the paper's text was not at hand. Each training image of a client is changed by
itself, with the chance `rate`:

    symmetric     to any other class, all equally likely
    pair          to the next class in the dataset's order, of the last one to the first
    asymmetric    only images of the classes that are named, each to the class named for it

The draw depends on the seed, the client and the image's id alone. What is written is a partition:
the rows of the one it was made from, and labels.h5 beside them with the labels of each changed
client.
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
# (client, labels [N], ids [N]) -> labels [N]
Change = Callable[[str, np.ndarray, np.ndarray], np.ndarray]


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

    how: for the clients that `who` chooses by ratio or name; None where only those are changed that
        it names with a kind and rate of their own, "NAME=KIND:RATE". flip: class -> class, of
        asymmetric noise.
    Raises FedcliError, UsageError.
    """
    source, body = mixture.partition_of(
        source,
        "change labels",
        "labels are changed",
    )
    _check(source, body, flip)
    classes = body["classes"]
    read = partial(_how, flip, classes)
    rate = str(RATE)
    default = None
    if how:
        kind, strength = how
        rate = str(strength)
        default = read(kind, rate)
    example = "north=symmetric:0.3"
    how_by_client = mixture.each_client(
        body,
        who,
        default,
        read,
        strength=rate,
        example=example,
    )
    noise = {
        "each": {client: list(client_how) for client, client_how in how_by_client.items()},
        "flip": dict(flip),
        "seed": seed,
    }

    def change(client: str, y: np.ndarray, ids: np.ndarray) -> np.ndarray:
        kind, _ = how_by_client[client]
        new_classes = targets(kind, classes, flip)
        return flipped(
            y,
            ids.tolist(),
            how_by_client[client],
            new_classes,
            seed,
            client,
        )

    def write(target: Path) -> manifest.Body:
        return write_labels(
            target / LABELS,
            source,
            body,
            how_by_client,
            change,
        )

    return mixture.make_changed(
        source,
        "noisy-labels",
        {"label_noise": noise},
        to,
        write,
    )


def _check(source: Path, body: manifest.Body, flip: Mapping[str, str]) -> None:
    if labels.is_multi_label(body):
        sentence = f"{source} has several labels per image"
        raise FedcliError(sentence, "label noise is for one label per image")
    if "label_noise" in body:
        per_client = "--client NAME=KIND:RATE gives clients different noise"
        hint = f"start from the partition above it; {per_client}"
        raise FedcliError(f"{source} has noisy labels already", hint)
    check_flip(flip, body["classes"])


def check_flip(flip: Mapping[str, str], classes: Sequence[str]) -> None:
    """Raises UsageError where --flip names no class."""
    for name in (*flip, *flip.values()):
        if name not in classes:
            raise UsageError(f"--flip names {name!r}, which is no class", nearest(name, classes))


def flipped(
    y: np.ndarray,
    ids: Sequence[str],
    how: How,
    to: Sequence[int],
    seed: int,
    client: str,
) -> np.ndarray:
    """Labels after the flips, int64 [N].

    to: class -> class of pair and asymmetric noise, where -1 leaves it.
    """
    kind, rate = how
    new_labels = y.copy()
    classes = len(to)
    for k, (label, id) in enumerate(zip(y.tolist(), ids, strict=True)):
        draw = np.random.default_rng(derive("label noise", seed, client, id))
        if draw.random() >= rate:
            continue
        if kind == "symmetric":
            step = 1 + draw.integers(classes - 1)  # to any other class
            new_labels[k] = (label + step) % classes
        elif to[label] >= 0:
            new_labels[k] = to[label]
    return new_labels


def _how(
    flip: Mapping[str, str],
    classes: Sequence[str],
    kind: str,
    rate: str,
) -> How:
    if kind not in KINDS:
        raise UsageError(f"unknown label noise {kind!r}", nearest(kind, KINDS))
    try:
        number = float(rate)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        sentence = f"the rate of label noise is {rate}, not in [0, 1]"
        raise UsageError(sentence, "0.2 changes one label in five")
    if kind == "asymmetric" and not flip:
        example = "=".join(classes[:2])
        sentence = "asymmetric label noise needs the classes it changes"
        raise UsageError(sentence, f"for example --flip {example}")
    return kind, number


def write_labels(
    path: Path,
    source: Path,
    body: manifest.Body,
    how_by_client: Mapping[str, How],
    change: Change,
) -> manifest.Body:
    """Write labels.h5; returns the manifest's body. how_by_client: the change of its labels, for
    the body."""
    pool, rows_by_client, _ = holdings(source)
    roster = [dict(client) for client in body["roster"]]
    noise: dict[str, dict[str, Any]] = {}
    parts: list[str] = []
    with create_hdf5(path) as file:
        for k, client in enumerate(roster):
            name = client["client"]
            if name not in how_by_client:
                continue
            rows = rows_by_client[name]["train"]
            y = change(name, pool.y[rows], pool.id[rows])
            file[f"train/{k}"] = y.astype(np.int16)
            client["class_counts"] = labels.counts(y, len(body["classes"])).tolist()
            kind, rate = how_by_client[name]
            changed = int((y != pool.y[rows]).sum())
            noise[name] = {"kind": kind, "rate": rate, "changed": changed}
            parts.append(f"{name} {changed} of {len(y)}")
    listed = ", ".join(parts) or "none"
    console.say(f"training labels changed: {listed}; validation and test images keep theirs")
    return {**body, "roster": roster, "label_noise": noise}


def targets(
    kind: str,
    classes: Sequence[str],
    flip: Mapping[str, str],
) -> list[int]:
    """The class that each class becomes under pair and asymmetric noise, -1 for what stays."""
    count = len(classes)
    if kind == "pair":
        return [(c + 1) % count for c in range(count)]
    new_classes = [-1] * count
    for name, new_name in flip.items():
        new_classes[classes.index(name)] = classes.index(new_name)
    return new_classes
