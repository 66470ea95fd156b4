"""The evaluate stage: predictions of a run's last models on its test sets, and every score made from them.

    predictions.h5   logits of every image, see predictions.py
    resamples.h5     of many images, scores in resamples of them, see resampled.py
    scores.json      the manifest; its body's `legend` says what each number is

Clients follow FedISM+ (arXiv 2503.09587, Table IV): a client is scored on its own test part where the
partition gives it one, else on the whole test set, corrupted as its own images are. The spread among
clients is taken in each round and then averaged.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .. import console
from ..data import manifest
from ..errors import FedcliError
from ..methods.mixins import views_of
from ..metrics import Grouping, Groupings, groupings_at
from ..runs import finished as runs
from ..runs.finished import Run, has_personal_models, open_run, trains_alone
from ..runs.initial import is_at_sites
from . import by_validation, clinical, cross_site, external, resampled, severities
from .answering import of_client, predictions, who_answers
from .bca import PERCENTILE
from .clinical_parts import positives
from .existing import asked
from .from_nested import from_nested
from .groups import CROSS, cross, group_scores
from .intervals import group_intervals, intervals
from .of_labels import label_scores
from .parts import Groups, GroupScores, Score
from .predictions import write
from .rounds import Logits, among, among_global, mean, summary, summary_of_groups, with_average
from .shots import shot_scores, thresholds
from .tree import AtSeverity, Client, OwnModels, Quality, Scores, Stage, Traffic

COPIED = "method", "label", "rule", "settings", "dataset", "rounds", "model", "corruption"  # of the run's body
UNCOPIED = *COPIED, "eval_every", "single_site"  # of its options: said elsewhere, or of no meaning for its scores
OneRound = tuple[Score, dict[str, GroupScores]]  # of one round; attribute -> its groups


@dataclass(frozen=True)
class Extra:
    """Requests beside the scores that every run has.

    Attributes:
        corrupt, severity: kinds and severities under which the test images are scored too.
        on, map_classes, all_images: a manifest whose test images, or all of whose images, are scored in place of the
            run's own, and a table of its classes.
        cross_site: every client's own model is scored on every client's own test part too.
        clinical: operating points, calibration and conformal sets too; of the classes `positive`, by
            each `rule`, and of a `cost` in false alarms for a missed image.
        interval: "percentile" or "bca", how intervals are made of resamples.
        choose: the rule by which validation images choose the round of `best_on_validation`, see choice.py.
    """

    corrupt: Sequence[str] = ()
    severity: Sequence[str] = ()
    on: Path | None = None
    map_classes: Path | None = None
    all_images: bool = False
    cross_site: bool = False
    clinical: bool = False
    positive: Sequence[str] = ()
    cost: float | None = None
    rule: Sequence[str] = ()
    choose: str | None = None
    interval: str = PERCENTILE

    @property
    def recorded(self) -> dict[str, Any]:
        """The options of scores.json that the other modules do not record."""
        made: dict[str, Any] = {"cross_site": True} if self.cross_site else {}
        made |= {"choose": self.choose} if self.choose else {}
        made |= {"interval": self.interval} if self.interval != PERCENTILE else {}
        if self.clinical:
            made |= {"clinical": {"positive": sorted(self.positive), "cost": self.cost, "rules": list(self.rule)}}
        return made


def evaluate(
    run_path: Path,
    *,
    by: list[str],
    out: Path | None,
    device: str,
    made_by: list[str],
    shots: str | None = None,
    extra: Extra = Extra(),
) -> Path:
    """Score a run and return the path of scores.json.

    by: attributes whose groups are compared; none for all that the dataset has.
    shots: training images above which a class is head and below which it is tail, "700,70"; reports show
        these groups where they were asked for.
    Raises FedcliError, UsageError, HashError.
    """
    limits, path = thresholds(shots), manifest.find(run_path, "run")
    manifest.verify(path, "run")  # first, so that a damaged run does not cost the scores that were made of it
    tests = external.asked(path, extra.on, extra.map_classes, everything=extra.all_images)
    wanted = severities.asked(extra.corrupt, extra.severity, path)
    if extra.cross_site:
        cross_site.check(path)
    if extra.choose:
        by_validation.check(path)
    options, default = asked(path, by, shots, wanted, tests, extra.recorded)
    asked_for = Question(options["by"], limits, wanted, tests, extra)
    return manifest.stage(
        "scores", folder=out or default, made_by=made_by, options=options, parents=[path, *tests.parents],
        build=partial(_build, path, device, asked_for),
    )  # fmt: skip


@dataclass(frozen=True)
class Question:
    """The checked question to evaluate: attributes, thresholds of head and tail, corruptions, test images."""

    by: list[str]
    limits: tuple[int, int]
    severities: severities.Asked
    tests: external.Asked
    extra: Extra


def _build(path: Path, device: str, asked_for: Question, folder: Path) -> dict[str, Any]:
    other = asked_for.tests.path if is_at_sites(path) else None
    run = open_run(path, device, other)
    if not run.rounds:
        raise FedcliError(f"{run.path} kept no model", "train the run again")
    run, tested_on = external.with_tests(run, asked_for.tests)
    logits = predictions(run)
    others = {view: predictions(run, view) for view in views_of(run.method.local)[1:]}
    write(folder / "predictions.h5", run, {"": logits, **others})
    y = run.data.test["clean"].y.cpu().numpy()  # [N]
    groupings = {name: _grouping(run, name) for name in asked_for.by}
    resampled.write(folder, logits, y, run.data.test["clean"].ids, run.data.test_patients, groupings)
    clients = _clients(run, logits, y, groupings)
    general = has_personal_models(run) and not trains_alone(run)  # beside the clients' own models
    how = asked_for.extra.interval
    candidates = by_validation.candidates(run, groupings) if asked_for.extra.choose else []
    quality = _quality(run, logits, y, groupings, how)
    scores = Scores(
        **_about(run, tested_on.sentence if tested_on else ""),
        external=tested_on,
        cross_site=cross_site.scores(run, groupings) if asked_for.extra.cross_site else {},
        clinical=_clinical(run, logits, groupings, asked_for.extra),
        versions=quality.versions,
        intervals=quality.intervals,
        groups=quality.groups,
        severities=_severities(run, y, groupings, asked_for.severities, how),
        views={view: _quality(run, tables, y, groupings, how) for view, tables in others.items()},
        best_on_validation=by_validation.best(run, y, groupings, candidates, asked_for.extra.choose),
        candidates=candidates,
        shots=None
        if other or y.ndim == 2
        else shot_scores(logits, y, run.data.classes, _trained_on(run), asked_for.limits),
        labels=label_scores(logits, y, run.data.classes, groupings) if y.ndim == 2 else {},
        train_images=sum(map(len, run.data.train.values())) if y.ndim == 2 else 0,
        personal=_personal(run, y, groupings) if general else {},
        clients=clients,
        among_clients=among(clients, personal=has_personal_models(run)),
        among_clients_global=among_global(clients) if general else {},
    )
    return from_nested(scores.body()).write(folder)


def _clinical(run: Run, logits: Logits, groupings: Groupings, extra: Extra) -> dict[str, Any] | None:
    """Operating points and calibration, where they were asked for and one model answers."""
    if not extra.clinical:
        return None
    tables = {version: answers[-1] for version, answers in logits.items()}
    if any(len(table) > 1 for table in tables.values()):
        what = "--clinical needs one answer for an image: every client trained alone and has no test part of its own"
        raise FedcliError(what, "partition by sites, so that each client has a test part")
    names = positives(run.data.classes, extra.positive, several=run.data.test["clean"].y.ndim == 2)
    if not any(len(shard) for shard in run.data.val.values()):
        console.warn("no validation images, so no thresholds, temperature or conformal sets: partition with --val 0.2")
    last = {version: table[0] for version, table in tables.items()}
    return clinical.scores(run, last, groupings, names, clinical.rules(extra.rule, extra.cost))


def _grouping(run: Run, name: str) -> Grouping:
    """The groups of an attribute, or of several crossed ones."""
    groups = run.data.test["clean"].groups
    parts = {part: (groups[part].cpu().numpy(), run.data.attributes[part]) for part in name.split(CROSS)}
    return cross(parts) if len(parts) > 1 else parts[name]


def _quality(run: Run, logits: Logits, y: np.ndarray, groupings: Groupings, how: str) -> Quality:
    """Scores, intervals made as `how` says, and scores of each group; of several models that answer their mean."""
    scores = {
        v: [mean([Score.of(table, y, groupings) for table in tables]) for tables in answers]
        for v, answers in logits.items()
    }
    patients, classes = run.data.test_patients, run.data.classes

    def of_group(answers: list[list[np.ndarray]], name: str) -> Groups:
        groups = summary_of_groups([_groups(tables, y, name, groupings, classes) for tables in answers])
        return replace(groups, intervals=group_intervals(answers[-1], y, patients, *groupings[name], how, groupings))

    last = {version: answers[-1] for version, answers in logits.items()}
    return Quality(
        versions={version: summary(rounds) for version, rounds in with_average(scores).items()},
        intervals=intervals(last, y, patients, how, groupings),
        groups={name: {v: of_group(answers, name) for v, answers in logits.items()} for name in groupings},
    )


def _severities(
    run: Run, y: np.ndarray, groupings: Groupings, wanted: severities.Asked, how: str
) -> dict[str, dict[str, AtSeverity]]:
    """Scores under the corruptions that were asked for, a test set at a time."""
    severities.announce(wanted)
    made: dict[str, dict[str, AtSeverity]] = {}
    for kind, severity in wanted:
        other = severities.test_set(run, kind, severity)
        quality = _quality(other, predictions(other), y, groupings, how)
        made.setdefault(kind, {})[str(severity)] = severities.at_severity(run, kind, severity, quality)
    return made


def _groups(
    answers: list[np.ndarray], y: np.ndarray, name: str, groupings: Groupings, classes: list[str]
) -> GroupScores:
    """Group scores of one round; the mean of them where several models answer."""
    return mean([group_scores(table, y, *groupings[name], classes=classes, groupings=groupings) for table in answers])


def _about(run: Run, tested_on: str) -> dict[str, Any]:
    """Facts that a report needs about the run, so that it reads scores.json alone. tested_on: a sentence for it."""
    body, data = run.manifest.body, run.data
    return {
        **{key: body[key] for key in COPIED},
        "warning": "; ".join(filter(None, [body.get("warning"), who_answers(run), tested_on])),
        "options": {key: value for key, value in run.manifest.options.items() if key not in UNCOPIED},
        "data": {kind: _stage(run.path, kind) for kind in ("dataset", "partition", "corruption")},
        "roster_size": len(body["roster"]),
        "kept_rounds": run.rounds,
        "classes": data.classes,
        "attributes": data.attributes,
        "personal_models": has_personal_models(run),
        "single_site": trains_alone(run),
        "view": views_of(run.method.local)[0],
        "bytes": Traffic(body.get("bytes_down"), body.get("bytes_up")),
    }


def _stage(path: Path, kind: str) -> Stage | None:
    """Hash and options of the stage of this kind above a run."""
    own = manifest.parent(path, "corruption", "partition", "sites")  # not those of a run that this one started from
    if own is None or manifest.read(own).kind == "sites":  # which stand for a partition
        return own and Stage(manifest.sha256(own), manifest.read(own).options) if kind == "partition" else None
    above = own if manifest.read(own).kind == kind else manifest.parent(own, kind)
    return above and Stage(manifest.sha256(above), manifest.read(above).options)


def _clients(run: Run, logits: Logits, y: np.ndarray, groupings: Groupings) -> dict[str, Client]:
    """Every client's scores; where clients are corrupted differently, each on test images corrupted as its own."""
    each, made, known = severities.differing(run), {}, {}
    for how in (None, *dict.fromkeys(each.values())):
        shown, answers = run, logits
        if how is not None:
            other = severities.test_set(run, *how)
            tests = {"clean": run.data.test["clean"], "corrupted": other.data.test[severities.VERSION]}
            shown = replace(run, data=replace(run.data, test=tests))
            answers = {"corrupted": predictions(other)[severities.VERSION]}
        for client in (client for client in run.data.roster if each.get(client) == how):
            alone = has_personal_models(run) or trains_alone(run) or len(run.data.client_test[client])
            key = client if alone else (how, client in run.data.corrupted)  # one model, the same images: once
            if key not in known:
                known[key] = _client(shown, answers, y, client, groupings)
            made[client] = replace(known[key], corruption=" ".join(map(str, how or ())))
    return {client: made[client] for client in run.data.roster}


def _client(run: Run, logits: Logits, y: np.ndarray, client: str, groupings: Groupings) -> Client:
    """A client's scores; where clients keep tensors of their own, those of its own model."""
    version = "corrupted" if client in run.data.corrupted else "clean"
    own = run.data.client_test[client]
    at = own if len(own) else slice(None)
    general = of_client(run, logits[version], client)
    if trains_alone(run) and not len(own) and runs.has_own_tests(run.data):  # others answer in that one table
        general = [runs.predict(run, round, run.data.test[version], client) for round in run.rounds]
    tables, personal = general, has_personal_models(run) and not trains_alone(run)
    if personal:
        tables = [runs.predict(run, round, run.data.test[version], client) for round in run.rounds]
    here = groupings_at(groupings, at)
    scores = summary([Score.of(table[at], y[at], here) for table in tables])
    groups = {
        name: summary_of_groups([_groups([table[at]], y[at], name, here, run.data.classes) for table in tables])
        for name in here
        if len(own)
    }
    return Client(
        version=version,
        part="own" if len(own) else "whole",
        count=scores.count,
        classes_missing=scores.classes_missing,
        metrics=scores.metrics,
        global_model=summary([Score.of(table[at], y[at], here) for table in general]) if personal else None,
        groups=groups,
    )


def _personal(run: Run, y: np.ndarray, groupings: Groupings) -> dict[str, OwnModels]:
    """Scores of the clients' own models on the whole test sets, and of their mean where they are whole models."""
    turns = [(version, round) for version in run.data.test for round in run.rounds]
    own: dict[str, list[OneRound]] = {version: [] for version in run.data.test}
    averaged: dict[str, list[OneRound]] = {version: [] for version in run.data.test}

    def of_round(tables: list[np.ndarray]) -> OneRound:
        groups = {name: _groups(tables, y, name, groupings, run.data.classes) for name in groupings}
        return mean([Score.of(table, y, groupings) for table in tables]), groups

    for version, round in console.progress(turns, label="evaluate personal models", total=len(turns)):
        shard = run.data.test[version]
        own[version].append(of_round([runs.predict(run, round, shard, client) for client in run.data.roster]))
        if runs.load_mean_personal(run, round):
            averaged[version].append(of_round([runs.logits(run.net, shard, run.method.local)]))
    parts = {"personal": own, "mean_personal": averaged}
    return {name: _own_models(rounds, groupings) for name, rounds in parts.items() if all(rounds.values())}


def _own_models(versions: dict[str, list[OneRound]], names: Iterable[str]) -> OwnModels:
    """Scores of each version over the rounds, and those of each group."""
    return OwnModels(
        {version: summary([score for score, _ in rounds]) for version, rounds in versions.items()},
        {
            name: {
                version: summary_of_groups([groups[name] for _, groups in rounds])
                for version, rounds in versions.items()
            }
            for name in names
        },
    )


def _trained_on(run: Run) -> np.ndarray:
    """Training images of each class [C], of all clients together."""
    counts = [shard.class_counts.cpu().numpy() for shard in run.data.train.values()]
    return np.sum([np.zeros(len(run.data.classes), int), *counts], axis=0)
