"""Several datasets joined into one pool: the attribute `dataset` says where an image is from, classes are those of
equal names or of a table, and the parts for training and testing stay as they are.

Images are brought to the largest size, areas averaged or cubics fitted as `prepare` does. Where numbers of channels
differ, images of more than three become grey by their mean; then grey is repeated where some dataset has colours.
Attributes of one name are one attribute, of unknown value where a dataset lacks it.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ... import console
from ...errors import FedcliError, nearest
from ...labels import is_multi_label, joined
from .. import manifest, shared_patients, sources
from ..pool import TEST, BlankPool, Row, iterate, pool_of
from ..sources.formats.photographs import fit_image, match_channels
from ..sources.tables import lacking, read_cells

DATASET = "dataset"
PREPARED = (
    "fit",
    "clahe",
    "scaled_decoding",
    "window",
)  # options of prepare: what becomes of an image, beside its size
CHUNK = 512  # images at a time
HINT = "give a CSV with the columns dataset, class and joined, a line for each class"
Classes = dict[str, dict[str, str]]  # dataset -> class there -> class here, "" for none


def merge(datasets: Mapping[str, Path], table: Path | None, to: manifest.Destination) -> Path:
    """Make the pool and return its manifest's path. datasets: name -> manifest. Raises FedcliError, HashError."""
    bodies = {name: manifest.verify(path, "dataset").body for name, path in datasets.items()}
    if len(bodies) < 2:
        raise FedcliError("--merge joins two datasets or more", "give another --merge")
    _check_alike(bodies)
    pairs = _pairs(table, bodies)
    classes = list(dict.fromkeys(here for of in pairs.values() for here in of.values() if here))
    if not any(sum(here in of.values() for of in pairs.values()) > 1 for here in classes):
        what = f"no class of {' and '.join(datasets)} has the same name"
        raise FedcliError(
            what,
            "say which are one: --classes-table FILE, with the columns dataset, class and joined",
        )
    if len(classes) < 2:
        raise FedcliError(
            f"all images would be {classes[0]!r}, and there is nothing to learn",
            "join fewer classes",
        )
    channels = {body["channels"] for body in bodies.values()}
    target = max(channels) if len(channels) == 1 else 3 if 3 in channels else 1
    options = {
        "merged": list(datasets),
        "classes": pairs,
        "size": max(body["size"][0] for body in bodies.values()),
    }
    options |= {"channels": target}
    for name in PREPARED:
        first, *others = (manifest.read(path).options.get(name) for path in datasets.values())
        options |= {name: first} if all(other == first for other in others) else {}
        if name not in options:
            console.warn(
                f"{' and '.join(datasets)} were not prepared with the same --{name.replace('_', '-')}"
            )

    def build(folder: Path) -> dict[str, Any]:
        return _write(folder / "pool.h5", datasets, bodies, pairs, classes, options)

    return manifest.make("dataset", "+".join(datasets), to, options, list(datasets.values()), build)


def _check_alike(bodies: Mapping[str, dict[str, Any]]) -> None:
    (first, task), *others = ((name, is_multi_label(body)) for name, body in bodies.items())
    if other := next((name for name, several in others if several != task), ""):
        single, several = (other, first) if task else (first, other)
        what = f"{several} has several labels per image, {single} has one"
        raise FedcliError(what, "merge datasets that are labelled alike")
    if nested := next((name for name, body in bodies.items() if DATASET in body["attributes"]), ""):
        hint = "merge the datasets that it was made of"
        raise FedcliError(f"{nested} has an attribute {DATASET!r}, as a merged dataset has", hint)


def _pairs(file: Path | None, bodies: Mapping[str, dict[str, Any]]) -> Classes:
    """Raises FedcliError where a class has no line or two, or is none."""
    if file is None:
        return {name: {each: each for each in body["classes"]} for name, body in bodies.items()}
    head, records = read_cells(file, HINT)
    if missing := [name for name in ("dataset", "class", "joined") if name not in head]:
        raise FedcliError(f"{file} has {lacking(missing)}, only {', '.join(head)}", HINT)
    pairs: Classes = {name: {} for name in bodies}
    for record in records:
        dataset, there, here = (record[head.index(name)] for name in ("dataset", "class", "joined"))
        if dataset not in bodies:
            raise FedcliError(
                f"{file}: {dataset!r} is no dataset of --merge", nearest(dataset, bodies)
            )
        if there not in bodies[dataset]["classes"] or there in pairs[dataset]:
            why = "is named twice" if there in pairs[dataset] else "is no class"
            raise FedcliError(f"{file}: {there!r} {why} of {dataset}", HINT)
        pairs[dataset][there] = here
    for name, body in bodies.items():
        if absent := [each for each in body["classes"] if each not in pairs[name]]:
            hint = f"add the line {name},{absent[0]},"
            raise FedcliError(f"{file} has no line for the class {absent[0]!r} of {name}", hint)
    return pairs


def _write(
    path: Path,
    datasets: Mapping[str, Path],
    bodies: Mapping[str, dict[str, Any]],
    pairs: Classes,
    classes: list[str],
    options: dict[str, Any],
) -> dict[str, Any]:
    """Write the pool; the manifest's body."""
    attributes: dict[str, list[str]] = {DATASET: list(datasets)}
    for body in bodies.values():
        for name, values in body["attributes"].items():
            attributes[name] = list(dict.fromkeys([*attributes.get(name, []), *values]))
    pools = {name: pool_of(given) for name, given in datasets.items()}
    labels, kept = {}, {}
    for name, pool in pools.items():
        places = [
            classes.index(here) if (here := pairs[name][there]) else -1
            for there in bodies[name]["classes"]
        ]
        labels[name] = y = joined(pool.y, np.array(places), len(classes))
        kept[name] = np.flatnonzero(y >= 0) if y.ndim == 1 else np.arange(len(y))
    count, side = sum(map(len, kept.values())), options["size"]
    blank = BlankPool.make(path, (count, side, side, options["channels"]))
    seen: dict[bytes, str] = {}  # digest of the pixels -> dataset
    place = 0
    for name, pool in pools.items():
        turns = -(-len(kept[name]) // CHUNK)
        for _, images in console.progress(
            iterate(pool, kept[name], CHUNK), label=f"merging {name}", total=turns
        ):
            fitted = np.stack([_fitted(image, side, options["channels"]) for image in images])
            for image in fitted:
                if (of := seen.setdefault(hashlib.sha256(image.tobytes()).digest(), name)) != name:
                    what = f"an image of {name} is one of {of}, pixel for pixel"
                    raise FedcliError(
                        what, "merge datasets without images in common, or prepare one without them"
                    )
            blank.put(place, fitted)
            place += len(fitted)
    rows = [
        Row(
            f"{name}/{pool.id[k]}",
            labels[name][k].tolist(),
            None,
            bool(pool.split[k] == TEST),
            {DATASET: number}
            | {
                each: attributes[each].index(bodies[name]["attributes"][each][column[k]])
                for each, column in pool.groups.items()
                if column[k] >= 0
            },
            f"{name}/{pool.patient[k]}" if pool.patient is not None and pool.patient[k] else "",
        )
        for number, (name, pool) in enumerate(pools.items())
        for k in kept[name]
    ]
    blank.finish(rows, list(range(count)), attributes)
    test = sum(row.test for row in rows)
    first, *others = bodies.values()
    unit = next((body["unit"] for body in bodies.values() if body["unit"]), None)
    say = [f"{name} {len(at):,}" for name, at in kept.items()]
    console.say(
        f"merged {console.listed(say)} images, at {side} pixels, {options['channels']} channels"
    )
    return {
        "name": "+".join(datasets),
        "title": " and ".join(datasets),
        "task": first.get("task", "multiclass"),
        "augment": first["augment"]
        if all(body["augment"] == first["augment"] for body in others)
        else "none",
        "clients": sum(body["clients"] for body in bodies.values()),
        "people": any(
            body.get("people", sources.shows_people(body["name"])) for body in bodies.values()
        ),
        "classes": classes,
        "channels": options["channels"],
        "attributes": attributes,
        "sites": DATASET,
        "size": [side, side],
        "count": count,
        "skipped": [],
        "split": {"train": count - test, "test": test, "by": "each dataset's own"},
        "unit": unit,
        **shared_patients.of_rows(unit, rows),
        "unknown": {name: sum(row.groups.get(name, -1) < 0 for row in rows) for name in attributes},
    }


def _fitted(image: np.ndarray, size: int, channels: int) -> np.ndarray:
    """uint8 [H, W, C] -> [size, size, channels]."""
    if image.shape[2] not in (1, 3, channels):
        image = np.rint(image.mean(2, keepdims=True)).astype(np.uint8)
    image = match_channels(image, channels)
    return image if len(image) == size else fit_image(image, size, "stretch", clahe=False)
