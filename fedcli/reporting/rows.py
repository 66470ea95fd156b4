"""Rows of a report: which runs are one system, its numbers, its name, and what a reader must know
of it.

If rows of one method were trained with different options, each of them names its own. The best is
marked only among rows of the same data and as many rounds. A number is the mean over the last five
rounds (± population standard deviation) unless another `at` is asked for; group columns are those
of the clean test set. Runs that differ in nothing but the seed of training are one system, and one
row where a spread over seeds is asked for.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from .. import console, printed
from ..comparison.cautions import (
    at_chance,
    doubtful,
    small_groups,
    unknown_groups,
    unreliable_groups,
)
from ..comparison.systems import (
    BEST,
    DRAWN,
    LAST5,
    NOT_THE_METHOD,
    REFERENCE,
    Scored,
    brief,
    data_options,
    grouped,
    last,
    read,
    refuse_mixed,
    shared_parts,
    without_parts,
)
from ..data import manifest, shared_patients
from ..errors import UsageError, nearest
from ..figures.system import System
from ..options import OWN
from ..scores import shots
from ..scores.numbers import versions as versions_in_words
from ..scores.scores import SYNTHETIC, RunScores
from ..scores.table import Number, Where
from . import timing
from .columns import POOLED, SHOWN, Names, Value, all_numbers, chosen, columns, joined
from .table import Cell, percent

WHOLE = "clients have no test images of their own, so their own models are scored on all of them"
NOT_CHOSEN = "it kept no model that was best on validation"
STAGES = "partition", "corruption"  # a partition stands for its dataset too
LONG = 36  # characters; what a run differs in stands below the table if it is longer
WITH_GROUP, BLIND = "true group at test", "group-blind"
CODE = "code"  # the option of code from outside the package, which the legend names
Options = Mapping[str, Any]


def unique(texts: Iterable[str]) -> list[str]:
    """The texts that are not empty, each once, in their order."""
    return list(dict.fromkeys(filter(None, texts)))


@dataclass(frozen=True, kw_only=True)
class SystemRow(System):
    """A system, or one view of it.

    Attributes:
        over: over what runs spread: "pooled" over all rounds, or "runs".
        heads: column -> whose number it is. doubtful: the columns that a small group decides.
        view: "" where the method is shown images in one way only.
        minutes: how long each run trained on average. left_out: columns that are not known of the
            best round.
        names_runs: whether the name says of how many runs it is. short: the label without what all
            rows share.
    """

    over: str = POOLED
    heads: Names = field(default_factory=dict)
    doubtful: Sequence[str] = ()
    view: str = ""
    is_view: bool = False
    minutes: Number = None
    bytes: dict[str, float] | None = None
    left_out: Sequence[str] = ()
    names_runs: bool = True
    short: str = ""

    @cached_property
    def cells(self) -> dict[str, Value]:
        """Column -> value."""
        return {name: self.value(where) for name, where in self.heads.items()}

    def value(self, where: Where) -> Value:
        """A number of its runs as one."""
        return joined([scores.get(where) for scores in self.known], self.over)

    def cell(self, where: Where, *, doubtful: bool = False) -> Cell:
        """A number as tables of groups and labels have it, with one digit."""
        value = self.value(where)
        return percent(value.mean, value.std, doubtful=doubtful).rounded(1)

    @property
    def runs(self) -> int:
        return len(self.scored)

    @property
    def spread(self) -> str | None:
        """Over what its numbers spread; None of a single run."""
        return self.over if self.runs > 1 else None

    @property
    def seeds(self) -> list[Any]:
        return [run.seed for run in self.scored]

    @property
    def drawn(self) -> str:
        """The kind of its runs: "folds" if each has one of its own, "runs" if some share a fold of
        several, else "seeds".
        """
        folds = {run.fold for run in self.scored}
        if self.runs > 1 and len(folds) == self.runs:
            return "folds"
        return "runs" if len(folds) > 1 else "seeds"

    @cached_property
    def options(self) -> Options:
        """Options of the run and its data, but for the method's settings."""
        scores = self.scores
        options = {"dataset": scores.dataset}
        if scores.model:
            options["model"] = scores.model["name"]
        if scores.external:
            options["tested on"] = scores.external.dataset
        seeds = {"seed": self.seeds} if self.runs > 1 else {}
        return options | data_options(scores) | scores.options | seeds

    @cached_property
    def data(self) -> Options:
        """Stage -> its hash; several if the runs' data were drawn anew, None if no run has the
        stage.
        """
        hashes: dict[str, Any] = {}
        for kind in self.scores.data:
            stages = sorted(filter(None, {run.sha256(kind) for run in self.scored}))
            hashes[kind] = stages if len(stages) > 1 else next(iter(stages), None)
        return hashes

    @property
    def which_data(self) -> str:
        """The first run's seed or fold, where the runs' data were drawn anew; "" of the same
        data.
        """
        is_drawn_anew = any(isinstance(hashes, list) for hashes in self.data.values())
        return self.scored[0].which if is_drawn_anew else ""

    @property
    def own_code(self) -> str:
        """The method and the code from outside the package that it is made of; "" of fedcli's."""
        codes = self.scores.options.get(CODE) or {}
        files = [brief(codes[half]) for half in self.scores.method.split("+") if half in codes]
        return f"{self.scores.label.partition(',')[0]} is {', '.join(files)}" if files else ""

    @property
    def attributes(self) -> list[str]:
        return list(self.scores.groups)

    @property
    def warning(self) -> str:
        """The warnings of its scores; a system has one for all its views."""
        if self.is_view:
            return ""
        warnings = []
        for scores in self.each:
            warnings.append(scores.warning)
            parts = {client.part for client in scores.clients.values()}
            if scores.personal and parts <= {"whole"}:
                warnings.append(WHOLE)
        return "; ".join(unique(warnings))

    @cached_property
    def small_groups(self) -> list[str]:
        return unique(chain.from_iterable(map(unreliable_groups, self.each)))

    @property
    def shared_patients(self) -> list[str]:
        """A sentence on patients of test images who also have training images, for each number of
        them.
        """
        return unique(shared_patients.sentence(scores.shared_patients) for scores in self.each)

    @property
    def shot_groups(self) -> list[str]:
        """The groups of classes by their training images, of each dataset, if recalls were asked
        for.
        """
        texts = []
        for run in self.scored:
            if "shots" in run.options and run.scores.shots:
                texts.append(f"{run.scores.dataset}: {shots.described(run.scores.shots)}")
        return unique(texts)

    @cached_property
    def chosen(self) -> Sequence[Options]:
        """The round that validation chose of each run that kept one, if rows are of these
        rounds.
        """
        if self.at != BEST or self.is_view:
            return []
        choices = []
        for run in self.scored:
            if run.scores.best:
                choices.append({"seed": run.seed, "which": run.which} | vars(run.scores.best))
        return choices

    @property
    def name(self) -> str:
        """The label, and in brackets the view, the number of seeds and the options in which the row
        differs.
        """
        differs = "" if self.mark else self.differs
        return f"{self.named(differs)} {self.mark}".rstrip()

    def named(self, differs: str) -> str:
        """The label, and in brackets the view, the number of seeds and these options."""
        runs = ""
        if self.runs > 1 and self.names_runs:
            runs = f"{self.runs} {self.drawn}"
        details = ", ".join(filter(None, [self.view, runs, differs]))
        return f"{self.label} ({details})" if details else self.label

    @property
    def label(self) -> str:
        """The method's label, without what all rows share where that is known."""
        return self.short or self.scores.name

    @cached_property
    def comparable(self) -> str:
        """The facts that rows must share for one of them to be the best: data, test images and
        rounds.
        """
        external = self.scores.external and self.scores.external.sha256
        return json.dumps([self.scores.rounds, self.data, external], sort_keys=True)

    @cached_property
    def run_files(self) -> list[Path]:
        """The run.json of each run that is there."""
        return list(filter(None, [manifest.parent(path, "run") for path in self.paths]))

    def stage(self, kind: str) -> Path | None:
        """The manifest of the data that the first run was trained on."""
        if not self.run_files:
            return None
        data = manifest.parent(self.run_files[0], "corruption", "partition")
        if data is None or manifest.read(data).kind == kind:
            return data
        return manifest.parent(data, kind)


Rows = Sequence[SystemRow]


def gap_in_points(row: SystemRow, where: Where) -> float:
    """A gap between groups, of their scores as they are printed with one digit."""
    column = row.scores.groups[where.attribute][where.version].get(where.metric, {})
    scores = [row.percent(where._replace(measure="", group=group)) for group in column]
    finite = [score for score in scores if np.isfinite(score)]
    return printed.gap(row.percent(where), finite, 1)


def systems_of(rows: Iterable[SystemRow]) -> list[SystemRow]:
    """The rows that are no further view of a system."""
    return [row for row in rows if not row.is_view]


def scores_of(rows: Iterable[SystemRow]) -> list[RunScores]:
    """The scores of all runs of these rows."""
    return list(chain.from_iterable(row.each for row in rows))


def led_by(rows: Rows, reference: str) -> list[SystemRow]:
    """The rows with the system that others are tested against, and its views, first.

    Raises UsageError, as base_of does.
    """
    base = base_of(systems_of(rows), reference)
    paths = next(row.paths for row in rows if row.name == base)
    return sorted(rows, key=lambda row: row.paths != paths)


def base_of(compared: Rows, reference: str) -> str:
    """The name of the system that others are tested against; default: the first.

    reference: a name, label or method. Raises UsageError for an unknown one.
    """
    if not reference:
        return compared[0].name
    names: dict[str, str] = {}
    for row in reversed(compared):
        names |= dict.fromkeys((row.scores.method, row.scores.label, row.name), row.name)
    if reference not in names:
        hint = nearest(reference, names, {row.name for row in compared})
        raise UsageError(f"no row of the report is named {reference!r}", hint)
    return names[reference]


def compared(rows: Iterable[SystemRow]) -> list[SystemRow]:
    """The systems, in the order of their colours, without the word that tells them from their
    views.
    """
    return [replace(row, view="", place=k) for k, row in enumerate(systems_of(rows))]


def rows(
    paths: list[Path],
    *,
    metrics: Sequence[str] = SHOWN,
    at: str = LAST5,
    spread: str | None = None,
    minutes: bool = False,
    traffic: bool = False,
    columns: Sequence[str] = (),
    warned: bool = False,
) -> list[SystemRow]:
    """One row per system, verified first, and below it one per view; those of FedAvg come first,
    the others in the order of their runs. Warns on stderr of what cannot be compared, unless that
    was done before (warned).

    at: "last5" for means over the last five rounds, "last" for the last round, "best" for the round
    that was best on the clients' validation images. spread: "pooled" or "runs" makes the runs of a
    system one row whose ± is over all its rounds, or over the runs' means; None keeps runs
    separate. minutes: also how long each run trained, by the clocks beside it; they are no part of
    any promise of equal bytes. traffic: also the bytes that travel, where runs recorded them.
    columns: words of their heads, of those that are kept; without any all are.
    Raises FedcliError, HashError, UsageError.
    """
    scored = read(paths)
    refuse_mixed(scored)
    if at == BEST and not any(run.scores.best for run in scored):
        raise UsageError(
            "no run kept the model that was best on validation",
            "partition with --val 0.1, train and evaluate again",
        )
    systems = []
    by_system = _systems(scored, spread)
    by_system.sort(key=lambda runs: runs[0].scores.method != REFERENCE)
    for runs in by_system:
        clocks = timing.of_runs([run.path for run in runs]) if minutes else None
        sent = vars(runs[0].scores.bytes)
        row = SystemRow(
            scored=runs,
            known=[all_numbers(run.scores, at) for run in runs],
            at=at,
            over=spread or POOLED,
            view=WITH_GROUP if runs[0].scores.views else "",
            minutes=clocks.minutes if clocks else None,
            bytes=sent if traffic and None not in sent.values() else None,
        )
        systems.append(row)
    table: list[SystemRow] = []
    for number, row in enumerate(systems, 1):
        differs = ", ".join(_differences(row, systems))
        mark = f"[{number}]" if len(differs) > LONG else ""
        table += _with_views(replace(row, differs=differs, mark=mark), metrics)
    if not warned:
        for note in notes(table):
            console.warn(note)
    return _with_columns(table, columns) if columns else table


def _with_columns(table: list[SystemRow], words: Sequence[str]) -> list[SystemRow]:
    """The rows with the columns that these words name. Raises UsageError."""
    heads: Names = {}
    for row in table:
        heads |= row.heads
    kept = chosen(heads, words, versions_in_words(scores_of(table)))
    rows = []
    for row in table:
        heads_of_row = {name: where for name, where in row.heads.items() if name in kept}
        rows.append(replace(row, heads=heads_of_row))
    return rows


def _systems(scored: list[Scored], spread: str | None) -> list[list[Scored]]:
    """The runs of each system; runs of equal seeds differ in something unknown and stay
    separate.
    """
    if spread is None:
        return [[run] for run in scored]
    systems = []
    for runs in grouped(scored, lambda run: (run.identity, json.dumps(run.options))):
        if len({run.draw for run in runs}) == len(runs):
            systems.append(sorted(runs, key=lambda run: (run.seed or 0, run.draw)))
        else:
            systems += [[run] for run in runs]
    return systems


def _with_views(row: SystemRow, metrics: Sequence[str]) -> Iterator[SystemRow]:
    """The row with its cells, and one for each view below it; what it cost to train is in the first
    alone.
    """
    heads = _heads(row, metrics)
    by_small_group = [name for name in heads if small_groups(row.scores, name.partition(" by ")[2])]
    yield replace(
        row,
        heads=heads,
        doubtful=[*doubtful(row.each, metrics, row.at), *by_small_group],
        left_out=_left_out(row, metrics, heads) if row.chosen else (),
    )
    for view in row.scores.views:
        # the best round is scored in one view alone
        yield replace(
            row,
            heads={} if row.at == BEST else _heads(row, metrics, view),
            doubtful=doubtful(row.each, metrics, row.at, view),
            view=f"{BLIND}: {view.replace('-', ' ')}",
            is_view=True,
            minutes=None,
            bytes=None,
        )


def _heads(row: SystemRow, metrics: Sequence[str], view: str = "") -> Names:
    names: Names = {}
    for scores, run in zip(row.known, row.scored, strict=True):
        names |= columns(scores, run, metrics, view)
    return names


def _left_out(
    row: SystemRow,
    metrics: Sequence[str],
    heads: Names,
) -> list[str]:
    """The columns of the last rounds that the best round has no numbers for."""
    last_rounds = replace(row, known=[all_numbers(scores, LAST5) for scores in row.each])
    names = []
    for name, where in _heads(last_rounds, metrics).items():
        if name not in heads and last_rounds.value(where).mean is not None:
            names.append(name)
    return names


def notes(rows: Rows) -> list[str]:
    """Notes for a reader before comparing: runs that differ in more than the method, small
    groups.
    """
    systems = systems_of(rows)
    texts = []
    if any(row.scores.sample for row in rows):
        texts.append(SYNTHETIC)
    unshared = _unshared(rows)
    if unshared:
        texts.append(f"these runs do not share the same {', '.join(unshared)}: {NOT_THE_METHOD}")
    has_several = any(row.runs > 1 for row in systems)
    if has_several and differ([sorted(map(str, row.seeds)) for row in systems]):
        seeds = [f"{row.scores.name} {', '.join(map(str, row.seeds))}" for row in systems]
        texts.append(f"the rows are means over different seeds: {'; '.join(seeds)}")
    left_out = unique(chain.from_iterable(row.left_out for row in rows))
    if left_out:
        texts.append(f"unknown for the best round, so left out: {', '.join(left_out)}")
    for row in systems:
        texts += row.shared_patients
    texts += [f"{row.mark} {row.differs}" for row in rows if row.mark]
    for row in rows:
        texts += [*_warnings(row), *row.small_groups, *row.shot_groups]
    texts += unknown_groups(scores_of(rows))
    return unique(texts)


def _unshared(rows: Rows) -> list[str]:
    """The stages of the data, the rounds and the shot groups that some rows have otherwise than
    others.
    """
    unshared = []
    for stage in STAGES:
        manifests = [row.data.get(stage) for row in rows]
        if differ(manifests):
            unshared.append(stage)
    if differ([row.scores.rounds for row in rows]):
        unshared.append("rounds")
    if differ([row.shot_groups for row in rows if row.shot_groups]):
        unshared.append("shot groups")
    return unshared


def _warnings(row: SystemRow) -> list[str]:
    texts = [row.warning]
    if not row.is_view:
        texts.append(at_chance(row.scored))
        has_score = any(value.mean is not None for value in row.cells.values())
        if row.at == BEST and not has_score:
            texts.append(NOT_CHOSEN)
        elif row.chosen:
            rounds = []
            for choice in row.chosen:
                which = f" of {choice['which']}" if len(row.chosen) > 1 else ""
                rounds.append(f"round {choice['round']}{which} ({100 * choice['validation']:.2f})")
            metric = row.chosen[0]["metric"]
            texts.append(f"chosen by validation {metric} (%): {', '.join(rounds)}")
    return [f"{row.name}: {text}" for text in texts if text]


def _differences(row: SystemRow, systems: Rows) -> list[str]:
    """The settings and options, as key=value, in which a row differs from the other systems."""
    scores = row.scores
    same_method = [other for other in systems if other.scores.method == scores.method]
    settings = [other.scores.settings for other in same_method]
    differences = unlike(scores.label, scores.settings, settings, settings)
    rounds = [other.scores.rounds for other in systems]
    if is_named(scores.rounds, [other.scores.rounds for other in same_method], rounds):
        differences.append(f"rounds={scores.rounds}")
    has_corruption = any(other.data.get("corruption") for other in same_method)
    if has_corruption and not row.data.get("corruption"):
        differences.append("no corruption")
    same_label = None
    if row.runs == 1:
        same_label = [other.options for other in systems if other.scores.label == scores.label]
    return differences + unlike(
        scores.label,
        row.options,
        [other.options for other in same_method],
        [other.options for other in systems],
        same_label,
    )


def unlike(
    label: str,
    options: Options,
    same_method: Sequence[Options],
    systems: Sequence[Options],
    same_label: Sequence[Options] | None = None,
) -> list[str]:
    """key=value of what must stand behind a label, but not what it has already; the rule has a
    column of its own.

    same_method: options of the rows of the same method. same_label: of the rows with the same
    label, from which only a seed or fold may tell this one; None if the row is of several seeds,
    whose number it has.
    """
    differences = []
    for key, value in options.items():
        name = last(key)
        rows = same_label if name in DRAWN else same_method
        others = same_method if name == CODE else systems
        words = name.replace("_", " ")
        # prior bsm, balanced class weights, on qkv
        spellings = (f", {words} {value}", f", {value} {words}", f", on {value}")
        in_label = any(spelling in label for spelling in spellings)
        if name == "rule" or value == OWN or rows is None or in_label:
            continue
        if is_named(value, [row.get(key) for row in rows], [row.get(key) for row in others]):
            differences.append(f"{key}={brief(value)}")
    return differences


def is_named(value: Any, same_method: list[Any], systems: list[Any]) -> bool:
    """Tell whether a value is named: runs of the same method have others, or it is not what most of
    all rows have.
    """
    if differ(same_method):
        return True
    return differ(systems) and 2 * systems.count(value) <= len(systems)


def differ(values: list[Any]) -> bool:
    return any(value != values[0] for value in values)


def shortened(rows: Rows) -> list[SystemRow]:
    """Rows whose names hold only what differs: no part of the label, and no number of seeds, that
    all have.
    """
    shared = shared_parts([row.scores.name for row in systems_of(rows)])
    has_unequal_runs = differ([row.runs for row in rows])
    short_rows = []
    for row in rows:
        short = without_parts(row.scores.name, shared)
        short_rows.append(replace(row, short=short, names_runs=has_unequal_runs))
    return short_rows


def has_two_rules(rows: Rows) -> bool:
    """Tell whether one method is shown by the paper's rule and by that of released code."""
    rules = {(row.scores.method, row.scores.rule) for row in rows}
    return len(rules) > len({row.scores.method for row in rows})
