"""Scores by quarters of a measure of the test images' quality, within groups too, and how much of a
gap between groups it explains: `fedcli report --quality MEASURE`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ... import console
from ...comparison.predicted import RunPredictions, predicted
from ...data import quality_by_site, units
from ...data.pool import pool_of
from ...data.quality import MEASURES, NAMES, Measure, shown
from ...errors import FedcliError
from ...figures.kinds.errors import dataset_of
from ...metrics import RESAMPLED, needs_every_class, plan, title
from ...printed import percents
from ...scores.groups import FEW, SMALL, Patients
from ...scores.statistics.resampled import SEED, seed_of
from ...scores.statistics.stratified import Explained, explained, scores, strata
from ..rows import Rows, SystemRow
from ..table import Cell, Column, Heads, ReportTable, Section, bounded, percent

QUARTERS = "lowest quarter", "second", "third", "highest quarter"
LEGEND = (
    f"On clean test images, mean over the kept rounds; †: fewer than {SMALL} "
    f"patients, or, for a score that needs every class, a class with fewer than {FEW} or none."
)
STANDARDISED = (
    "At the same quality: images are weighted so that both groups have the same "
    "share of their images in each quarter. With 95 % bootstrap intervals over "
    f"patients. The best and the worst group of at least {SMALL} patients are "
    "compared. They are chosen by the same images and stay the same in resamples, so "
    "the interval of a gap lies too high if there are many groups: with five equal "
    "groups it excludes 0 in about a third of cases, with two in one of twenty."
)


def section(compared: Rows, name: str, metrics: Sequence[str] = ()) -> Section:
    """Tables for each system and metric. name: of a measure; metrics: the usual one where none is
    given. Raises FedcliError.
    """
    measure = MEASURES[NAMES.index(name)]
    falls = []
    gaps = []
    text = []
    for row in compared:
        system = f": {row.name}" if len(compared) > 1 else ""
        scored = _Scored(row, measure)
        for metric in metrics or [row.scores.usual[1]]:
            fall = scored.fall(metric)
            falls.append(replace(fall, title=f"{fall.title}{system}"))
            filled = scored.filled_quarters
            if len(filled) > 1:
                lowest = fall.rows[0][2].plain
                highest = fall.rows[-1][2].plain
                quarters = (
                    f"in the {filled[0]} of {measure.title} and {highest} % in the {filled[-1]}"
                )
                text.append(f"{console.capital(title(metric))} is {lowest} % {quarters}{system}")
            lines = []
            for attribute, gap in scored.gaps(metric):
                shares = [
                    bounded(*share).text for share in (gap.gap, gap.standardised, gap.explained)
                ]
                lines.append([attribute, f"{gap.better} over {gap.worse}", *shares])
                text.append(_sentence(gap, attribute, measure, metric) + system)
            if lines:
                same = f"at the same {measure.title}"
                heads = ["attribute", "groups", "gap (points)", same, "explained"]
                table_title = f"Gap in {title(metric)} and {measure.title}{system}"
                gaps.append(
                    ReportTable.of(
                        table_title, heads, lines, units.worded(STANDARDISED, row.scores.noun)
                    )
                )
    question = f"Does the score fall with {measure.title}?"
    return Section("quality", question, [*falls, *gaps], text=text)


class _Scored:
    """The clean test images of a system's first run and their quality, with the answers of all its
    runs on the same ones: of folds the first alone. Raises FedcliError where the images are not
    here.

    answers: of each model in each kept round. values: of the measure, one of each image; quarters:
    of these values. missing: classes that no image has, or labels that all or none have.
    """

    def __init__(self, row: SystemRow, measure: Measure):
        runs = [predicted(path) for path in row.paths]
        self.row = row
        self.measure = measure
        self.images = runs[0]
        self.answers: list[np.ndarray] = []
        for run in runs:
            if np.array_equal(run.id, self.images.id):
                self.answers += run.tables["clean"]
        self.values = _values(row, self.images)[:, NAMES.index(measure.name)]  # [N]
        self.quarters = strata(self.values)
        self.missing = self._missing(np.full(len(self.values), True))

    @property
    def filled_quarters(self) -> list[str]:
        """The quarters with images, in words; with equal values there may be fewer than four."""
        return [QUARTERS[k] for k in np.unique(self.quarters)]

    def fall(self, metric: str) -> ReportTable:
        """A line for each quarter: its values, the score of all its images, and of each group's."""
        groups = {"all": np.full(len(self.values), True)}
        for attribute in self.row.scores.groups:
            codes, names = self.images.grouping(attribute)
            for code, group in enumerate(names):
                groups[f"{attribute} {group}"] = codes == code
        lines = []
        for k, words in enumerate(QUARTERS):
            inside = self.quarters == k
            if inside.any():
                values = self.values[inside]
                span = f"{words}: {shown(values.min())} to {shown(values.max())}"
                cells = [self._cell(inside & members, metric) for members in groups.values()]
                lines.append([span, int(inside.sum()), *cells])
        heads: Heads = [f"{self.measure.title} ({self.measure.unit})", "images"]
        heads += [Column(group, "%", over=title(metric)) for group in groups]
        name = f"{console.capital(title(metric))} by {self.measure.title}"
        return ReportTable.of(name, heads, lines, units.worded(LEGEND, self.row.scores.noun))

    def _cell(self, members: np.ndarray, metric: str) -> Cell:
        if not members.any():
            return Cell()
        score = scores(self.answers, self.images.y, members, metric)
        if not np.isfinite(score):
            return Cell()
        patients = Patients.of(self.images.y[members], self.images.units[members])
        missing = self._missing(members) - self.missing
        lacking = patients.few_of_a_class or bool(missing)
        doubtful = bool(patients.few) or (lacking and needs_every_class(metric))
        return percent(score, doubtful=doubtful)

    def _missing(self, members: np.ndarray) -> set[int]:
        """The classes that none of these images has, or labels that all or none of them have."""
        answers = plan(self.answers[0][members], self.images.y[members])
        return set(answers.sums().missing())

    def gaps(self, metric: str) -> Iterator[tuple[str, Explained]]:
        """The gap of each attribute, as it is and at the same quality; none of a metric without
        resamples.
        """
        images = self.images
        seed = seed_of(images.id, SEED)
        for attribute in self.row.scores.groups if metric in RESAMPLED else ():
            console.say(
                f"drawing resamples for the gap by {attribute} at the same {self.measure.title}"
            )
            grouping = images.grouping(attribute)
            gap = explained(
                self.answers,
                images.y,
                images.units,
                grouping,
                self.quarters,
                metric,
                seed,
            )
            if gap:
                yield attribute, gap


def _values(row: SystemRow, images: RunPredictions) -> np.ndarray:
    """MEASURES of the test images, in their order [N, M]. Raises FedcliError where they are not
    here.
    """
    dataset = None if images.counted else dataset_of(row.paths[0], row.scores)
    if not dataset:
        raise FedcliError(
            f"the test images of {row.name} are not here, so their quality is not known",
            "leave --quality out",
        )
    pool = pool_of(dataset)
    rows = {name: k for k, name in enumerate(pool.id.tolist())}
    return quality_by_site.measured([(pool.path, "x", rows[name]) for name in images.id.tolist()])


def _sentence(
    gap: Explained,
    attribute: str,
    measure: Measure,
    metric: str,
) -> str:
    """The share of a gap that quality explains; where the gap is wider at the same quality, by how
    much.
    """
    difference, low, high = gap.explained
    ending = ""
    if low is None or high is None or low <= 0 <= high:
        ending += ", which may be chance"
    if gap.left_out:
        ending += f"; {gap.left_out} images have no counterpart of that quality in the other group"
    groups = f"the gap in {title(metric)} by {attribute}, {gap.better} over {gap.worse}"
    points = percents(gap.gap[0])
    if difference < 0:
        wider = f"{bounded(*gap.standardised).text} points instead of {points}"
        return f"At the same {measure.title} {groups}, is wider: {wider}{ending}"
    share = f"{bounded(*gap.explained).text} of {points} points of {groups}"
    return f"{share}, are explained by {measure.title}{ending}"
