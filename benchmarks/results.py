"""The scores of the benchmark's recipes as CSV files, from the results.json of `fedcli reproduce`.

    python benchmarks/results.py WORK [--out benchmarks/results]

RECIPE.csv has a line for each number of a run: federation, regime, method, seed, column, value.
RECIPE-differences.csv has a line for each test against FedAvg: the difference with its 95 %
interval over patients or images, both p after Holm's adjustment, and the verdict. Scores and differences are
in percent and points, as in the tables.
"""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fedcli.errors import FedcliError
from fedcli.reproduction.recipe import names
from fedcli.reproduction.record import Results

HERE = Path(__file__).parent / "results"
FOLDER = "benchmark/"
SCORES = "federation", "regime", "method", "seed", "column", "value"
TESTS = "difference", "low", "high", "p_holm", "p_seeds_holm"
DIFFERENCES = ("federation", "regime", "method", "version", "metric", "seeds", *TESTS, "verdict")
DIGITS = 4


def parts(recipe: str) -> tuple[str, str]:
    """Federation and regime of a recipe: office-probe is the probe on office."""
    federation, _, regime = recipe.rpartition("-")
    return federation, regime


def scores(results: Results) -> Iterator[tuple[Any, ...]]:
    """The lines of RECIPE.csv. Raises FedcliError where a column lacks some of a row's runs."""
    federation, regime = parts(results.recipe)
    for row in results.rows:
        seeds = [int(place.rpartition(" ")[2]) for place in row.scores]
        for column in results.columns:
            values = row.cells[column.name].per_run
            if not values:
                continue
            if len(values) != len(seeds):
                sentence = f"{results.recipe}: {row.name} has {len(values)} of {len(seeds)} runs"
                raise FedcliError(f"{sentence} in {column.name}", "play the recipe to its end")
            for seed, value in zip(seeds, values):
                yield federation, regime, row.name, seed, column.name, round(value, DIGITS)


def differences(results: Results) -> Iterator[tuple[Any, ...]]:
    """The lines of RECIPE-differences.csv."""
    federation, regime = parts(results.recipe)
    for tests in results.statistics:
        for row in tests.rows:
            if row.is_reference or row.difference is None:
                continue
            numbers: list[float | str] = []
            for name in TESTS:
                number = getattr(row, name)
                in_percent = 1.0 if name.startswith("p_") else 100.0
                numbers.append("" if number is None else round(in_percent * number, DIGITS))
            about = row.name, tests.version, tests.metric, row.runs
            yield federation, regime, *about, *numbers, row.verdict or ""


def write(path: Path, head: Sequence[str], lines: Iterator[tuple[Any, ...]]) -> None:
    """Write a CSV file whole."""
    table = list(lines)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(head)
        writer.writerows(table)


def main(
    work: Annotated[Path, typer.Argument(help="the work folder of `fedcli reproduce`")],
    out: Annotated[Path, typer.Option(help="folder of the CSV files")] = HERE,
) -> None:
    """Write the scores of every recipe of the benchmark that was played in a work folder."""
    out.mkdir(parents=True, exist_ok=True)
    for name in names():
        recipe = name.removeprefix(FOLDER)
        file = work / "reproduce" / f"{recipe}-paper" / "results.json"
        if recipe == name or not file.is_file():
            continue
        results = Results.read(file)
        write(out / f"{recipe}.csv", SCORES, scores(results))
        write(out / f"{recipe}-differences.csv", DIFFERENCES, differences(results))
        print(out / f"{recipe}.csv")


if __name__ == "__main__":
    typer.run(main)
