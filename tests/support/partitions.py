"""A pool of 80 images to divide, and labels of 500 that are on no disk."""

from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
from raw_folders import write_pool

from fedcli.data import manifest
from fedcli.data.partition import make_partition, resolve
from fedcli.data.partition.scheme import Counted, Images, by_owner
from fedcli.data.pool import Row

VECTOR_FOLDER = Path(__file__).parents[1] / "vectors"
COUNTS = [300, 150, 40, 10]
Y = np.random.default_rng(0).permutation(
    np.repeat(np.arange(4), COUNTS)
)  # 500 images of four uneven classes
SEX = np.where(np.arange(500) % 5 == 0, 1, 0)  # 400 of value 0, 100 of value 1


def sizes(parts):
    return [len(part) for part in parts]


def table(parts):
    return np.array([np.bincount(Y[part], minlength=4) for part in parts])  # [K, C]


@dataclass(frozen=True)
class Drawn(Images):
    """Images whose random numbers are given."""

    rng: np.random.Generator | None = None


def dealt(name, y, rng=None, *, images=None, **options):
    """The images [N] of each client that a scheme makes of labels [N]. images: more of what is divided."""
    scheme = resolve(name, options)
    divided = Drawn(y, rng=rng, **(images or {}))
    if type(scheme).owners is Counted.owners:
        return list(scheme.assign(divided).values())
    return by_owner(scheme.owners(divided), scheme.clients)


def fedism(y, clients, corrupted, alpha, seed=2024):
    return dealt(
        "fedism", y, clients=clients, corrupted=corrupted, alpha=alpha, images={"seed": seed - 2024}
    )


# ---- the stage


def dataset(folder, *, units=True):
    """60 training and 20 test images of three classes, sex known for all but six, three images to a lesion."""
    rows = []
    for k in range(80):
        label = k % 3
        groups = {"sex": -1 if k < 6 else k % 2, "center": label % 2}
        row = Row(f"i{k}", label, k, test=k % 4 == 3, groups=groups, patient=f"l{k // 3}")
        rows.append(row)
    if not units:
        rows = [Row(row.id, row.label, row.source, row.test, row.groups) for row in rows]

    def build(target):
        images = (np.full((4, 4, 1), k, np.uint8) for k in range(80))
        write_pool(target / "pool.h5", rows, images, ["sex", "center"])
        return {
            "name": "toy",
            "title": "toy",
            "task": "multiclass",
            "classes": ["a", "b", "c"],
            "attributes": {
                "sex": ["female", "male"],
                "center": ["St. Anna/1", "st_anna 1", "empty"],
            },
            "size": [4, 4],
            "channels": 1,
            "count": 80,
            "split": {"train": 60, "test": 20, "by": "image"},
            "unit": "lesion" if units else None,
            "skipped": [],
            "augment": "none",
            "clients": 4,
            "sites": "center",
        }

    return manifest.stage(
        "dataset", folder=folder / "data", made_by=[], options={}, parents=[], build=build
    )


def partition(
    folder, *, scheme, units=True, val=0.0, minimum=0, seed=0, materialize=False, **options
):
    to = manifest.Destination(folder, made_by=["partition"])
    stage = {"val": val, "minimum": minimum, "seed": seed, "materialize": materialize}
    path = make_partition(dataset(folder, units=units), resolve(scheme, options), to, **stage)
    with h5py.File(path.parent / "rows.h5") as file:
        arrays = {}
        for name, group in file.items():
            arrays[name] = {k: rows[()] for k, rows in group.items()}
    return path, manifest.verify(path, "partition").body, arrays


def names(body):
    return [client["client"] for client in body["roster"]]


def everyone(arrays, *parts):
    rows_of_clients = []
    for part in parts:
        for k, rows in arrays[part].items():
            if k != "all":
                rows_of_clients.extend(rows)
    return sorted(rows_of_clients)
