"""Scores by quarters of a measure of the test images' quality, within groups too, and how much of a gap between groups
it explains: `fedcli report --quality MEASURE`."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from ... import console
from ...comparison.predicted import Predicted, predicted
from ...data import quality_by_site
from ...data.pool import pool_of
from ...data.quality import MEASURES, NAMES, Measure, shown
from ...errors import FedcliError
from ...figures.kinds.errors import dataset_of
from ...metrics import RESAMPLED, needs_every_class, title
from ...printed import percents
from ...scores.groups import FEW, SMALL, Patients
from ...scores.statistics.resampled import SEED, seed_of
from ...scores.statistics.stratified import Explained, explained, scores, strata
from ..rows import Row
from ..table import Cell, Column, Heads, Section, Table, bounded, percent

QUARTERS = "lowest quarter", "second", "third", "highest quarter"
LEGEND = f"On clean test images, mean over the kept rounds; † of fewer than {SMALL} patients, or {FEW} of a class."
STANDARDISED = (
    "At the same quality: images are weighted so that both groups have the same share of their images in each quarter. "
    f"With 95 % bootstrap intervals over patients. The best and the worst group of at least {SMALL} patients are compared. "
    "They are chosen by the same images and stay the same in resamples, so the interval of a gap lies too high where there "
    "are many groups: of five equal groups it excludes 0 in about a third of cases, of two in one of twenty."
)


def section(compared: Iterable[Row], asked: str, metrics: Sequence[str] = ()) -> Section:
    """Tables for each system and metric. asked: a measure's name; metrics: the usual one where none is given. Raises
    FedcliError."""
    falls, gaps, said = list[Table](), list[Table](), list[str]()
    rows, measure = list(compared), MEASURES[NAMES.index(asked)]
    for row in rows:
        found = [predicted(path) for path in row.paths]
        values = _values(row, found[0])[:, NAMES.index(asked)]  # [N]
        alike = [
            one for one in found if np.array_equal(one.id, found[0].id)
        ]  # of folds the first alone
        answers = [table for one in alike for table in one.tables["clean"]]
        who, quarter, seed = (
            f": {row.name}" if len(rows) > 1 else "",
            strata(values),
            seed_of(found[0].id, SEED),
        )
        for metric in metrics or [row.scores.usual[1]]:
            table = _fall(row, found[0], answers, values, measure, metric)
            falls.append(replace(table, title=f"{table.title}{who}"))
            ends = [cells[2].plain for cells in (table.rows[0], table.rows[-1])]
            where = f"in the {QUARTERS[0]} of {measure.title} and {ends[1]} % in the {QUARTERS[-1]}{who}"
            said.append(f"{console.capital(title(metric))} is {ends[0]} % {where}")
            lines = []
            for name in row.scores.groups if metric in RESAMPLED else ():
                console.say(f"drawing resamples for the gap by {name} at the same {measure.title}")
                gap = explained(
                    answers,
                    found[0].y,
                    found[0].units,
                    found[0].grouping(name),
                    quarter,
                    metric,
                    seed,
                )
                if gap:
                    parts = [
                        bounded(*each).text for each in (gap.gap, gap.standardised, gap.explained)
                    ]
                    lines.append([name, f"{gap.better} over {gap.worse}", *parts])
                    said.append(_sentence(gap, name, measure, metric) + who)
            heads = [
                "attribute",
                "groups",
                "gap (points)",
                f"at the same {measure.title}",
                "explained",
            ]
            about = f"Gap in {title(metric)} and {measure.title}{who}"
            gaps += [Table.of(about, heads, lines, STANDARDISED)] if lines else []
    return Section(
        "quality", f"Does the score fall with {measure.title}?", [*falls, *gaps], text=said
    )


def _values(row: Row, found: Predicted) -> np.ndarray:
    """MEASURES of the test images, in their order [N, M]. Raises FedcliError where they are not here."""
    dataset = None if found.counted else dataset_of(row.paths[0], row.scores)
    if not dataset:
        raise FedcliError(
            f"the test images of {row.name} are not here, so their quality is not known",
            "leave --quality out",
        )
    pool = pool_of(dataset)
    places = {name: k for k, name in enumerate(pool.id.tolist())}
    return quality_by_site.measured([(pool.path, "x", places[name]) for name in found.id.tolist()])


def _fall(
    row: Row,
    found: Predicted,
    answers: list[np.ndarray],
    values: np.ndarray,
    measure: Measure,
    metric: str,
) -> Table:
    """A line for each quarter: its values, the score of all its images, and of each group's."""
    quarter = strata(values)
    groups = {"all": np.full(len(values), True)}
    for name in row.scores.groups:
        place, names = found.grouping(name)
        groups |= {f"{name} {group}": place == g for g, group in enumerate(names)}
    lines = []
    for k, words in enumerate(QUARTERS):
        inside = quarter == k
        if inside.any():
            span = f"{shown(values[inside].min())} to {shown(values[inside].max())}"
            cells = [_cell(answers, found, inside & of, metric) for of in groups.values()]
            lines.append([f"{words}: {span}", int(inside.sum()), *cells])
    heads: Heads = [
        f"{measure.title} ({measure.unit})",
        "images",
        *(Column(n, "%", over=title(metric)) for n in groups),
    ]
    return Table.of(f"{console.capital(title(metric))} by {measure.title}", heads, lines, LEGEND)


def _cell(answers: list[np.ndarray], found: Predicted, members: np.ndarray, metric: str) -> Cell:
    score = scores(answers, found.y, members, metric) if members.any() else np.nan
    patients = Patients.of(found.y[members], found.units[members])
    few = bool(patients.few) or (patients.few_of_a_class and needs_every_class(metric))
    return percent(score, doubtful=few) if np.isfinite(score) else Cell()


def _sentence(gap: Explained, name: str, measure: Measure, metric: str) -> str:
    left = f"; {gap.left_out} images have no counterpart of that quality in the other group" * bool(
        gap.left_out
    )
    low, high = gap.explained[1:]
    sure = low is not None and high is not None and (low > 0 or high < 0)
    chance, pair = (
        ", which may be chance" * (not sure),
        f"{title(metric)} by {name}, {gap.better} over {gap.worse}",
    )
    if gap.explained[0] < 0:
        there = f"{bounded(*gap.standardised).text} points in place of {percents(gap.gap[0])}"
        return f"At the same {measure.title} the gap in {pair}, is wider: {there}{chance}{left}"
    explained_by = f"are explained by {measure.title}{chance}{left}"
    return f"{bounded(*gap.explained).text} of {percents(gap.gap[0])} points of the gap in {pair}, {explained_by}"
