"""Intervals of the last round's scores, 95 %, from resampled patients, for all images and for each group.

Clean and corrupted images are the same patients, so a resample of their average takes the same patients of both; where
every client answers for itself, a resample of the mean over clients does. One patient alone has no interval: there is
nothing to draw.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...metrics import Groupings, groupings_at
from .. import views
from ..parts import AVERAGE, MODELS
from ..table import Score, Table, Where
from .bootstrap import BCA, PERCENTILE, Columns, bootstrap_all, bounds, mean, without_each

RESAMPLES, SEED = 1000, 0


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

    def resampled(self, groups: np.ndarray | None = None) -> Columns:
        """Each metric in every resample, with equal draws for each model; [B, G] where groups [N] are given."""
        return mean(
            bootstrap_all(
                self.answers,
                self.y,
                self.units,
                resamples=RESAMPLES,
                seed=SEED,
                groups=groups,
                groupings=self.groupings,
            )
        )

    def without_each(self) -> Columns:
        """Each metric without each patient in turn."""
        return mean(
            [without_each(table, self.y, self.units, self.groupings) for table in self.answers]
        )

    def mark(self, score: Score, resampled: np.ndarray, left: np.ndarray | None) -> None:
        """Give a score of these images its interval. left: the scores without each patient, for a BCa interval."""
        score.units = len(self.y) if self.units is None else len(np.unique(self.units))
        unit = "image" if self.units is None else "patient or lesion"
        score.interval = f"{PERCENTILE if left is None else BCA} by {unit}"
        score.low, score.high = (
            bounds(score.last, resampled, left) if score.units > 1 else (None, None)
        )


def add_intervals(
    table: Table, where: Where, versions: Mapping[str, Answered], method: str = PERCENTILE
) -> None:
    """Give an interval to each line of all images that is resampled, and add lines of the average of both versions.

    where: whose the lines are, but for the version. versions: the last round's answers. method: PERCENTILE or BCA.
    """
    some = next(iter(versions.values()))  # versions are the same patients
    if not len(some.y):
        return
    drawn = {version: answered.resampled() for version, answered in versions.items()}
    left = (
        {version: answered.without_each() for version, answered in versions.items()}
        if method == BCA
        else {}
    )
    if MODELS[1] in versions:
        drawn[AVERAGE] = mean(list(drawn.values()))
        left |= {AVERAGE: mean(list(left.values()))} if left else {}
    for version, columns in drawn.items():
        for metric, resampled in columns.items():
            key = where._replace(version=version, metric=metric)
            if version == AVERAGE:
                both = views.mean([table[key._replace(version=of)] for of in MODELS])
                table[key] = Score([both.last], both.rounds[-1:])
            some.mark(table[key], resampled, left[version][metric] if left else None)


def add_group_intervals(
    table: Table, where: Where, answered: Answered, method: str = PERCENTILE
) -> None:
    """The same for the lines of each group, from its own images. where: whose the lines are, and of which version."""
    if not len(answered.y):
        return
    for name, (places, values) in (answered.groupings or {}).items():
        columns = answered.resampled(
            places
        )  # each [B, G], of the groups up to the last with an image
        for g, group in enumerate(values):
            here = answered.at(places == g)
            left = here.without_each() if method == BCA and len(here.y) else {}
            for metric, resampled in columns.items():
                score = table[where._replace(attribute=name, group=group, metric=metric)]
                here.mark(score, resampled[:, g] if len(here.y) else np.zeros(0), left.get(metric))
