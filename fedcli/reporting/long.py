"""All numbers of runs as one long table: a line per number, for pandas, R or a spreadsheet."""

from collections.abc import Sequence
from pathlib import Path

from ..compare.systems import read
from ..io.csv_text import csv_text
from ..scores import numbers

FIELDS = (
    *("run", "method", "label", "rule", "dataset", "seed", "fold"),
    *("version", "model", "attribute", "group", "client", "metric", "measure", "statistic", "value"),
)
Line = tuple[str | int | float | None, ...]


def tidy(scores: Sequence[Path]) -> list[Line]:
    """A line in the order of FIELDS for each number of these scores.json.

    statistic: "last", "mean_last5" or "std_last5" of what was scored in several rounds, "best_on_validation" of the
        round that validation chose, else "value". Scores are shares from 0 to 1, None where they have no meaning.
    Raises FedcliError, HashError.
    """
    lines: list[Line] = []
    for run in read(scores):
        about, folder = run.scores, run.path.parent
        name = folder.parent.parent.name if folder.parent.name == "scores" else folder.name
        of_run = name, about.method, about.label, about.rule, about.dataset, run.seed, run.fold
        every = [(best, *number) for best in (False, True) for number in numbers.numbers(about, best=best)]
        for of_best, where, score in every:
            whose = where.version, numbers.model(where), where.attribute, where.group, where.client
            what = numbers.metric(where), where.measure or "score"
            statistics = {"last": score.last, "mean_last5": score.mean, "std_last5": score.std}
            if of_best or not score.rounds:
                statistics = {"best_on_validation" if of_best else "value": score.last}
            lines += [(*of_run, *whose, *what, statistic, value) for statistic, value in statistics.items()]
    return lines


def comma_separated(scores: Sequence[Path]) -> str:
    """The lines of tidy() as CSV, under their names."""
    return csv_text([FIELDS, *tidy(scores)])
