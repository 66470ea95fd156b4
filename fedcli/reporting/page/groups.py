"""One part of the page per attribute: how good the models are for each group, and how much the groups differ."""

from collections.abc import Iterator, Sequence

import numpy as np
from pandas import DataFrame

from ...compare.resampling import bounds_of_mean
from ...compare.small_groups import doubtful_decisions, small_decides, small_groups
from ...compare.systems import LAST5, Quantity
from ...figures import inline
from ...figures import system as figures
from ...figures.kinds import forest
from ...scores.groups import unknown_note
from ...scores.scores import Scores
from ...scores.views import compared
from ..columns import POOLED, Value, group_values, parity_values, shown
from ..section import Section
from ..table import DAGGER, Table
from .marked import by_system
from .systems import System

SUMMARY = "ES-AUC", "worst group", "gap", "mean over groups", "std over groups"  # stand before the groups themselves
LEGEND = (
    "In percent, rows as in the table of scores. Square brackets: number of test images of the group.{rounds} A group "
    "marked † is too small or lacks a class, so its score is not reliable; a worst group or gap marked † is decided by "
    "such a group{some}. Neither is marked as the best. ES-AUC and the mean and standard deviation over groups count "
    "every group the same, small ones included."
)
ROUNDS = (
    " Worst group and gap are computed in each round (its lowest score, and the distance to its highest) and then "
    "averaged, so they need not follow from the averages of the groups."
)
SPREADS = (
    " ± is over rounds and seeds; for the mean and standard deviation over groups each group is averaged over the "
    "rounds first, and ± is over seeds."
)
LAST_ROUND = (
    "Last round's model: its score on each group, in percent, with the 95 % bootstrap interval (BCa where that was "
    "asked for) over the group's patients. The tables show means over the last rounds, or "
    "models that validation images chose, so numbers may differ. With "
    "several seeds: the mean over seeds in each resample."
)


def sections(
    compared: list[System], at: str, spread: str | None, metrics: Sequence[str]
) -> Iterator[Section]:  # fmt: skip
    """A section for each attribute that some system was scored by.

    metrics: shown beside the usual ones, where groups are compared by them.
    """
    for attribute in dict.fromkeys(name for system in compared for name in system.scores.groups):
        by = [system for system in compared if all(attribute in run.groups for run in system.each)]
        tables: list[Table] = []
        folded: list[Table] = []
        usual = shown(by[0].scores)
        each = list(dict.fromkeys([*usual, *(name for name in metrics if _is_compared(by, attribute, name))]))
        for version in _versions(by, attribute):
            target = tables if version == "clean" else folded
            target += _tables(by, attribute, version, at, spread or POOLED, each)
        panels = _panels(by, attribute, each)
        yield Section(f"group-{attribute}", f"Groups: {attribute}", tables=tables, folded=folded, panels=panels)


def _is_compared(by: list[System], attribute: str, metric: str) -> bool:
    every = (metrics for system in by for metrics in system.scores.groups[attribute].values())
    return compared(metric) and any(metric in metrics for metrics in every)


def _versions(by: list[System], attribute: str) -> list[str]:
    """All test images that some system was scored on; one that was trained on clean images knows no corrupted ones."""
    return list(dict.fromkeys(version for system in by for version in system.scores.groups[attribute]))


def _tables(
    by: list[System], attribute: str, version: str, at: str, spread: str, metrics: list[str]
) -> Iterator[Table]:  # fmt: skip
    """metrics: the last of them first, with what the numbers mean below the first of them."""
    sizes, small = _sizes(by[0].scores, attribute), small_groups(by[0].scores, attribute)
    legend = _legend(by, attribute, at, spread)
    for metric in reversed(metrics):
        runs = [_each_run(system, attribute, version, metric) for system in by]
        unsure = [{*small} | small_decides(system.each, attribute, version, metric, at) for system in by]
        yield from by_system(
            f"{metric}, {version} test images", by, runs, spread, head=lambda name: sizes.get(name, name),
            doubtful=unsure,
            legend=legend if version != "clean" or metric == metrics[0] else "",
        )  # fmt: skip
    runs = [[parity_values(known, attribute, version) for known in system.row.known] for system in by]
    unsure = [
        doubtful_decisions(system.scores, attribute, list(values[0])) for system, values in zip(by, runs, strict=True)
    ]
    yield from by_system(
        f"Decisions, {version} test images",
        by,
        runs,
        spread,
        legend=_undefined(by, attribute, version),
        doubtful=unsure,
    )


def _each_run(system: System, attribute: str, version: str, metric: str) -> list[dict[str, Value]]:
    """Of each run, what lies between the groups, then each group."""
    runs = zip(system.row.known, system.each, strict=True)
    values = [group_values(known, scores, attribute, version, metric) for known, scores in runs]
    return [{name: run[name] for name in (*SUMMARY, *run) if name in run} for run in values]


def _legend(by: list[System], attribute: str, at: str, spread: str) -> str:
    """Say of the numbers what they are, and how many images belong to no group."""
    averaged = at == LAST5
    legend = LEGEND.format(rounds=ROUNDS if averaged else "", some=" in some round" if averaged else "")
    if averaged and spread == POOLED and any(system.row.runs > 1 for system in by):
        legend += SPREADS
    if len(by) > 1:
        legend += " Bold marks the best, without a test."
    scores = by[0].scores
    unknown, images = scores.grouped[attribute].unknown, scores.images
    missing = unknown_note(attribute, unknown, images)
    return f"{legend} {missing[0].upper()}{missing[1:]}." if missing else legend


def _sizes(scores: Scores, attribute: str) -> dict[str, str]:
    """A column's head for each group: its name and how many test images it has."""
    members = scores.members(attribute).items()
    return {group: f"{group} [{score.count}]{f' {DAGGER}' * bool(score.small)}" for group, score in members}


def _undefined(by: list[System], attribute: str, version: str) -> str:
    scores = next(system.scores for system in by if version in system.scores.groups[attribute])
    missing = scores.grouped[attribute].undefined_rates
    left_out = f" Left out, as no image defines them: {', '.join(missing)}." if missing else ""
    return (
        "In percent, better when low: differences between groups in the models' decisions. † marks all where one group "
        f"is too small, since any group may decide them.{left_out}"
    )


def _panels(by: list[System], attribute: str, metrics: list[str]) -> list[inline.Panels]:
    lines = [
        line
        for version in _versions(by, attribute)
        for metric in reversed(metrics)
        for line in forest.of_groups(
            by, attribute, version, metric, _bounds, panel=f"{metric}, {version} test images, last round",
            about=f"by {attribute}",
        )
    ]  # fmt: skip
    table = DataFrame(lines, columns=forest.COLUMNS).assign(overall=np.nan)
    table.attrs |= {"title": "", "caption": LAST_ROUND, "score": "score"}
    return [inline.of_picture(forest.draw(table))] if lines else []


def _bounds(
    system: figures.System, attribute: str, group: str, version: str, metric: str
) -> tuple[float, float] | None:  # fmt: skip
    assert isinstance(system, System)
    each = [scores.groups[attribute][version].get(metric, {}).get(group) for scores in system.each]
    return bounds_of_mean(system.row.scored, Quantity(version, metric, attribute, group), each)
