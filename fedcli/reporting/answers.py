"""What the models of runs answer, image by image, and where two systems answer differently."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from ..data import manifest
from ..io.files import sha256
from ..metrics import Task, apart, get
from ..metrics.metric import DECISIONS, PROBABILITIES
from ..scores import predictions, rebuilt
from ..scores.parts import VERSIONS
from .systems import Pairs, Scored

ROOM = 2**28  # bytes of the answers that are remembered


@dataclass(frozen=True)
class Answers:
    """Predictions in the order of their ids.

    units: [N], the patient of each image by number. tables: version -> logits [N, C] of each model in each kept round.
    last: version -> those of the last round's models.
    counted: whether sites counted. The images are then made from counts (evaluation/rebuilt.py), those of two systems
        are not paired.
    by_attribute: of counts, the images of each attribute's groups; else {}.
    """

    id: np.ndarray
    y: np.ndarray
    units: np.ndarray
    by_patient: bool
    groups: dict[str, np.ndarray]
    tables: dict[str, list[np.ndarray]]
    last: dict[str, list[np.ndarray]]
    counted: bool = False
    by_attribute: Mapping[str, "Answers"] = field(default_factory=dict)

    @cached_property
    def nbytes(self) -> int:
        """Of its tables, and about that of its texts."""
        tables = [table for kept in self.tables.values() for table in kept]
        return sum(array.nbytes for array in (self.id, self.y, self.units, *self.groups.values(), *tables))

    def of(self, attribute: str) -> "Answers":
        """Where the groups of an attribute are."""
        return self.by_attribute[attribute] if self.counted else self


def differing(pairs: Pairs, metric: str, version: str, images: Callable[[Scored], np.ndarray] | None = None) -> int:
    """How many patients the two systems answer differently, as far as a metric can show, over all pairs together.

    images: of a run, which of its images count: bool [N]; None for all. Counts do not say which images the two differ
    in: all of them may.
    """
    sets: dict[bytes, list[np.ndarray]] = {}
    units, counted = {}, {}
    for a, b in pairs:
        first = answers(a.path)
        if first.counted:
            counted[first.id.tobytes()] = len(first.y) if images is None else int(images(a).sum())
            continue
        before, after = (_marks(run.path, sha256(run.path), metric, version) for run in (a, b))  # [N, K] each
        difference = after - before
        key = first.id.tobytes()
        sets.setdefault(key, []).append(difference if images is None else difference * images(a)[:, None])
        units[key] = first.units
    moved = {key: apart(np.mean(parts, axis=0), 0.0).any(1) for key, parts in sets.items()}  # [N]
    return sum(len(np.unique(units[key][at])) for key, at in moved.items()) + sum(counted.values())


@lru_cache(maxsize=64)  # a reference is set beside many systems, in some seeds, versions and metrics
def _marks(scores: Path, _: str, metric: str, version: str) -> np.ndarray:
    """What a metric sees of each image, mean over the models that answer: right or not [N, 1], else [N, C]."""
    answered = answers(scores)
    versions = list(answered.tables) if version == "average" else [version]
    return np.mean([_mark(table, answered.y, metric) for v in versions for table in answered.tables[v]], axis=0)


def _mark(table: np.ndarray, y: np.ndarray, metric: str) -> np.ndarray:
    sees, task = get(metric).sees, Task.of(y)
    if sees == PROBABILITIES:
        return task.probabilities(table)
    if sees == DECISIONS and not task.several:
        return np.eye(table.shape[1])[table.argmax(1)]
    return task.right(table, y).astype(np.float64)


def one_class(runs: Iterable[Scored], version: str) -> str:
    """Where the last models answer one class for every image, in words; "" where they do not.

    version: "average" for all that there are.
    """
    runs, parts = list(runs), []
    for v in VERSIONS if version == "average" else [version]:
        stuck = [run for run in runs if _is_stuck(answers(run.path), v)]
        which = f" ({'; '.join(run.which for run in stuck)})" if len(stuck) < len(runs) else ""
        parts += [f"every {v} image{which}"] if stuck else []
    return f"answers one class for {' and '.join(parts)}" if parts else ""


def _is_stuck(answered: Answers, version: str) -> bool:
    tables = answered.last.get(version, [])
    if answered.y.ndim == 2:  # to find nothing in every image may be right for every rare label
        return False
    return len(np.unique(answered.y)) > 1 and bool(tables) and all(len(np.unique(t.argmax(1))) == 1 for t in tables)


_known: dict[str, Answers] = {}  # by the digest of a scores.json; those that were asked for last come last


def answers(scores: Path) -> Answers:
    """The predictions beside a scores.json, as the method's first view shows the images.

    Runs are looked at by several tests in turn, so as many are remembered as ROOM holds.
    """
    digest = sha256(scores)  # at the same path another run may have been scored meanwhile
    known = _known.pop(digest, None)
    if known is None:
        known = _read(scores)
        while _known and known.nbytes + sum(each.nbytes for each in _known.values()) > ROOM:
            del _known[next(iter(_known))]
    _known[digest] = known
    return known


def _read(scores: Path) -> Answers:
    if manifest.read(scores, "scores").options.get("federated"):
        return _of_counts(scores)
    kept_predictions = predictions.read(scores.parent / "predictions.h5")
    ids = kept_predictions.id
    at, units = _order(_Names(ids), _Names(ids if kept_predictions.unit is None else kept_predictions.unit))
    whose = [kept_predictions.logits] if kept_predictions.logits else list(kept_predictions.clients.values())
    versions = [version for version in VERSIONS if version in whose[0]]
    kept = {v: [[rounds[v][r][at] for rounds in whose] for r in whose[0][v]] for v in versions}
    return Answers(
        ids[at],
        kept_predictions.y[at],
        units,
        kept_predictions.unit is not None,
        {name: groups[at] for name, groups in kept_predictions.groups.items()},
        {v: [table for tables in rounds for table in tables] for v, rounds in kept.items()},
        {v: rounds[-1] for v, rounds in kept.items()},
    )


class _Names:
    """Texts [N] that a cache can compare."""

    def __init__(self, texts: np.ndarray):
        self.texts = texts

    def __hash__(self) -> int:
        return hash(self.texts[:1].tobytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Names) and np.array_equal(self.texts, other.texts)


@lru_cache(maxsize=4)  # most runs answer for the same images
def _order(ids: _Names, units: _Names) -> tuple[np.ndarray, np.ndarray]:
    """Where the images in the order of their ids are [N], and each one's unit by number [N]."""
    at = np.argsort(ids.texts)
    return at, np.unique(units.texts[at], return_inverse=True)[1]


def _of_counts(scores: Path) -> Answers:
    """Images made from the counts of sites."""
    kept, body = rebuilt.read(scores.parent / rebuilt.FILE), manifest.read(scores).body
    data = str(body["data"]["partition"])

    def made(keys: list[str], attribute: str = "") -> Answers:
        labels = [kept["clean"][0][key][1] for key in keys]
        y, groups = np.concatenate(labels), np.repeat(np.arange(len(keys)), [len(part) for part in labels])
        tables = {
            v: [np.concatenate([tallied[key][0] for key in keys]) for tallied in kept[v]] for v in VERSIONS if v in kept
        }
        images = np.array([f"{data} {k}" for k in range(len(y))])  # of one federation those of all its runs
        codes, last = {attribute: groups} if attribute else {}, {v: rounds[-1:] for v, rounds in tables.items()}
        return Answers(images, y, np.arange(len(y)), False, codes, tables, last, counted=True)

    parts = {name: [f"{name}/{g}" for g in range(len(values))] for name, values in body["attributes"].items()}
    return replace(made(["all"]), by_attribute={name: made(keys, name) for name, keys in parts.items()})


def resampled(pairs: Pairs, metric: str, version: str) -> bool:
    """Whether a score can be resampled: counts do not say which images of two versions, or chances of several classes,
    belong together."""
    counted = [answers(run.path) for run, _ in pairs if answers(run.path).counted]
    return all(
        version in known.tables and (rebuilt.by_image(metric) or known.tables[version][0].shape[1] == 2)
        for known in counted
    )
