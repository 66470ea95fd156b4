"""Every client's model on every client's test part, as a table of each score: trained at, tested on."""

from collections.abc import Iterable, Iterator, Sequence

from ..metrics import title
from ..scores.scores import Scores
from .columns import SHOWN, shown
from .table import Column, Heads, Table

LEGEND = (
    "In percent, last round's models on clean test images. A row is whose model it is, a column whose test images; in "
    "brackets their number. Where both are the same client, nothing was transferred."
)


def tables(named: Iterable[tuple[str, Scores]], metrics: Sequence[str] = SHOWN) -> Iterator[Table]:
    """Tables of each run whose scores hold them. named: name and scores of each run."""
    for name, scores in named:
        if not (rows := scores.cross_site):
            continue
        sizes = {client: next(iter(metrics.values())).count for client, metrics in next(iter(rows.values())).items()}
        heads: Heads = ["trained at", *(Column(f"{client} [{count}]", "%") for client, count in sizes.items())]
        known = next(iter(next(iter(rows.values())).values()))  # not names of single columns
        for metric in (name for name in shown(scores, metrics) if name in known):
            lines = [[model, *(tested[client][metric].last for client in sizes)] for model, tested in rows.items()]
            yield Table.of(f"Trained at and tested on: {title(metric)}, {name or scores.name}", heads, lines, LEGEND)
