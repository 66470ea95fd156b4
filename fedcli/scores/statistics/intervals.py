"""95 % intervals of the last round's scores from resampled patients.

Clean and corrupted images are the same patients, so a resample of their average takes the same
patients of both; where every client answers for itself, a resample of the mean over clients does.
One patient alone has no interval: there is nothing to draw.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...metrics import Groupings, groupings_at
from .. import views
from ..parts import AVERAGE, MODELS
from ..table import Score, Table, Where
from .bootstrap import BCA, PERCENTILE, Columns, bootstrap_all, bounds, mean, without_each

RESAMPLES = 1000
SEED = 0
Array = np.ndarray


@dataclass(frozen=True)
class Answered:
    """Images with the answers of one or several models, whose scores are the mean.

    Attributes:
        answers: logits [N, C] of each model. y: labels, [N] or [N, C].
        units: [N], the patient or lesion of each image; None where images are drawn one by one.
        groupings: for metrics from outside the package, which are not made where it is None.
    """

    answers: list[Array]
    y: Array
    units: Array | None = None
    groupings: Groupings | None = None

    def at(self, images: Array) -> "Answered":
        """Some of the images."""
        answers = [logits[images] for logits in self.answers]
        units = None if self.units is None else self.units[images]
        groupings = self.groupings and groupings_at(self.groupings, images)
        return Answered(answers, self.y[images], units, groupings)

    def resampled(self, groups: Array | None = None) -> Columns:
        """Each metric in every resample, with equal draws for each model.

        [B, G] where groups [N] are given.
        """
        columns = bootstrap_all(
            self.answers,
            self.y,
            self.units,
            resamples=RESAMPLES,
            seed=SEED,
            groups=groups,
            groupings=self.groupings,
        )
        return mean(columns)

    def without_each(self) -> Columns:
        """Each metric without each patient in turn."""
        columns = []
        for logits in self.answers:
            columns.append(without_each(logits, self.y, self.units, self.groupings))
        return mean(columns)

    def mark(
        self,
        score: Score,
        resampled: Array,
        jackknife: Array | None,
    ) -> None:
        """Give a score of these images its interval.

        jackknife: the scores without each patient, for a BCa interval.
        """
        method = PERCENTILE if jackknife is None else BCA
        if self.units is None:
            score.units = len(self.y)
            score.interval = f"{method} by image"
        else:
            score.units = len(np.unique(self.units))
            score.interval = f"{method} by patient or lesion"
        score.low = score.high = None
        if score.units > 1:
            score.low, score.high = bounds(score.last, resampled, jackknife)


def add_intervals(
    table: Table,
    where: Where,
    versions: Mapping[str, Answered],
    method: str = PERCENTILE,
) -> None:
    """Give an interval to each line of all images that is resampled, and add those of the average.

    where: whose the lines are, but for the version. versions: the last round's answers. method:
    PERCENTILE or BCA.
    """
    images = next(iter(versions.values()))  # versions are the same patients
    if not len(images.y):
        return
    resampled = {version: answered.resampled() for version, answered in versions.items()}
    jackknifed: dict[str, Columns] = {}
    if method == BCA:
        jackknifed = {version: answered.without_each() for version, answered in versions.items()}
    if MODELS[1] in versions:
        resampled[AVERAGE] = mean(list(resampled.values()))
        if jackknifed:
            jackknifed[AVERAGE] = mean(list(jackknifed.values()))
    for version, columns in resampled.items():
        jackknife = jackknifed.get(version, {})
        for metric, column in columns.items():
            key = where._replace(version=version, metric=metric)
            if version == AVERAGE:
                table[key] = _average(table, key)
            images.mark(table[key], column, jackknife.get(metric))


def _average(table: Table, key: Where) -> Score:
    """The last round's mean of clean and corrupted images."""
    both = views.mean([table[key._replace(version=version)] for version in MODELS])
    return Score([both.last], both.rounds[-1:])


def add_group_intervals(
    table: Table, where: Where, answered: Answered, method: str = PERCENTILE
) -> None:
    """Give an interval to the lines of each group, from its own images.

    where: whose the lines are, and of which version.
    """
    if not len(answered.y):
        return
    for attribute, (codes, names) in (answered.groupings or {}).items():
        # each [B, G], of the groups up to the last with an image
        columns = answered.resampled(codes)
        for code, group in enumerate(names):
            members = answered.at(codes == code)
            has_images = len(members.y) > 0
            jackknife: Columns = {}
            if method == BCA and has_images:
                jackknife = members.without_each()
            for metric, column in columns.items():
                key = where._replace(
                    attribute=attribute,
                    group=group,
                    metric=metric,
                )
                resampled = column[:, code] if has_images else np.zeros(0)
                members.mark(table[key], resampled, jackknife.get(metric))
