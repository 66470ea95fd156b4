"""The model that each rule takes by the clients' validation images: a round of a run, and a run among several."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ..comparison.systems import grouped
from ..scores.choice import RULES, Candidate, chosen, distances
from .rows import Row
from .table import Column, Heads, Table

LEGEND = (
    "On the clients' validation images, in percent; test images choose nothing. overall takes the highest score of all "
    "images; worst-group the highest score of the worst group (min-max); dto the smallest distance to the utopia "
    "point, which has the best score of every group that a line of this table reaches. A group with few validation "
    "images decides by chance: the smallest is named."
)
SEVERAL = (
    " A line of several seeds is the mean over them, each with the round that was taken of it, and of the groups that "
    "all of them have."
)


def tables(rows: Sequence[Row]) -> Iterator[Table]:
    """The kept rounds of a system alone, else the systems that share data and rounds, each with the round taken."""
    own = [
        row for row in rows if not row.is_view and all(run.scores.candidates for run in row.scored)
    ]
    for alike in grouped(own, lambda row: row.comparable):
        if len(alike) > 1:
            yield _table(
                "Model choice on validation images", {row.name: _taken(row) for row in alike}, alike
            )
            continue
        (row,) = alike
        for run in row.scored:
            which = f", {run.which}" if row.runs > 1 else ""
            lines = {f"round {each.round}": each for each in run.scores.candidates}
            yield _table(f"Model choice on validation images: {row.name}{which}", lines, [])


def _taken(row: Row) -> Candidate:
    """The candidate that was taken of each of its runs, in the mean."""
    taken = [
        next(candidate for candidate in run.scores.candidates if candidate.round == best.round)
        for run in row.scored
        if (best := run.scores.best)
    ]
    shared = {  # of seeds that have other validation images, the groups that all of them have
        name: [
            value for value in groups if all(value in other.groups.get(name, {}) for other in taken)
        ]
        for name, groups in taken[0].groups.items()
    }
    return Candidate(
        taken[0].round,
        _mean([one.score for one in taken]),
        {
            name: {
                value: _mean([one.groups[name][value] for one in taken]) for value in shared[name]
            }
            for name in shared
        },
        {
            name: {value: min(one.images[name][value] for one in taken) for value in shared[name]}
            for name in shared
        },
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if len(known) == len(values) else None


def _table(title: str, lines: Mapping[str, Candidate], rows: Sequence[Row]) -> Table:
    candidates = list(lines.values())
    far = distances(candidates) if all(c.known for c in candidates) else [None] * len(candidates)
    taken = {rule: chosen(candidates, rule) for rule in RULES}
    cells = [
        [
            name,
            candidate.score,
            candidate.worst,
            distance,
            candidate.smallest if candidate.known else None,
            ", ".join(rule for rule, at in taken.items() if at == place) or None,
        ]
        for place, (name, candidate, distance) in enumerate(
            zip(lines, candidates, far, strict=True)
        )
    ]
    heads: Heads = [
        "model",
        Column("all images", "%"),
        Column("worst group", "%"),
        Column("distance", "points", lower=True),
        "images of the smallest group",
        "taken by",
    ]
    return Table.of(title, heads, cells, LEGEND + SEVERAL * any(row.runs > 1 for row in rows))
