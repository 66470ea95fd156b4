"""Levelling down: a system whose gap between groups is smaller because the best group lost, while no group gained."""

from collections.abc import Iterator, Sequence

import numpy as np

from ..metrics import apart
from ..scores.scores import Scores
from .columns import area
from .rows import Row


def notes(rows: Sequence[Row]) -> Iterator[str]:
    """A sentence for each attribute and each system that levels down against the first one on the same data."""
    own = [row for row in rows if not row.is_view]
    for row in own[1:]:
        first = own[0]
        if row.data == first.data:
            for attribute in (name for name in row.scores.groups if name in first.scores.groups):
                yield from _note(first, row, attribute)


def _note(first: Row, row: Row, attribute: str) -> Iterator[str]:
    before, after = _means(first.qualities, attribute), _means(row.qualities, attribute)
    shared = [group for group in after if group in before]
    if len(shared) < 2:
        return
    was, now = [before[group] for group in shared], [after[group] for group in shared]
    narrower = (max(was) - min(was)) - (max(now) - min(now))
    if apart(narrower, 0.0) > 0 and (apart(now, was) <= 0).all():
        best, metric = max(shared, key=lambda group: before[group]), area(row.scores)
        points, fell = f"{100 * narrower:.2f} points", f"{100 * before[best]:.2f} to {100 * after[best]:.2f} % {metric}"
        yield (
            f"levelling down: the gap of {row.name} by {attribute} is {points} smaller than that of {first.name}, but "
            f"no group gained; {best} fell from {fell}"
        )


def _means(runs: Sequence[Scores], attribute: str) -> dict[str, float]:
    """Each group's mean over rounds and runs on clean images."""
    metric = area(runs[0])
    each = [scores.groups[attribute]["clean"].each.get(metric, {}) for scores in runs if attribute in scores.groups]
    groups = [group for group in (each[0] if each else {}) if all(known.get(group) for known in each)]
    values = {group: [known[group].mean_last5 for known in each] for group in groups}
    return {group: float(np.mean(known)) for group, known in values.items() if None not in known}
