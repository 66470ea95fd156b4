"""Views of the lines of a table of scores, each an expression of NumPy over a block of scores.

A block is [members, rounds], members being groups, clients or versions of the test images; NaN
where a score has no meaning. A view of groups needs two groups with a number.

    mean_last5, std_last5   mean and population standard deviation over the kept rounds: the last
                            five, or all
    average                 mean of clean and corrupted images
    worst group, gap        of the numbers that tables print: of each group's mean over rounds,
                            models and runs
    worst group, gap, std, mean in each round
                            in each round and of each model that answers, then the mean of them
    mean over groups, std over groups
                            of each group's mean over the rounds; std with ddof 1
    es_auc_ovo_macro, es_auc_macro
                            equity-scaled AUC: AUC / (1 + sum over groups of |AUC - its AUC|)
    mean, std, worst among clients

Sources: the equity-scaled AUC is that of FairFedMed, section "Evaluation Metrics", which takes it
from Luo et al., IEEE TMI 43(7), 2024, doi 10.1109/TMI.2024.3377552, on the 0..1 scale and with
every group counting once. We differ where a group has images of one class only: it has no AUC, is
shown with its count and takes no part, where the papers' code stops or turns everything into NaN.
Mean and std over groups: FedHEAL, CVPR 2024, Tables 2 to 5: AVG and STD over domains, each domain's
mean over the last rounds taken first.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..metrics import METRICS, better_low, names
from ..metrics.arithmetic import CLOSE
from .table import Number, Score, Table, Where

Array = np.ndarray
Column = Mapping[str, Score]  # group or client -> score
Edge = tuple[str, float]  # a group and its score
Edges = tuple[Edge, Edge]  # the worst and the best group
Numbers = Mapping[str, Number]  # of groups
ByMeasure = dict[str, Score]
AREAS = ("auc_ovo_macro", "auc_macro")  # of which there is an equity-scaled one
WORST = "worst group"
BEST = "best group"
GAP = "gap"
IN_EACH_ROUND = " in each round"
WORST_IN_EACH = f"{WORST}{IN_EACH_ROUND}"
GAP_IN_EACH = f"{GAP}{IN_EACH_ROUND}"
STD = f"std{IN_EACH_ROUND}"
MEAN = f"mean{IN_EACH_ROUND}"
OF_MEANS = {WORST: WORST_IN_EACH, GAP: GAP_IN_EACH}  # of groups' means -> the same in each round
OF_ROUNDS = (WORST_IN_EACH, GAP_IN_EACH, STD, MEAN)
MEASURED = (WORST, GAP, STD, MEAN)  # in the table's lines of several models
ACROSS = ("mean over groups", "std over groups")
AMONG = ("mean among clients", "std among clients", "worst among clients")


@dataclass(slots=True)
class OfMeans(Score):
    """The worst group or the gap, of the groups' means over the rounds, as tables print both.

    `values` are those of the rounds.

    Attributes:
        column: group -> score. measure: WORST or GAP. low: the metric is better when low.
    """

    column: Column = field(default_factory=dict)
    measure: str = GAP
    low: bool = False

    @property
    def mean(self) -> Number:
        return self.of({name: score.mean for name, score in self.column.items()})

    def of(self, numbers: Numbers) -> Number:
        """The worst of the groups' numbers, or the distance of the best from it.

        None of fewer than two.
        """
        return end_of(numbers, self.measure, low=self.low)

    def alone(self) -> Score:
        """The last round as the only one, of every group."""
        rounds = self.rounds[-1:]
        column = {name: score.alone() for name, score in self.column.items()}
        return OfMeans(
            [self.last],
            rounds,
            column=column,
            measure=self.measure,
            low=self.low,
        )


def block(column: Iterable[Score]) -> Array:
    """The scores of members [members, rounds]."""
    return np.array([score.values for score in column], float)


def mean(scores: Sequence[Score]) -> Score:
    """The mean in each round of scores of the same images; without an interval.

    The scores are of one model or of several.
    """
    score = scores[0]
    means = block(scores).mean(0)
    return replace(_rounds(means, score), small=score.small)


def average(
    clean: Score,
    corrupted: Score,
    measured: Score | None = None,
) -> Score:
    """The mean of both versions of the test images, in each round.

    measured: of the last round, for its interval.
    """
    both = mean([clean, corrupted])
    if measured:
        both.low = measured.low
        both.high = measured.high
        both.interval = measured.interval
        both.units = measured.units
    return both


def between(column: Column, *, low: bool) -> ByMeasure:
    """Worst group and gap of the groups' means; worst group, gap, std and mean in each round.

    low: the metric is better when low.
    """
    scores = block(column.values())
    has_two = np.isfinite(scores).sum(0) > 1  # [rounds]
    scored = scores[:, has_two]
    std = np.nanstd
    middle = np.nanmean
    if np.isfinite(scored).all():
        std = np.std
        middle = np.mean
    spread = np.full((2, len(has_two)), np.nan)  # [std and mean, rounds]
    spread[:, has_two] = [std(scored, axis=0), middle(scored, axis=0)]
    like = next(iter(column.values()))
    rounds = [dict(zip(column, numbers, strict=True)) for numbers in scores.T.tolist()]
    of_means: ByMeasure = {}
    in_rounds: ByMeasure = {}
    for measure, in_each_round in OF_MEANS.items():
        ends = [end_of(numbers, measure, low=low) for numbers in rounds]
        score = Score(ends, like.rounds, like.count, like.missing)
        in_rounds[in_each_round] = score
        of_means[measure] = OfMeans(
            *(score.values, score.rounds, score.count, score.missing),
            column=column,
            measure=measure,
            low=low,
        )
    in_rounds[STD] = _rounds(spread[0], like)
    in_rounds[MEAN] = _rounds(spread[1], like)
    return of_means | in_rounds


def end_of(numbers: Numbers, measure: str, *, low: bool) -> Number:
    """The worst of the groups' numbers, or the distance of the best from it.

    None of fewer than two. measure: WORST or GAP.
    """
    ends = worst_and_best(numbers, low=low)
    if ends is None:
        return None
    (_, worst), (_, best) = ends
    return worst if measure == WORST else abs(best - worst)


def worst_and_best(numbers: Numbers, *, low: bool) -> Edges | None:
    """The worst and the best group with their numbers; None where fewer than two groups have one.

    Numbers that rounding alone sets apart are the same: the first group of them is named, and where
    all are the same the first two. low: low ones are better.
    """
    scored = known_of(numbers)
    if len(scored) < 2:
        return None
    lowest = _first_near(scored, min(scored.values()))
    highest = _first_near(scored, max(scored.values()))
    if lowest[0] == highest[0]:
        second = next(name for name in scored if name != lowest[0])
        return lowest, (second, lowest[1])
    return (highest, lowest) if low else (lowest, highest)


def edges(column: Column, *, low: bool) -> Edges | None:
    """The worst and the best group of the last round; None of fewer than two with a score."""
    numbers = {name: score.last for name, score in comparable(column).items()}
    return worst_and_best(numbers, low=low)


def comparable(column: Column) -> Column:
    """The scores of groups; none where sites hide images of one.

    What lies between the others is another number.
    """
    if not any(score.hidden for score in column.values()):
        return column
    without_values = {}
    for name, score in column.items():
        without_values[name] = replace(score, values=[None] * len(score.values))
    return without_values


def worst_of(values: Numbers, metric: str) -> list[str]:
    """The groups that fare worst, several where only rounding sets them apart; [] where none has a
    number.
    """
    scored = known_of(values)
    if not scored:
        return []
    extreme = max if better_low(metric) else min
    return list(_near(scored, extreme(scored.values())))


def is_tied(values: Numbers) -> bool:
    """Tell whether two groups or more have a number, and all of these the same: none is the
    worst.
    """
    ends = worst_and_best(values, low=False)
    return ends is not None and ends[0][1] == ends[1][1]


def known_of(values: Numbers) -> dict[str, float]:
    """The groups that have a number."""
    return {name: x for name, x in values.items() if x is not None and not math.isnan(x)}


def _near(numbers: Mapping[str, float], limit: float) -> dict[str, float]:
    """The groups whose numbers rounding alone sets apart from the limit, itself a number."""
    return {name: x for name, x in numbers.items() if abs(x - limit) <= CLOSE}


def _first_near(numbers: Mapping[str, float], limit: float) -> Edge:
    return next(iter(_near(numbers, limit).items()))


def across(column: Column) -> ByMeasure:
    """Mean and sample std over groups of each group's mean over the rounds."""
    means = [score.mean for score in column.values()]
    numbers = [number for number in means if number is not None]
    middle: Number = None
    std: Number = None
    if len(numbers) > 1:
        middle = float(np.mean(numbers))
        std = float(np.std(numbers, ddof=1))
    return dict(zip(ACROSS, (Score([middle]), Score([std])), strict=True))


def equity_scaled(overall: Score, column: Column) -> Score:
    """The ES-AUC in each round."""
    scores = block(column.values())
    whole = block([overall])[0]
    distances = np.nansum(np.abs(whole - scores), axis=0)
    has_two = np.isfinite(scores).sum(0) > 1
    scaled = np.where(has_two, whole / (1 + distances), np.nan)
    return _rounds(scaled, overall)


def among(column: Column, measures: Iterable[str], *, low: bool) -> ByMeasure:
    """Mean, population std and worst over the clients that have a score, in each round.

    There are no rounds where nothing varies. measures: of the three, those that can vary.
    """
    scored = [score for score in column.values() if score.last is not None]
    scores = block(scored)
    by_measure = {measure: Score() for measure in AMONG}
    if len(scored) < 2 or not np.isfinite(scores).all():
        return by_measure
    worst = scores.max(0) if low else scores.min(0)
    numbers = (scores.mean(0), scores.std(0), worst)
    for measure, values in zip(AMONG, numbers, strict=True):
        if measure in measures:
            by_measure[measure] = _rounds(values, scored[0])
    return by_measure


def of_groups(
    where: Where,
    overall: Column,
    metrics: Mapping[str, Column],
    measured: Table,
) -> Table:
    """All that lies between the groups of an attribute.

    where: whose. overall: metric -> score of all images. metrics: metric -> group -> score.
    measured: what was measured of each of several models in each round; the worst group and the gap
    are of the groups' means over the models.
    """
    table: Table = {}
    for metric, of_metric in metrics.items():
        if not compared(metric):
            continue
        column = comparable(of_metric)
        numbers = between(column, low=better_low(metric)) | across(column)
        for measure, score in numbers.items():
            table[where._replace(metric=metric, measure=measure)] = score
        if metric in AREAS and metric in overall:
            table[where._replace(metric=f"es_{metric}")] = equity_scaled(overall[metric], column)
    for line, score in measured.items():
        key = line._replace(group="")
        in_each_round = OF_MEANS.get(key.measure, key.measure)
        table[key._replace(measure=in_each_round)] = score
        if key not in table or table[key].mean is None:
            table[key] = score  # of groups whose own scores are not there
    return table


def compared(metric: str) -> bool:
    """Tell whether groups are compared by a metric; they are by every metric of one's own."""
    return metric not in METRICS or metric in names(compared=True)


def headlines(metrics: Iterable[str]) -> Iterator[str]:
    """The metrics that clients are compared by, of these."""
    available = list(metrics)
    for name in names(headline=True):
        if name in available:
            yield name
    for name in available:
        if name not in METRICS:
            yield name


def _rounds(numbers: Array, like: Score) -> Score:
    values: list[Number] = [None if np.isnan(x) else x for x in numbers.tolist()]
    return Score(values, like.rounds, like.count, like.missing)
