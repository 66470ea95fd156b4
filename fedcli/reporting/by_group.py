"""One run group by group: how many images, the score with its interval, and how far it lies below the best group."""

from collections.abc import Iterator
from dataclasses import dataclass

from ..scores.scores import Scores
from ..scores.table import Score
from .columns import area
from .table import DAGGER


@dataclass(frozen=True)
class GroupTable:
    """A line for each group of an attribute; worst: a sentence that names the worst group on each version."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    worst: str
    bca: bool = False
    counted: bool = False  # by sites, which do not say whose image is which


def tables(scores: Scores, metric: str = "") -> Iterator[GroupTable]:
    """A table for each attribute, of the last round's model, on the clean and the corrupted test images.

    metric: by default the AUC.
    """
    metric = metric or area(scores)
    for attribute, versions in scores.groups.items():
        clean = scores.members(attribute)
        columns = [attribute, "n", *(part for version in versions for part in _heads(version))]
        rows = [
            [group + DAGGER * bool(some.small), str(some.count)]
            + [cell for version in versions for cell in _cells(scores, attribute, version, group, metric)]
            for group, some in clean.items()
        ]
        title = f"Each group by {attribute}: {metric} of the last round's model, {scores.label}"
        known = [score for metrics in versions.values() for score in metrics.get(metric, {}).values()]
        yield GroupTable(
            title,
            columns,
            rows,
            _worst(scores, attribute, metric),
            any(score.is_bca for score in known),
            bool(scores.curves),
        )


def legend(tables: list[GroupTable]) -> str:
    """A legend of the numbers."""
    small = f" {DAGGER} marks a group that is too small or lacks a class."
    kind = "BCa " if any(table.bca for table in tables) else ""
    over = (
        "images, which sites count without their patients, so too narrow where patients have several"
        if any(table.counted for table in tables)
        else "the patients of a group, or over its images where patients are unknown"
    )
    words = (
        f"In percent, with 95 % {kind}bootstrap intervals over {over}; gap: how far a group lies below the best group."
    )
    return words + small * any(DAGGER in line[0] for table in tables for line in table.rows)


def _heads(version: str) -> list[str]:
    return [f"{version} (%)", f"{version} interval", f"{version} gap"]


def _cells(scores: Scores, attribute: str, version: str, group: str, metric: str) -> list[str]:
    """Score, interval and gap to the best group; "-" where there is none."""
    score = scores.groups[attribute][version].get(metric, {}).get(group) or Score()
    if score.last is None:
        return ["-", "-", "-"]
    known = score.low is not None and score.high is not None
    bounds = f"{100 * score.low:.2f} to {100 * score.high:.2f}" if known else "-"
    edges = scores.part().edges(attribute, version, metric)
    return [f"{100 * score.last:.2f}", bounds, f"{100 * abs(edges[1][1] - score.last):.2f}" if edges else "-"]


def _worst(scores: Scores, attribute: str, metric: str) -> str:
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
