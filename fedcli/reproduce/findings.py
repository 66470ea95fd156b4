"""The numbers of a recipe's rows in its columns, by seed and round, and rows compared by them.

Some columns follow from others. The best of a column is marked, and rows on the same data are tested against the
reference. A number that a group too small to be reliable decides is marked too, and is never the best.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from statistics import fmean, harmonic_mean
from typing import Any

from ..comparison.cautions import doubtful_decisions, small_decides
from ..comparison.systems import Scored
from ..comparison.tested import Leads, order
from ..data import manifest
from ..errors import UsageError, nearest
from ..metrics import PARITY, RESAMPLED
from ..reporting import table
from ..reporting.comparison import in_words
from ..scores import views
from ..scores.parts import VERSIONS
from ..scores.scores import Scores
from ..scores.table import Where
from . import places
from .recipe import BEST_OTHER, Column, Recipe
from .record import Cell, Marked, Row, Tests
from .shape import UNITS, Printed
from .shared import Outcome

EDGES = {
    "worst": views.WORST,
    "gap": views.GAP,
    "worst_in_each_round": views.WORST,
    "gap_in_each_round": views.GAP,
}
BySeed = dict[int, list[float]]  # seed -> a value per round that counts
ByColumn = dict[str, BySeed]  # by name of the column


@dataclass(frozen=True)
class Findings:
    """A recipe's cells and what became of them. runs: by the path of their scores.json."""

    recipe: Recipe
    outcomes: list[Outcome]
    runs: Mapping[Path, Scored]

    def done(self, row: str, data: str | None = None) -> list[Outcome]:
        """The cells of a row, of all data or of one, that have scores."""
        cells = [outcome for outcome in self.outcomes if outcome.scores and outcome.cell.row == row]
        return [outcome for outcome in cells if data in (None, outcome.cell.data)]

    def scored(self, row: str, data: str | None = None) -> list[Scored]:
        """The scores of these cells."""
        return [self.runs[outcome.path] for outcome in self.done(row, data)]

    def columns(self, name: str) -> ByColumn:
        """The numbers of a row's runs at each column's place, in the column's unit."""
        row, numbers = self.recipe.row(name), ByColumn()
        for column in self.recipe.columns:
            place, times, by_seed = (
                row.place(column.score),
                UNITS[column.unit][1],
                numbers.setdefault(column.name, {}),
            )
            for outcome in self.done(name, column.data):
                values = places.rounds(self._tree(outcome), place, self.recipe.at)
                by_seed[outcome.cell.seed] = [times * value for value in values]
        return numbers

    def _tree(self, outcome: Outcome) -> Any:
        """The nested form of a cell's scores in which the places of columns are."""
        nested = self.runs[outcome.path].nested
        return nested["best_on_validation"] if self.recipe.at == "best" else nested

    def has(self, column: Column) -> bool:
        """Tell whether some scores.json has a column's place; one that holds null has no meaning there, no mistake.

        Raises UsageError where none has it and all rows are there: a row that is left out might have it.
        """
        done = [
            outcome
            for outcome in self.outcomes
            if outcome.scores and outcome.cell.data == column.data
        ]
        parts = column.score.split("/")
        ways = [places.reach(self._tree(outcome), parts) for outcome in done]
        if not done or any(way.values for way in ways):
            return True
        if {row.name for row in self.recipe.rows if column.data in row.data} - {
            outcome.cell.row for outcome in done
        }:
            return False
        what = f"{self.recipe.name}: column {column.name!r}"
        hint = nearest((parts[ways[0].depth :] or [""])[0], ways[0].names)
        raise UsageError(f"{what}: scores.json has no {column.score!r}", hint)


def with_derived(recipe: Recipe, rounds: Mapping[str, ByColumn], name: str) -> ByColumn:
    """A row's columns, those that are a difference to another row or a mean of other columns worked out."""
    numbers = dict(rounds[name])
    for column in recipe.columns:
        if column.minus:
            other = (
                _best_other(column, rounds, name) if column.minus == BEST_OTHER else column.minus
            )
            taken = rounds.get(other, {}).get(column.name, {}) if name != other else {}
            numbers[column.name] = {  # of seeds and rounds that both have
                seed: [value - less for value, less in zip(run, taken[seed], strict=True)]
                for seed, run in numbers[column.name].items()
                if seed in taken and len(run) == len(taken[seed])
            }
    means = {
        column.name: mean_runs(
            [numbers[part] for part in column.parts], harmonic=bool(column.harmonic_mean_of)
        )
        for column in recipe.columns
        if column.parts
    }
    return numbers | means


def _best_other(column: Column, rounds: Mapping[str, ByColumn], name: str) -> str:
    """The row with the best mean but this one; "" where no other has a number."""
    values = {
        row: [*chain(*by_column.get(column.name, {}).values())] for row, by_column in rounds.items()
    }
    means = {row: fmean(numbers) for row, numbers in values.items() if numbers and row != name}
    return (min if column.lower else max)(means, key=lambda row: means[row], default="")


def mean_runs(columns: list[BySeed], harmonic: bool = False) -> BySeed:
    """Seed -> mean of several columns in each round, or of their means where their rounds are not as many."""
    means = {}
    for seed in columns[0]:
        runs = [run for column in columns if (run := column.get(seed))]
        if len(runs) < len(columns):
            continue
        if len({len(run) for run in runs}) > 1:
            runs = [[sum(run) / len(run)] for run in runs]
        mean = harmonic_mean if harmonic else lambda values: sum(values) / len(values)
        means[seed] = [mean(values) for values in zip(*runs, strict=True)]
    return means


def heading(column: Column) -> table.Column:
    """A column's head in a table."""
    return table.Column(in_words(column.name), UNITS[column.unit][0], lower=column.lower)


def shown(cell: Cell | Printed, column: Column) -> table.Cell:
    """A number in a table, with its spread."""
    return table.number(
        cell.mean, cell.std, digits=UNITS[column.unit][2], sign="+" * bool(column.minus)
    )


def marks(findings: Findings, rows: list[Row], *, tested: bool = True) -> dict[str, Marked]:
    """Marks of the rows, which are as results.json holds them, by column. tested: whether by tests."""
    columns = [column for column in findings.recipe.columns if not column.validation]
    metrics = list(dict.fromkeys(column.score.rpartition("/")[2] for column in columns))
    names = dict.fromkeys(column.data for column in columns)
    leads = {
        data: Leads([findings.scored(row.name, data) for row in rows], metrics) for data in names
    }
    by_tests = tested and findings.recipe.at == "last5"
    return {
        column.name: _marked(findings, rows, column, leads[column.data], by_tests)
        for column in columns
    }


def _marked(
    findings: Findings, rows: list[Row], column: Column, of_data: Leads, by_tests: bool
) -> Marked:
    """Rows that are the `best` of a column and that are `doubtful`, and whether tests stand behind the best.

    The best leads every other row significantly; of a score without a test it is the best number.
    """
    recipe, names, cells, place = (
        findings.recipe,
        [row.name for row in rows],
        [],
        column.score.split("/"),
    )
    for row in rows:
        runs = [run.scores for run in findings.scored(row.name, column.data)]
        doubtful = _is_doubtful(place, runs, recipe.at)
        cells.append(replace(shown(row.cells[column.name], column), doubtful=doubtful))
    compared = sum(cell.number is not None for cell in cells) - 1
    answers: list[bool | None] = []

    def leads(first: int, second: int) -> bool:
        score = (
            score_tested(column)
            if by_tests and not {names[first], names[second]} & {*recipe.personal}
            else None
        )
        answers.append(of_data.test(score, first, second, compared) if score else None)
        return answers[-1] is not False

    marked = (
        table.mark(heading(column), cells, [""] * len(cells), leads) if column.marked else cells
    )
    data = {each.data for each in recipe.columns if each.name in (column.name, *column.parts)}
    titles = {outcome.cell.title for outcome in findings.outcomes if outcome.cell.data in data}
    stuck = {row.name for row in rows if titles & row.chance.keys()}
    return Marked(
        best=[
            name
            for name, cell in zip(names, marked, strict=True)
            if cell.best and name not in stuck
        ],
        doubtful=[name for name, cell in zip(names, cells, strict=True) if cell.doubtful],
        tested=bool(answers) and None not in answers,
    )


def score_tested(column: Column) -> Where | None:
    """The score of a column that the paired tests are made of, and so its marks; None of another column."""
    match column.score.split("/"):
        case ["versions", version, metric] if version in VERSIONS and metric in RESAMPLED:
            return Where(version, metric=metric)
    return None


def _is_doubtful(place: list[str], runs: list[Scores], at: str) -> bool:
    """Tell whether a small group decides a gap, a worst group or a difference in decisions in some run."""
    match place:
        case ["groups", attribute, version, "over_rounds", what, *more]:
            grouped = [scores for scores in runs if attribute in scores.groups]
            if what.startswith(PARITY):
                return any(doubtful_decisions(scores, attribute, [what]) for scores in grouped)
            return bool(more) and EDGES.get(more[-1]) in small_decides(
                grouped, attribute, version, what, at
            )
    return False


def tests(findings: Findings) -> Iterator[Tests]:
    """The rows on the very same data against the reference there, for each headline score."""
    recipe = findings.recipe
    done = [
        outcome
        for outcome in findings.outcomes
        if outcome.scores and outcome.cell.row not in recipe.personal
    ]
    scores = [(column.data, score) for column in recipe.columns if (score := score_tested(column))]
    for data, score in dict.fromkeys(scores):
        for rows in same_data([outcome for outcome in done if outcome.cell.data == data]):
            if len(rows) < 2:
                continue
            reference = _reference(findings, list(rows))
            systems = {
                name: [findings.runs[path] for path in paths] for name, paths in rows.items()
            }
            about = {"version": score.version, "metric": score.metric, "reference": reference}
            about["title"] = next(
                outcome.cell.title for outcome in done if outcome.cell.data == data
            )
            yield Tests(
                data=data, **about, rows=order(systems, reference, score.metric, score.version)
            )


def source_of(scores: Path) -> Path:
    """The manifest of the data that a scores.json's run has read."""
    return manifest.above(manifest.above(scores, "run"), "corruption", "partition")


def same_data(outcomes: list[Outcome]) -> list[dict[str, list[Path]]]:
    """Row -> scores, for each set of rows whose runs of equal seeds read the same manifest."""
    rows: dict[str, dict[int, Path]] = {}
    for outcome in outcomes:
        rows.setdefault(outcome.cell.row, {})[outcome.cell.seed] = outcome.path
    sets: list[tuple[dict[int, Path], dict[str, list[Path]]]] = []
    for row, scores in rows.items():
        read = {seed: source_of(path) for seed, path in scores.items()}
        for manifests, members in sets:
            if (common := manifests.keys() & read.keys()) and all(
                manifests[seed] == read[seed] for seed in common
            ):
                manifests |= read
                members[row] = list(scores.values())
                break
        else:
            sets.append((read, {row: list(scores.values())}))
    return [members for _, members in sets]


def _reference(findings: Findings, rows: list[str]) -> str:
    reference = findings.recipe.reference
    alike = [
        name
        for name in rows
        if findings.recipe.row(name).method == findings.recipe.row(reference).method
    ]
    return reference if reference in rows else [*alike, *rows][0]
