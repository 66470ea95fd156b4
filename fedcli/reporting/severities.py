"""How the scores of a run fall with the severity of corruptions, as `fedcli evaluate --corrupt` made them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from .columns import SHOWN
from .table import Cell, Column, Table, percent

LEGEND = (
    "In percent: mean over the last five rounds (all rounds of a shorter run) ± population standard deviation over "
    "them, on all test images. In training: whether clients trained on images of this kind and severity, of this kind "
    "at another severity, or of no such images (unseen)."
)


def tables(named: Iterable[tuple[str, dict[str, Any]]], metrics: Sequence[str] = SHOWN) -> Iterator[Table]:
    """A table of each run whose scores hold other corruptions. named: name and body of each run's scores."""
    known = [(name, body) for name, body in named if body.get("severities")]
    for name, body in known:
        clean = Cell("clean"), Cell(), Cell("-")
        lines = [[*clean, *_cells(body["versions"]["clean"], metrics)]]
        for kind, levels in body["severities"].items():
            for severity, scores in sorted(levels.items(), key=lambda level: int(level[0])):
                lines.append([Cell(kind), Cell(severity), Cell(_seen(scores)), *_cells(scores["scores"], metrics)])
        heads = [Column("test images"), Column("severity"), Column("in training")]
        title = "Severities" + (f": {name}" if len(known) > 1 else "")
        yield Table(title, [*heads, *(Column(metric, "%") for metric in metrics)], lines, LEGEND)


def _seen(scores: dict[str, Any]) -> str:
    if scores["severity_in_training"]:
        return "this severity"
    return "another severity" if scores["kind_in_training"] else "unseen"


def _cells(scores: dict[str, Any], metrics: Sequence[str]) -> list[Cell]:
    return [_cell(scores.get(metric)) for metric in metrics]


def _cell(score: dict[str, Any] | None) -> Cell:
    if score is None:
        return Cell()
    mean = score["last"] if score["mean_last5"] is None else score["mean_last5"]
    return percent(mean, score["std_last5"])
