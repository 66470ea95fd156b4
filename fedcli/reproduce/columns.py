"""Numbers of a recipe's columns in the runs of its rows, by seed and round; some columns follow from others."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import fmean, harmonic_mean
from typing import Any

from ..compare.systems import Scored
from ..errors import UsageError, nearest
from . import places
from .jobs import Outcome
from .recipe import BEST_OTHER, Column, Recipe
from .shape import UNITS

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
        row, numbers = self.recipe.row(name), {}
        for column in self.recipe.columns:
            _, times, _ = UNITS[column.unit]
            numbers[column.name] = {
                outcome.cell.seed: [
                    times * number
                    for number in places.rounds(self._tree(outcome), row.place(column.score), self.recipe.at)
                ]
                for outcome in self.done(name, column.data)
            }
        return numbers

    def _tree(self, outcome: Outcome) -> Any:
        """The nested form of a cell's scores in which the places of columns are."""
        nested = self.runs[outcome.path].nested
        return nested["best_on_validation"] if self.recipe.at == "best" else nested

    def has(self, column: Column) -> bool:
        """Tell whether some scores.json has a column's place; one that holds null has no meaning there, no mistake.

        Raises UsageError where none has it and all rows are there: a row that is left out might have it.
        """
        done = [outcome for outcome in self.outcomes if outcome.scores and outcome.cell.data == column.data]
        parts = column.score.split("/")
        ways = [places.reach(self._tree(outcome), parts) for outcome in done]
        if not done or any(way.values for way in ways):
            return True
        if {row.name for row in self.recipe.rows if column.data in row.data} - {outcome.cell.row for outcome in done}:
            return False
        what = f"{self.recipe.name}: column {column.name!r}"
        hint = nearest((parts[ways[0].depth :] or [""])[0], ways[0].names)
        raise UsageError(f"{what}: scores.json has no {column.score!r}", hint)


def with_derived(recipe: Recipe, rounds: Mapping[str, ByColumn], name: str) -> ByColumn:
    """A row's columns, those that are a difference to another row or a mean of other columns worked out."""
    own = dict(rounds[name])
    for column in recipe.columns:
        if column.minus:
            other = _best_other(column, rounds, name) if column.minus == BEST_OTHER else column.minus
            taken = rounds.get(other, {}).get(column.name, {})
            own[column.name] = {} if name == other else _minus_runs(own[column.name], taken)
    means = {
        column.name: mean_runs([own[part] for part in column.parts], harmonic=bool(column.harmonic_mean_of))
        for column in recipe.columns
        if column.parts
    }
    return own | means


def _best_other(column: Column, rounds: Mapping[str, ByColumn], name: str) -> str:
    """The row with the best mean but this one; "" where no other has a number."""
    known = {row: [*chain(*by_column.get(column.name, {}).values())] for row, by_column in rounds.items()}
    means = {row: fmean(values) for row, values in known.items() if values and row != name}
    return (min if column.lower else max)(means, key=lambda row: means[row], default="")


def _minus_runs(runs: BySeed, other: BySeed) -> BySeed:
    """Seed -> difference to another row's run of the same seed in each round; only seeds and rounds that both have."""
    return {
        seed: [value - taken for value, taken in zip(run, other[seed], strict=True)]
        for seed, run in runs.items()
        if seed in other and len(run) == len(other[seed])
    }


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
