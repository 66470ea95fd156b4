"""The tables of docs/which-method.md, from the CSV files of benchmarks/results.

    python benchmarks/which_method.py

A table has FedAvg and the methods that are first to third in a column, each number the mean over
the seeds that were played.
"""

import csv
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

HERE = Path(__file__).parent / "results"
REFERENCE = "FedAvg"
BEST = 3  # of a column
SHOWN = {  # column -> its head; a federation has some of them
    "clean balanced accuracy": "clean",
    "noisy balanced accuracy": "noisy",
    "both balanced accuracy": "both",
    "both AUC": "both, AUC",
    "worst client, balanced accuracy": "worst client †",
    "worst sex, AUC": "worst sex, AUC †",
    "worst age, AUC": "worst age, AUC †",
    "mean of domains": "mean of domains",
    "worst domain": "worst domain",
    "std of domains": "std of domains",
    "all images, AUC": "all images, AUC",
}
LOWER = ("std of domains",)
Numbers = dict[str, dict[str, list[float]]]  # method -> column -> a value for each seed


def recipes() -> list[str]:
    """The recipes whose scores are there."""
    return [path.stem for path in sorted(HERE.glob("*.csv")) if "-differences" not in path.stem]


def lines(name: str) -> list[dict[str, str]]:
    """The lines of a CSV file of the results."""
    with (HERE / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def numbers(recipe: str) -> Numbers:
    """Every number of a recipe."""
    made: Numbers = {}
    for line in lines(recipe):
        columns = made.setdefault(line["method"], {})
        columns.setdefault(line["column"], []).append(float(line["value"]))
    return made


def means(recipe: str) -> dict[str, dict[str, float]]:
    """Method -> column -> the mean over seeds."""
    made = {}
    for method, columns in numbers(recipe).items():
        made[method] = {column: fmean(values) for column, values in columns.items()}
    return made


def table(recipe: str) -> list[str]:
    """The lines of a Markdown table."""
    scores = means(recipe)
    columns = [column for column in SHOWN if column in scores[REFERENCE]]
    chosen = {REFERENCE: True}
    best = {}
    for column in columns:
        with_score = [method for method in scores if column in scores[method]]
        with_score.sort(key=lambda method: scores[method][column], reverse=column not in LOWER)
        best[column] = with_score[0]
        chosen |= dict.fromkeys(with_score[:BEST], True)
    made = ["| method | " + " | ".join(SHOWN[column] for column in columns) + " |"]
    made.append("|---|" + "---:|" * len(columns))
    for method in scores:
        if method in chosen:
            cells = []
            for column in columns:
                cell = f"{scores[method][column]:.1f}" if column in scores[method] else "-"
                cells.append(f"**{cell}**" if best[column] == method else cell)
            made.append(f"| {method} | " + " | ".join(cells) + " |")
    return made


def differences() -> Iterator[tuple[str, str]]:
    """Method and text of every tested difference, such as "+1.2 (-0.1 to +2.5)"."""
    for recipe in recipes():
        for line in lines(f"{recipe}-differences"):
            values = [float(line[name]) for name in ("difference", "low", "high")]
            yield line["method"], "{:+.1f} ({:+.1f} to {:+.1f})".format(*values)


def main() -> None:
    for recipe in recipes():
        counts = {len(next(iter(columns.values()))) for columns in numbers(recipe).values()}
        print(f"## {recipe}: {len(numbers(recipe))} methods, seeds: {sorted(counts)}", "")
        print(*table(recipe), "", sep="\n")


if __name__ == "__main__":
    main()
