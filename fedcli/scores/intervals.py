"""Intervals of the scores of one model, 95 %, from resampled patients, for all images and for each group.

The last round's model stands for the run, and its score is the interval's `value`. Clean and corrupted images are the
same patients, so a resample of their average takes the same patients of both; where every client answers for itself, a
resample of the mean over clients does. One patient alone has no interval: there is nothing to draw.
"""

from dataclasses import dataclass

import numpy as np

from ..metrics import Groupings, groupings_at
from .bca import BCA, PERCENTILE, bca_interval, without_each
from .bootstrap import LEVEL, bootstrap_all, interval
from .parts import Interval, Score
from .rounds import mean, with_average

RESAMPLES, SEED = 1000, 0
Tables = dict[str, list[np.ndarray]]  # version -> logits [N, C] of each model that answers
Columns = dict[str, np.ndarray]  # metric -> [B]


@dataclass(frozen=True)
class Answered:
    """Images with the answers of one or several models, whose scores are the mean.

    Attributes:
        answers: logits [N, C] of each model. y: labels, [N] or [N, C].
        units: [N], the patient or lesion of each image; None where images are drawn one by one.
        groupings: for metrics from outside the package, which are not made where it is None.
    """

    answers: list[np.ndarray]
    y: np.ndarray
    units: np.ndarray | None = None
    groupings: Groupings | None = None

    def at(self, images: np.ndarray) -> "Answered":
        """Some of the images."""
        groupings = self.groupings and groupings_at(self.groupings, images)
        units = None if self.units is None else self.units[images]
        return Answered([table[images] for table in self.answers], self.y[images], units, groupings)

    def score(self) -> Score:
        return mean([Score.of(table, self.y, self.groupings) for table in self.answers])

    def resampled(self, groups: np.ndarray | None = None) -> Columns:
        """Each metric in every resample, with equal draws for each model; [B, G] where groups [N] are given."""
        how = {"resamples": RESAMPLES, "seed": SEED, "groups": groups, "groupings": self.groupings}
        return _mean(bootstrap_all(self.answers, self.y, self.units, **how))

    def without_each(self) -> Columns:
        """Each metric without each patient in turn."""
        return _mean([without_each(table, self.y, self.units, self.groupings) for table in self.answers])

    def interval(self, value: float | None, resampled: np.ndarray, left: np.ndarray | None) -> Interval:
        """Of a score of these images. left: the scores without each patient, for a BCa interval."""
        count = len(self.y) if self.units is None else len(np.unique(self.units))
        unit = "image" if self.units is None else "patient or lesion"
        low, high = bounds(value, resampled, left) if count > 1 else (None, None)
        return Interval(value, low, high, LEVEL, RESAMPLES, unit, count, "" if left is None else BCA)


def _mean(columns: list[Columns]) -> Columns:
    return {metric: np.mean([table[metric] for table in columns], axis=0) for metric in columns[0]}


def intervals(
    tables: Tables, y: np.ndarray, units: np.ndarray | None, method: str = PERCENTILE,
    groupings: Groupings | None = None,
) -> dict[str, dict[str, Interval]]:  # fmt: skip
    """version -> metric -> interval, with the average of clean and corrupted where there are both.

    units, groupings: as of Answered. {} where there is no image. method: "percentile" or "bca".
    """
    if not len(y):
        return {}
    versions = {version: Answered(answers, y, units, groupings) for version, answers in tables.items()}
    drawn = _averaged({version: each.resampled() for version, each in versions.items()})
    left = _averaged({version: each.without_each() for version, each in versions.items()}) if method == BCA else {}
    scores = with_average({version: [each.score()] for version, each in versions.items()})
    first = next(iter(versions.values()))  # versions are the same patients
    return {
        version: {
            m: first.interval(scores[version][0].metrics[m], b, left[version][m] if left else None)
            for m, b in columns.items()
        }
        for version, columns in drawn.items()
    }


def _averaged(versions: dict[str, Columns]) -> dict[str, Columns]:
    return versions | ({"average": _mean(list(versions.values()))} if "corrupted" in versions else {})


def group_intervals(
    answers: list[np.ndarray],
    y: np.ndarray,
    units: np.ndarray | None,
    groups: np.ndarray,
    values: list[str],
    method: str = PERCENTILE,
    groupings: Groupings | None = None,
) -> dict[str, dict[str, Interval]]:
    """metric -> value -> interval of that group's own images; groups: [N] index into values, -1 unknown."""
    if not len(y):
        return {}
    everyone = Answered(answers, y, units, groupings)
    columns = everyone.resampled(groups)  # each [B, G], of the groups up to the last with an image
    by_metric: dict[str, dict[str, Interval]] = {metric: {} for metric in columns}
    for g, value in enumerate(values):
        here = everyone.at(groups == g)
        scores, left = here.score(), here.without_each() if method == BCA and len(here.y) else {}
        for metric, column in columns.items():
            drawn = column[:, g] if len(here.y) else np.zeros(0)
            by_metric[metric][value] = here.interval(scores.metrics[metric], drawn, left.get(metric))
    return by_metric


def bounds(value: float | None, resampled: np.ndarray, left: np.ndarray | None) -> tuple[float | None, float | None]:
    """Percentile bounds, or BCa where the scores without each patient are given."""
    return interval(resampled) if left is None else bca_interval(value, resampled, left)
