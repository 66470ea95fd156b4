"""Runs as the rows of a report: which runs are one system, in what the systems differ, what a reader must know.

Where rows of one method were trained with different options, each of them names its own. The best is marked only among
rows of the same data and as many rounds. A number is the mean over the last five rounds (± population standard
deviation) unless another `at` is asked for; group columns are those of the clean test set. Runs that differ in nothing
but the seed of training are one system, and one row where a spread over seeds is asked for.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from .. import console
from ..compare.cautions import at_chance
from ..compare.small_groups import doubtful, small_groups, small_groups_note
from ..compare.systems import BEST, LAST5, NOT_THE_METHOD, Scored, grouped, read, refuse_mixed
from ..errors import UsageError
from ..scores import shots
from ..scores.scores import Scores
from . import timing
from .columns import POOLED, SHOWN, Value, Values, all_values, columns, joined, percent, view_columns
from .named_options import differ, is_named, unlike

STAGES = "partition", "corruption"  # a partition stands for its dataset too
LONG = 36  # characters; what a run differs in stands below the table if it is longer
SYNTHETIC = "SYNTHETIC data: rows marked so are of a made-up sample, and their numbers say nothing about patients"
WITH_GROUP, BLIND = "true group at test", "group-blind"


@dataclass(frozen=True)
class Chosen:
    """The round of a run that was best on its clients' validation images; which: the run, in words."""

    seed: Any
    which: str
    round: int
    metric: str
    validation: float


@dataclass(frozen=True, kw_only=True)
class Row:
    """A system, or one view of it.

    Attributes:
        scored: its runs. known: of each run all values, see columns.all_values.
        at, spread: what its numbers are; spread is None of a single run.
        cells: column -> value. doubtful: the columns that a small group decides.
        view: "" where the method is shown images in one way only.
        differs: the options in which it differs from the other rows. mark: stands for them where they are long.
        minutes: how long each run trained on average. left_out: columns that are not known of the best round.
        names_runs: whether the name says of how many runs it is.
    """

    scored: Sequence[Scored]
    known: Sequence[Values]
    at: str
    spread: str | None = None
    cells: dict[str, Value] = field(default_factory=dict)
    doubtful: Sequence[str] = ()
    view: str = ""
    is_view: bool = False
    differs: str = ""
    mark: str = ""
    minutes: float | None = None
    bytes: dict[str, float] | None = None
    left_out: Sequence[str] = ()
    names_runs: bool = True

    @property
    def scores(self) -> Scores:
        """Of its first run."""
        return self.scored[0].scores

    @property
    def qualities(self) -> list[Scores]:
        return [run.scores for run in self.scored]

    @property
    def paths(self) -> list[Path]:
        return [run.path for run in self.scored]

    @property
    def runs(self) -> int:
        return len(self.scored)

    @property
    def seeds(self) -> list[Any]:
        return [run.seed for run in self.scored]

    @property
    def drawn(self) -> str:
        """The kind of its runs: "folds" where each has one of its own, else "seeds"."""
        return "folds" if self.runs > 1 and len({run.fold for run in self.scored}) == self.runs else "seeds"

    @cached_property
    def options(self) -> dict[str, Any]:
        """Options of the run and its data, but for the method's settings."""
        scores = self.scores
        asked = {"dataset": scores.dataset} | ({"model": scores.model["name"]} if scores.model else {})
        asked |= {"tested on": scores.external.dataset} if scores.external else {}
        for kind, stage in scores.data.items():
            asked |= {f"{kind} {key}": value for key, value in (stage.options if stage else {}).items()}
        return asked | scores.options | ({"seed": self.seeds} if self.runs > 1 else {})

    @cached_property
    def data(self) -> dict[str, Any]:
        """Of each stage the hash, several where the runs' data were drawn anew; None where no run has the stage."""
        hashes = {kind: sorted({sha for run in self.scored if (sha := run.sha256(kind))}) for kind in self.scores.data}
        return {kind: shas if len(shas) > 1 else next(iter(shas), None) for kind, shas in hashes.items()}

    @property
    def attributes(self) -> list[str]:
        return list(self.scores.groups)

    @property
    def warning(self) -> str:
        """A run has one for all its views."""
        warnings = [text for run in self.qualities for text in (run.warning, _on_whole_test_set(run)) if text]
        return "" if self.is_view else "; ".join(dict.fromkeys(warnings))

    @cached_property
    def small_groups(self) -> list[str]:
        return list(filter(None, dict.fromkeys(map(small_groups_note, self.qualities))))

    @property
    def shot_groups(self) -> list[str]:
        named = [(run.scores.dataset, run.scores.shots) for run in self.scored if _by_shots(run)]
        return list(dict.fromkeys(f"{dataset}: {shots.described(known)}" for dataset, known in named))

    @cached_property
    def chosen(self) -> list[Chosen]:
        """The round that validation chose of each run that kept one, where rows are of these rounds."""
        runs = self.scored if self.at == BEST and not self.is_view else []
        best = [(run, run.scores.best) for run in runs]
        return [Chosen(run.seed, run.which, kept.round, kept.metric, kept.validation) for run, kept in best if kept]

    @property
    def name(self) -> str:
        """The label, and in brackets the view, how many seeds and the options in which the row differs."""
        return f"{self.named('' if self.mark else self.differs)} {self.mark}".rstrip()

    @property
    def long_name(self) -> str:
        """The name with all that the row differs in, however long."""
        return self.named(self.differs)

    def named(self, differs: str) -> str:
        """The label, and in brackets the view, how many seeds and these options."""
        draws = f"{self.runs} {self.drawn}" if self.runs > 1 and self.names_runs else ""
        inside = ", ".join(filter(None, [self.view, draws, differs]))
        return f"{self.scores.label} ({inside})" if inside else self.scores.label

    @cached_property
    def comparable(self) -> str:
        """The facts that rows must share for one of them to be the best: data, test images and rounds."""
        own = self.scores.external and self.scores.external.sha256
        return json.dumps([self.scores.rounds, self.data, own], sort_keys=True)


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
            "no run kept the model that was best on validation", "partition with --val 0.1, train and evaluate again"
        )
    systems = [_system(runs, at, spread, minutes, traffic) for runs in _systems(scored, spread)]
    lines: list[Row] = []
    for number, (row, differs) in enumerate(zip(systems, _differences(systems), strict=True), 1):
        row = replace(row, differs=differs, mark=f"[{number}]" if len(differs) > LONG else "")
        lines += _lines(row, metrics, spread or POOLED)
    for note in notes(lines) if not warned else ():
        console.warn(note)
    return lines


def _system(runs: list[Scored], at: str, spread: str | None, minutes: bool, traffic: bool) -> Row:
    clocks = timing.of_runs([run.path for run in runs]) if minutes else None
    sent = runs[0].scores.bytes if traffic else None
    return Row(
        scored=runs,
        known=[all_values(run.scores, at) for run in runs],
        at=at,
        spread=spread if len(runs) > 1 else None,
        view=WITH_GROUP if runs[0].scores.views else "",
        minutes=clocks.minutes if clocks else None,
        bytes={"down": sent.down, "up": sent.up} if sent and sent.down is not None else None,
    )


def notes(lines: Sequence[Row]) -> list[str]:
    """Notes for a reader before comparing: runs that differ in more than the method, small groups."""
    unshared = [stage for stage in STAGES if differ([row.data.get(stage) for row in lines])]
    unshared += ["rounds"] if differ([row.scores.rounds for row in lines]) else []
    unshared += ["shot groups"] if differ([row.shot_groups for row in lines if row.shot_groups]) else []
    lost = dict.fromkeys(name for row in lines for name in row.left_out)
    texts = [
        SYNTHETIC if any(row.scores.sample for row in lines) else "",
        f"these runs do not share the same {', '.join(unshared)}: {NOT_THE_METHOD}" if unshared else "",
        _unlike_seeds(lines),
        f"not known of the best round, so left out: {', '.join(lost)}" if lost else "",
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
        systems += [ordered] if len({run.draw for run in runs}) == len(runs) else [[run] for run in runs]
    return systems


def _lines(row: Row, metrics: Sequence[str], spread: str) -> Iterator[Row]:
    """The row with its cells, and one for each view below the first: what it cost to train is given once."""
    cells = [_columns(run, known, metrics) for run, known in zip(row.scored, row.known, strict=True)]
    by_group = [name for name in cells[0] if small_groups(row.scores, name.partition(" by ")[2])]
    unsure = [*doubtful(row.qualities, metrics, row.at), *by_group]
    lost = _left_out(row, cells[0], metrics) if row.chosen else []
    yield replace(row, cells=joined(cells, spread), doubtful=unsure, left_out=lost)
    for view in row.scores.views:
        known = [] if row.at == BEST else zip(row.known, row.qualities, strict=True)
        cells = [view_columns(values, view, scores, metrics) for values, scores in known]
        yield replace(
            row,
            cells=joined(cells, spread),
            doubtful=doubtful(row.qualities, metrics, row.at, view),
            view=f"{BLIND}: {view.replace('-', ' ')}",
            is_view=True,
            minutes=None,
            bytes=None,
        )


def _columns(run: Scored, known: Values, metrics: Sequence[str]) -> dict[str, Value]:
    return columns(known, run.scores, by_shots=_by_shots(run), metrics=metrics)


def _left_out(row: Row, shown: Values, metrics: Sequence[str]) -> list[str]:
    """The columns that are known of the last rounds alone."""
    usual = _columns(row.scored[0], all_values(row.scores, LAST5), metrics)
    return [name for name, value in usual.items() if value.mean is not None and name not in shown]


def _by_shots(run: Scored) -> bool:
    return "shots" in run.options and run.scores.shots is not None


def _warnings(row: Row) -> list[str]:
    """Warnings of one row."""
    missing = row.at == BEST and not row.is_view and all(value.mean is None for value in row.cells.values())
    chosen = "it kept no model that was best on validation" if missing else _chosen_rounds(row.chosen)
    texts = [row.warning, "" if row.is_view else at_chance(row.scored), chosen]
    return [f"{row.name}: {text}" for text in texts if text]


def _chosen_rounds(chosen: Sequence[Chosen]) -> str:
    if not chosen:
        return ""
    each = [
        f"round {run.round}{f' of {run.which}' if len(chosen) > 1 else ''} ({percent(run.validation)})"
        for run in chosen
    ]
    return f"chosen by validation {chosen[0].metric} (%): {', '.join(each)}"


def _unlike_seeds(lines: Sequence[Row]) -> str:
    """A note on the seeds that rows are means over, where they are not the same."""
    means = [row for row in lines if not row.is_view]
    if not any(row.runs > 1 for row in means) or not differ([sorted(map(str, row.seeds)) for row in means]):
        return ""
    each = "; ".join(f"{row.scores.label} {', '.join(map(str, row.seeds))}" for row in means)
    return f"the rows are means over different seeds: {each}"


def _on_whole_test_set(scores: Scores) -> str:
    """A word where clients' own models are scored on images that are not their clients'."""
    shared = scores.personal and all(client.part == "whole" for client in scores.clients.values())
    return "clients have no test images of their own, so their own models are scored on all of them" if shared else ""


def _differences(systems: list[Row]) -> list[str]:
    """The settings and options in which each row differs from the others."""
    out = []
    for row in systems:
        alike = [other for other in systems if other.scores.method == row.scores.method]
        rounds = [[other.scores.rounds for other in others] for others in (alike, systems)]
        own = [f"rounds={row.scores.rounds}"] if is_named(row.scores.rounds, *rounds) else []
        noise = any(other.data.get("corruption") for other in alike)
        own += ["no corruption"] if noise and not row.data.get("corruption") else []
        settings = [other.scores.settings for other in alike]
        options = [[other.options for other in others] for others in (alike, systems)]
        label = row.scores.label
        draws = [other.options for other in systems if other.scores.label == label] if row.runs == 1 else None
        by_method = unlike(label, row.scores.settings, settings, settings)
        out.append(", ".join([*by_method, *own, *unlike(label, row.options, *options, draws)]))
    return out
