"""The evaluate stage: predictions of a run's last models on its test sets, and their scores.

    predictions.h5   logits of every image, see predictions.py
    resamples.h5     of many images, scores in resamples of them, see resampled.py
    scores.csv       a line for each number, made in facts.py
    scores.json      the manifest; its body's `legend` says what each number is

Clients follow FedISM+ (arXiv 2503.09587, Table IV): a client is scored on its own test part where
the partition gives it one, else on the whole test set, corrupted as its own images are. The spread
among clients is taken in each round and then averaged.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .. import console
from ..data import manifest, shared_patients, units
from ..data.pool import holdings
from ..errors import FedcliError
from ..methods.contract import Local
from ..methods.mixins import views_of
from ..options import path_of
from ..runs import finished as runs
from ..runs.finished import FinishedRun, has_personal_models, open_run, trains_alone
from ..runs.initial import is_at_sites
from ..runs.train_options import TrainOptions
from . import by_validation, external, severities
from .answering import ModelPanel, check_cross_site, cross_site, panel, predictions, who_answers
from .clinical import points as clinical
from .clinical_shape import positives
from .corrupted_tests import Asked
from .corrupted_tests import asked as corruptions_asked
from .deploy import adaptation
from .evaluation_options import EvaluateOptions
from .existing import asked
from .facts import ScoredImages, facts, label_facts, of_round, over_rounds
from .groups import grouping
from .parts import MODELS, Client, External, Stage, Traffic
from .predictions import Logits, write
from .scores import GLOBAL, RunScores
from .shots import Limits, shot_facts, shots, thresholds
from .statistics import resampled
from .statistics.intervals import Answered, add_group_intervals, add_intervals
from .table import Table, Where

COPIED = (  # of the run's body
    "method",
    "label",
    "rule",
    "settings",
    "dataset",
    "rounds",
    "model",
    "corruption",
)
DATA = ("corruption", "partition", "sites")  # manifests of a run's data
PLAIN = EvaluateOptions()


def evaluate(run_path: Path, options: EvaluateOptions = PLAIN) -> Path:
    """Score a run and return the path of scores.json. Raises FedcliError, UsageError, HashError."""
    limits = thresholds(options.shots)
    path = manifest.find(run_path, "run")
    # first, so that a damaged run does not cost the scores that were made of it
    manifest.verify(path, "run")
    on = path_of(options.on)
    classes = path_of(options.map_classes)
    tests = external.asked(path, on, classes, everything=options.all_images)
    corruptions = corruptions_asked(options.corrupt, options.severity, path)
    if options.cross_site:
        check_cross_site(path)
    if options.choose:
        by_validation.check(path)
    recorded, folder = asked(path, options, corruptions, tests)
    scores_folder = path_of(options.out) or folder
    build = partial(_build, path, options, recorded["by"], limits, corruptions, tests)
    return manifest.stage(
        "scores",
        folder=scores_folder,
        made_by=options.made_by(),
        options=recorded,
        parents=[path, *tests.parents],
        build=build,
    )


def _build(
    path: Path,
    options: EvaluateOptions,
    attributes: list[str],
    limits: Limits,
    corruptions: Asked,
    tests: external.Asked,
    folder: Path,
) -> dict[str, Any]:
    """Write the files of scores into a folder and return the facts for their manifest.

    limits: thresholds of head and tail. corruptions: under which the test images are scored too.
    """
    other = tests.path if is_at_sites(path) else None
    run = open_run(path, options.device, other)
    if not run.rounds:
        raise FedcliError(f"{run.path} kept no model", "train the run again")
    run, tested_on = external.with_tests(run, tests)
    adaptation.check(run, options.adapt)
    logits = predictions(run)
    views = {"": logits}
    for view in views_of(run.method.local)[1:]:
        views[view] = predictions(run, view)
    write(folder / "predictions.h5", run, views)
    images = replace(_images(run, attributes), unit=external.noun(run, tests.path))
    ids = run.data.test["clean"].ids
    resampled.write(
        folder,
        logits,
        images.y,
        ids,
        images.units,
        images.groupings,
    )
    clients, table = _clients(run, images, logits)
    for view, answers in views.items():
        table |= _quality(Where(view=view), images, run.rounds, answers, options.interval)
    table |= _corrupted(run, images, corruptions, options.interval)
    table |= severities.backdoor(run, logits)
    if has_personal_models(run) and not trains_alone(run):
        table |= _personal(run, images)
    if options.cross_site:
        table |= cross_site(run, images)
    several = images.y.ndim == 2
    trained_on = _trained_on(run)
    counted_shots = None
    if several:
        table |= _of_labels(run, images, logits)
    elif not other:
        table |= _of_shots(run, images, logits, trained_on, limits)
        counted_shots = shots(images.y, run.data.classes, trained_on, limits)
    candidates = by_validation.candidates(run, images.groupings) if options.choose else []
    best, lines = by_validation.best(run, images, candidates, options.choose)
    clinical_facts = _clinical(run, logits, images, options)
    adapted = None
    if options.adapt:
        adapted = adaptation.adapted(run, images, options.more["adapt"])
    unit = "" if images.unit == units.PATIENT else images.unit
    train_images = sum(map(len, run.data.train.values())) if several else 0
    return RunScores(
        **about(run.path, run.manifest, run.method.local, run.rounds),
        warning=_warning(run, tested_on),
        classes=run.data.classes,
        attributes=run.data.attributes,
        personal_models=has_personal_models(run),
        single_site=trains_alone(run),
        grouped=images.grouped(),
        severities=severities.described(run, corruptions),
        best=best,
        candidates=candidates,
        external=tested_on,
        clinical=clinical_facts,
        adapted=adapted,
        shots=counted_shots,
        shared_patients=_shared_patients(run, tests),
        unit=unit,
        train_images=train_images,
        clients=clients,
        table=table | lines,
    ).write(folder)


def _warning(run: FinishedRun, tested_on: External | None) -> str:
    sentences = [run.manifest.body.get("warning"), who_answers(run)]
    if tested_on:
        sentences.append(tested_on.sentence)
    return "; ".join(sentence for sentence in sentences if sentence)


def _corrupted(
    run: FinishedRun,
    images: ScoredImages,
    corruptions: Asked,
    method: str,
) -> Table:
    """Lines of the test images under other corruptions."""
    names = [severities.name_of(kind, severity) for kind, severity in corruptions]
    if names:
        sets = console.counted(len(names), "more test set", "more test sets")
        listed = ", ".join(names)
        console.say(f"scoring {sets}: {listed}")
    table: Table = {}
    for name, (kind, severity) in zip(names, corruptions, strict=True):
        answers = predictions(severities.test_set(run, kind, severity, name))
        table |= _quality(Where(), images, run.rounds, answers, method)
    return table


def _of_labels(run: FinishedRun, images: ScoredImages, logits: Logits) -> Table:
    """Lines of each of several labels per image by itself."""
    table: Table = {}
    for version, answers in logits.items():
        rounds = list(zip(run.rounds, answers, strict=True))
        table |= label_facts(Where(version), images, rounds)
    return table


def _of_shots(
    run: FinishedRun,
    images: ScoredImages,
    logits: Logits,
    trained_on: np.ndarray,
    limits: Limits,
) -> Table:
    """Lines of the recalls of classes with many, some and few training images."""
    table: Table = {}
    for version, answers in logits.items():
        rounds = zip(run.rounds, answers, strict=True)
        table |= shot_facts(Where(version), images.y, rounds, trained_on, limits)
    return table


def _shared_patients(run: FinishedRun, tests: external.Asked) -> dict[str, Any] | None:
    """The patients of the test images who have training images too; None of none."""
    data = external.data_of(run)
    if tests.path is None:
        return manifest.read(data).body.get(shared_patients.KEY)
    is_foreign = not external.is_of_same_dataset(run, tests.path)
    if is_foreign or run.data.test_patients is None:
        return None
    dataset = manifest.read(manifest.above(data, "dataset"))
    patients = run.data.test_patients
    counted = shared_patients.with_tests(
        dataset.body["unit"],
        holdings(data),
        patients,
    )
    return counted.get(shared_patients.KEY)


def _images(run: FinishedRun, attributes: list[str]) -> ScoredImages:
    """The test images, and their groups by these attributes, some of which are crossed."""
    test = run.data.test["clean"]
    codes = {name: column.cpu().numpy() for name, column in test.groups.items()}
    groupings = {name: grouping(name, codes, run.data.attributes) for name in attributes}
    return ScoredImages(
        test.y.cpu().numpy(),
        run.data.classes,
        groupings,
        run.data.test_patients,
    )


def _quality(
    where: Where,
    images: ScoredImages,
    rounds: Sequence[int],
    logits: Logits,
    method: str,
) -> Table:
    """Lines of all test images and of each group, with intervals.

    where: whose, but for versions. method: of the intervals.
    """
    table: Table = {}
    last = {}
    for version, answers in logits.items():
        answered = Answered(
            answers[-1],
            images.y,
            images.units,
            images.groupings,
        )
        last[version] = answered
        key = where._replace(version=version)
        table |= facts(key, images, zip(rounds, answers, strict=True), images.groupings)
        add_group_intervals(table, key, answered, method)
    add_intervals(table, where, last, method)
    return table


def _clients(
    run: FinishedRun,
    images: ScoredImages,
    logits: Logits,
) -> tuple[dict[str, Client], Table]:
    """Every client's test images and lines.

    Where clients are corrupted differently, they are on images corrupted as its own.
    """
    corruptions = severities.differing(run)
    clients: dict[str, Client] = {}
    table: Table = {}
    of_panel: dict[Any, tuple[Client, Table]] = {}
    for corruption in (None, *dict.fromkeys(corruptions.values())):
        tested = run
        answers = logits
        if corruption:
            tested = severities.test_set(run, *corruption, version=MODELS[1])
            answers = predictions(tested)
        for name in run.data.roster:
            if corruptions.get(name) != corruption:
                continue
            models = panel(run, name)
            key = name if models.alone else (corruption, models.version)
            if key not in of_panel:
                of_panel[key] = _client(tested, images, answers, models)
            client, lines = of_panel[key]
            if corruption:
                client = replace(client, corruption=severities.name_of(*corruption))
            clients[name] = client
            for where, score in lines.items():
                table[where._replace(client=name)] = score
    return {name: clients[name] for name in run.data.roster}, table


def _client(
    run: FinishedRun,
    images: ScoredImages,
    logits: Logits,
    models: ModelPanel,
) -> tuple[Client, Table]:
    """A client's own model, where it has one, and the global one.

    Groups are those of its own test part.
    """
    client = Client(models.version, "whole")
    if models.places is not None:
        images = images.at(models.places)
        client = Client(models.version, "own", groups=images.grouped())
    lines: Table = {}
    for model, tables in models.answers(run, logits):
        where = Where(models.version, client=models.client, model=model)
        attributes: Iterable[str] = ()
        if client.part == "own" and model != GLOBAL:
            attributes = images.groupings
        numbered_tables = zip(run.rounds, tables, strict=True)
        rounds = [(number, [table]) for number, table in numbered_tables]
        lines |= facts(where, images, rounds, attributes)
    return client, lines


def _personal(run: FinishedRun, images: ScoredImages) -> Table:
    """Lines of the clients' own models on the whole test sets.

    Where they are whole models, their mean is scored too.
    """
    rounds: dict[Where, list[Table]] = {}
    turns = [(version, number) for version in run.data.test for number in run.rounds]
    label = "evaluate personal models"
    for version, number in console.progress(turns, label=label, total=len(turns)):
        shard = run.data.test[version]
        personal = [runs.predict(run, number, shard, client) for client in run.data.roster]
        models = {"personal": personal}
        if runs.load_mean_personal(run, number):
            models["mean_personal"] = [runs.logits_of_loaded(run, shard)]
        for model, tables in models.items():
            where = Where(version, model=model)
            lines = of_round(where, images, number, tables, images.groupings)
            rounds.setdefault(where, []).append(lines)
    table: Table = {}
    for of_model in rounds.values():
        table |= over_rounds(of_model)
    return table


def _clinical(
    run: FinishedRun,
    logits: Logits,
    images: ScoredImages,
    options: EvaluateOptions,
) -> dict[str, Any] | None:
    """Operating points and calibration; None without --clinical.

    Raises FedcliError where several models answer.
    """
    if not options.clinical:
        return None
    last = {}
    for version, rounds in logits.items():
        models = rounds[-1]
        if len(models) > 1:
            raise FedcliError(
                "--clinical needs one answer for an image: every client trained alone and has no "
                "test part of its own",
                "partition by sites, so that each client has a test part",
            )
        last[version] = models[0]
    several = images.y.ndim == 2
    names = positives(
        run.data.classes,
        options.positive,
        several=several,
    )
    if not any(len(shard) for shard in run.data.val.values()):
        console.warn(
            "no validation images, so no thresholds, temperature or conformal sets: "
            "partition with --val 0.2"
        )
    rules = clinical.rules(options.rule, options.cost)
    return clinical.scores(run, last, images, names, rules)


def about(
    path: Path,
    run: manifest.Manifest,
    local: Local,
    rounds: list[int],
) -> dict[str, Any]:
    """Facts that a report needs about the run at this path, so that it reads its scores alone.

    rounds: those kept.
    """
    facts = {key: run.body[key] for key in COPIED}
    # in another place, or of no meaning for its scores
    left_out = {*COPIED, "single_site"}
    left_out.update(option.name for option in TrainOptions.marked("watching"))
    facts["options"] = {key: value for key, value in run.options.items() if key not in left_out}
    facts["data"] = {kind: _stage(path, kind) for kind in ("dataset", "partition", "corruption")}
    facts["roster_size"] = len(run.body["roster"])
    facts["kept_rounds"] = rounds
    facts["view"] = views_of(local)[0]
    bytes_down = run.body.get("bytes_down")
    bytes_up = run.body.get("bytes_up")
    facts["bytes"] = Traffic(bytes_down, bytes_up)
    return facts


def _stage(path: Path, kind: str) -> Stage | None:
    data = manifest.parent(path, *DATA)  # not that of a run that this one started from
    if data is None:
        return None
    data_kind = manifest.read(data).kind
    if data_kind == "sites":
        return data_of_sites(data) if kind == "partition" else None
    above: Path | None = data
    if data_kind != kind:
        above = manifest.parent(data, kind)
    return Stage(manifest.sha256(above), manifest.read(above).options) if above else None


def data_of_sites(path: Path) -> Stage:
    """The data of sites, which stand for a partition: their own hashes, since a description is
    another one under another policy.
    """
    data = manifest.read(path).body["data"]
    digest = hashlib.sha256(json.dumps(data).encode()).hexdigest()
    return Stage(digest, {"sites": data})


def _trained_on(run: FinishedRun) -> np.ndarray:
    """The training images of each class [C]."""
    counts = np.zeros(len(run.data.classes), int)
    for shard in run.data.train.values():
        counts = counts + shard.class_counts.cpu().numpy()
    return counts
