"""Scores of runs in resamples of the test patients, and without each patient in turn, for intervals of a difference or
of a mean over runs (BCa intervals ask for the second).

Runs of one test set get equal draws of patients, which pairs them. Runs of other folds or splits have other patients:
each test set is drawn by itself, and a patient is left out of the runs of its own test set alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from .. import metrics
from ..errors import FedcliError
from ..io.files import sha256
from ..metrics import gap
from ..scores.groups import Patients
from ..scores.parts import AVERAGE, VERSIONS
from ..scores.statistics import intervals, resampled
from ..scores.statistics.bootstrap import bootstrap_all, without_each
from ..scores.statistics.resampled import Columns, mean
from ..scores.table import Score, Where
from ..scores.views import GAP
from .pairing import numbered
from .predicted import Predicted, predicted
from .systems import LAST, LAST5, Pairs, Scored

Table = dict[Where, np.ndarray]  # resamples [B], or without each patient [U]
Bounds = tuple[float, float]


@dataclass(frozen=True)
class Resamples:
    """Scores of runs over their kept rounds (and over the models that answer), each run's made once.

    bca: whether scores without each patient are asked for, too.
    """

    count: int
    seed: int = resampled.SEED
    bca: bool = False

    def table(self, run: Scored, attribute: str) -> Table:
        """Every score of all images, or of the groups by an attribute."""
        return _drawn(run.path, sha256(run.path), run.identity, attribute, self.count, self.seed)

    def drawn(self, run: Scored, of: Where) -> np.ndarray:
        """A score in each resample: [B]."""
        return self.table(run, of.attribute)[of]

    def left(self, run: Scored, of: Where) -> np.ndarray:
        """A score without each patient in turn: [U]."""
        return _without_each(run.path, sha256(run.path), of.attribute)[of]


@lru_cache(
    maxsize=256
)  # a reference is set beside many systems, in some scores; at most 2 MB each of 2,000 resamples
def _drawn(path: Path, _: str, identity: str, attribute: str, count: int, seed: int) -> Table:
    """The columns that evaluate kept of these very resamples, or those drawn now."""
    kept = (
        {}
        if attribute or (count, seed) != (resampled.RESAMPLES, resampled.SEED)
        else resampled.read(path.parent)
    )
    if kept:
        return _with_average(
            {
                Where(v, metric=m): column
                for v, columns in kept.items()
                for m, column in columns.items()
            }
        )
    found = predicted(path).of(attribute)
    if not len(found.y):  # sites hide images of every group
        return {}
    images = [identity, found.id[0]] if found.counted else found.id  # counts of two are not paired
    seed = resampled.seed_of(images, seed)
    places, names = found.grouping(attribute) if attribute else (None, [])
    made: Table = {}
    for version, answers in found.tables.items():
        tables = bootstrap_all(
            answers, found.y, found.units, resamples=count, seed=seed, groups=places
        )
        named = _named(tables, version, attribute, names)
        if places is not None:
            for metric in _without_interval(found, answers[0], places, len(names)):
                gaps = named.get(Where(version, attribute=attribute, metric=metric, measure=GAP))
                if gaps is not None:  # one group alone with a score has no gap
                    gaps.fill(np.nan)
        made |= named
    return _with_average(made)


def _without_interval(
    found: Predicted, table: np.ndarray, places: np.ndarray, count: int
) -> set[str]:
    """The metrics of which some group has a score but no interval, so that the gap has no interval either."""
    without: set[str] = set()
    for g in range(count):
        at = places == g
        if Patients.of(found.y[at], found.units[at]).has_interval:
            continue
        plan, once = metrics.plan(table[at], found.y[at]), np.ones((int(at.sum()), 1), bool)
        for metric, values in metrics.resampled(plan, once).items():
            if metrics.needs_every_class(metric) and not np.isnan(values[0]):
                without.add(metric)
    return without


def _named(tables: list[Columns], version: str, attribute: str, names: list[str]) -> Table:
    """The mean of several models' scores. tables: metric -> [B], or [B, G] of the groups of an attribute."""
    if not attribute:
        return {Where(version, metric=metric): column for metric, column in mean(tables).items()}
    where = Where(version, attribute=attribute)
    return {
        where._replace(metric=metric, group=name): column
        for metric, columns in mean(tables).items()
        for name, column in zip(names, columns.T)
    }


def _with_average(table: Table) -> Table:
    """Scores of all images with the average of clean and corrupted ones, where there are both."""
    clean = [of for of in table if of.version == VERSIONS[0] and not of.attribute]
    pairs = {of: of._replace(version=VERSIONS[1]) for of in clean}
    return table | {
        of._replace(version=AVERAGE): np.mean([table[of], table[other]], axis=0)
        for of, other in pairs.items()
        if other in table
    }


@lru_cache(maxsize=256)
def _without_each(path: Path, _: str, attribute: str) -> Table:
    made: Table = {}
    found = predicted(path)
    places, names = found.grouping(attribute) if attribute else (None, [])
    for version, tables in found.tables.items():
        if places is None:
            each = [without_each(table, found.y, found.units) for table in tables]
        else:
            each = [_groups_without_each(found, table, places, len(names)) for table in tables]
        made |= _named(each, version, attribute, names)
    return _with_average(made)


def _groups_without_each(
    found: Predicted, table: np.ndarray, places: np.ndarray, count: int
) -> Columns:
    """metric -> [U, G]: a patient who has no image of a group leaves its score as it is."""
    patients = int(found.units.max(initial=-1)) + 1
    parts = []
    for g in range(count):
        at = places == g
        whole = metrics.resampled(
            metrics.plan(table[at], found.y[at]), np.ones((int(at.sum()), 1), bool)
        )
        without = without_each(table[at], found.y[at], found.units[at])
        columns = {metric: np.full(patients, value[0]) for metric, value in whole.items()}
        for metric, left in without.items():
            columns[metric][np.unique(found.units[at])] = left
        parts.append(columns)
    return {metric: np.stack([part[metric] for part in parts], 1) for metric in parts[0]}


def left_of_mean(
    values: Sequence[float], left: Sequence[np.ndarray], sets: Sequence[int]
) -> np.ndarray:
    """The mean over runs, or over pairs of their differences, without each patient of each test set, one after another.

    values: of each run or pair; left: the same without each patient of its test set; sets: its number.
    """
    parts = []
    for number in sorted(set(sets)):
        terms = [left[k] if at == number else np.full(1, values[k]) for k, at in enumerate(sets)]
        parts.append(np.sum(np.broadcast_arrays(*terms), axis=0) / len(values))
    return np.concatenate(parts)


def drawn_difference(pairs: Pairs, of: Where, resamples: Resamples) -> np.ndarray:
    """The difference of two systems in each resample, the mean over pairs: [B]; a gap is of the groups' means."""
    if of.measure != GAP:
        return np.mean([resamples.drawn(b, of) - resamples.drawn(a, of) for a, b in pairs], axis=0)
    first: list[np.ndarray] = []
    second: list[np.ndarray] = []
    for group in _groups(pairs, of):
        first.append(np.mean([resamples.drawn(a, group) for a, _ in pairs], axis=0))
        second.append(np.mean([resamples.drawn(b, group) for _, b in pairs], axis=0))
    return gap(np.stack(second, 1)) - gap(np.stack(first, 1))


def left_difference(
    pairs: Pairs, of: Where, resamples: Resamples, sets: Sequence[int]
) -> np.ndarray:
    """The same without each patient of each test set, one after another. sets: the number of each pair's test set."""
    if of.measure != GAP:
        left = [resamples.left(b, of) - resamples.left(a, of) for a, b in pairs]
        values = [_mean(b, of) - _mean(a, of) for a, b in pairs]
        return left_of_mean(values, left, sets)
    widths = []
    for runs in zip(*pairs, strict=True):
        columns = []
        for group in _groups(pairs, of):
            left = [resamples.left(run, group) for run in runs]
            columns.append(left_of_mean([_mean(run, group) for run in runs], left, sets))
        widths.append(gap(np.stack(columns, 1)))
    return widths[1] - widths[0]


def _groups(pairs: Pairs, of: Where) -> list[Where]:
    """The groups that a gap is between: those that every run has test images of."""
    runs = [run for pair in pairs for run in pair]
    names = [predicted(run.path).grouping(of.attribute)[1] for run in runs]
    shared = [name for name in names[0] if all(name in others for others in names)]
    return [of._replace(measure="", group=name) for name in shared]


def _mean(run: Scored, of: Where) -> float:
    return float(np.mean(run.rounds(of) or np.nan))


def bounds(runs: Sequence[Scored], of: Where, at: str) -> Bounds | None:
    """Low and high of what a report shows of a score: over patients, of the mean over the kept rounds and over runs, or
    of the last round's; None where no answers to images are there, and of the round that validation chose."""
    if at == LAST:
        return bounds_of_mean(runs, of, [run.score(of) for run in runs])
    rounds, resamples = [run.rounds(of) for run in runs], Resamples(resampled.RESAMPLES)
    if at != LAST5 or None in rounds:
        return None
    try:
        drawn = np.mean([resamples.drawn(run, of) for run in runs], axis=0)
    except (FedcliError, KeyError):  # no predictions, and metrics of one's own
        return None
    without, means = None, [float(np.mean(values)) for values in rounds if values]
    if all((score := run.score(of)) and score.is_bca for run in runs):
        sets = numbered(
            [found.id.tobytes() for found in map(predicted, (run.path for run in runs))]
        )
        without = left_of_mean(means, [resamples.left(run, of) for run in runs], sets)
    low, high = intervals.bounds(float(np.mean(means)), drawn, without)
    return None if low is None or high is None else (low, high)


def can_pool(runs: Sequence[Scored]) -> bool:
    """Tell whether each run's answers to single images are there; else the mean of the runs' bounds has to do."""
    return all(
        (run.path.parent / "predictions.h5").is_file() and not predicted(run.path).counted
        for run in runs
    )


def bounds_of_mean(
    runs: Sequence[Scored], of: Where, estimates: Sequence[Score | None]
) -> Bounds | None:
    """Low and high of the mean score of the last round's models over runs. estimates: the interval of each run.

    The mean of the runs' bounds would be as wide as that of one run; the mean over runs in each resample is what varies
    with the patients that were drawn.
    """
    known = [each for each in estimates if each and each.low is not None and each.high is not None]
    if len(known) < len(runs):
        return None
    values, lows, highs = np.array([(each.last, each.low, each.high) for each in known], float).T
    bca = all(each.is_bca for each in known)
    draws = [_last(run, of, bca) for run in runs] if len(runs) > 1 and can_pool(runs) else []
    if not draws or not all(
        of.metric in drawn for drawn, _ in draws
    ):  # counts, and metrics of one's own
        return float(lows.mean()), float(highs.mean())
    found = [predicted(run.path) for run in runs]
    images = [
        (each.id[at].tobytes(), each.units[at].tobytes())
        for each in found
        for at in [each.members(of)]
    ]
    sets = numbered(images)
    # test sets of one size get equal draws, place by place: shifted, those of one say nothing of another's
    drawn = np.mean(
        [np.roll(columns[of.metric], k) for k, (columns, _) in zip(sets, draws, strict=True)],
        axis=0,
    )
    without = (
        left_of_mean(values.tolist(), [columns[of.metric] for _, columns in draws], sets)
        if bca
        else None
    )
    low, high = intervals.bounds(float(values.mean()), drawn, without)
    return None if low is None or high is None else (low, high)


def _last(run: Scored, of: Where, bca: bool) -> tuple[Columns, Columns]:
    """Metric -> the score of the last round's models in each resample [B], and for BCa without each patient [U]."""
    place = sorted(run.scores.groups).index(of.attribute) if of.attribute else None
    return _of_last(run.path, sha256(run.path), of._replace(metric=""), place, bca)


@lru_cache(maxsize=1024)
def _of_last(
    path: Path, _: str, of: Where, place: int | None, bca: bool
) -> tuple[Columns, Columns]:
    """place: of the attribute among those that the run was evaluated by."""
    found = predicted(path).of(of.attribute)
    if bca:
        kept: dict[str, Columns] = {}
    elif place is None:
        kept = resampled.read(path.parent, last=True)
    else:
        group = found.grouping(of.attribute)[1].index(of.group)
        kept = resampled.read_group(path.parent, place, group)
    versions, at = list(found.last) if of.version == AVERAGE else [of.version], found.members(of)
    answered = {v: intervals.Answered(found.last[v], found.y, found.units).at(at) for v in versions}
    drawn = [kept.get(version) or answered[version].resampled() for version in versions]
    return mean(drawn), mean(
        [answered[version].without_each() for version in versions]
    ) if bca else {}
