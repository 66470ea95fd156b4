"""One run group by group: how many images, the score with its interval, and how far it lies below the best group."""

from collections.abc import Iterator
from dataclasses import dataclass

from ..scores.bca import BCA
from ..scores.parts import Groups
from ..scores.scores import Scores
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
        clean = versions["clean"].last_round.groups
        columns = [attribute, "n", *(part for version in versions for part in _heads(version))]
        rows = [
            [value + DAGGER * group.small, str(group.count)]
            + [cell for groups in versions.values() for cell in _cells(groups, value, metric)]
            for value, group in clean.items()
        ]
        title = f"Each group by {attribute}: {metric} of the last round's model, {scores.label}"
        known = [each for groups in versions.values() for each in groups.intervals.get(metric, {}).values()]
        yield GroupTable(
            title,
            columns,
            rows,
            _worst(versions, metric),
            any(each.method == BCA for each in known),
            bool(scores.curves),
        )


def legend(tables: list[GroupTable]) -> str:
    """What the numbers are."""
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


def _cells(groups: Groups, value: str, metric: str) -> list[str]:
    """Score, interval and gap to the best group; "-" where there is none."""
    group = groups.last_round.groups.get(value)
    score = group.metrics.get(metric) if group else None
    if score is None:
        return ["-", "-", "-"]
    interval = groups.intervals.get(metric, {}).get(value)
    known = interval and interval.low is not None and interval.high is not None
    bounds = f"{100 * interval.low:.2f} to {100 * interval.high:.2f}" if known else "-"
    between = groups.last_round.between.get(metric)
    best = between.best.score if between and between.best else None
    return [f"{100 * score:.2f}", bounds, "-" if best is None else f"{100 * abs(best - score):.2f}"]


def _worst(versions: dict[str, Groups], metric: str) -> str:
    worst, level = [], []
    for version, groups in versions.items():
        between = groups.last_round.between.get(metric)
        if not (between and between.worst and between.worst.group is not None and between.worst.score is not None):
            continue
        if between.best and between.best.score == between.worst.score:
            level.append(f"all have the same score on {version} images ({100 * between.worst.score:.2f} %)")
        else:
            worst.append(f"{between.worst.group} on {version} images ({100 * between.worst.score:.2f} %)")
    if not (worst or level):
        return "No worst group: fewer than two groups have a score."
    return f"{'Worst group' if worst else 'No worst group'}: {', '.join(worst + level)}."
