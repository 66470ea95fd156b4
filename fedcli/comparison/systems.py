"""Systems: a method in one setting, trained once or several times; the runs of each, and what is compared of them.

Runs are one system where they differ in nothing but seeds and folds, those of training and those of the data. Report,
compare, plots and pages all group runs by `identity`.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from ..data import manifest
from ..errors import UsageError
from ..scores import views
from ..scores.existing import with_operating_points
from ..scores.nested import nested
from ..scores.scores import Scores
from ..scores.table import Score, Where

DRAWN = "seed", "fold"  # options that only say which of several draws a run or its data is
MODEL = "name", "size", "channels", "precision"  # in which two networks differ

LAST5, LAST, BEST = "last5", "last", "best"  # the rounds that a number is of

NOT_THE_METHOD = "a difference may be due to that and not to the method"

T = TypeVar("T")


@dataclass(frozen=True)
class Scored:
    """A run's scores.json: where it lies, what evaluate was asked for, and the scores."""

    path: Path
    options: Mapping[str, Any]
    scores: Scores

    @cached_property
    def nested(self) -> dict[str, Any]:
        """All of its numbers as one object, in which the places of recipes' columns are."""
        return nested(self.scores)

    @cached_property
    def asked(self) -> dict[str, Any]:
        """All that a run and its data were asked for, by name; a stage's options have its name in front."""
        return (
            _about(self.scores) | self.scores.settings | self.scores.options | _of_data(self.scores)
        )

    @cached_property
    def identity(self) -> str:
        """Equal for all runs of one system."""
        return identity(self.asked)

    @cached_property
    def draw(self) -> str:
        """Equal for runs of the same seeds and folds, of training and of the data: runs are paired by it."""
        return json.dumps(
            {key: self.asked[key] for key in sorted(self.asked) if last(key) in DRAWN}
        )

    @property
    def seed(self) -> Any:
        return self.scores.options.get("seed")

    @property
    def fold(self) -> int | None:
        dataset = self.scores.data.get("dataset")
        return dataset.options.get("fold") if dataset else None

    @property
    def which(self) -> str:
        """Its fold, where it has one, its seed, and those seeds of its data that are not 0, in words."""
        seeds = {"seed": self.seed} | {
            k: v for k, v in _of_data(self.scores).items() if last(k) == "seed" and v
        }
        fold = {} if self.fold is None else {"fold": self.fold}
        return ", ".join(f"{name} {value}" for name, value in (fold | seeds).items())

    def sha256(self, kind: str) -> str | None:
        """The hash of a stage of its data; None where there is no such stage."""
        stage = self.scores.data.get(kind)
        return stage.sha256 if stage else None

    def score(self, of: Where) -> Score | None:
        """A score of all images, of a group or between the groups; None where the run does not have it."""
        if not of.attribute:
            return self.scores.versions.get(of.version, {}).get(of.metric)
        if of.group:
            return (
                self.scores.groups[of.attribute]
                .get(of.version, {})
                .get(of.metric, {})
                .get(of.group)
            )
        return self.scores.part().lies(of.attribute, of.version, of.metric, of.measure)

    def rounds(self, of: Where) -> list[float] | None:
        """A score in each kept round; None where the run does not have it."""
        known = self.number(of)
        return None if known is None else [value for value in known.values if value is not None]

    def number(self, of: Where) -> Score | None:
        """A score that has a mean over the kept rounds; None where the run does not have it."""
        if of.attribute and not views.compared(of.metric):
            return None
        score = self.score(of)
        return score if score and score.mean is not None else None


Pairs = list[tuple[Scored, Scored]]


def read(paths: Iterable[Path]) -> list[Scored]:
    """Scores, every hash above them checked. Raises FedcliError, HashError.

    With the operating points of the same run and test images, where an evaluation of its own has them.
    """
    runs = []
    for path in paths:
        whole = manifest.verify(path, "scores")
        scores = Scores.of(whole.body, path)
        clinical = with_operating_points(path)
        if clinical and clinical != path:
            scores = replace(scores, clinical=Scores.read(clinical).clinical)
        runs.append(Scored(path, whole.options, scores))
    return runs


def refuse_mixed(runs: Iterable[Scored]) -> None:
    """Raises UsageError where some runs are of a synthetic sample and others of real data."""
    by_kind = {bool(run.scores.sample): run for run in runs}
    if len(by_kind) > 1:
        raise UsageError(
            "some of these runs are of a SYNTHETIC sample and others of real data: "
            f"{by_kind[True].path} and {by_kind[False].path}, for example",
            "name runs of one kind, or keep the sample's under a --work of their own",
        )


def settled(asked: Mapping[str, Any], without: Sequence[str] = ()) -> dict[str, Any]:
    """Requests but for seeds, folds and the options named in `without`."""
    return {key: asked[key] for key in sorted(asked) if last(key) not in (*DRAWN, *without)}


def identity(asked: Mapping[str, Any], without: Sequence[str] = ()) -> str:
    """Equal for all runs of one system."""
    return json.dumps(settled(asked, without), default=str)


def last(key: str) -> str:
    """An option's own name, without its stage's."""
    return key.rpartition(" ")[2]


def grouped(items: Iterable[T], key: Callable[[T], Any]) -> list[list[T]]:
    """Items of equal keys together, in the order in which they first come."""
    groups: dict[Any, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def settings(a: Scores, b: Scores) -> list[dict[str, str]]:
    """Differences before any score: what, and its value in each; "-" where one does not have it."""
    sides = []
    for run in (a, b):
        asked: dict[str, Any] = run.settings
        if a.method != b.method:  # options of two methods are not the same options
            values = ", ".join(
                f"{key}={value}" for key, value in run.settings.items() if key != "rule"
            )
            asked = {"method settings": values or "none"}
        sides.append(_about(run) | run.options | _of_data(run) | asked)
    first, second = sides
    pairs = {
        name: (first.get(name, "-"), second.get(name, "-"))
        for name in dict.fromkeys([*first, *second])
    }
    return [{"what": k, "a": brief(x), "b": brief(y)} for k, (x, y) in pairs.items() if x != y]


def brief(value: Any) -> str:
    """A hash by its first digits, a number without idle zeros, own code by file and hash, all else as it is."""
    if isinstance(value, dict):
        return " ".join(map(brief, value.values()))
    text = str(value).removesuffix(".0") if isinstance(value, float) else str(value)
    return text[:8] if len(text) == 64 and set(text) <= set("0123456789abcdef") else text


def _about(run: Scores) -> dict[str, Any]:
    about = {
        "method": run.label,
        "rule": run.rule,
        "rounds": run.rounds,
        "clients": run.roster_size,
    }
    about |= (
        {"tested on": f"{run.external.dataset} {run.external.sha256[:8]}"} if run.external else {}
    )
    return about | {"dataset": run.dataset} | {f"model {key}": run.model.get(key) for key in MODEL}


def _of_data(run: Scores) -> dict[str, Any]:
    stages = [(kind, stage) for kind, stage in run.data.items() if stage]
    return {
        f"{kind} {key}": value for kind, stage in stages for key, value in stage.options.items()
    }
