"""The fall of a run's scores with the severity of corruptions, as `fedcli evaluate --corrupt` made them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..scores import views
from ..scores.scores import Scores, Severity
from ..scores.table import Score
from .columns import SHOWN, area
from .section import Section
from .table import Cell, Column, Table, percent

LEGEND = (
    "In percent: mean over the last five rounds (all rounds of a shorter run) ± population standard deviation over "
    "them, on all test images. In training: whether clients trained on images of this kind and severity, of this kind "
    "at another severity, or of no such images (unseen)."
)

BY_GROUP = "In percent, of the last round's model; the gap is between the best and the worst group."


def section(named: Sequence[tuple[str, Scores]], metrics: Sequence[str]) -> Section:
    return Section("severities", "Other corruptions", tables=list(tables(named, metrics)), folded=list(by_group(named)))


def tables(named: Iterable[tuple[str, Scores]], metrics: Sequence[str] = SHOWN) -> Iterator[Table]:
    """A table of each run whose scores hold other corruptions. named: name and scores of each run."""
    known = [(name, scores) for name, scores in named if scores.severities]
    for name, scores in known:
        lines = [[Cell("clean"), Cell(), Cell(), *_cells(scores.versions["clean"], metrics)]]
        for kind, levels in scores.severities.items():
            for severity, at in sorted(levels.items(), key=lambda level: int(level[0])):
                lines.append(
                    [
                        Cell(kind),
                        Cell(severity),
                        Cell(_seen(at)),
                        *_cells(scores.part().overall[f"{kind} {severity}"], metrics),
                    ]
                )
        heads = [Column("test images"), Column("severity"), Column("in training")]
        title = "Severities" + (f": {name}" if len(known) > 1 else "")
        yield Table(title, [*heads, *(Column(metric, "%") for metric in metrics)], lines, LEGEND)


def by_group(named: Iterable[tuple[str, Scores]]) -> Iterator[Table]:
    """A table for each run and attribute: a line for each kind and severity, a column for each group."""
    for name, scores in named:
        metric = area(scores)
        for attribute in scores.groups if scores.severities else ():
            groups = list(scores.members(attribute))
            lines = [[Cell("clean"), Cell(), *_of_groups(scores, attribute, "clean", metric)]]
            for kind, levels in scores.severities.items():
                for severity in sorted(levels, key=int):
                    cells = _of_groups(scores, attribute, f"{kind} {severity}", metric)
                    lines.append([Cell(kind), Cell(severity), *cells])
            heads = [Column("test images"), Column("severity"), *(Column(group, "%") for group in groups)]
            title = f"{metric} by severity and {attribute}: {name or scores.label}"
            yield Table(title, [*heads, Column("gap", "points", lower=True)], lines, BY_GROUP)


def _of_groups(scores: Scores, attribute: str, version: str, metric: str) -> list[Cell]:
    """The score of each group, then the gap between best and worst."""
    column = scores.part().groups[attribute][version][metric]
    gap = scores.part().lies(attribute, version, metric, views.GAP)
    return [*(percent(score.last) for score in column.values()), percent(gap and gap.last)]


def _seen(at: Severity) -> str:
    if at.severity_in_training:
        return "this severity"
    return "another severity" if at.kind_in_training else "unseen"


def _cells(scores: Mapping[str, Score], metrics: Sequence[str]) -> list[Cell]:
    shown = [scores.get(metric) for metric in metrics]
    return [percent(x.last if x.mean is None else x.mean, x.std) if x else Cell() for x in shown]
