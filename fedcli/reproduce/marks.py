"""Marks of the rows that are the best of a column, and of the numbers that a group too small to be reliable decides."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ..compare.cautions import doubtful_decisions, small_decides
from ..compare.systems import Quantity, Scored
from ..compare.tested import Leads
from ..metrics import PARITY, RESAMPLED
from ..reporting import table
from ..scores.parts import VERSIONS
from ..scores.scores import Scores
from .jobs import Outcome
from .model import Column, Recipe
from .record import Marked, Row

DIGITS = {"MB": 6}  # single bytes; of other units 2
EDGES = {"worst": "worst group", "gap": "gap"}


@dataclass(frozen=True)
class Marks:
    """rows: as results.json holds them. runs: of each scores.json."""

    recipe: Recipe
    rows: list[Row]
    outcomes: list[Outcome]
    runs: Mapping[Path, Scored]

    def of(self, column: Column) -> Marked:
        """Rows that are the `best` of a column and that are `doubtful`, and whether tests stand behind the best.

        The best leads every other row significantly; of a score without a test it is the best number.
        """
        runs = [self._scored(row.name, column.data) for row in self.rows]
        cells = [self._cell(row, column, scored) for row, scored in zip(self.rows, runs, strict=True)]
        compared = sum(cell.number is not None for cell in cells) - 1
        answers: list[bool | None] = []

        def leads(first: int, second: int) -> bool:
            personal = {self.rows[first].name, self.rows[second].name} & {*self.recipe.personal}
            score = score_tested(column) if self.recipe.at == "last5" and not personal else None
            test = self._leads[column.data].test(score, first, second, compared) if score else None
            answers.append(test)
            return test is not False

        heading = table.Column(column.name, lower=column.lower)
        marked = table.mark(heading, cells, [""] * len(cells), leads) if column.marked else cells
        names = [row.name for row in self.rows]
        return Marked(
            best=[name for name, cell in zip(names, marked, strict=True) if cell.best],
            doubtful=[name for name, cell in zip(names, cells, strict=True) if cell.doubtful],
            tested=bool(answers) and None not in answers,
        )

    @cached_property
    def _leads(self) -> dict[str, Leads]:
        """For each data, the tests of its rows."""
        metrics = list(dict.fromkeys(column.score.rpartition("/")[2] for column in self.recipe.columns))
        names = dict.fromkeys(column.data for column in self.recipe.columns)
        return {data: Leads([self._scored(row.name, data) for row in self.rows], metrics) for data in names}

    def _scored(self, row: str, data: str) -> list[Scored]:
        return [
            self.runs[outcome.scores]
            for outcome in self.outcomes
            if outcome.scores and (outcome.cell.row, outcome.cell.data) == (row, data)
        ]

    def _cell(self, row: Row, column: Column, scored: list[Scored]) -> table.Cell:
        cell = table.number(row.cells[column.name].mean, digits=DIGITS.get(column.unit, 2))
        doubtful = _is_doubtful(column.score.split("/"), [run.scores for run in scored], self.recipe.at)
        return table.Cell(cell.text, number=cell.number, doubtful=doubtful)


def score_tested(column: Column) -> Quantity | None:
    """The score of a column that the paired tests are made of, and so its marks; None of another column."""
    match column.score.split("/"):
        case ["versions", version, metric] if version in VERSIONS and metric in RESAMPLED:
            return Quantity(version, metric)
    return None


def _is_doubtful(place: list[str], runs: list[Scores], at: str) -> bool:
    """Tell whether a small group decides a gap, a worst group or a difference in decisions in some run."""
    if len(place) < 5 or place[0] != "groups" or place[3] != "over_rounds":
        return False
    attribute, version, what = place[1], place[2], place[4]
    known = [scores for scores in runs if attribute in scores.groups]
    if what.startswith(PARITY):
        return any(doubtful_decisions(scores, attribute, [what]) for scores in known)
    return EDGES.get(place[-1]) in small_decides(known, attribute, version, what, at)
