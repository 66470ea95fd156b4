"""Predictions of runs, image by image, and the patients whom two systems answer differently."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from ..data import manifest
from ..io.files import sha256
from ..metrics import Grouping, Groupings, Task, apart, get
from ..metrics.metric import DECISIONS, PROBABILITIES
from ..scores import predictions
from ..scores.groups import grouping
from ..scores.parts import AVERAGE, VERSIONS
from ..scores.table import Where
from .systems import Pairs, Scored

ROOM = 2**28  # bytes of the predictions that are remembered


@dataclass(frozen=True)
class RunPredictions:
    """Predictions in the order of the images' ids.

    Attributes:
        units: [N], the patient of each image by number.
        attributes: the names of each attribute's groups.
        groups: for each attribute, the index of each image's group, -1 for none.
        tables: for each version, logits [N, C] of each model in each kept round.
        last: for each version, logits of the last round's models.
        counted: whether sites counted. The images are then made from counts
            (scores/predictions.py), and images of two systems are not paired.
        by_attribute: if sites counted, the images of each attribute's groups; else {}.
    """

    id: np.ndarray
    y: np.ndarray
    units: np.ndarray
    by_patient: bool
    attributes: Mapping[str, list[str]]
    groups: dict[str, np.ndarray]
    tables: dict[str, list[np.ndarray]]
    last: dict[str, list[np.ndarray]]
    counted: bool = False
    by_attribute: Mapping[str, "RunPredictions"] = field(default_factory=dict)

    @cached_property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = [self.id, self.y, self.units, *self.groups.values()]
        for tables in self.tables.values():
            arrays += tables
        return sum(array.nbytes for array in arrays)

    def of(self, attribute: str) -> "RunPredictions":
        """The images that the groups of an attribute consist of; all images for ""."""
        return self.by_attribute.get(attribute, self)

    def grouping(self, attribute: str) -> Grouping:
        """The index of each image's group [N], -1 for none, and the groups' names; crossed
        attributes too.
        """
        return grouping(attribute, self.of(attribute).groups, self.attributes)

    @property
    def groupings(self) -> Groupings:
        """The index of each image's group and the groups' names, of each attribute."""
        return {name: self.grouping(name) for name in self.groups}

    def members(self, where: Where) -> np.ndarray:
        """The images that a score covers: bool [N]."""
        if not where.attribute:
            return np.full(len(self.y), True)
        group_index, names = self.grouping(where.attribute)
        if where.group:
            return group_index == names.index(where.group)
        return group_index >= 0


def differing(pairs: Pairs, where: Where) -> int:
    """The number of patients that two systems answer differently, as far as a metric can show, over
    all pairs.

    Counts do not reveal the images in which two systems differ: all of them may.
    """
    changes_by_set: dict[bytes, list[np.ndarray]] = {}
    units_by_set: dict[bytes, np.ndarray] = {}
    counted_by_set: dict[bytes, int] = {}
    for run_a, run_b in pairs:
        images = predicted(run_a.path)
        test_set = images.id.tobytes()
        members = images.members(where)
        if images.counted:
            counted_by_set[test_set] = int(members.sum())
            continue
        before = _marks(
            run_a.path,
            sha256(run_a.path),
            where.metric,
            where.version,
        )  # [N, K]
        after = _marks(
            run_b.path,
            sha256(run_b.path),
            where.metric,
            where.version,
        )
        change = (after - before) * members[:, None]
        changes_by_set.setdefault(test_set, []).append(change)
        units_by_set[test_set] = images.units
    patients = sum(counted_by_set.values())
    for test_set, changes in changes_by_set.items():
        has_moved = apart(np.mean(changes, axis=0), 0.0).any(1)  # [N]
        patients += len(np.unique(units_by_set[test_set][has_moved]))
    return patients


@lru_cache(maxsize=64)  # a reference is compared with many systems, in some versions and metrics
def _marks(scores_path: Path, _: str, metric: str, version: str) -> np.ndarray:
    """A metric's view of each image, mean over the models that answer: right or not [N, 1], else
    [N, C].
    """
    images = predicted(scores_path)
    versions = list(images.tables) if version == AVERAGE else [version]
    marks = []
    for name in versions:
        marks += [_mark(table, images.y, metric) for table in images.tables[name]]
    return np.mean(marks, axis=0)


def _mark(table: np.ndarray, y: np.ndarray, metric: str) -> np.ndarray:
    sees = get(metric).sees
    task = Task.of(y)
    if sees == PROBABILITIES:
        return task.probabilities(table)
    if sees == DECISIONS and not task.several:
        return np.eye(table.shape[1])[table.argmax(1)]
    return task.right(table, y).astype(np.float64)


def one_class(runs: Sequence[Scored], version: str) -> str:
    """The versions in which the last models answer one class for every image, in words; "" for
    none.

    version: "average" for all that there are. To find nothing in every image may be right for every
    rare label.
    """
    parts = []
    for name in VERSIONS if version == AVERAGE else [version]:
        stuck = [run for run in runs if _answers_one_class(run, name)]
        if not stuck:
            continue
        runs_in_words = ""
        if len(stuck) < len(runs):
            runs_in_words = f" ({'; '.join(run.which for run in stuck)})"
        scored = "scored " if any(run.scores.unscored for run in stuck) else ""
        parts.append(f"every {scored}{name} image{runs_in_words}")
    if not parts:
        return ""
    return f"predicts one class for {' and '.join(parts)}"


def _answers_one_class(run: Scored, version: str) -> bool:
    images = predicted(run.path)
    if images.y.ndim > 1 or len(np.unique(images.y)) < 2:
        return False
    tables = images.last.get(version, [])
    return bool(tables) and all(len(np.unique(table.argmax(1))) == 1 for table in tables)


_remembered: dict[
    str, RunPredictions
] = {}  # by the digest of a scores.json; the last used come last


def predicted(scores_path: Path) -> RunPredictions:
    """The predictions next to a scores.json, as the method's first view shows the images.

    Several tests look at the same runs in turn, so as many are remembered as ROOM holds.
    """
    digest = sha256(scores_path)  # at the same path another run may have been scored meanwhile
    images = _remembered.pop(digest, None)
    if images is None:
        images = _read(scores_path)
        while _remembered and images.nbytes + _bytes_remembered() > ROOM:
            oldest = next(iter(_remembered))
            del _remembered[oldest]
    _remembered[digest] = images
    return images


def _bytes_remembered() -> int:
    return sum(images.nbytes for images in _remembered.values())


def _read(scores_path: Path) -> RunPredictions:
    record = manifest.read(scores_path, "scores")
    if record.options.get("federated"):
        return _of_counts(scores_path, record)
    stored = predictions.read(scores_path.parent / "predictions.h5")
    owner = stored.id if stored.unit is None else stored.unit
    order, units = _order(
        stored.id.tobytes(),
        stored.id.dtype.str,
        owner.tobytes(),
        owner.dtype.str,
    )
    models = [stored.logits] if stored.logits else list(stored.clients.values())
    tables: dict[str, list[np.ndarray]] = {}
    last: dict[str, list[np.ndarray]] = {}
    for version in VERSIONS:
        if version in models[0]:
            tables[version] = []
            for round_number in models[0][version]:
                last[version] = [model[version][round_number][order] for model in models]
                tables[version] += last[version]
    groups_in_order = {name: groups[order] for name, groups in stored.groups.items()}
    return RunPredictions(
        id=stored.id[order],
        y=stored.y[order],
        units=units,
        by_patient=stored.unit is not None,
        attributes=record.body["attributes"],
        groups=groups_in_order,
        tables=tables,
        last=last,
    )


@lru_cache(maxsize=4)  # most runs answer for the same images
def _order(
    ids: bytes,
    id_type: str,
    units: bytes,
    unit_type: str,
) -> tuple[np.ndarray, np.ndarray]:
    """Indices that sort the images by id [N], and each image's unit by number [N]."""
    order = np.argsort(np.frombuffer(ids, id_type))
    sorted_units = np.frombuffer(units, unit_type)[order]
    unit_numbers = np.unique(sorted_units, return_inverse=True)[1]
    return order, unit_numbers


Rebuilt = dict[str, list[dict[str, predictions.Rebuilt]]]  # for each version and round, by key


def _of_counts(scores_path: Path, record: manifest.Manifest) -> RunPredictions:
    """The images that are made from the counts of sites, of all images and of each attribute's
    groups.
    """
    rebuilt = predictions.read_rebuilt(scores_path.parent / predictions.REBUILT)
    whole = _of_keys(rebuilt, record, ["all"])
    by_attribute = {}
    for attribute, values in record.body["attributes"].items():
        keys = [f"{attribute}/{index}" for index in range(len(values))]
        by_attribute[attribute] = _of_keys(rebuilt, record, keys, attribute)
    return replace(whole, by_attribute=by_attribute)


def _of_keys(
    rebuilt: Rebuilt,
    record: manifest.Manifest,
    keys: list[str],
    attribute: str = "",
) -> RunPredictions:
    """The images of some keys of the counts, one after another; each key is a group of the
    attribute.
    """
    labels = [rebuilt["clean"][0][key][1] for key in keys]
    y = np.concatenate(labels)
    images_of_keys = [len(of_key) for of_key in labels]
    group_index = np.repeat(np.arange(len(keys)), images_of_keys)
    tables: dict[str, list[np.ndarray]] = {}
    for version in VERSIONS:
        if version in rebuilt:
            tables[version] = []
            for tally in rebuilt[version]:
                logits = [tally[key][0] for key in keys]
                tables[version].append(np.concatenate(logits))
    # all runs of one federation get the same ids
    partition = str(record.body["data"]["partition"])
    ids = np.array([f"{partition} {number}" for number in range(len(y))])
    groups = {attribute: group_index} if attribute else {}
    last_rounds = {version: rounds[-1:] for version, rounds in tables.items()}
    return RunPredictions(
        id=ids,
        y=y,
        units=np.arange(len(y)),
        by_patient=False,
        attributes=record.body["attributes"],
        groups=groups,
        tables=tables,
        last=last_rounds,
        counted=True,
    )


def can_resample(pairs: Pairs, where: Where) -> bool:
    """Tell whether a score can be resampled.

    Counts do not reveal which images of two versions, or which probabilities of classes, belong
    together.
    """
    for run, _ in pairs:
        images = predicted(run.path)
        if images.counted and not _counts_suffice(images, where):
            return False
    return True


def _counts_suffice(images: RunPredictions, where: Where) -> bool:
    if where.version not in images.tables:
        return False
    two_classes = images.tables[where.version][0].shape[1] == 2
    return predictions.by_image(where.metric) or two_classes
