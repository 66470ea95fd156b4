"""Scores of a run in resamples of the test patients, as reports test runs against each other.

resamples.h5 beside the scores, where there are many test images and one model answers:

    <version>/<metric>        float64 [B], the mean over kept rounds
    last/<version>/<metric>   those of the last round, of which intervals over runs are made
    groups/<attribute>/<group>/<version>/<metric>   the same of one group's images; attributes by
                              their place in the order of the alphabet, groups by theirs among the
                              attribute's values

It holds what anyone gets who draws again with the same seed: a report of a hundred runs is then a
matter of reading.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ... import metrics
from ...errors import FedcliError
from ...io.files import remembered
from ...io.hdf5 import ExpectedData, create_hdf5, open_hdf5
from ...metrics import CLASSES, LABELS, Groupings
from ...seeds import derive
from ..predictions import Logits
from . import intervals
from .bootstrap import Columns, bootstrap_all, mean

FILE = "resamples.h5"
RESAMPLES = 2000  # of those that are kept
SEED = 0
MANY = 2000  # test images, from which on drawing takes longer than reading
LAST = "last"
GROUPS = "groups"
HINT = "evaluate the run again"
ByVersion = dict[str, Columns]  # version -> metric -> [B]
Array = np.ndarray


def seed_of(images: Sequence[str] | Array, seed: int) -> int:
    """The seed of the draws of a test set, by the ids of its images in their order."""
    return derive("compare", seed, *images)


def write(
    folder: Path,
    logits: Logits,
    y: Array,
    ids: Array,
    units: Array | None,
    groupings: Groupings | None = None,
) -> None:
    """Keep the scores of these models, where there are many images.

    Not where many models answer, as those of clients that trained alone: most runs are never tested
    against another. units: [N], patients; None draws images.
    """
    alone = all(len(models) == 1 for rounds in logits.values() for models in rounds)
    if len(y) < MANY or not alone:
        return
    order = np.argsort(ids)
    owner_names = ids if units is None else units
    owner = np.unique(owner_names[order], return_inverse=True)[1]
    seed = seed_of(ids[order], SEED)
    with create_hdf5(folder / FILE) as file:
        for version, rounds in logits.items():
            # as predictions.h5 has them
            tables = [table[order].astype(np.float32) for (table,) in rounds]
            over_rounds = bootstrap_all(
                tables,
                y[order],
                owner,
                resamples=RESAMPLES,
                seed=seed,
            )
            last = intervals.Answered(tables[-1:], y[order], owner)
            _write_columns(file, version, mean(over_rounds))
            _write_columns(file, f"{LAST}/{version}", last.resampled())
            for name, images in _members(groupings or {}, order):
                _write_columns(
                    file,
                    f"{name}/{version}",
                    last.at(images).resampled(),
                )


def _write_columns(file: Any, name: str, columns: Columns) -> None:
    for metric, column in columns.items():
        file[f"{name}/{metric}"] = column


def _members(groupings: Groupings, order: Array) -> Iterator[tuple[str, Array]]:
    """The name of each group that has images, and its members in this order: bool [N]."""
    for row, attribute in enumerate(sorted(groupings)):
        codes, values = groupings[attribute]
        for code in range(len(values)):
            images = codes[order] == code
            if images.any():
                yield f"{GROUPS}/{row}/{code}", images


def read(folder: Path, *, last: bool = False) -> ByVersion:
    """version -> metric -> [B], over the kept rounds or of the last; {} where none are kept.

    Raises FedcliError.
    """
    count = intervals.RESAMPLES if last else RESAMPLES
    columns_by_version = _columns_below(folder, [LAST] if last else [], count)
    for version, columns in columns_by_version.items():
        if not (_has_all(columns, CLASSES) or _has_all(columns, LABELS)):
            fault = f"{folder / FILE} does not hold {count} resamples of all {version} scores"
            raise FedcliError(fault, HINT)
    return columns_by_version


def _has_all(columns: Columns, needs: str) -> bool:
    """Tell whether all resampled metrics are there that need such labels."""
    return columns.keys() >= set(metrics.names(needs, resampled=True))


def read_group(folder: Path, attribute: int, group: int) -> ByVersion:
    """version -> metric -> [B] of the last round, of one group: its place, and its attribute's.

    Raises FedcliError.
    """
    return _columns_below(
        folder,
        [GROUPS, str(attribute), str(group)],
        intervals.RESAMPLES,
    )


def _columns_below(folder: Path, prefix: list[str], count: int) -> ByVersion:
    """version -> metric -> [B] of the columns whose names begin so.

    Raises FedcliError where they are not [count].
    """
    path = folder / FILE
    columns_by_version: ByVersion = {}
    if not path.exists():
        return columns_by_version
    for name, column in _columns(path).items():
        *parents, version, metric = name.split("/")
        if parents != prefix:
            continue
        columns_by_version.setdefault(version, {})[metric] = column
        if len(column) != count:
            raise FedcliError(f"{path} does not hold {count} resamples of {name}", HINT)
    return columns_by_version


@remembered(128)  # a page looks at each run several times
def _columns(path: Path) -> Columns:
    """Every column of a file by its name, not to be written into. Raises FedcliError."""
    with open_hdf5(path, {"*/*": ExpectedData("f", size=8)}, hint=HINT) as file:
        return {name: column[()] for name, column in file.items()}
