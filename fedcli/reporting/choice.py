"""The model that each rule takes by the clients' validation images: a round of a run, and a run among several."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ..compare.systems import grouped
from ..scores.choice import RULES, Candidate, chosen, distances
from .rows import Row
from .section import Section
from .table import Cell, Column, Table, number, percent

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


def section(rows: Sequence[Row]) -> Section:
    return Section("choice", "Model choice", tables=list(tables(rows)))


def tables(rows: Sequence[Row]) -> Iterator[Table]:
    """The kept rounds of a system alone, else the systems that share data and rounds, each with the round taken."""
    own = [row for row in rows if not row.is_view and all(run.scores.candidates for run in row.scored)]
    for alike in grouped(own, lambda row: row.comparable):
        if len(alike) > 1:
            yield _table("Model choice on validation images", {row.name: _taken(row) for row in alike}, alike)
            continue
        (row,) = alike
        for run in row.scored:
            which = f", {run.which}" if row.runs > 1 else ""
            lines = {f"round {each.round}": each for each in run.scores.candidates}
            yield _table(f"Model choice on validation images: {row.name}{which}", lines, [])


def _taken(row: Row) -> Candidate:
    """The candidate that was taken of each of its runs, in the mean."""
    each = [
        next(c for c in run.scores.candidates if c.round == run.scores.best.round)
        for run in row.scored
        if run.scores.best
    ]
    groups: dict[str, dict[str, float | None]] = {}
    images: dict[str, dict[str, int]] = {}
    for name in each[0].groups:  # of seeds that have other validation images, the groups that all of them have
        shared = [value for value in each[0].groups[name] if all(value in c.groups.get(name, {}) for c in each)]
        groups[name] = {value: _mean([c.groups[name][value] for c in each]) for value in shared}
        images[name] = {value: min(c.images[name][value] for c in each) for value in shared}
    return Candidate(each[0].round, _mean([c.score for c in each]), groups, images)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if len(known) == len(values) else None


def _table(title: str, lines: Mapping[str, Candidate], rows: Sequence[Row]) -> Table:
    candidates = list(lines.values())
    far = distances(candidates) if all(c.known for c in candidates) else [None] * len(candidates)
    taken = {rule: chosen(candidates, rule) for rule in RULES}
    cells = [
        [
            Cell(name), percent(candidate.score), percent(candidate.worst), _points(distance),
            Cell(str(candidate.smallest) if candidate.known else "-"),
            Cell(", ".join(rule for rule, at in taken.items() if at == place) or "-"),
        ]
        for place, (name, candidate, distance) in enumerate(zip(lines, candidates, far, strict=True))
    ]  # fmt: skip
    heads = [
        Column("model"), Column("all images", "%"), Column("worst group", "%"),
        Column("distance", "points", lower=True), Column("images of the smallest group"), Column("taken by"),
    ]  # fmt: skip
    return Table(title, heads, cells, LEGEND + SEVERAL * any(row.runs > 1 for row in rows))


def _points(distance: float | None) -> Cell:
    return number(None if distance is None else 100 * distance)
