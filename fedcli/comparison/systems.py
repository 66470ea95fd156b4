"""Systems: a method in one setting, trained once or several times, with the runs of each.

Runs are one system where they differ in nothing but seeds and folds, those of training and those of
the data. Report, compare, plots and pages all group runs by `identity`.
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
from ..scores.scores import RunScores
from ..scores.table import Score, Where

DRAWN = "seed", "fold"  # options that only say which of several draws a run or its data is
MODEL = "name", "size", "channels", "precision"  # in which two networks differ

REFERENCE = "fedavg"  # the method that others are compared with, where it is among them

LAST5, LAST, BEST = "last5", "last", "best"  # the rounds that a number is of

NOT_THE_METHOD = "a difference may be due to that and not to the method"

T = TypeVar("T")


@dataclass(frozen=True)
class Scored:
    """A run's scores.json: its path, the options of evaluate, and the scores."""

    path: Path
    options: Mapping[str, Any]
    scores: RunScores

    @cached_property
    def nested(self) -> dict[str, Any]:
        """All numbers of the run as one object, which recipes address by path."""
        return nested(self.scores)

    @cached_property
    def asked(self) -> dict[str, Any]:
        """All options of the run and of its data, by name; a stage's options have its name in
        front.
        """
        run = self.scores
        return _facts(run) | run.settings | run.options | data_options(run)

    @cached_property
    def identity(self) -> str:
        """A text that is equal for all runs of one system."""
        return identity(self.asked)

    @cached_property
    def draw(self) -> str:
        """A text that is equal for runs of the same seeds and folds, of training and of the data.

        Runs are paired by it.
        """
        names = [name for name in sorted(self.asked) if last(name) in DRAWN]
        return json.dumps({name: self.asked[name] for name in names})

    @property
    def seed(self) -> Any:
        return self.scores.options.get("seed")

    @property
    def fold(self) -> int | None:
        dataset = self.scores.data.get("dataset")
        return dataset.options.get("fold") if dataset else None

    @property
    def which(self) -> str:
        """The run's fold, if it has one, its seed, and the seeds of its data other than 0, in
        words.
        """
        draws = {"seed": self.seed}
        if self.fold is not None:
            draws = {"fold": self.fold, "seed": self.seed}
        for name, value in data_options(self.scores).items():
            if last(name) == "seed" and value:
                draws[name] = value
        return ", ".join(f"{name} {value}" for name, value in draws.items())

    def sha256(self, kind: str) -> str | None:
        """The hash of a stage of its data; None where there is no such stage."""
        stage = self.scores.data.get(kind)
        return stage.sha256 if stage else None

    def score(self, where: Where) -> Score | None:
        """A score of all images, of a group or between the groups; None where the run does not have
        it.
        """
        if not where.attribute:
            return self.scores.versions.get(where.version, {}).get(where.metric)
        if where.group:
            scores_by_metric = self.scores.groups[where.attribute].get(where.version, {})
            return scores_by_metric.get(where.metric, {}).get(where.group)
        part = self.scores.part()
        return part.lies(
            where.attribute,
            where.version,
            where.metric,
            where.measure,
        )

    def rounds(self, where: Where) -> list[float] | None:
        """A score in each kept round; None where the run does not have it."""
        score = self.number(where)
        if score is None:
            return None
        return [value for value in score.values if value is not None]

    def number(self, where: Where) -> Score | None:
        """A score that has a mean over the kept rounds; None where the run does not have it."""
        if where.attribute and not views.compared(where.metric):
            return None
        score = self.score(where)
        if score is None or score.mean is None:
            return None
        return score


Pairs = list[tuple[Scored, Scored]]


def read(paths: Iterable[Path]) -> list[Scored]:
    """The scores of runs, with every hash above them checked. Raises FedcliError, HashError.

    If another evaluation of the same run and test images has operating points, these come with
    them.
    """
    runs = []
    for path in paths:
        record = manifest.verify(path, "scores")
        scores = RunScores.of(record.body, path)
        clinical_path = with_operating_points(path)
        if clinical_path and clinical_path != path:
            scores = replace(scores, clinical=RunScores.read(clinical_path).clinical)
        runs.append(Scored(path, record.options, scores))
    return runs


def refuse_mixed(runs: Iterable[Scored]) -> None:
    """Raises UsageError where some runs are of a synthetic sample and others of real data."""
    by_kind = {bool(run.scores.sample): run for run in runs}
    if len(by_kind) > 1:
        synthetic_path = by_kind[True].path
        real_path = by_kind[False].path
        raise UsageError(
            "some of these runs are on a SYNTHETIC sample and others on real data: "
            f"{synthetic_path} and {real_path}, for example",
            "name runs of one kind, or keep the sample's under a --work of their own",
        )


def settled(options: Mapping[str, Any], without: Sequence[str] = ()) -> dict[str, Any]:
    """Options without seeds, folds and those named in `without`."""
    excluded = (*DRAWN, *without)
    return {name: options[name] for name in sorted(options) if last(name) not in excluded}


def identity(options: Mapping[str, Any], without: Sequence[str] = ()) -> str:
    """A text that is equal for all runs of one system."""
    return json.dumps(settled(options, without), default=str)


def last(key: str) -> str:
    """An option's own name, without its stage's."""
    return key.rpartition(" ")[2]


def grouped(items: Iterable[T], key: Callable[[T], Any]) -> list[list[T]]:
    """Items of equal keys together, in the order in which they first come."""
    groups: dict[Any, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def shared_parts(labels: Sequence[str]) -> list[str]:
    """Parts behind the method's own name that the labels of several systems share."""
    parts, *others = [label.split(", ")[1:] for label in labels]
    if not others:
        return []
    for other in others:
        parts = [part for part in parts if part in other]
    return parts


def without_parts(label: str, shared: Sequence[str]) -> str:
    """A label without the parts that others share."""
    return ", ".join(part for part in label.split(", ") if part not in shared)


def settings(a: RunScores, b: RunScores) -> list[dict[str, str]]:
    """Differences before any score: the setting, and its value in each; "-" where one does not have
    it.
    """
    same_method = a.method == b.method
    values_a, values_b = [_settings_of(run, same_method=same_method) for run in (a, b)]
    differences = []
    for name in dict.fromkeys([*values_a, *values_b]):
        value_a = values_a.get(name, "-")
        value_b = values_b.get(name, "-")
        if value_a != value_b:
            differences.append({"what": name, "a": brief(value_a), "b": brief(value_b)})
    return differences


def _settings_of(run: RunScores, *, same_method: bool) -> dict[str, Any]:
    """All settings of a run; the method's as one text if another method is compared."""
    settings = _facts(run) | run.options | data_options(run)
    if same_method:
        return settings | run.settings
    of_method = [f"{name}={value}" for name, value in run.settings.items() if name != "rule"]
    return settings | {"method settings": ", ".join(of_method) or "none"}


def brief(value: Any) -> str:
    """A hash by its first digits, a float without a final ".0", own code by file and hash, all else
    as it is.
    """
    if isinstance(value, dict):
        return " ".join(map(brief, value.values()))
    text = str(value)
    if isinstance(value, float):
        text = text.removesuffix(".0")
    hex_digits = set("0123456789abcdef")
    is_hash = len(text) == 64 and set(text) <= hex_digits
    return text[:8] if is_hash else text


def _facts(run: RunScores) -> dict[str, Any]:
    facts = {
        "method": run.label,
        "rule": run.rule,
        "rounds": run.rounds,
        "clients": run.roster_size,
    }
    if run.external:
        facts["tested on"] = f"{run.external.dataset} {run.external.sha256[:8]}"
    facts["dataset"] = run.dataset
    for key in MODEL:
        facts[f"model {key}"] = run.model.get(key)
    return facts


def data_options(run: RunScores) -> dict[str, Any]:
    """The options of the stages of a run's data, with the stage in front of each name."""
    options = {}
    for kind, stage in run.data.items():
        if stage:
            for name, value in stage.options.items():
                options[f"{kind} {name}"] = value
    return options
