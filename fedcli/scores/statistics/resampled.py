"""Scores of a run in resamples of the test patients, as reports test runs against each other.

resamples.h5 beside the scores, where there are many test images and one model answers:

    <version>/<metric>        float64 [B], the mean over kept rounds
    last/<version>/<metric>   those of the last round, of which intervals over runs are made
    groups/<attribute>/<group>/<version>/<metric>   the same of one group's images; attributes by their place in the
                              order of the alphabet, groups by theirs among the attribute's values

It holds what anyone gets who draws again with the same seed: a report of a hundred runs is then a matter of reading.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ... import metrics
from ...errors import FedcliError
from ...io.files import remembered
from ...io.hdf5 import Column, create_hdf5, open_hdf5
from ...metrics import CLASSES, LABELS, Groupings
from ...seeds import derive
from ..predictions import Logits
from . import intervals
from .bootstrap import Columns, bootstrap_all, mean

FILE = "resamples.h5"
RESAMPLES, SEED = 2000, 0  # of those that are kept
MANY = 2000  # test images, from which on drawing takes longer than reading

LAST, GROUPS = "last", "groups"
HINT = "evaluate the run again"


def seed_of(images: Sequence[str] | np.ndarray, seed: int) -> int:
    """The seed of the draws of a test set, by the ids of its images in their order."""
    return derive("compare", seed, *images)


def write(
    folder: Path,
    logits: Logits,
    y: np.ndarray,
    ids: np.ndarray,
    units: np.ndarray | None,
    groupings: Groupings | None = None,
) -> None:
    """Keep the scores of these models, where there are many images. units: [N], patients; None draws images.

    Not where many models answer, as those of clients that trained alone: most runs are never tested against another.
    """
    alone = all(len(models) == 1 for rounds in logits.values() for models in rounds)
    if len(y) < MANY or not alone:
        return
    at = np.argsort(ids)
    owner = np.unique((ids if units is None else units)[at], return_inverse=True)[1]
    seed = seed_of(ids[at], SEED)
    with create_hdf5(folder / FILE) as file:
        for version, rounds in logits.items():
            stored = [
                table[at].astype(np.float32) for (table,) in rounds
            ]  # as predictions.h5 has them
            made = mean(bootstrap_all(stored, y[at], owner, resamples=RESAMPLES, seed=seed))
            last = intervals.Answered(stored[-1:], y[at], owner)
            of_last = last.resampled()
            for metric, column in made.items():
                file[f"{version}/{metric}"] = column
                file[f"{LAST}/{version}/{metric}"] = of_last[metric]
            for name, images in _members(groupings or {}, at):
                for metric, column in last.at(images).resampled().items():
                    file[f"{name}/{version}/{metric}"] = column


def _members(groupings: Groupings, at: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """The name of each group that has images, and where they are among the images in order: bool [N]."""
    for place, attribute in enumerate(sorted(groupings)):
        codes, values = groupings[attribute]
        for g in range(len(values)):
            if (images := codes[at] == g).any():
                yield f"{GROUPS}/{place}/{g}", images


def read(folder: Path, *, last: bool = False) -> dict[str, Columns]:
    """version -> metric -> [B], over the kept rounds or of the last; {} where none are kept. Raises FedcliError."""
    count = intervals.RESAMPLES if last else RESAMPLES
    kept = _kept(folder, [LAST] * last, count)
    for version, columns in kept.items():
        if not any(
            columns.keys() >= {*metrics.names(needs, resampled=True)} for needs in (CLASSES, LABELS)
        ):
            raise FedcliError(
                f"{folder / FILE} does not hold {count} resamples of all {version} scores", HINT
            )
    return kept


def read_group(folder: Path, attribute: int, group: int) -> dict[str, Columns]:
    """The same of the last round, of one group: its place, and that of its attribute. Raises FedcliError."""
    return _kept(folder, [GROUPS, str(attribute), str(group)], intervals.RESAMPLES)


def _kept(folder: Path, whose: list[str], count: int) -> dict[str, Columns]:
    """version -> metric -> [B] of the columns whose names begin so. Raises FedcliError where they are not [count]."""
    path = folder / FILE
    kept: dict[str, Columns] = {}
    for name, column in _columns(path).items() if path.exists() else ():
        *first, version, metric = name.split("/")
        if first == whose:
            kept.setdefault(version, {})[metric] = column
            if len(column) != count:
                raise FedcliError(f"{path} does not hold {count} resamples of {name}", HINT)
    return kept


@remembered(128)  # a page looks at each run several times
def _columns(path: Path) -> Columns:
    """Every column of a file by its name, not to be written into. Raises FedcliError."""
    with open_hdf5(path, {"*/*": Column("f", size=8)}, hint=HINT) as file:
        return {name: column[()] for name, column in file.items()}
