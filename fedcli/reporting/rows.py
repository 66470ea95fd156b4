"""Runs as the rows of a report: which runs are one system, in what the systems differ, what a reader must know.

Where rows of one method were trained with different options, each of them names its own. The best is marked only among
rows of the same data and as many rounds. A number is the mean over the last five rounds (± population standard
deviation) unless another `at` is asked for; group columns are those of the clean test set. Runs that differ in nothing
but the seed of training are one system, and one row where a spread over seeds is asked for.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import console
from ..comparison.cautions import at_chance, doubtful, small_groups
from ..comparison.systems import (
    BEST,
    DRAWN,
    LAST5,
    NOT_THE_METHOD,
    Scored,
    brief,
    grouped,
    last,
    read,
    refuse_mixed,
)
from ..errors import UsageError
from ..options import OWN
from ..scores.scores import SYNTHETIC
from . import timing
from .columns import POOLED, SHOWN, Names, all_numbers, columns
from .row import Row

STAGES = "partition", "corruption"  # a partition stands for its dataset too
LONG = 36  # characters; what a run differs in stands below the table if it is longer
WITH_GROUP, BLIND = "true group at test", "group-blind"
Options = Mapping[str, Any]


def compared(lines: Iterable[Row]) -> list[Row]:
    """The rows but for views, in the order of their colours, without the word that tells them from their views."""
    return [
        replace(row, view="", place=k)
        for k, row in enumerate(row for row in lines if not row.is_view)
    ]


def rows(
    paths: list[Path],
    *,
    metrics: Sequence[str] = SHOWN,
    at: str = LAST5,
    spread: str | None = None,
    minutes: bool = False,
    traffic: bool = False,
    warned: bool = False,
) -> list[Row]:
    """One row per system, verified first, and below it one per view; says on stderr what cannot be compared, unless
    that was said before (warned).

    at: "last5" for means over the last five rounds, "last" for the last round, "best" for the round that was best on
    the clients' validation images. spread: "pooled" or "runs" makes the runs of a system one row whose ± is over all
    its rounds, or over the runs' means; None keeps runs separate. minutes: also how long each run trained, by the
    clocks beside it; they are no part of any promise of equal bytes. traffic: also the bytes that travel, where runs
    recorded them. Raises FedcliError, HashError, UsageError.
    """
    scored = read(paths)
    refuse_mixed(scored)
    if at == BEST and not any(run.scores.best for run in scored):
        raise UsageError(
            "no run kept the model that was best on validation",
            "partition with --val 0.1, train and evaluate again",
        )
    own = []
    for runs in _systems(scored, spread):
        clocks = timing.of_runs([run.path for run in runs]) if minutes else None
        down, up = runs[0].scores.bytes.down, runs[0].scores.bytes.up
        own.append(
            Row(
                scored=runs,
                known=[all_numbers(run.scores, at) for run in runs],
                at=at,
                over=spread or POOLED,
                view=WITH_GROUP if runs[0].scores.views else "",
                minutes=clocks.minutes if clocks else None,
                bytes={"down": down, "up": up}
                if traffic and down is not None and up is not None
                else None,
            )
        )
    lines: list[Row] = []
    for number, (row, differs) in enumerate(zip(own, _differences(own), strict=True), 1):
        lines += _lines(
            replace(row, differs=differs, mark=f"[{number}]" if len(differs) > LONG else ""),
            metrics,
        )
    for note in notes(lines) if not warned else ():
        console.warn(note)
    return lines


def notes(lines: Sequence[Row]) -> list[str]:
    """Notes for a reader before comparing: runs that differ in more than the method, small groups."""
    unshared = [stage for stage in STAGES if differ([row.data.get(stage) for row in lines])]
    unshared += ["rounds"] if differ([row.scores.rounds for row in lines]) else []
    unshared += (
        ["shot groups"] if differ([row.shot_groups for row in lines if row.shot_groups]) else []
    )
    lost = dict.fromkeys(name for row in lines for name in row.left_out)
    means = [row for row in lines if not row.is_view]
    seeds = [f"{row.scores.name} {', '.join(map(str, row.seeds))}" for row in means]
    unlike = any(row.runs > 1 for row in means) and differ(
        [sorted(map(str, row.seeds)) for row in means]
    )
    texts = [
        SYNTHETIC if any(row.scores.sample for row in lines) else "",
        f"these runs do not share the same {', '.join(unshared)}: {NOT_THE_METHOD}"
        if unshared
        else "",
        f"the rows are means over different seeds: {'; '.join(seeds)}" if unlike else "",
        f"not known of the best round, so left out: {', '.join(lost)}" if lost else "",
        *(note for row in means for note in row.shared_patients),
        *(f"{row.mark} {row.differs}" for row in lines if row.mark),
        *(note for row in lines for note in (*_warnings(row), *row.small_groups, *row.shot_groups)),
    ]
    return [note for note in dict.fromkeys(texts) if note]


def _systems(scored: list[Scored], spread: str | None) -> list[list[Scored]]:
    """The runs of each system; runs of equal seeds differ in something unknown and stay separate."""
    if spread is None:
        return [[run] for run in scored]
    systems: list[list[Scored]] = []
    for runs in grouped(scored, lambda run: (run.identity, json.dumps(run.options))):
        ordered = sorted(runs, key=lambda run: (run.seed or 0, run.draw))
        systems += (
            [ordered] if len({run.draw for run in runs}) == len(runs) else [[run] for run in runs]
        )
    return systems


def _lines(row: Row, metrics: Sequence[str]) -> Iterator[Row]:
    """The row with its cells, and one for each view below the first: what it cost to train is given once."""
    heads = _heads(row, metrics)
    cells = {name: row.value(where) for name, where in heads.items()}
    by_group = [name for name in cells if small_groups(row.scores, name.partition(" by ")[2])]
    before = replace(row, known=[all_numbers(row.scores, LAST5)])
    usual = (
        {name: before.value(where) for name, where in _heads(before, metrics).items()}
        if row.chosen
        else {}
    )
    yield replace(
        row,
        cells=cells,
        heads=heads,
        doubtful=[*doubtful(row.each, metrics, row.at), *by_group],
        left_out=[
            name for name, value in usual.items() if value.mean is not None and name not in cells
        ],
    )
    for view in row.scores.views:
        of_view = (
            _heads(row, metrics, view) if row.at != BEST else {}
        )  # of the best round one view is known
        yield replace(
            row,
            cells={name: row.value(where) for name, where in of_view.items()},
            doubtful=doubtful(row.each, metrics, row.at, view),
            view=f"{BLIND}: {view.replace('-', ' ')}",
            is_view=True,
            minutes=None,
            bytes=None,
        )


def _heads(row: Row, metrics: Sequence[str], view: str = "") -> Names:
    names: Names = {}
    for known, run in zip(row.known, row.scored):
        names |= columns(known, run, metrics, view)
    return names


def _warnings(row: Row) -> list[str]:
    chosen = ""
    if row.chosen:
        which = [f" of {kept['which']}" * (len(row.chosen) > 1) for kept in row.chosen]
        rounds = [
            f"round {kept['round']}{of} ({100 * kept['validation']:.2f})"
            for kept, of in zip(row.chosen, which)
        ]
        chosen = f"chosen by validation {row.chosen[0]['metric']} (%): {', '.join(rounds)}"
    if (
        row.at == BEST
        and not row.is_view
        and all(value.mean is None for value in row.cells.values())
    ):
        chosen = "it kept no model that was best on validation"
    texts = [row.warning, "" if row.is_view else at_chance(row.scored), chosen]
    return [f"{row.name}: {text}" for text in texts if text]


def _differences(systems: list[Row]) -> list[str]:
    out = []
    for row in systems:
        scores = row.scores
        alike = [other for other in systems if other.scores.method == scores.method]
        rounds = [[other.scores.rounds for other in others] for others in (alike, systems)]
        own = [f"rounds={scores.rounds}"] if is_named(scores.rounds, *rounds) else []
        noise = any(other.data.get("corruption") for other in alike)
        own += ["no corruption"] if noise and not row.data.get("corruption") else []
        settings = [other.scores.settings for other in alike]
        draws = (
            [other.options for other in systems if other.scores.label == scores.label]
            if row.runs == 1
            else None
        )
        options = [other.options for other in alike], [other.options for other in systems]
        by_method = unlike(scores.label, scores.settings, settings, settings)
        out.append(
            ", ".join([*by_method, *own, *unlike(scores.label, row.options, *options, draws)])
        )
    return out


def unlike(
    label: str,
    own: Options,
    alike: Sequence[Options],
    every: Sequence[Options],
    draws: Sequence[Options] | None = None,
) -> list[str]:
    """key=value of what must stand behind a label, but not what it has already; the rule has a column of its own.

    alike: of the rows of the same method. draws: of the rows with the same label, which alone a seed or fold tells this
    one from; None where the row is of several seeds, whose number it has.
    """
    named = []
    for key, value in own.items():
        name = last(key).replace("_", " ")
        said = (
            f"{name} {value}",
            f"{value} {name}",
            f"on {value}",
        )  # prior bsm, balanced class weights, on qkv
        in_label = any(f", {words}" in label for words in said)
        among = alike if last(key) not in DRAWN else draws
        if last(key) == "rule" or in_label or among is None or value == OWN:
            continue
        if is_named(
            value, [other.get(key) for other in among], [other.get(key) for other in every]
        ):
            named.append(f"{key}={brief(value)}")
    return named


def is_named(value: Any, alike: list[Any], every: list[Any]) -> bool:
    """Tell whether a value is named: runs of the same method have others, or it is not what most of all rows have."""
    return (
        differ(alike) or differ(every) and 2 * sum(value == other for other in every) <= len(every)
    )


def differ(values: list[Any]) -> bool:
    return any(value != values[0] for value in values)


def shortened(rows: Sequence[Row]) -> list[Row]:
    """Rows whose names hold only what differs: no part of the label, and no number of seeds, that all have."""
    parts = shared_parts(rows)
    unlike = len({row.runs for row in rows}) > 1
    return [
        replace(
            row,
            short=", ".join(part for part in row.scores.name.split(", ") if part not in parts),
            names_runs=unlike,
        )
        for row in rows
    ]


def shared_parts(rows: Sequence[Row]) -> list[str]:
    """Parts behind the method's own name that the labels of several systems share."""
    first, *others = [row.scores.name.split(", ") for row in rows if not row.is_view]
    return [part for part in first[1:] if others and all(part in other[1:] for other in others)]


def has_two_rules(rows: Sequence[Row]) -> bool:
    """Tell whether one method is shown by the paper's rule and by that of released code."""
    return any(
        row.scores.rule != other.scores.rule and row.scores.method == other.scores.method
        for row in rows
        for other in rows
    )
