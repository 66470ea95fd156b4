"""Scores of runs in resamples of the test patients, and without each patient in turn.

Intervals of a difference or of a mean over runs are made of the first; BCa intervals also need the
second. Runs of one test set get equal draws of patients, which pairs them. Runs of other folds or
splits have other patients: each test set is drawn by itself, and a patient is left out of the runs
of its own test set alone.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from .. import console, metrics
from ..errors import FedcliError
from ..io.files import sha256
from ..metrics import gap
from ..metrics.sums import groupings_at
from ..scores.parts import AVERAGE, MODELS
from ..scores.statistics import intervals, resampled
from ..scores.statistics.bootstrap import bootstrap_all, without_each
from ..scores.statistics.resampled import Columns, mean
from ..scores.table import Score, Where
from ..scores.views import GAP
from ..system import processes
from .pairing import numbered
from .predicted import RunPredictions, can_resample, predicted
from .systems import LAST, LAST5, Pairs, Scored

Table = dict[Where, np.ndarray]  # resamples [B], or without each patient [U]
Bounds = tuple[float, float]
MOST_BYTES = 2**30  # of the tables that a function remembers


class Remembered:
    """A decorator of a function of hashable arguments: the tables used last are remembered, up to
    MOST_BYTES.

    A comparison of all rows of a recipe uses the tables of hundreds of runs once for each score.
    """

    def __init__(self, make: Callable[..., Table]) -> None:
        self.make = make
        self.cache_clear()

    def cache_clear(self) -> None:
        """Forget all tables."""
        self.tables: dict[tuple[Any, ...], Table] = {}  # the one used last at the end
        self.bytes = 0

    def __call__(self, *arguments: Any) -> Table:
        if arguments in self.tables:
            self.tables[arguments] = self.tables.pop(arguments)
        else:
            self.remember(arguments, self.make(*arguments))
        return self.tables[arguments]

    def remember(self, arguments: tuple[Any, ...], table: Table) -> None:
        """Keep the table of a call, in place of those used longest ago."""
        self.tables[arguments] = table
        self.bytes += _bytes(table)
        while self.bytes > MOST_BYTES and len(self.tables) > 1:
            oldest = next(iter(self.tables))
            self.bytes -= _bytes(self.tables.pop(oldest))


def _drawn_now(call: tuple[Any, ...]) -> Table:
    """The table of a call of _drawn(), in a process that does not remember it."""
    return _drawn.make(*call)


def _bytes(table: Table) -> int:
    return sum(column.nbytes for column in table.values())


@dataclass(frozen=True)
class Resamples:
    """Scores of runs over their kept rounds (and over the models that answer), computed once for
    each run.

    bca: whether scores without each patient are needed, too.
    """

    count: int
    seed: int = resampled.SEED
    bca: bool = False

    def table(self, run: Scored, attribute: str) -> Table:
        """Every score of all images, or of the groups by an attribute."""
        return _drawn(*self._call(run, attribute))

    def _call(self, run: Scored, attribute: str) -> tuple[Any, ...]:
        """The arguments of _drawn()."""
        return (
            run.path,
            sha256(run.path),
            run.identity,
            attribute,
            self.count,
            self.seed,
            metrics.own(),
        )

    def draw(self, runs: Sequence[Scored], attribute: str) -> None:
        """Make the tables of several runs at once, each on a core, where evaluate has not stored as
        many resamples.
        """
        if self.count <= resampled.RESAMPLES or metrics.own():
            return
        calls = dict.fromkeys(self._call(run, attribute) for run in runs)
        missing = [call for call in calls if call not in _drawn.tables]
        # a table that a killed process did not make is drawn by table()
        with console.muted(), suppress(FedcliError):
            tables = processes.in_order(_drawn_now, missing, label="resamples")
            for call, table in zip(missing, tables, strict=True):
                _drawn.remember(call, table)

    def drawn(self, run: Scored, where: Where) -> np.ndarray:
        """A score in each resample: [B]."""
        return self.table(run, where.attribute)[where]

    def left(self, run: Scored, where: Where) -> np.ndarray:
        """A score without each patient in turn: [U]."""
        own_metrics = metrics.own()
        return _without_each(run.path, sha256(run.path), where.attribute, own_metrics)[where]


@Remembered
def _drawn(
    path: Path,
    _: str,
    identity: str,
    attribute: str,
    count: int,
    seed: int,
    own_metrics: tuple[metrics.Metric, ...],
) -> Table:
    """The columns that evaluate stored of these very resamples, or those drawn now.

    own_metrics: from outside the package, of which nothing is stored.
    """
    has_usual_draws = (count, seed) == (resampled.RESAMPLES, resampled.SEED)
    if not own_metrics and not attribute and has_usual_draws:
        stored = resampled.read(path.parent)
        if stored:
            return _with_average(_of_stored(stored))
    images = predicted(path).of(attribute)
    if not len(images.y):  # sites hide images of every group
        return {}
    # counts of two systems are not paired, so each system draws its own
    drawn_from = [identity, images.id[0]] if images.counted else images.id
    seed = resampled.seed_of(drawn_from, seed)
    group_index, names = images.grouping(attribute) if attribute else (None, [])
    table: Table = {}
    for version, answers in images.tables.items():
        groupings = images.groupings if own_metrics else None
        columns = bootstrap_all(
            answers,
            images.y,
            images.units,
            resamples=count,
            seed=seed,
            groups=group_index,
            groupings=groupings,
        )
        table |= _named(columns, version, attribute, names)
    return _with_average(table)


def _of_stored(columns_by_version: Mapping[str, Columns]) -> Table:
    table = {}
    for version, columns in columns_by_version.items():
        for metric, column in columns.items():
            table[Where(version, metric=metric)] = column
    return table


def _whole(
    images: RunPredictions,
    logits: np.ndarray,
    members: np.ndarray,
    groupings: metrics.Groupings | None,
) -> dict[str, float]:
    """Every score of some images, each of them once. groupings: of these images."""
    plan = metrics.plan(logits[members], images.y[members], groupings)
    every_image_once = np.ones((int(members.sum()), 1), bool)
    scores = metrics.resampled(plan, every_image_once)
    return {metric: values[0] for metric, values in scores.items()}


def _named(
    tables: list[Columns],
    version: str,
    attribute: str,
    names: list[str],
) -> Table:
    """The mean of several models' scores. tables: for each metric [B], or [B, G] of an attribute's
    groups.
    """
    if not attribute:
        return {Where(version, metric=metric): column for metric, column in mean(tables).items()}
    table = {}
    for metric, columns in mean(tables).items():
        for name, column in zip(names, columns.T):
            table[Where(version, attribute=attribute, metric=metric, group=name)] = column
    return table


def _with_average(table: Table) -> Table:
    """Scores of all images with the average of clean and corrupted ones, where there are both."""
    clean, corrupted = MODELS
    averages = {}
    for where, column in table.items():
        other = where._replace(version=corrupted)
        if where.version == clean and not where.attribute and other in table:
            average = where._replace(version=AVERAGE)
            averages[average] = np.mean([column, table[other]], axis=0)
    return table | averages


@Remembered
def _without_each(
    path: Path,
    _: str,
    attribute: str,
    own_metrics: tuple[metrics.Metric, ...],
) -> Table:
    table: Table = {}
    images = predicted(path)
    groupings = images.groupings if own_metrics else None
    group_index, names = images.grouping(attribute) if attribute else (None, [])
    for version, answers in images.tables.items():
        if group_index is None:
            columns = [
                without_each(logits, images.y, images.units, groupings) for logits in answers
            ]
        else:
            columns = [
                _groups_without_each(images, logits, group_index, len(names), groupings)
                for logits in answers
            ]
        table |= _named(columns, version, attribute, names)
    return _with_average(table)


def _groups_without_each(
    images: RunPredictions,
    logits: np.ndarray,
    group_index: np.ndarray,
    group_count: int,
    groupings: metrics.Groupings | None,
) -> Columns:
    """For each metric [U, G]: a patient who has no image of a group leaves its score as it is."""
    patients = int(images.units.max(initial=-1)) + 1
    columns_by_group = []
    for group in range(group_count):
        members = group_index == group
        units = images.units[members]
        of_members = groupings and groupings_at(groupings, members)
        columns = {}
        for metric, value in _whole(images, logits, members, of_members).items():
            columns[metric] = np.full(patients, value)
        without = without_each(logits[members], images.y[members], units, of_members)
        for metric, column in without.items():
            columns[metric][np.unique(units)] = column
        columns_by_group.append(columns)
    by_metric = {}
    for metric in columns_by_group[0]:
        by_metric[metric] = np.stack([columns[metric] for columns in columns_by_group], 1)
    return by_metric


def left_of_mean(
    values: Sequence[float], without: Sequence[np.ndarray], sets: Sequence[int]
) -> np.ndarray:
    """The mean over runs, or over pairs of their differences, without each patient of each test set
    in turn.

    values: one for each run or pair; without: the same without each patient of its test set; sets:
    its number.
    """
    parts = []
    for number in sorted(set(sets)):
        terms = []
        for index, value in enumerate(values):
            has_patients = sets[index] == number
            terms.append(without[index] if has_patients else np.full(1, value))
        total = np.sum(np.broadcast_arrays(*terms), axis=0)
        parts.append(total / len(values))
    return np.concatenate(parts)


def drawn_difference(
    pairs: Pairs,
    where: Where,
    resamples: Resamples,
) -> np.ndarray:
    """The difference of two systems in each resample, the mean over pairs: [B]; a gap is of the
    groups' means.
    """
    if where.measure != GAP:
        differences = [resamples.drawn(b, where) - resamples.drawn(a, where) for a, b in pairs]
        return np.mean(differences, axis=0)
    means_a: list[np.ndarray] = []
    means_b: list[np.ndarray] = []
    for group in _groups(pairs, where):
        scores_a = [resamples.drawn(a, group) for a, _ in pairs]
        mean_a = np.mean(scores_a, axis=0)
        scores_b = [resamples.drawn(b, group) for _, b in pairs]
        mean_b = np.mean(scores_b, axis=0)
        if np.isnan(mean_a).all() and _have_score(pairs, group):
            # the group has one patient of a class: a score without an interval, and so has the gap
            return mean_a
        means_a.append(mean_a)
        means_b.append(mean_b)
    return gap(np.stack(means_b, 1)) - gap(np.stack(means_a, 1))


def _have_score(pairs: Pairs, where: Where) -> bool:
    """Tell whether every run has a score."""
    return all(run.number(where) is not None for pair in pairs for run in pair)


def left_difference(
    pairs: Pairs, where: Where, resamples: Resamples, sets: Sequence[int]
) -> np.ndarray:
    """The difference of two systems without each patient of each test set in turn.

    sets: the number of each pair's test set.
    """
    if where.measure != GAP:
        without = [resamples.left(b, where) - resamples.left(a, where) for a, b in pairs]
        values = [_mean(b, where) - _mean(a, where) for a, b in pairs]
        return left_of_mean(values, without, sets)
    gaps = []
    for runs in zip(*pairs, strict=True):
        columns = []
        for group in _groups(pairs, where):
            without = [resamples.left(run, group) for run in runs]
            columns.append(left_of_mean([_mean(run, group) for run in runs], without, sets))
        gaps.append(gap(np.stack(columns, 1)))
    return gaps[1] - gaps[0]


def _groups(pairs: Pairs, where: Where) -> list[Where]:
    """The groups that a gap is between: those of which every run has test images."""
    runs = [run for pair in pairs for run in pair]
    names_by_run = [_occurring(run, where.attribute) for run in runs]
    shared = names_by_run[0]
    for names in names_by_run[1:]:
        shared = [name for name in shared if name in names]
    return [where._replace(measure="", group=name) for name in shared]


def _occurring(run: Scored, attribute: str) -> list[str]:
    """The groups of an attribute that have test images."""
    group_index, names = predicted(run.path).of(attribute).grouping(attribute)
    return [name for number, name in enumerate(names) if (group_index == number).any()]


def _mean(run: Scored, where: Where) -> float:
    return float(np.mean(run.rounds(where) or np.nan))


def bounds(runs: Sequence[Scored], where: Where, rounds: str) -> Bounds | None:
    """Low and high of a score as a report shows it, over patients.

    rounds: LAST for the last round's score, LAST5 for the mean over the kept rounds and over runs.
    None for the round that validation chose, if there are no answers to single images, and for
    scores that the counts of sites do not reveal.
    """
    if rounds == LAST:
        return bounds_of_mean(runs, where, [run.score(where) for run in runs])
    if rounds != LAST5:
        return None
    means = []
    for run in runs:
        values = run.rounds(where)
        if values is None:
            return None
        if values:
            means.append(float(np.mean(values)))
    resamples = Resamples(resampled.RESAMPLES)
    try:
        if not can_resample([(run, run) for run in runs], where):
            return None
        resampled_means = np.mean([resamples.drawn(run, where) for run in runs], axis=0)
    except (FedcliError, KeyError):  # no predictions, and metrics of one's own
        return None
    without = None
    if all(_is_bca(run.score(where)) for run in runs):
        sets = numbered([predicted(run.path).id.tobytes() for run in runs])
        without = left_of_mean(
            means,
            [resamples.left(run, where) for run in runs],
            sets,
        )
    return _both(intervals.bounds(float(np.mean(means)), resampled_means, without))


def _is_bca(score: Score | None) -> bool:
    return score is not None and score.is_bca


def _both(limits: tuple[float | None, float | None]) -> Bounds | None:
    """Low and high; None if one of them is missing."""
    low, high = limits
    if low is None or high is None:
        return None
    return low, high


def can_pool(runs: Sequence[Scored]) -> bool:
    """Tell whether each run has answers to single images; otherwise the mean of the runs' bounds
    has to do.
    """
    for run in runs:
        has_predictions = (run.path.parent / "predictions.h5").is_file()
        if not has_predictions or predicted(run.path).counted:
            return False
    return True


def bounds_of_mean(
    runs: Sequence[Scored], where: Where, estimates: Sequence[Score | None]
) -> Bounds | None:
    """Low and high of the mean score of the last round's models over runs. estimates: the interval
    of each run.

    The mean of the runs' bounds would be as wide as that of one run; the mean over runs in each
    resample is what varies with the patients that were drawn.
    """
    scores = [score for score in estimates if score and None not in (score.low, score.high)]
    if len(scores) < len(runs):
        return None
    values = np.array([score.last for score in scores], float)
    use_bca = all(score.is_bca for score in scores)
    draws = []
    if len(runs) > 1 and can_pool(runs):
        draws = [_last(run, where, use_bca) for run in runs]
    if not draws or not all(where.metric in scores_drawn for scores_drawn, _ in draws):
        # counts, and metrics of one's own
        low = np.array([score.low for score in scores], float).mean()
        high = np.array([score.high for score in scores], float).mean()
        return float(low), float(high)
    sets = numbered([_images_of(run, where) for run in runs])
    # test sets of one size get equal draws, image by image: shifted, those of one are independent
    # of another's
    columns = []
    for number, (scores_drawn, _) in zip(sets, draws, strict=True):
        columns.append(np.roll(scores_drawn[where.metric], number))
    without = None
    if use_bca:
        without_each_patient = [columns_left[where.metric] for _, columns_left in draws]
        without = left_of_mean(values.tolist(), without_each_patient, sets)
    mean_score = float(values.mean())
    drawn_means = np.mean(columns, axis=0)
    return _both(intervals.bounds(mean_score, drawn_means, without))


def _images_of(run: Scored, where: Where) -> tuple[bytes, bytes]:
    """The images of a score and their patients, as bytes that tell test sets apart."""
    images = predicted(run.path)
    members = images.members(where)
    return images.id[members].tobytes(), images.units[members].tobytes()


def _last(run: Scored, where: Where, use_bca: bool) -> tuple[Columns, Columns]:
    """Each metric of the last round's models in each resample [B], and for BCa without each patient
    [U].
    """
    index = None
    if where.attribute:
        index = sorted(run.scores.groups).index(where.attribute)
    return _of_last(
        run.path,
        sha256(run.path),
        where._replace(metric=""),
        index,
        use_bca,
    )


@lru_cache(maxsize=1024)
def _of_last(
    path: Path, _: str, where: Where, attribute_index: int | None, use_bca: bool
) -> tuple[Columns, Columns]:
    """The result of _last(). attribute_index: among the run's evaluated attributes."""
    images = predicted(path).of(where.attribute)
    stored: dict[str, Columns] = {}
    if not use_bca and attribute_index is None:
        stored = resampled.read(path.parent, last=True)
    elif not use_bca and attribute_index is not None:
        group = images.grouping(where.attribute)[1].index(where.group)
        stored = resampled.read_group(path.parent, attribute_index, group)
    versions = list(images.last) if where.version == AVERAGE else [where.version]
    members = images.members(where)
    resampled_columns = []
    columns_without = []
    for version in versions:
        answered = intervals.Answered(images.last[version], images.y, images.units).at(members)
        resampled_columns.append(stored.get(version) or answered.resampled())
        if use_bca:
            columns_without.append(answered.without_each())
    return mean(resampled_columns), mean(columns_without) if use_bca else {}
