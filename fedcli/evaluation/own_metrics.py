"""Metrics of one's own: a function of probabilities, labels and groups, with intervals and groups as all scores have.

    function(probabilities float64 [N, C], labels int [N], groups: attribute -> the value of each image [N]) -> number

Of several labels per image the labels are [N, C] of 0, 1, and 2 where it is not known.

One whose name ends in _error, _cost or _loss is better when low. Each resample of the patients calls it once more, with
the resampled images.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from .. import extensions
from ..errors import FedcliError, UsageError, nearest
from ..extensions import Code
from ..metrics import better_low, chances
from .bootstrap import LEVEL, draw, interval
from .groups import across, spread
from .intervals import RESAMPLES, SEED, about
from .parts import METRICS, PARITY, BetweenRounds, Groups, GroupScores, Interval, Summary
from .rounds import Logits, mean_of_numbers, over_rounds
from .scores import Quality

Values = dict[str, np.ndarray]  # attribute -> the value of each image, "" where it is unknown
Grouping = tuple[np.ndarray, list[str]]  # of each image the place of its group among the values, -1 unknown


@dataclass(frozen=True)
class OwnMetric:
    """A metric with its name in tables. code: where its function comes from."""

    name: str
    function: Callable[[np.ndarray, np.ndarray, Values], float]
    code: Code

    def __call__(self, chance: np.ndarray, y: np.ndarray, groups: Values, at: np.ndarray) -> float | None:
        """Of the images `at`, an index [n]; None for no image, and where the function returns NaN or None."""
        if not len(at):
            return None
        value = self.function(chance[at], y[at], {name: column[at] for name, column in groups.items()})
        if value is None:
            return None
        try:
            number = float(value)
        except (TypeError, ValueError):
            what = f"{self.code}: {self.name} returned a {type(value).__name__}, not a number"
            raise FedcliError(what, "return a float, or None where it has no meaning") from None
        return number if np.isfinite(number) else None


_asked: ContextVar[tuple[OwnMetric, ...]] = ContextVar("asked", default=())


def is_own(name: str) -> bool:
    """Whether a word names a metric from outside the package."""
    return extensions.is_file(name) or (name not in METRICS and name in extensions.installed("metrics"))


def named(name: str) -> OwnMetric:
    """A metric by PATH.py, PATH.py:FUNCTION or the name that a package gives it. Raises FedcliError, UsageError."""
    if extensions.is_file(name):
        function, code = extensions.function(name, "metrics")
        own = OwnMetric(function.__name__, function, code)
    elif name in (packages := extensions.installed("metrics")):
        own = OwnMetric(name, *packages[name])
    else:
        raise UsageError(f"no metric of one's own is called {name!r}", nearest(name, ["./mine.py", *packages]))
    if own.name in METRICS or own.name.startswith(PARITY):
        raise UsageError(f"fedcli has a metric {own.name!r} already", f"give the function of {own.code} another name")
    return own


@contextmanager
def asked_for(names: Sequence[str]) -> Iterator[list[str]]:
    """Within it, runs are scored by these metrics too; gives their names in tables."""
    metrics = {own.name: own for own in map(named, names)}
    before = _asked.set(tuple(metrics.values()))
    try:
        yield list(metrics)
    finally:
        _asked.reset(before)


def recorded() -> dict[str, Any]:
    """What the options of scores say of them; {} where none is asked for."""
    return {"metrics": {own.name: own.code.recorded for own in _asked.get()}} if _asked.get() else {}


def added(
    quality: Quality, logits: Logits, y: np.ndarray, groupings: dict[str, Grouping], patients: np.ndarray | None
) -> Quality:
    """The same scores with those of the metrics that are asked for."""
    images = _Images(logits, y, groupings, patients)
    for own in _asked.get():
        quality = _with(quality, own, images)
    return quality


@dataclass(frozen=True)
class _Images:
    """What all metrics are computed from."""

    logits: Logits
    y: np.ndarray
    groupings: dict[str, Grouping]
    patients: np.ndarray | None

    @cached_property
    def values(self) -> Values:
        return {
            name: np.array([values[g] if g >= 0 else "" for g in places], dtype=object)
            for name, (places, values) in self.groupings.items()
        }

    @cached_property
    def draws(self) -> np.ndarray:
        """How often each resample of the patients holds each image: [B, N], as for all other metrics."""
        return draw(len(self.y) if self.patients is None else self.patients, RESAMPLES, SEED)

    @cached_property
    def chances(self) -> dict[str, list[list[np.ndarray]]]:
        """version -> kept round -> probabilities [N, C] of each model that answers."""
        return {v: [[chances(table, self.y) for table in tables] for tables in r] for v, r in self.logits.items()}

    def score(self, own: OwnMetric, version: str, round: int, at: np.ndarray) -> float | None:
        """Of some images; of several models that answer, the mean."""
        return mean_of_numbers([own(chance, self.y, self.values, at) for chance in self.chances[version][round]])

    def rounds(self, own: OwnMetric, version: str, at: np.ndarray) -> list[float | None]:
        return [self.score(own, version, round, at) for round in range(len(self.logits[version]))]

    def drawn(self, own: OwnMetric, version: str, at: np.ndarray) -> np.ndarray:
        """Of the last round's models in every resample [B], NaN where it has no meaning."""
        resamples = (np.repeat(at, times[at]) for times in self.draws)
        return np.array([self.score(own, version, -1, again) for again in resamples], float)

    def interval(self, value: float | None, drawn: np.ndarray, at: np.ndarray) -> Interval:
        unit, count = about(None if self.patients is None else self.patients[at], len(at))
        low, high = interval(drawn) if count > 1 else (None, None)
        return Interval(value, low, high, LEVEL, RESAMPLES, unit, count)


def _with(quality: Quality, own: OwnMetric, images: _Images) -> Quality:
    every = np.arange(len(images.y))
    rounds = {version: images.rounds(own, version, every) for version in images.logits}
    if "corrupted" in rounds:
        pairs = zip(rounds["clean"], rounds["corrupted"], strict=True)
        rounds["average"] = [mean_of_numbers(list(pair)) for pair in pairs]
    versions = {
        version: _summary(summary, own.name, rounds[version]) if version in rounds else summary
        for version, summary in quality.versions.items()
    }
    drawn = {version: images.drawn(own, version, every) for version in images.logits if version in quality.intervals}
    if "corrupted" in drawn:
        drawn["average"] = (drawn["clean"] + drawn["corrupted"]) / 2
    intervals = {
        version: {**each, own.name: images.interval(rounds[version][-1], drawn[version], every)}
        for version, each in quality.intervals.items()
    }
    groups = {
        attribute: {version: _groups(each, own, images, attribute, version) for version, each in of_versions.items()}
        for attribute, of_versions in quality.groups.items()
    }
    return replace(quality, versions=versions, intervals=intervals, groups=groups)


def _summary(summary: Summary, name: str, rounds: list[float | None]) -> Summary:
    return replace(summary, metrics={**summary.metrics, name: over_rounds(rounds)})


def _groups(groups: Groups, own: OwnMetric, images: _Images, attribute: str, version: str) -> Groups:
    places, values = images.groupings[attribute]
    members = {value: np.flatnonzero(places == g) for g, value in enumerate(values)}
    rounds = {value: images.rounds(own, version, at) for value, at in members.items()}
    each = {value: over_rounds(numbers) for value, numbers in rounds.items()}
    low = better_low(own.name)
    between = [spread(dict(zip(rounds, column, strict=True)), low=low) for column in zip(*rounds.values(), strict=True)]
    worst = over_rounds([b.worst and b.worst.score for b in between])
    others = (over_rounds([getattr(b, name) for b in between]) for name in ("gap", "std", "average"))
    overall = images.rounds(own, version, np.arange(len(images.y)))[-1]
    return replace(
        groups,
        last_round=_last(groups.last_round, own.name, {value: r[-1] for value, r in rounds.items()}, overall, low),
        over_rounds=replace(
            groups.over_rounds, metrics={**groups.over_rounds.metrics, own.name: BetweenRounds(worst, *others)}
        ),
        each={**groups.each, own.name: each},
        across={**groups.across, own.name: across({value: over.mean_last5 for value, over in each.items()})},
        intervals={**groups.intervals, own.name: {
            value: images.interval(rounds[value][-1], images.drawn(own, version, at), at)
            for value, at in members.items()
        }},
    )  # fmt: skip


def _last(
    scores: GroupScores, name: str, numbers: dict[str, float | None], overall: float | None, low: bool
) -> GroupScores:
    parts = {
        value: replace(part, metrics={**part.metrics, name: numbers[value]}) for value, part in scores.groups.items()
    }
    whole = scores.overall and replace(scores.overall, metrics={**scores.overall.metrics, name: overall})
    return replace(scores, groups=parts, overall=whole, between={**scores.between, name: spread(numbers, low=low)})
