"""All numbers of runs as one long table: a line per number, for pandas, R or a spreadsheet."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from ..compare.systems import Scored, read
from ..io.csv_text import csv_text
from ..scores import numbers
from ..scores.table import Score

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
    return [line for run in read(scores) for line in _of_run(run)]


def comma_separated(scores: Sequence[Path]) -> str:
    """The lines of tidy() as CSV, under their names."""
    return csv_text([FIELDS, *tidy(scores)])


def _of_run(run: Scored) -> Iterator[Line]:
    scores, folder = run.scores, run.path.parent
    name = folder.parent.parent.name if folder.parent.name == "scores" else folder.name
    about = name, scores.method, scores.label, scores.rule, scores.dataset, run.seed, run.fold
    for best in (False, True):
        for where, score in numbers.numbers(scores, best=best):
            whose = where.version, numbers.model(where), where.attribute, where.group, where.client
            of = numbers.metric(where), where.measure or "score"
            yield from ((*about, *whose, *of, name, value) for name, value in _statistics(score, best))


def _statistics(score: Score, best: bool) -> Iterator[tuple[str, float | None]]:
    if best or not score.rounds:
        yield "best_on_validation" if best else "value", score.last
    else:
        yield from (("last", score.last), ("mean_last5", score.mean), ("std_last5", score.std))
