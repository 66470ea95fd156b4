"""The model that each rule takes by the clients' validation images: a round of a run, and a run
among several.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ..comparison.systems import grouped
from ..scores.choice import DTO, RULES, Candidate, chosen, values
from ..scores.parts import Number
from .rows import Rows, SystemRow, systems_of
from .table import ReportTable, heads

TITLE = "Model choice on validation images"
LEGEND = (
    "On the clients' validation images, in percent; test images choose nothing. overall takes the "
    "highest score of all images; worst-group the highest score of the worst group (min-max); dto "
    "the smallest distance to the utopia point, which has the best score of every group that a "
    "line of this table reaches. A group with few validation images decides by chance: the "
    "smallest is named."
)
SEVERAL = (
    " A line of several seeds is the mean over them, each with its chosen round, "
    "over the groups that all of them have."
)


def tables(rows: Rows) -> Iterator[ReportTable]:
    """The kept rounds of a system alone, else the systems that share data and rounds, each with the
    round taken.
    """
    systems = []
    for row in systems_of(rows):
        if all(run.scores.candidates for run in row.scored):
            systems.append(row)
    for alike in grouped(systems, lambda row: row.comparable):
        row = alike[0]
        if len(alike) > 1:
            legend = LEGEND
            if any(row.runs > 1 for row in alike):
                legend += SEVERAL
            yield _table(TITLE, {row.name: _taken(row) for row in alike}, legend)
            continue
        for run in row.scored:
            name = f"{row.name}, {run.which}" if row.runs > 1 else row.name
            rounds = {f"round {model.round}": model for model in run.scores.candidates}
            yield _table(f"{TITLE}: {name}", rounds, LEGEND)


def _taken(row: SystemRow) -> Candidate:
    """The mean of the candidates that were taken of its runs, over the groups that all of them
    have.
    """
    models = []
    for run in row.scored:
        for candidate in run.scores.candidates:
            if run.scores.best and candidate.round == run.scores.best.round:
                models.append(candidate)
    mean = Candidate(models[0].round, _mean([model.score for model in models]))
    for attribute in models[0].groups:
        columns = [model.groups.get(attribute, {}) for model in models]
        mean.groups[attribute] = {}
        mean.images[attribute] = {}
        for group in columns[0]:
            if all(group in column for column in columns):
                mean.groups[attribute][group] = _mean([column[group] for column in columns])
                image_counts = [model.images[attribute][group] for model in models]
                mean.images[attribute][group] = min(image_counts)
    return mean


def _mean(scores: Sequence[Number]) -> Number:
    """The mean; None if one of them has no meaning."""
    numbers = [score for score in scores if score is not None]
    return float(np.mean(numbers)) if len(numbers) == len(scores) else None


def _table(
    title: str,
    models: Mapping[str, Candidate],
    legend: str,
) -> ReportTable:
    candidates = list(models.values())
    distances = values(candidates, DTO)
    choices = {rule: chosen(candidates, rule) for rule in RULES}
    lines = []
    for index, (name, model) in enumerate(models.items()):
        rules = ", ".join(rule for rule, choice in choices.items() if choice == index)
        size = model.smallest if model.known else None
        line = [name, model.score, model.worst, distances[index], size, rules or None]
        lines.append(line)
    columns = heads("model") + heads("all images", "worst group", unit="%")
    columns += heads("distance", unit="points", lower=True)
    columns += heads("images of the smallest group", "taken by")
    return ReportTable.of(title, columns, lines, legend)
