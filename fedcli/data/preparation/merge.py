"""Several datasets joined into one pool: the attribute `dataset` says where an image is from,
classes are those of equal names or of a table, and the parts for training and testing stay as they
are.

Images are brought to the largest size, areas averaged or cubics fitted as `prepare` does. Where
numbers of channels differ, images of more than three become grey by their mean; then grey is
repeated where some dataset has colours. Attributes of one name are one attribute, of unknown value
where a dataset lacks it.
"""

import hashlib
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ... import console
from ...errors import FedcliError, nearest
from ...labels import is_multi_label, joined
from .. import manifest, shared_patients, sources
from ..pool import TEST, BlankPool, Pool, Row, iterate, pool_of
from ..prepare_options import PrepareOptions
from ..sources.formats.photographs import fit_image, match_channels
from ..sources.tables import lacking, read_cells

DATASET = "dataset"
COLUMNS = "dataset", "class", "joined"
CHUNK = 512  # images at a time
HINT = "give a CSV with the columns dataset, class and joined, a line for each class"
Classes = dict[str, dict[str, str]]  # dataset -> its class -> joined class, "" for none
Bodies = Mapping[str, manifest.Body]  # by dataset


def merge(
    datasets: Mapping[str, Path],
    table: Path | None,
    to: manifest.Destination,
) -> Path:
    """Make the pool and return its manifest's path. datasets: name -> manifest.

    Raises FedcliError, HashError.
    """
    bodies = {name: manifest.verify(path, "dataset").body for name, path in datasets.items()}
    if len(bodies) < 2:
        raise FedcliError("--merge joins two datasets or more", "give another --merge")
    _check_alike(bodies)
    pairs = _pairs(table, bodies)
    classes = _classes(pairs)
    sides = [body["size"][0] for body in bodies.values()]
    options = {
        "merged": list(datasets),
        "classes": pairs,
        "size": max(sides),
        "channels": _channels(bodies),
    }
    options.update(_prepared_alike(datasets))

    def build(folder: Path) -> manifest.Body:
        pools = {name: pool_of(path) for name, path in datasets.items()}
        return _write(folder / "pool.h5", pools, bodies, classes, options)

    parents = list(datasets.values())
    return manifest.make(
        "dataset",
        "+".join(datasets),
        to,
        options,
        parents,
        build,
    )


def _classes(pairs: Classes) -> list[str]:
    """The joined classes, in the order in which they occur; a warning where datasets share none.
    Raises FedcliError where there is one alone."""
    owners: dict[str, set[str]] = {}  # class -> datasets that have it
    for dataset, joined_classes in pairs.items():
        for joined_class in joined_classes.values():
            if joined_class:
                owners.setdefault(joined_class, set()).add(dataset)
    if not any(len(names) > 1 for names in owners.values()):
        console.warn(
            f"no class of {' and '.join(pairs)} has the same name, so the dataset of an image "
            "reveals which classes are possible; if some are the same, join them by "
            "--classes-table FILE, with the columns dataset, class and joined"
        )
    if len(owners) < 2:
        sentence = f"all images would be {next(iter(owners))!r}, and there is nothing to learn"
        raise FedcliError(sentence, "join fewer classes")
    return list(owners)


def _channels(bodies: Bodies) -> int:
    channels: set[int] = {body["channels"] for body in bodies.values()}
    if len(channels) == 1:
        return max(channels)
    return 3 if 3 in channels else 1


def _prepared_alike(datasets: Mapping[str, Path]) -> manifest.Options:
    """The options of prepare that are equal in all datasets; a warning of each that is not."""
    options_by_dataset = [manifest.read(path).options for path in datasets.values()]
    equal = {}
    for option in PrepareOptions.marked("pixels"):
        value, *others = (options.get(option.name) for options in options_by_dataset)
        if all(other == value for other in others):
            equal[option.name] = value
        else:
            flag = f"--{option.typed}"
            console.warn(f"{' and '.join(datasets)} were not prepared with the same {flag}")
    return equal


def _check_alike(bodies: Bodies) -> None:
    with_several = [name for name, body in bodies.items() if is_multi_label(body)]
    with_one = [name for name in bodies if name not in with_several]
    if with_several and with_one:
        sentence = f"{with_several[0]} has several labels per image, {with_one[0]} has one"
        raise FedcliError(sentence, "merge datasets that are labelled in the same way")
    for name, body in bodies.items():
        if DATASET in body["attributes"]:
            hint = "merge the datasets that it was made of"
            raise FedcliError(f"{name} has an attribute {DATASET!r}, as a merged dataset has", hint)


def _pairs(file: Path | None, bodies: Bodies) -> Classes:
    """Dataset -> its class -> joined class, "" for none; without a file, classes keep their names.

    Raises FedcliError where a class has no line or two, or is none.
    """
    if file is None:
        return {name: dict(zip(body["classes"], body["classes"])) for name, body in bodies.items()}
    head, records = read_cells(file, HINT)
    missing = [name for name in COLUMNS if name not in head]
    if missing:
        raise FedcliError(f"{file} has {lacking(missing)}, only {', '.join(head)}", HINT)
    columns = [head.index(name) for name in COLUMNS]
    pairs: Classes = {name: {} for name in bodies}
    for record in records:
        dataset, dataset_class, joined_class = (record[column] for column in columns)
        if dataset not in bodies:
            sentence = f"{file}: {dataset!r} is no dataset of --merge"
            raise FedcliError(sentence, nearest(dataset, bodies))
        if dataset_class in pairs[dataset]:
            raise FedcliError(f"{file}: {dataset_class!r} is named twice of {dataset}", HINT)
        if dataset_class not in bodies[dataset]["classes"]:
            raise FedcliError(f"{file}: {dataset_class!r} is no class of {dataset}", HINT)
        pairs[dataset][dataset_class] = joined_class
    for name, body in bodies.items():
        for dataset_class in body["classes"]:
            if dataset_class not in pairs[name]:
                sentence = f"{file} has no line for the class {dataset_class!r} of {name}"
                raise FedcliError(sentence, f"add the line {name},{dataset_class},")
    return pairs


def _write(
    path: Path,
    pools: Mapping[str, Pool],
    bodies: Bodies,
    classes: list[str],
    options: manifest.Body,
) -> manifest.Body:
    """Write the pool; the manifest's body."""
    attributes: dict[str, list[str]] = {DATASET: list(pools)}
    for body in bodies.values():
        for name, values in body["attributes"].items():
            attributes[name] = list(dict.fromkeys([*attributes.get(name, []), *values]))
    labels = {}
    merged_rows = {}  # dataset -> rows of its pool whose class goes on
    for name, pool in pools.items():
        joined_classes = options["classes"][name]
        y = _joined_labels(
            pool,
            bodies[name]["classes"],
            joined_classes,
            classes,
        )
        labels[name] = y
        merged_rows[name] = np.arange(len(y))
        if y.ndim == 1:
            merged_rows[name] = np.flatnonzero(y >= 0)
    count = sum(len(rows) for rows in merged_rows.values())
    side = options["size"]
    channels = options["channels"]
    blank = BlankPool.make(path, (count, side, side, channels))
    _write_pixels(blank, pools, merged_rows)
    rows = []
    for number, (name, pool) in enumerate(pools.items()):
        dataset_values = bodies[name]["attributes"]
        for k in merged_rows[name].tolist():
            groups = {DATASET: number}
            for attribute, column in pool.groups.items():
                if column[k] >= 0:
                    value = dataset_values[attribute][column[k]]
                    groups[attribute] = attributes[attribute].index(value)
            label = labels[name][k].tolist()
            is_test = bool(pool.split[k] == TEST)
            patient = _patient(name, pool, k)
            rows.append(Row(f"{name}/{pool.id[k]}", label, None, is_test, groups, patient))
    blank.finish(rows, list(range(count)), attributes)
    image_counts = [f"{name} {len(rows_of_pool):,}" for name, rows_of_pool in merged_rows.items()]
    images = console.listed(image_counts)
    console.say(f"merged {images} images, at {side} pixels, {channels} channels")
    body = _described(bodies, rows)
    body["name"] = "+".join(pools)
    body["title"] = " and ".join(pools)
    body["classes"] = classes
    body["channels"] = channels
    body["attributes"] = attributes
    body["size"] = [side, side]
    body["unknown"] = {name: _unknown(rows, name) for name in attributes}
    return body


def _joined_labels(
    pool: Pool,
    pool_classes: list[str],
    joined_classes: dict[str, str],
    classes: list[str],
) -> np.ndarray:
    """The labels of a pool's images among the joined classes, see labels.joined()."""
    indices = []
    for pool_class in pool_classes:
        joined_class = joined_classes[pool_class]
        indices.append(classes.index(joined_class) if joined_class else -1)
    return joined(pool.y, np.array(indices), len(classes))


def _write_pixels(
    blank: BlankPool,
    pools: Mapping[str, Pool],
    merged_rows: Mapping[str, np.ndarray],
) -> None:
    """Write the images of all pools, fitted. Raises FedcliError for an image that two datasets
    have."""
    _, side, _, channels = blank.shape
    owners: dict[bytes, str] = {}  # digest of the pixels -> dataset
    written = 0
    for name, pool in pools.items():
        rows = merged_rows[name]
        pieces = iterate(pool, rows, CHUNK)
        turns = math.ceil(len(rows) / CHUNK)
        for _, images in console.progress(pieces, label=f"merging {name}", total=turns):
            fitted = np.stack([_fitted(image, side, channels) for image in images])
            for image in fitted:
                digest = hashlib.sha256(image.tobytes()).digest()
                owner = owners.setdefault(digest, name)
                if owner != name:
                    sentence = f"an image of {name} is one of {owner}, pixel for pixel"
                    hint = "merge datasets without images in common, or prepare one without them"
                    raise FedcliError(sentence, hint)
            blank.put(written, fitted)
            written += len(fitted)


def _patient(dataset: str, pool: Pool, row: int) -> str:
    if pool.patient is None or not pool.patient[row]:
        return ""
    return f"{dataset}/{pool.patient[row]}"


def _unknown(rows: list[Row], attribute: str) -> int:
    return sum(row.groups.get(attribute, -1) < 0 for row in rows)


def _described(bodies: Bodies, rows: list[Row]) -> manifest.Body:
    """The entries of the manifest's body that follow from those of the datasets."""
    first_body = next(iter(bodies.values()))
    augments = {body["augment"] for body in bodies.values()}
    units = [body["unit"] for body in bodies.values() if body["unit"]]
    unit = units[0] if units else None
    test = sum(row.test for row in rows)
    described: manifest.Body = {
        "augment": first_body["augment"] if len(augments) == 1 else "none",
        "people": any(_shows_people(body) for body in bodies.values()),
        "sites": DATASET,
        "count": len(rows),
        "skipped": [],
        "unit": unit,
    }
    described["task"] = first_body.get("task", "multiclass")
    described["clients"] = sum(body["clients"] for body in bodies.values())
    described["split"] = {
        "train": len(rows) - test,
        "test": test,
        "by": "each dataset's own",
    }
    described.update(shared_patients.of_rows(unit, rows))
    return described


def _shows_people(body: manifest.Body) -> bool:
    return body.get("people", sources.shows_people(body["name"]))


def _fitted(image: np.ndarray, size: int, channels: int) -> np.ndarray:
    """uint8 [H, W, C] -> [size, size, channels]."""
    if image.shape[2] not in (1, 3, channels):
        grey = image.mean(2, keepdims=True)
        image = np.rint(grey).astype(np.uint8)
    image = match_channels(image, channels)
    if len(image) == size:
        return image
    return fit_image(image, size, "stretch", clahe=False)
