"""A number of several runs of one system as one.

The worst group and the gap are of the groups' means over the runs.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..table import Number, Score
from ..views import OfMeans
from .significance import OverSeeds, over_seeds


def over_runs(scores: Sequence[Score]) -> OverSeeds:
    """The mean and the spread of a number that every run has.

    The spread of a worst group or a gap is that of its rounds, or of what each run has by itself.
    """
    over = over_seeds([_values(score) for score in scores])
    of_means = [score for score in scores if isinstance(score, OfMeans)]
    if not isinstance(scores[0], OfMeans):
        return over
    mean = of_means[0].of(_group_means(of_means))
    means = [score.mean for score in scores if score.mean is not None]
    spread = float(np.std(means, ddof=1)) if len(means) > 1 else None
    return replace(over, mean=mean, std_runs=spread)


def mean_of(scores: Sequence[Score | None]) -> Number:
    """The mean over runs; None where a run does not have the number."""
    numbers = []
    for score in scores:
        if score is None or score.mean is None:
            return None
        numbers.append(score)
    return over_runs(numbers).mean if numbers else None


def _group_means(scores: Sequence[OfMeans]) -> dict[str, Number]:
    """The mean over runs of each group, as tables print it."""
    columns = [score.column for score in scores]
    means = {}
    for group in columns[0]:
        means[group] = mean_of([column.get(group) for column in columns])
    return means


def _values(score: Score) -> list[float]:
    return [value for value in score.values if value is not None]
