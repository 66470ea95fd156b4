"""One run group by group: how many images, the score with its interval, and how far it lies below the best group."""

from collections.abc import Iterator, Sequence

from ..figures.system import usual
from ..metrics import title
from ..scores.scores import Scores
from ..scores.table import Score
from .table import DAGGER, Table


def tables(scores: Scores, metric: str = "") -> Iterator[Table]:
    """A table for each attribute, of the last round's model, on the clean and the corrupted test images.

    Its legend names the worst group on each version. metric: by default the AUC.
    """
    metric = metric or usual(scores)[1]
    for attribute, versions in scores.groups.items():
        heads = [f"{version} {what}" for version in versions for what in ("(%)", "interval", "gap")]
        lines = [
            [group + DAGGER * bool(some.small), str(some.count)]
            + [cell for version in versions for cell in _cells(scores, attribute, version, group, metric)]
            for group, some in scores.members(attribute).items()
        ]
        heading = f"Each group by {attribute}: {title(metric)} of the last round's model, {scores.label}"
        yield Table.of(heading, [attribute, "n", *heads], lines, _worst(scores, attribute, metric))


def legend(scores: Scores, metrics: Sequence[str] = ()) -> str:
    """A legend of the numbers in tables of the AUC and of these metrics."""
    shown = [usual(scores)[1], *metrics]
    columns = [
        by.get(metric, {}) for versions in scores.groups.values() for by in versions.values() for metric in shown
    ]
    kind = "BCa " if any(score.is_bca for column in columns for score in column.values()) else ""
    over = "the patients of a group, or over its images where patients are unknown"
    if scores.curves:  # sites counted, which do not say whose image is which
        over = "images, which sites count without their patients, so too narrow where patients have several"
    small = any(some.small for attribute in scores.groups for some in scores.members(attribute).values())
    return (
        f"In percent, with 95 % {kind}bootstrap intervals over {over}; gap: how far a group lies below the best group."
        + f" {DAGGER} marks a group that is too small or lacks a class." * small
    )


def _cells(scores: Scores, attribute: str, version: str, group: str, metric: str) -> list[str]:
    """Score, interval and gap to the best group; "-" where there is none."""
    score = scores.groups[attribute][version].get(metric, {}).get(group) or Score()
    if score.last is None:
        return ["-", "-", "-"]
    bounds = "-" if score.low is None or score.high is None else f"{100 * score.low:.2f} to {100 * score.high:.2f}"
    edges = scores.part().edges(attribute, version, metric)
    return [f"{100 * score.last:.2f}", bounds, f"{100 * abs(edges[1][1] - score.last):.2f}" if edges else "-"]


def _worst(scores: Scores, attribute: str, metric: str) -> str:
    """A sentence that names the worst group on each version."""
    worst, level = [], []
    for version in scores.groups[attribute]:
        edges = scores.part().edges(attribute, version, metric)
        if not edges or not edges[0][0]:
            continue
        (group, lowest), (_, highest) = edges
        if highest == lowest:
            level.append(f"all have the same score on {version} images ({100 * lowest:.2f} %)")
        else:
            worst.append(f"{group} on {version} images ({100 * lowest:.2f} %)")
    if not (worst or level):
        return "No worst group: fewer than two groups have a score."
    return f"{'Worst group' if worst else 'No worst group'}: {', '.join(worst + level)}."
