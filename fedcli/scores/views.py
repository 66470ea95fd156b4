"""Views of the lines of a table of scores: each view is an expression of NumPy over a block of scores.

A block is [members, rounds], members being groups, clients or versions of the test images; NaN where a score has no
meaning. A view of groups needs two groups with a number.

    mean_last5, std_last5   mean and population standard deviation over the kept rounds: the last five, or all
    average                 mean of clean and corrupted images
    worst group, gap        of the numbers that tables print: of each group's mean over rounds, models and runs
    worst group, gap, std, mean in each round   in each round and of each model that answers, then the mean of them
    mean over groups, std over groups   of each group's mean over the rounds; the std is a sample's (ddof 1)
    es_auc_ovo_macro, es_auc_macro      equity-scaled AUC: AUC / (1 + sum over groups of |AUC - AUC of the group|)
    mean, std, worst among clients

Sources: the equity-scaled AUC is that of FairFedMed, section "Evaluation Metrics", which takes it from Luo et al., IEEE
TMI 43(7), 2024, doi 10.1109/TMI.2024.3377552, on the 0..1 scale and with every group counting once. We differ where a
group has images of one class only: it has no AUC, is shown with its count and takes no part, where the papers' code
stops or turns everything into NaN. Mean and std over groups: FedHEAL, CVPR 2024, Tables 2 to 5: AVG and STD over
domains, each domain's mean over the last rounds taken first.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..metrics import METRICS, better_low, names
from ..metrics.arithmetic import CLOSE
from .table import Number, Score, Table, Where

Column = Mapping[str, Score]  # group or client -> score
AREAS = "auc_ovo_macro", "auc_macro"  # of which there is an equity-scaled one
WORST, BEST, GAP = "worst group", "best group", "gap"
IN_EACH_ROUND = " in each round"
WORST_IN_EACH, GAP_IN_EACH = f"{WORST}{IN_EACH_ROUND}", f"{GAP}{IN_EACH_ROUND}"
STD, MEAN = f"std{IN_EACH_ROUND}", f"mean{IN_EACH_ROUND}"
OF_MEANS = {WORST: WORST_IN_EACH, GAP: GAP_IN_EACH}  # of groups' means -> the same in each round
OF_ROUNDS = WORST_IN_EACH, GAP_IN_EACH, STD, MEAN
MEASURED = WORST, GAP, STD, MEAN  # in the table's lines of several models
ACROSS = "mean over groups", "std over groups"
AMONG = "mean among clients", "std among clients", "worst among clients"


@dataclass(slots=True)
class OfMeans(Score):
    """The worst group or the gap. `mean` is that of the groups' means, as tables print both; `values` are the rounds'.

    Attributes:
        column: group -> score. measure: WORST or GAP. low: the metric is better when low.
    """

    column: Column = field(default_factory=dict)
    measure: str = GAP
    low: bool = False

    @property
    def mean(self) -> Number:
        return self.of({name: score.mean for name, score in self.column.items()})

    def of(self, numbers: Mapping[str, Number]) -> Number:
        """The worst of the groups' numbers, or the distance of the best from it; None of fewer than two."""
        ends = worst_and_best(numbers, low=self.low)
        if ends is None:
            return None
        (_, worst), (_, best) = ends
        return worst if self.measure == WORST else abs(best - worst)

    def alone(self) -> Score:
        """The last round as the only one, of every group."""
        column = {name: score.alone() for name, score in self.column.items()}
        return OfMeans(
            [self.last], self.rounds[-1:], column=column, measure=self.measure, low=self.low
        )


def block(column: Iterable[Score]) -> np.ndarray:
    """The scores of members [members, rounds]."""
    return np.array([score.values for score in column], float)


def mean(scores: Sequence[Score]) -> Score:
    """The mean in each round of scores of the same images, as one model has them or several; without an interval."""
    return replace(_rounds(block(scores).mean(0), scores[0]), small=scores[0].small)


def average(clean: Score, corrupted: Score, drawn: Score | None = None) -> Score:
    """Of both versions of the test images, in each round; drawn: of the last round, measured for its interval."""
    both = mean([clean, corrupted])
    if drawn:
        both.low, both.high, both.interval, both.units = (
            drawn.low,
            drawn.high,
            drawn.interval,
            drawn.units,
        )
    return both


def between(column: Column, *, low: bool) -> dict[str, Score]:
    """Worst group and gap of the groups' means; worst group, gap, std and mean over the groups in each round.

    low: the metric is better when low.
    """
    scores, some = block(column.values()), next(iter(column.values()))
    enough = np.isfinite(scores).sum(0) > 1  # [rounds]
    known = scores[:, enough]
    worst, best = (known[places, np.arange(len(places))] for places in _edges(known, low))
    std, middle = (np.std, np.mean) if np.isfinite(known).all() else (np.nanstd, np.nanmean)
    numbers = {
        WORST_IN_EACH: worst,
        GAP_IN_EACH: np.abs(best - worst),
        STD: std(known, axis=0),
        MEAN: middle(known, axis=0),
    }
    in_rounds = {name: _rounds(_spread(each, enough), some) for name, each in numbers.items()}
    of_means: dict[str, Score] = {
        name: _of_means(in_rounds[in_each], column, name, low) for name, in_each in OF_MEANS.items()
    }
    return of_means | in_rounds


def _of_means(score: Score, column: Column, measure: str, low: bool) -> OfMeans:
    return OfMeans(
        score.values,
        score.rounds,
        score.count,
        score.missing,
        column=column,
        measure=measure,
        low=low,
    )


Edge = tuple[str, float]  # a group and its score


def worst_and_best(numbers: Mapping[str, Number], *, low: bool) -> tuple[Edge, Edge] | None:
    """The worst and the best group with their numbers; None where fewer than two groups have one.

    Numbers that rounding alone sets apart are the same: the first group of them is named. low: low ones are better.
    """
    known = known_of(numbers)
    if len(known) < 2:
        return None
    lowest, highest = (
        _first_near(known, min(known.values())),
        _first_near(known, max(known.values())),
    )
    return (highest, lowest) if low else (lowest, highest)


def edges(column: Column, *, low: bool) -> tuple[Edge, Edge] | None:
    """The worst and the best group of the last round; None of fewer than two with a score."""
    numbers = {name: score.last for name, score in comparable(column).items()}
    return worst_and_best(numbers, low=low)


def comparable(column: Column) -> Column:
    """The scores of groups; none where sites hide images of one: what lies between the others is another number."""
    if not any(score.hidden for score in column.values()):
        return column
    return {
        name: replace(score, values=[None] * len(score.values)) for name, score in column.items()
    }


def worst_of(values: Mapping[str, Number], metric: str) -> str:
    """The one of these groups that fares worst; "" where none has a number."""
    known = known_of(values)
    if not known:
        return ""
    extreme = max if better_low(metric) else min
    return _first_near(known, extreme(known.values()))[0]


def known_of(values: Mapping[str, Number]) -> dict[str, float]:
    """The groups that have a number."""
    return {name: x for name, x in values.items() if x is not None and not math.isnan(x)}


def _first_near(known: Mapping[str, float], limit: float) -> Edge:
    """The first group whose number rounding alone sets apart from the limit."""
    return next((name, x) for name, x in known.items() if abs(x - limit) <= CLOSE)


def across(column: Column) -> dict[str, Score]:
    """Mean and sample std over groups of each group's mean over the rounds."""
    means = [mean for score in column.values() if (mean := score.mean) is not None]
    numbers = (
        (float(np.mean(means)), float(np.std(means, ddof=1))) if len(means) > 1 else (None, None)
    )
    return {name: Score([number]) for name, number in zip(ACROSS, numbers, strict=True)}


def equity_scaled(overall: Score, column: Column) -> Score:
    """The ES-AUC in each round."""
    scores, whole = block(column.values()), block([overall])[0]
    scaled = whole / (1 + np.nansum(np.abs(whole - scores), axis=0))
    return _rounds(np.where(np.isfinite(scores).sum(0) > 1, scaled, np.nan), overall)


def among(column: Column, names: Iterable[str], *, low: bool) -> dict[str, Score]:
    """Mean, population std and worst over the clients that have a score, in each round; no rounds where nothing varies.

    names: of the three, those that can vary.
    """
    scored = [score for score in column.values() if score.last is not None]
    scores = block(scored)
    if len(scored) < 2 or not np.isfinite(scores).all():
        return {name: Score() for name in AMONG}
    worst = scores.max if low else scores.min
    numbers = dict(zip(AMONG, (scores.mean(0), scores.std(0), worst(0)), strict=True))
    return {name: _rounds(numbers[name], scored[0]) if name in names else Score() for name in AMONG}


def of_groups(
    where: Where, overall: Mapping[str, Score], metrics: Mapping[str, Column], measured: Table
) -> Table:
    """All that lies between the groups of an attribute.

    where: whose. overall: metric -> score of all images. metrics: metric -> group -> score. measured: what was measured
    of each of several models in each round; the worst group and the gap are of the groups' means over the models.
    """
    table: Table = {}
    for metric, of_metric in metrics.items():
        if not compared(metric):
            continue
        column = comparable(of_metric)
        for name, score in (between(column, low=better_low(metric)) | across(column)).items():
            table[where._replace(metric=metric, measure=name)] = score
        if metric in AREAS and metric in overall:
            table[where._replace(metric=f"es_{metric}")] = equity_scaled(overall[metric], column)
    for line, score in measured.items():
        key = line._replace(group="")
        table[key._replace(measure=OF_MEANS.get(key.measure, key.measure))] = score
        if key not in table or table[key].mean is None:
            table[key] = score  # of groups whose own scores are not there
    return table


def compared(metric: str) -> bool:
    """Tell whether groups are compared by a metric; they are by every metric of one's own."""
    return metric not in METRICS or metric in names(compared=True)


def headlines(metrics: Iterable[str]) -> Iterator[str]:
    """Of these the metrics that clients are compared by."""
    having = list(metrics)
    yield from (name for name in names(headline=True) if name in having)
    yield from (name for name in having if name not in METRICS)


def _edges(scores: np.ndarray, low: bool) -> list[np.ndarray]:
    """Places of the worst and the best member in each round: of those that are as good but for rounding the first."""
    limits = (
        [np.nanmin(scores, axis=0), np.nanmax(scores, axis=0)] if scores.size else [np.zeros(0)] * 2
    )
    places = [(np.abs(scores - limit) <= CLOSE).argmax(0) for limit in limits]
    return places[::-1] if low else places


def _spread(numbers: np.ndarray, there: np.ndarray) -> np.ndarray:
    spread = np.full(len(there), np.nan)
    spread[there] = numbers
    return spread


def _rounds(numbers: np.ndarray, like: Score) -> Score:
    values: list[Number] = [None if np.isnan(x) else x for x in numbers.tolist()]
    return Score(values, like.rounds, like.count, like.missing)
