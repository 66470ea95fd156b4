"""Which runs are one system, which runs of two systems make a pair, and what differs before any score.

A system is a method in one setting, trained with one seed or several. Two runs of different systems are a pair where
their seeds are equal, of training and of the data (and the fold, where folds take the place of seeds).
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..data import manifest
from ..errors import FedcliError
from . import predictions

DRAWN = "seed", "fold"  # options that only say which of several draws a run or its data is
VERSIONS = "clean", "corrupted", "average"

Body = dict[str, Any]


@dataclass(frozen=True)
class Scored:
    """A run's scores.json and where it lies."""

    path: Path
    body: Body

    @property
    def draw(self) -> str:
        """Which draw of training and data this is: runs of two systems are paired by it."""
        stages = {kind: _draw(stage["options"]) for kind, stage in self.body["data"].items() if stage}
        return json.dumps([_draw(self.body["options"]), stages], sort_keys=True)

    @property
    def seed(self) -> Any:
        return self.body["options"].get("seed")


@dataclass(frozen=True)
class Answers:
    """Predictions in the order of their ids.

    units: [N], the patient of each image by number. tables: version -> logits [N, C] of each model in each kept round.
    last: version -> those of the last round's models.
    """

    id: np.ndarray
    y: np.ndarray
    units: np.ndarray
    by_patient: bool
    groups: dict[str, np.ndarray]
    tables: dict[str, list[np.ndarray]]
    last: dict[str, list[np.ndarray]]


def systems(paths: Iterable[Path]) -> list[list[Path]]:
    """Scores whose runs differ in nothing but seeds and folds, together, in the order in which they first come."""
    found: dict[str, list[Path]] = {}
    for path in paths:
        body = manifest.read(path, "scores").body
        stages = {kind: stage and _asked(stage["options"]) for kind, stage in body["data"].items()}
        alike = [_named(body), body["settings"], _asked(body["options"]), stages]
        found.setdefault(json.dumps(alike, sort_keys=True), []).append(path)
    return list(found.values())


def settings(a: Body, b: Body) -> list[dict[str, str]]:
    """What differs before any score: what, and its value in each; "-" where one does not have it."""
    same = a["method"] == b["method"]  # options of two methods are not the same options
    one, two = (_flat(body) | (body["settings"] if same else _own(body)) for body in (a, b))
    names = dict.fromkeys([*one, *two])
    pairs = {name: (one.get(name, "-"), two.get(name, "-")) for name in names}
    return [{"what": k, "a": _brief(x), "b": _brief(y)} for k, (x, y) in pairs.items() if x != y]


def read(paths: list[Path]) -> list[Scored]:
    """Scores, every hash above them checked. Raises FedcliError, HashError."""
    if not paths:
        raise FedcliError("there is no run to compare", "give the scores of at least one run of each system")
    return [Scored(path, manifest.verify(path, "scores").body) for path in paths]


def _named(body: Body) -> dict[str, Any]:
    """What is asked of a run beside settings and options."""
    model = {f"model {key}": (body.get("model") or {}).get(key) for key in ("name", "size", "channels", "precision")}
    keys = {"method": "label", "rule": "rule", "rounds": "rounds", "clients": "roster_size", "dataset": "dataset"}
    return {name: body[key] for name, key in keys.items()} | model


def _flat(body: Body) -> dict[str, Any]:
    stages = [(kind, stage) for kind, stage in body["data"].items() if stage]
    options = {f"{kind} {key}": value for kind, stage in stages for key, value in stage["options"].items()}
    return _named(body) | body["options"] | options


def _own(body: Body) -> dict[str, str]:
    told = ", ".join(f"{key}={value}" for key, value in body["settings"].items() if key != "rule")
    return {"method settings": told or "none"}


def _brief(value: Any) -> str:
    text = str(value)
    return text[:8] if len(text) == 64 and set(text) <= set("0123456789abcdef") else text


def _draw(options: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if key in DRAWN}


def _asked(options: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if key not in DRAWN}


def paired(a: list[Scored], b: list[Scored]) -> tuple[list[tuple[Scored, Scored]], list[str]]:
    """Runs of equal draws, their test sets checked, and what a reader must know of it."""
    one, two = _by_draw(a), _by_draw(b)
    if len(a) == len(b) == 1 and one.keys() != two.keys():
        pairs, notes = [(a[0], b[0])], ["the two runs do not have the same seeds: they differ in their draw as well"]
    else:
        shared = sorted((draw for draw in one if draw in two), key=lambda draw: one[draw].seed)
        pairs, notes = [(one[draw], two[draw]) for draw in shared], _left_out(one, two)
    if not pairs:
        seeds = [", ".join(sorted({str(run.seed) for run in runs})) for runs in (a, b)]
        what = f"no run of {a[0].body['label']} and of {b[0].body['label']} has the same seeds"
        raise FedcliError(f"{what} (of training: {seeds[0]}; {seeds[1]})", "train both with the same seeds")
    for pair in pairs:
        _check_same_test(*pair)
    unlike = [kind for kind in ("partition", "corruption") if any(_sha(x, kind) != _sha(y, kind) for x, y in pairs)]
    if unlike:
        notes.append(f"the systems do not share the same {' and '.join(unlike)}: the scores compare more than methods")
    return pairs, notes


def _sha(run: Scored, kind: str) -> str | None:
    stage = run.body["data"].get(kind)
    return stage and stage["sha256"]


def _by_draw(runs: list[Scored]) -> dict[str, Scored]:
    found: dict[str, Scored] = {}
    for run in runs:
        if run.draw in found:
            what = f"{found[run.draw].path} and {run.path} are of one system and the same seed"
            raise FedcliError(what, "give each run once")
        found[run.draw] = run
    return found


def _left_out(one: dict[str, Scored], two: dict[str, Scored]) -> list[str]:
    alone = [run for mine, others in ((one, two), (two, one)) for draw, run in mine.items() if draw not in others]
    told = ", ".join(f"{run.body['label']} seed {run.seed}" for run in alone)
    return [f"left out, as the other system has no run of these seeds: {told}"] if alone else []


def _check_same_test(a: Scored, b: Scored) -> None:
    one, two = (answers(run.path) for run in (a, b))
    if not np.array_equal(one.id, two.id):
        shared = len(np.intersect1d(one.id, two.id))
        what = f"{a.path} and {b.path} are not of the same test images: {shared} of {len(one.id)} and {len(two.id)}"
        raise FedcliError(f"{what} are shared", "compare runs on one dataset and one split")
    if not np.array_equal(one.y, two.y) or not np.array_equal(one.units, two.units):
        what = f"{a.path} and {b.path} name other classes or patients for the same test images"
        raise FedcliError(what, "evaluate both runs again, on one dataset")


def size_of_test(runs: Iterable[Scored]) -> dict[str, Any]:
    """How many images and patients a comparison stands on; folds have test sets of their own, which add up."""
    sets = {found.id.tobytes(): found for found in (answers(run.path) for run in runs)}.values()
    unit = "patient or lesion" if all(found.by_patient for found in sets) else "image"
    return {
        "test_images": sum(len(found.y) for found in sets),
        "unit": unit,
        "units": sum(len(np.unique(found.units)) for found in sets),
    }


@lru_cache(maxsize=8)  # a pair is looked at by several tests in turn
def answers(scores: Path) -> Answers:
    """The predictions beside a scores.json, as the method's first view shows the images."""
    found = predictions.read(scores.parent / "predictions.h5")
    at = np.argsort(found.id)
    units = found.id if found.unit is None else found.unit
    whose = [found.logits] if found.logits else list(found.clients.values())
    versions = [version for version in VERSIONS if version in whose[0]]
    kept = {v: [[rounds[v][r][at] for rounds in whose] for r in whose[0][v]] for v in versions}
    return Answers(
        found.id[at],
        found.y[at],
        np.unique(units[at], return_inverse=True)[1],
        found.unit is not None,
        {name: groups[at] for name, groups in found.groups.items()},
        {v: [table for tables in rounds for table in tables] for v, rounds in kept.items()},
        {v: rounds[-1] for v, rounds in kept.items()},
    )
