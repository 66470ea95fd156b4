"""Metrics of one's own: a function of probabilities, labels and groups, with intervals and groups as all scores have.

    function(probabilities float64 [N, C], labels int [N], groups: attribute -> the value of each image [N]) -> number

Of several labels per image the labels are [N, C] of 0, 1, and 2 where it is not known.

One whose name ends in _error, _cost or _loss is better when low. It is called once for each model and set of images
that has scores: a version, a group, a client; and once more in each resample of the patients.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from .. import extensions, metrics
from ..errors import FedcliError, UsageError, nearest
from ..metrics import better_low, chances
from ..provenance import Code
from .bca import BCA
from .bootstrap import LEVEL, draw
from .groups import Groupings, group_scores, spread
from .intervals import RESAMPLES, SEED, Tables, about, bounds
from .parts import Groups, GroupScores, Interval, Number, Score
from .rounds import mean_of_numbers
from .scores import Quality

Values = dict[str, np.ndarray]  # attribute -> the value of each image, "" where it is unknown


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
    return extensions.is_file(name) or (not is_taken(name) and extensions.offered("metrics", name) is not None)


def is_taken(name: str) -> bool:
    """Whether fedcli has a metric of that name."""
    return name in metrics.METRICS or name.startswith(metrics.PARITY)


def named(name: str) -> OwnMetric:
    """A metric by PATH.py, PATH.py:FUNCTION or the name that a package gives it. Raises FedcliError, UsageError."""
    if extensions.is_file(name):
        function, code = extensions.function(name, "metrics")
        own = OwnMetric(function.__name__, function, code)
    elif offered := extensions.offered("metrics", name):
        own = OwnMetric(name, *offered)
    else:
        known = ["./mine.py", *extensions.packages("metrics")]
        raise UsageError(f"no metric of one's own is called {name!r}", nearest(name, known))
    if is_taken(own.name):
        raise UsageError(f"fedcli has a metric {own.name!r} already", f"give the function of {own.code} another name")
    return own


@contextmanager
def asked_for(names: Sequence[str]) -> Iterator[list[str]]:
    """Within it, runs are scored by these metrics too; gives their names in tables."""
    asked = {own.name: own for own in map(named, names)}
    before = _asked.set(tuple(asked.values()))
    try:
        yield list(asked)
    finally:
        _asked.reset(before)


def recorded() -> dict[str, Any]:
    """What the options of scores say of them; {} where none is asked for."""
    return {"metrics": {own.name: own.code.recorded for own in _asked.get()}} if _asked.get() else {}


def scored(logits: np.ndarray, y: np.ndarray, groupings: Groupings) -> Score:
    """Every score of one model on some images, with those of the metrics that are asked for."""
    score = Score.of(logits, y)
    if not _asked.get():
        return score
    images = _Images([logits], y, groupings)
    return replace(score, metrics={**score.metrics, **images.each(np.arange(len(y)))})


def group_scored(
    logits: np.ndarray, y: np.ndarray, name: str, groupings: Groupings, classes: list[str]
) -> GroupScores:  # fmt: skip
    """The same of each group of an attribute, and between the groups."""
    places, values = groupings[name]
    made = group_scores(logits, y, places, values, classes=classes)
    if not _asked.get():
        return made
    images = _Images([logits], y, groupings)
    numbers = {value: images.each(np.flatnonzero(places == g)) for g, value in enumerate(values)}
    columns = {own.name: {value: each[own.name] for value, each in numbers.items()} for own in _asked.get()}
    between = {metric: spread(column, low=better_low(metric)) for metric, column in columns.items()}
    return replace(
        made,
        groups={
            value: replace(part, metrics={**part.metrics, **numbers[value]}) for value, part in made.groups.items()
        },
        overall=replace(made.overall, metrics={**made.overall.metrics, **images.each(np.arange(len(y)))}),
        between={**made.between, **between},
    )


def with_intervals(
    quality: Quality, tables: Tables, y: np.ndarray, groupings: Groupings, patients: np.ndarray | None, how: str
) -> Quality:
    """Scores with the intervals of the metrics that are asked for. tables: of the last round's models.

    how: "percentile" or "bca"; that of the average of clean and corrupted images is a percentile interval."""
    if not _asked.get() or not len(y):
        return quality
    images = {version: _Images(answers, y, groupings, patients, how == BCA) for version, answers in tables.items()}
    for own in _asked.get():
        quality = _with_intervals(quality, own, images)
    return quality


@dataclass(frozen=True)
class _Images:
    """What metrics are computed from: logits [N, C] of each model that answers, and what is known of the images."""

    answers: list[np.ndarray]
    y: np.ndarray
    groupings: Groupings
    patients: np.ndarray | None = None
    bca: bool = False

    @cached_property
    def values(self) -> Values:
        return {
            name: np.array([values[g] if g >= 0 else "" for g in places], dtype=object)
            for name, (places, values) in self.groupings.items()
        }

    @cached_property
    def chances(self) -> list[np.ndarray]:
        """Probabilities [N, C] of each model."""
        return [chances(table, self.y) for table in self.answers]

    @cached_property
    def draws(self) -> np.ndarray:
        """How often each resample of the patients holds each image: [B, N], as for all other metrics."""
        return draw(len(self.y) if self.patients is None else self.patients, RESAMPLES, SEED)

    def each(self, at: np.ndarray) -> dict[str, Number]:
        """Every metric that is asked for, of some images."""
        return {own.name: self.score(own, at) for own in _asked.get()}

    def score(self, own: OwnMetric, at: np.ndarray) -> Number:
        """Of several models that answer, the mean."""
        return mean_of_numbers([own(chance, self.y, self.values, at) for chance in self.chances])

    def drawn(self, own: OwnMetric, at: np.ndarray) -> np.ndarray:
        """In every resample [B], NaN where it has no meaning."""
        return np.array([self.score(own, np.repeat(at, times[at])) for times in self.draws], float)

    def left_out(self, own: OwnMetric, at: np.ndarray) -> np.ndarray:
        """Without each patient in turn [U]."""
        whose = at if self.patients is None else self.patients[at]
        return np.array([self.score(own, at[whose != unit]) for unit in np.unique(whose)], float)

    def interval(self, value: Number, drawn: np.ndarray, at: np.ndarray, own: OwnMetric | None = None) -> Interval:
        """own: of what, where the interval may be another than a percentile interval."""
        unit, count = about(None if self.patients is None else self.patients[at], len(at))
        left = self.left_out(own, at) if own and self.bca and count > 1 else None
        low, high = bounds(value, drawn, left) if count > 1 else (None, None)
        return Interval(value, low, high, LEVEL, RESAMPLES, unit, count, "" if left is None else BCA)


def _with_intervals(quality: Quality, own: OwnMetric, images: dict[str, _Images]) -> Quality:
    first = next(iter(images.values()))  # versions are the same patients
    every = np.arange(len(first.y))
    drawn = {version: shown.drawn(own, every) for version, shown in images.items()}
    if "corrupted" in drawn:
        drawn["average"] = (drawn["clean"] + drawn["corrupted"]) / 2
    intervals = {
        version: {
            **each,
            own.name: images.get(version, first).interval(
                quality.versions[version].metrics[own.name].last,
                drawn[version],
                every,
                own if version in images else None,
            ),
        }
        for version, each in quality.intervals.items()
    }
    groups = {
        attribute: {version: _of_groups(each, own, images[version], attribute) for version, each in versions.items()}
        for attribute, versions in quality.groups.items()
    }
    return replace(quality, intervals=intervals, groups=groups)


def _of_groups(groups: Groups, own: OwnMetric, images: _Images, attribute: str) -> Groups:
    places, values = images.groupings[attribute]
    members = {value: np.flatnonzero(places == g) for g, value in enumerate(values)}
    numbers = groups.last_round.groups
    intervals = {
        value: images.interval(numbers[value].metrics[own.name], images.drawn(own, at), at, own)
        for value, at in members.items()
    }
    return replace(groups, intervals={**groups.intervals, own.name: intervals})
