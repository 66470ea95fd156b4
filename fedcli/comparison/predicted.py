"""Predictions of runs, image by image, and the patients whom two systems answer differently."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from ..data import manifest
from ..io.files import sha256
from ..metrics import Grouping, Task, apart, get
from ..metrics.metric import DECISIONS, PROBABILITIES
from ..scores import predictions
from ..scores.groups import grouping
from ..scores.parts import AVERAGE, VERSIONS
from ..scores.table import Where
from .systems import Pairs, Scored

ROOM = 2**28  # bytes of the predictions that are remembered


@dataclass(frozen=True)
class Predicted:
    """Predictions in the order of the images' ids.

    Attributes:
        units: [N], the patient of each image by number.
        attributes: attribute -> its groups' names. groups: attribute -> the place of each image's group, -1 for none.
        tables: version -> logits [N, C] of each model in each kept round. last: those of the last round's models.
        counted: whether sites counted. The images are then made from counts (scores/predictions.py), and those of two
            systems are not paired.
        by_attribute: of counts, the images of each attribute's groups; else {}.
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
    by_attribute: Mapping[str, "Predicted"] = field(default_factory=dict)

    @cached_property
    def nbytes(self) -> int:
        """Of its tables, and about that of its texts."""
        tables = [table for kept in self.tables.values() for table in kept]
        return sum(
            array.nbytes for array in (self.id, self.y, self.units, *self.groups.values(), *tables)
        )

    def of(self, attribute: str) -> "Predicted":
        """The images that an attribute's groups are of; "" for all."""
        return self.by_attribute.get(attribute, self)

    def grouping(self, attribute: str) -> Grouping:
        """The place of each image's group [N], -1 for none, and the groups' names; of crossed attributes too."""
        return grouping(attribute, self.of(attribute).groups, self.attributes)

    def members(self, of: Where) -> np.ndarray:
        """The images that a score is of: bool [N]."""
        if not of.attribute:
            return np.full(len(self.y), True)
        places, names = self.grouping(of.attribute)
        return places == names.index(of.group) if of.group else places >= 0


def differing(pairs: Pairs, of: Where) -> int:
    """The number of patients that two systems answer differently, as far as a metric can show, over all pairs together.

    Counts do not say which images the two differ in: all of them may.
    """
    sets: dict[bytes, list[np.ndarray]] = {}
    units, counted = {}, {}
    for a, b in pairs:
        first = predicted(a.path)
        key, members = first.id.tobytes(), first.members(of)
        if first.counted:
            counted[key] = int(members.sum())
            continue
        before, after = (
            _marks(run.path, sha256(run.path), of.metric, of.version) for run in (a, b)
        )  # [N, K] each
        sets.setdefault(key, []).append((after - before) * members[:, None])
        units[key] = first.units
    moved = {key: apart(np.mean(parts, axis=0), 0.0).any(1) for key, parts in sets.items()}  # [N]
    return sum(len(np.unique(units[key][at])) for key, at in moved.items()) + sum(counted.values())


@lru_cache(
    maxsize=64
)  # a reference is set beside many systems, in some seeds, versions and metrics
def _marks(scores: Path, _: str, metric: str, version: str) -> np.ndarray:
    """A metric's view of each image, mean over the models that answer: right or not [N, 1], else [N, C]."""
    found = predicted(scores)
    versions = list(found.tables) if version == AVERAGE else [version]
    return np.mean(
        [_mark(table, found.y, metric) for v in versions for table in found.tables[v]], axis=0
    )


def _mark(table: np.ndarray, y: np.ndarray, metric: str) -> np.ndarray:
    sees, task = get(metric).sees, Task.of(y)
    if sees == PROBABILITIES:
        return task.probabilities(table)
    if sees == DECISIONS and not task.several:
        return np.eye(table.shape[1])[table.argmax(1)]
    return task.right(table, y).astype(np.float64)


def one_class(runs: Sequence[Scored], version: str) -> str:
    """Where the last models answer one class for every image, in words; "" where they do not.

    version: "average" for all that there are. To find nothing in every image may be right for every rare label.
    """
    parts = []
    for v in VERSIONS if version == AVERAGE else [version]:
        stuck = []
        for run in runs:
            found = predicted(run.path)
            tables = (
                found.last.get(v, []) if found.y.ndim == 1 and len(np.unique(found.y)) > 1 else []
            )
            stuck += (
                [run]
                if tables and all(len(np.unique(table.argmax(1))) == 1 for table in tables)
                else []
            )
        which = f" ({'; '.join(run.which for run in stuck)})" if len(stuck) < len(runs) else ""
        parts += [f"every {v} image{which}"] if stuck else []
    return f"predicts one class for {' and '.join(parts)}" if parts else ""


_remembered: dict[
    str, Predicted
] = {}  # by the digest of a scores.json; those that were asked for last come last


def predicted(scores: Path) -> Predicted:
    """The predictions beside a scores.json, as the method's first view shows the images.

    Runs are looked at by several tests in turn, so as many are remembered as ROOM holds.
    """
    digest = sha256(scores)  # at the same path another run may have been scored meanwhile
    found = _remembered.pop(digest, None)
    if found is None:
        found = _read(scores)
        while (
            _remembered
            and found.nbytes + sum(other.nbytes for other in _remembered.values()) > ROOM
        ):
            del _remembered[next(iter(_remembered))]
    _remembered[digest] = found
    return found


def _read(scores: Path) -> Predicted:
    about = manifest.read(scores, "scores")
    if about.options.get("federated"):
        return _of_counts(scores, about)
    kept = predictions.read(scores.parent / "predictions.h5")
    owner = kept.id if kept.unit is None else kept.unit
    at, units = _order(kept.id.tobytes(), kept.id.dtype.str, owner.tobytes(), owner.dtype.str)
    models = [kept.logits] if kept.logits else list(kept.clients.values())
    versions = [version for version in VERSIONS if version in models[0]]
    rounds = {v: [[model[v][r][at] for model in models] for r in models[0][v]] for v in versions}
    return Predicted(
        kept.id[at],
        kept.y[at],
        units,
        kept.unit is not None,
        about.body["attributes"],
        {name: groups[at] for name, groups in kept.groups.items()},
        {v: [table for tables in each for table in tables] for v, each in rounds.items()},
        {v: each[-1] for v, each in rounds.items()},
    )


@lru_cache(maxsize=4)  # most runs answer for the same images
def _order(ids: bytes, id_type: str, units: bytes, unit_type: str) -> tuple[np.ndarray, np.ndarray]:
    """Where the images in the order of their ids are [N], and each one's unit by number [N]."""
    at = np.argsort(np.frombuffer(ids, id_type))
    return at, np.unique(np.frombuffer(units, unit_type)[at], return_inverse=True)[1]


def _of_counts(scores: Path, about: manifest.Manifest) -> Predicted:
    kept, attributes = (
        predictions.read_rebuilt(scores.parent / predictions.REBUILT),
        about.body["attributes"],
    )
    data = str(about.body["data"]["partition"])

    def images(keys: list[str], attribute: str = "") -> Predicted:
        labels = [kept["clean"][0][key][1] for key in keys]
        y, groups = (
            np.concatenate(labels),
            np.repeat(np.arange(len(keys)), [len(part) for part in labels]),
        )
        tables = {
            v: [np.concatenate([tallied[key][0] for key in keys]) for tallied in kept[v]]
            for v in VERSIONS
            if v in kept
        }
        ids = np.array(
            [f"{data} {k}" for k in range(len(y))]
        )  # of one federation those of all its runs
        codes, last = (
            {attribute: groups} if attribute else {},
            {v: rounds[-1:] for v, rounds in tables.items()},
        )
        return Predicted(
            ids, y, np.arange(len(y)), False, attributes, codes, tables, last, counted=True
        )

    parts = {
        name: [f"{name}/{g}" for g in range(len(values))] for name, values in attributes.items()
    }
    return replace(
        images(["all"]), by_attribute={name: images(keys, name) for name, keys in parts.items()}
    )


def can_resample(pairs: Pairs, of: Where) -> bool:
    """Tell whether a score can be resampled: counts do not say which images of two versions, or chances of classes,
    belong together."""
    counted = [found for run, _ in pairs if (found := predicted(run.path)).counted]
    return all(
        of.version in found.tables
        and (predictions.by_image(of.metric) or found.tables[of.version][0].shape[1] == 2)
        for found in counted
    )
