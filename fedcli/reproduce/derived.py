"""Columns that follow from others: a mean, a harmonic mean, or the difference to another row."""

from collections.abc import Mapping
from itertools import chain
from statistics import fmean, harmonic_mean

from .model import BEST_OTHER, Column, Recipe

BySeed = dict[int, list[float]]  # seed -> a value per round that counts
ByColumn = dict[str, BySeed]  # by name of the column


def with_derived(recipe: Recipe, rounds: Mapping[str, ByColumn], name: str) -> ByColumn:
    """A row's columns, those that are a difference to another row or a mean of other columns worked out."""
    own = dict(rounds[name])
    for column in recipe.columns:
        if column.minus:
            other = _best_other(column, rounds, name) if column.minus == BEST_OTHER else column.minus
            taken = rounds.get(other, {}).get(column.name, {})
            own[column.name] = {} if name == other else _minus_runs(own[column.name], taken)
    means = {
        c.name: mean_runs([own[part] for part in c.parts], harmonic=bool(c.harmonic_mean_of))
        for c in recipe.columns
        if c.parts
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
