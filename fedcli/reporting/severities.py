"""How the scores of a run fall with the severity of corruptions, as `fedcli evaluate --corrupt` made them."""

from collections.abc import Iterable, Iterator, Sequence

from ..scores.parts import Groups, Summary
from ..scores.scores import AtSeverity, Scores
from .columns import SHOWN, area
from .table import Cell, Column, Table, percent

LEGEND = (
    "In percent: mean over the last five rounds (all rounds of a shorter run) ± population standard deviation over "
    "them, on all test images. In training: whether clients trained on images of this kind and severity, of this kind "
    "at another severity, or of no such images (unseen)."
)

BY_GROUP = "In percent, of the last round's model; the gap is between the best and the worst group."


def tables(named: Iterable[tuple[str, Scores]], metrics: Sequence[str] = SHOWN) -> Iterator[Table]:
    """A table of each run whose scores hold other corruptions. named: name and scores of each run."""
    known = [(name, scores) for name, scores in named if scores.severities]
    for name, scores in known:
        lines = [[Cell("clean"), Cell(), Cell(), *_cells(scores.versions["clean"], metrics)]]
        for kind, levels in scores.severities.items():
            for severity, at in sorted(levels.items(), key=lambda level: int(level[0])):
                lines.append([Cell(kind), Cell(severity), Cell(_seen(at)), *_cells(at.scores, metrics)])
        heads = [Column("test images"), Column("severity"), Column("in training")]
        title = "Severities" + (f": {name}" if len(known) > 1 else "")
        yield Table(title, [*heads, *(Column(metric, "%") for metric in metrics)], lines, LEGEND)


def by_group(named: Iterable[tuple[str, Scores]]) -> Iterator[Table]:
    """A table for each run and attribute: a line for each kind and severity, a column for each group."""
    for name, scores in named:
        metric = area(scores)
        for attribute, versions in scores.groups.items() if scores.severities else ():
            groups = list(versions["clean"].last_round.groups)
            lines = [[Cell("clean"), Cell(), *_of_groups(versions["clean"], groups, metric)]]
            for kind, levels in scores.severities.items():
                for severity, at in sorted(levels.items(), key=lambda level: int(level[0])):
                    lines.append([Cell(kind), Cell(severity), *_of_groups(at.groups[attribute], groups, metric)])
            heads = [Column("test images"), Column("severity"), *(Column(group, "%") for group in groups)]
            title = f"{metric} by severity and {attribute}: {name or scores.label}"
            yield Table(title, [*heads, Column("gap", "points", lower=True)], lines, BY_GROUP)


def _of_groups(known: Groups, groups: Sequence[str], metric: str) -> list[Cell]:
    """The score of each group, then the gap between best and worst."""
    between = known.last_round.between.get(metric)
    each = [percent(known.last_round.groups[group].metrics.get(metric)) for group in groups]
    return [*each, percent(between.gap if between else None)]


def _seen(at: AtSeverity) -> str:
    if at.severity_in_training:
        return "this severity"
    return "another severity" if at.kind_in_training else "unseen"


def _cells(summary: Summary, metrics: Sequence[str]) -> list[Cell]:
    scores = [summary.metrics.get(metric) for metric in metrics]
    return [
        percent(score.last if score.mean_last5 is None else score.mean_last5, score.std_last5) if score else Cell()
        for score in scores
    ]
