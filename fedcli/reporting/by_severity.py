"""The fall of a run's scores with the severity of corruptions, as `fedcli evaluate --corrupt` made them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..console import capital
from ..metrics import title as in_words
from ..scores import views
from ..scores.parts import PATCHED, SUCCESS
from ..scores.scores import Scores
from ..scores.table import Score
from .columns import SHOWN
from .table import Cell, Column, Heads, Table, percent

LEGEND = (
    "Mean of the last five rounds ± their standard deviation, in %, on all test images. In training: whether clients "
    "trained on images of this kind and severity, of this kind at another severity, or of neither (unseen)."
)

BACKDOOR = "Test images of other classes than the target that are called the target, with the patch and without it."
BY_GROUP = "In percent, of the last round's model; the gap is between the best and the worst group."


def tables(named: Iterable[tuple[str, Scores]], metrics: Sequence[str] = SHOWN) -> Iterator[Table]:
    """A table of each run whose scores hold other corruptions. named: name and scores of each run."""
    named = list(named)
    attacked = [(name, scores.part().overall) for name, scores in named if PATCHED[0] in scores.part().overall]
    if attacked:
        lines = [
            [name, *(cell for version in PATCHED for cell in _cells(of[version], [SUCCESS]))] for name, of in attacked
        ]
        heads: Heads = ["", *(Column(version, "%", lower=True) for version in PATCHED)]
        yield Table.of("Success of the backdoor", heads, lines, BACKDOOR)
    known = [(name, scores) for name, scores in named if scores.severities]
    for name, scores in known:
        lines = [["clean", None, None, *_cells(scores.versions["clean"], metrics)]]
        for kind, severity, seen in _levels(scores):
            lines.append(
                [kind.replace("-", " "), severity, seen, *_cells(scores.part().overall[f"{kind} {severity}"], metrics)]
            )
        heads = ["test images", "severity", "in training", *(Column(in_words(metric), "%") for metric in metrics)]
        yield Table.of("Severities" + (f": {name}" if len(known) > 1 else ""), heads, lines, LEGEND)


def by_group(named: Iterable[tuple[str, Scores]]) -> Iterator[Table]:
    """A table for each run and attribute: a line for each kind and severity, a column for each group."""
    for name, scores in named:
        metric, part = scores.usual[1], scores.part()
        for attribute in scores.groups if scores.severities else ():
            levels: list[tuple[str, str, str | None]] = [("clean", "clean", None)]
            levels += [
                (f"{kind} {severity}", kind.replace("-", " "), severity) for kind, severity, _ in _levels(scores)
            ]
            lines = []
            for version, *level in levels:
                gap = part.lies(attribute, version, metric, views.GAP)
                column = part.groups[attribute][version][metric].values()
                lines.append([*level, *(score.last for score in column), gap and gap.last])
            heads: Heads = ["test images", "severity", *(Column(group, "%") for group in scores.members(attribute))]
            title = f"{capital(in_words(metric))} by severity and {attribute}: {name or scores.name}"
            yield Table.of(title, [*heads, Column("gap", "points", lower=True)], lines, BY_GROUP)


def _levels(scores: Scores) -> Iterator[tuple[str, str, str]]:
    for kind, levels in scores.severities.items():
        for severity, at in sorted(levels.items(), key=lambda level: int(level[0])):
            other = "another severity" if at.kind_in_training else "unseen"
            yield kind, severity, "this severity" if at.severity_in_training else other


def _cells(scores: Mapping[str, Score], metrics: Sequence[str]) -> list[Cell]:
    shown = [scores.get(metric, Score()) for metric in metrics]
    return [percent(score.last if score.mean is None else score.mean, score.std) for score in shown]
