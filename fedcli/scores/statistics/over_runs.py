"""A number of several runs of one system as one; the worst group and the gap are of the groups' means over the runs."""

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
    first = scores[0]
    if not isinstance(first, OfMeans):
        return over
    alone = [score.mean for score in scores if score.mean is not None]
    between_runs = float(np.std(alone, ddof=1)) if len(alone) > 1 else None
    mean = first.of(_group_means([score for score in scores if isinstance(score, OfMeans)]))
    return replace(over, mean=mean, std_runs=between_runs)


def mean_of(scores: Sequence[Score | None]) -> Number:
    """The mean over runs; None where a run does not have the number."""
    known = [score for score in scores if score is not None and score.mean is not None]
    if not known or len(known) < len(scores):
        return None
    return over_runs(known).mean


def _group_means(scores: Sequence[OfMeans]) -> dict[str, Number]:
    """The mean over runs of each group, as tables print it."""
    columns = [score.column for score in scores]
    return {group: mean_of([column.get(group) for column in columns]) for group in columns[0]}


def _values(score: Score) -> list[float]:
    return [value for value in score.values if value is not None]
