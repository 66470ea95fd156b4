"""The part of the page about each of several labels per image."""

from collections.abc import Iterator, Sequence

from ...metrics import PARITY
from ..columns import POOLED, find, joined
from ..section import Section
from ..table import Cell, Column, Table, percent
from .systems import System

METRICS = "auc", "average_precision", "balanced_accuracy", "f1"
LEGEND = (
    "In percent, on the clean test images; ± as in the table of scores. Images: test images that have the label. A "
    "label is decided for at a probability of 1/2. No best is marked, as no test is made for single labels."
)
GROUPS = (
    "In percent, of the last round's model on the clean test images: the gap of the AUC between the best and the worst "
    "group, and the differences in decisions, all better when low."
)


def section(compared: Sequence[System], spread: str | None) -> Section:
    return Section("labels", "Each label", tables=list(_tables(compared, spread)))


def _tables(compared: Sequence[System], spread: str | None) -> Iterator[Table]:
    """Scores of each label, then how much it differs between the groups of each attribute."""
    scored = [system for system in compared if system.scores.several_labels]
    if not scored:
        return
    for metric in METRICS:
        yield _table(f"{metric} of each label", scored, [(metric, "", "")], spread or POOLED, LEGEND)
    for attribute in dict.fromkeys(name for system in scored for name in system.scores.groups):
        shown = [("auc", attribute, "gap"), *((name, attribute, "") for name in PARITY)]
        yield _table(f"Each label between groups by {attribute}", scored, shown, spread or POOLED, GROUPS)


def _table(
    title: str, scored: Sequence[System], shown: Sequence[tuple[str, str, str]], spread: str, legend: str
) -> Table:
    """A line for each label, and for each system a column for each of these (metric, attribute, measure)."""
    labels = scored[0].scores.labels["clean"]
    heads = [
        Column(" ".join(filter(None, [system.name, measure, metric if len(shown) > 1 else ""])))
        for system in scored
        for metric, _, measure in shown
    ]
    rows = [
        [
            Cell(label),
            Cell(f"{next(iter(part.overall['clean'].values())).count:,}"),
            *(_cell(system, label, *pair, spread) for system in scored for pair in shown),
        ]
        for label in scored[0].scores.classes
        if (part := labels.get(label))
    ]
    return Table(title, [Column("label"), Column("images"), *heads], rows, legend)


def _cell(system: System, label: str, metric: str, attribute: str, measure: str, spread: str) -> Cell:
    name = f"{metric} of label {label}"
    runs = [
        {"": value} if (value := find(known, name, "clean", attribute, measure=measure)) else {}
        for known in system.row.known
    ]
    value = joined(runs, spread).get("")
    return percent(value.mean, value.std) if value else Cell()
