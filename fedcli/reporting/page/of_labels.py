"""The part of the page about each of several labels per image."""

from collections.abc import Iterator, Sequence

from ...metrics import PARITY
from ...scores.table import Where
from ..row import Row
from ..section import Section
from ..table import Column, Table

METRICS = "auc", "average_precision", "balanced_accuracy", "f1"
LEGEND = (
    "In percent, on the clean test images; ± as in the table of scores. Images: test images that have the label. A "
    "label is decided for at a probability of 1/2. No best is marked, as no test is made for single labels."
)
GROUPS = (
    "In percent, of the last round's model on the clean test images: the gap of the AUC between the best and the worst "
    "group, and the differences in decisions, all better when low."
)


def section(compared: Sequence[Row]) -> Section:
    return Section("labels", "Each label", tables=list(_tables([row for row in compared if row.scores.several_labels])))


def _tables(scored: Sequence[Row]) -> Iterator[Table]:
    """Scores of each label, then how much it differs between the groups of each attribute."""
    for metric in METRICS if scored else ():
        yield _table(f"{metric} of each label", scored, [Where("clean", metric=metric)], LEGEND)
    for attribute in dict.fromkeys(name for row in scored for name in row.scores.groups):
        where = Where("clean", attribute=attribute)
        shown = [where._replace(metric="auc", measure="gap"), *(where._replace(metric=name) for name in PARITY)]
        yield _table(f"Each label between groups by {attribute}", scored, shown, GROUPS)


def _table(title: str, scored: Sequence[Row], shown: Sequence[Where], legend: str) -> Table:
    """A line for each label, and for each system a column for each of these numbers."""
    labels = scored[0].scores.labels["clean"]
    heads = [
        Column(" ".join(filter(None, [row.name, where.measure, where.metric * (len(shown) > 1)])))
        for row in scored
        for where in shown
    ]
    lines = [
        [
            label,
            next(iter(labels[label].overall["clean"].values())).count,
            *(row.cell(where._replace(label=label)) for row in scored for where in shown),
        ]
        for label in scored[0].scores.classes
        if label in labels
    ]
    return Table.of(title, ["label", "images", *heads], lines, legend)
