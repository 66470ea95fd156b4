"""Views of the lines of a table of scores: each view is an expression of NumPy over a block of scores.

A block is [members, rounds], members being groups, clients or versions of the test images; NaN where a score has no
meaning. A view of groups needs two groups with a number. Where several models answer, their views were measured as the
mean over the models, and are taken as they are.

    mean_last5, std_last5   mean and population standard deviation over the kept rounds: the last five, or all
    average                 mean of clean and corrupted images
    worst group, gap, std in each round, mean in each round
    mean over groups, std over groups   of each group's mean over the rounds; the std is a sample's (ddof 1)
    es_auc_ovo_macro, es_auc_macro      equity-scaled AUC: AUC / (1 + sum over groups of |AUC - AUC of the group|)
    mean, std, worst among clients

Sources: the equity-scaled AUC is that of FairFedMed, section "Evaluation Metrics", which takes it from Luo et al., IEEE
TMI 43(7), 2024, doi 10.1109/TMI.2024.3377552, on the 0..1 scale and with every group counting once. We differ where a
group has images of one class only: it has no AUC, is shown with its count and takes no part, where the papers' code
stops or turns everything into NaN. Mean and std over groups: FedHEAL, CVPR 2024, Tables 2 to 5: AVG and STD over
domains, each domain's mean over the last rounds taken first.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..metrics import METRICS, better_low, names
from ..metrics.arithmetic import CLOSE
from .table import Number, Score, Table, Where

Column = Mapping[str, Score]  # group or client -> score
AREAS = "auc_ovo_macro", "auc_macro"  # of which there is an equity-scaled one
WORST, BEST, GAP, STD, MEAN = (
    "worst group",
    "best group",
    "gap",
    "std in each round",
    "mean in each round",
)
BETWEEN = WORST, GAP, STD, MEAN
ACROSS = "mean over groups", "std over groups"
AMONG = "mean among clients", "std among clients", "worst among clients"


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
    """Worst group, gap, std and mean over the groups in each round. low: the metric is better when low."""
    scores, some = block(column.values()), next(iter(column.values()))
    enough = np.isfinite(scores).sum(0) > 1  # [rounds]
    known = scores[:, enough]
    worst, best = (known[places, np.arange(len(places))] for places in _edges(known, low))
    std, middle = (np.std, np.mean) if np.isfinite(known).all() else (np.nanstd, np.nanmean)
    measures = {
        WORST: worst,
        GAP: np.abs(best - worst),
        STD: std(known, axis=0),
        MEAN: middle(known, axis=0),
    }
    return {name: _rounds(_spread(numbers, enough), some) for name, numbers in measures.items()}


def edges(column: Column, *, low: bool) -> tuple[tuple[str, float], tuple[str, float]] | None:
    """Name and score of the worst and of the best group of the last round; None of fewer than two with a score.

    Scores that rounding alone sets apart are the same: the first group of them is named.
    """
    known = {
        name: score.last for name, score in comparable(column).items() if score.last is not None
    }
    if len(known) < 2:
        return None
    worst, best = _edges(np.array(list(known.values()))[:, None], low)
    names = [list(known)[at[0]] for at in (worst, best)]
    return (names[0], known[names[0]]), (names[1], known[names[1]])


def comparable(column: Column) -> Column:
    """The scores of groups; none where sites hide images of one: what lies between the others is another number."""
    if not any(score.hidden for score in column.values()):
        return column
    return {
        name: replace(score, values=[None] * len(score.values)) for name, score in column.items()
    }


def worst_of(values: Mapping[str, Number], metric: str) -> str:
    """The one of these groups that fares worst; "" where none has a number."""
    known = {
        name: value for name, value in values.items() if value is not None and not np.isnan(value)
    }
    return (max if better_low(metric) else min)(known, key=lambda name: known[name], default="")


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
    of several models.
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
    return table | {key._replace(group=""): score for key, score in measured.items()}


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
