"""The evaluate stage: predictions of a run's last models on its test sets, and every score made from them.

    predictions.h5   logits of every image, see predictions.py
    resamples.h5     of many images, scores in resamples of them, see resampled.py
    scores.csv       a line for each number, made in facts.py
    scores.json      the manifest; its body's `legend` says what each number is

Clients follow FedISM+ (arXiv 2503.09587, Table IV): a client is scored on its own test part where the
partition gives it one, else on the whole test set, corrupted as its own images are. The spread among
clients is taken in each round and then averaged.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .. import console
from ..data import manifest, shared_patients
from ..data.pool import holdings
from ..errors import FedcliError
from ..methods.contract import Local
from ..methods.mixins import views_of
from ..options import path_of
from ..runs import finished as runs
from ..runs.finished import Run, has_personal_models, open_run, trains_alone
from ..runs.initial import is_at_sites
from . import by_validation, external, severities
from .answering import Panel, check_cross_site, cross_site, panel, predictions, who_answers
from .clinical import points as clinical
from .clinical_shape import positives
from .deploy import adaptation
from .evaluation_options import EvaluateOptions
from .existing import asked
from .facts import Images, facts, label_facts, of_round, over_rounds
from .groups import grouping
from .parts import MODELS, Client, Stage, Traffic
from .predictions import Logits, write
from .scores import GLOBAL, Scores
from .shots import shot_facts, shots, thresholds
from .statistics import resampled
from .statistics.intervals import Answered, add_group_intervals, add_intervals
from .table import Table, Where

COPIED = (
    "method",
    "label",
    "rule",
    "settings",
    "dataset",
    "rounds",
    "model",
    "corruption",
)  # of the run's body
UNCOPIED = (
    *COPIED,
    "eval_every",
    "single_site",
)  # of its options: said elsewhere, or of no meaning for its scores
PLAIN = EvaluateOptions()


def evaluate(run_path: Path, options: EvaluateOptions = PLAIN) -> Path:
    """Score a run and return the path of scores.json. Raises FedcliError, UsageError, HashError."""
    limits, path = thresholds(options.shots), manifest.find(run_path, "run")
    manifest.verify(
        path, "run"
    )  # first, so that a damaged run does not cost the scores that were made of it
    on, classes = path_of(options.on), path_of(options.map_classes)
    tests = external.asked(path, on, classes, everything=options.all_images)
    wanted = severities.asked(options.corrupt, options.severity, path)
    if options.cross_site:
        check_cross_site(path)
    if options.choose:
        by_validation.check(path)
    recorded, default = asked(path, options, wanted, tests)
    return manifest.stage(
        "scores",
        folder=path_of(options.out) or default,
        made_by=options.made_by(),
        options=recorded,
        parents=[path, *tests.parents],
        build=partial(_build, path, options, recorded["by"], limits, wanted, tests),
    )


def _build(
    path: Path,
    options: EvaluateOptions,
    by: list[str],
    limits: tuple[int, int],
    corruptions: severities.Asked,
    tests: external.Asked,
    folder: Path,
) -> dict[str, Any]:
    """limits: thresholds of head and tail. corruptions: under which the test images are scored too."""
    other = tests.path if is_at_sites(path) else None
    run = open_run(path, options.device, other)
    if not run.rounds:
        raise FedcliError(f"{run.path} kept no model", "train the run again")
    run, tested_on = external.with_tests(run, tests)
    adaptation.check(run, options.adapt)
    logits = predictions(run)
    views = {"": logits} | {view: predictions(run, view) for view in views_of(run.method.local)[1:]}
    write(folder / "predictions.h5", run, views)
    images = _images(run, by)
    resampled.write(
        folder, logits, images.y, run.data.test["clean"].ids, images.units, images.groupings
    )
    clients, table = _clients(run, images, logits)
    for view, shown in views.items():
        table |= _quality(Where(view=view), images, run.rounds, shown, options.interval)
    if corruptions:
        sets = console.counted(len(corruptions), "more test set", "more test sets")
        console.say(
            f"scoring {sets}: {', '.join(f'{kind} {severity}' for kind, severity in corruptions)}"
        )
    for kind, severity in corruptions:
        corrupted = severities.test_set(run, kind, severity)
        table |= _quality(Where(), images, run.rounds, predictions(corrupted), options.interval)
    table |= severities.backdoor(run, logits)
    if has_personal_models(run) and not trains_alone(run):
        table |= _personal(run, images)
    if options.cross_site:
        table |= cross_site(run, images)
    several = images.y.ndim == 2
    trained_on = _trained_on(run)
    with_shots = not (other or several)
    for version, answers in logits.items():
        rounds, where = list(zip(run.rounds, answers, strict=True)), Where(version)
        table |= label_facts(where, images, rounds) if several else {}
        table |= shot_facts(where, images.y, rounds, trained_on, limits) if with_shots else {}
    candidates = by_validation.candidates(run, images.groupings) if options.choose else []
    best, lines = by_validation.best(run, images, candidates, options.choose)
    warnings = [
        run.manifest.body.get("warning"),
        who_answers(run),
        tested_on.sentence if tested_on else "",
    ]
    return Scores(
        **about(run.path, run.manifest, run.method.local, run.rounds),
        warning="; ".join(filter(None, warnings)),
        classes=run.data.classes,
        attributes=run.data.attributes,
        personal_models=has_personal_models(run),
        single_site=trains_alone(run),
        grouped=images.grouped(),
        severities=severities.described(run, corruptions),
        best=best,
        candidates=candidates,
        external=tested_on,
        clinical=_clinical(run, logits, images, options),
        adapted=adaptation.adapted(run, images, options.more["adapt"]) if options.adapt else None,
        shots=shots(images.y, run.data.classes, trained_on, limits) if with_shots else None,
        shared_patients=_shared_patients(run, tests),
        train_images=sum(map(len, run.data.train.values())) if several else 0,
        clients=clients,
        table=table | lines,
    ).write(folder)


def _shared_patients(run: Run, tests: external.Asked) -> dict[str, Any] | None:
    """The patients of the test images who have training images too, as shared_patients counts them; None of none."""
    data = external.data_of(run)
    if tests.path is None:
        return manifest.read(data).body.get(shared_patients.KEY)
    if not external.is_of_same_dataset(run, tests.path) or run.data.test_patients is None:
        return None
    unit = manifest.read(manifest.above(data, "dataset")).body["unit"]
    counted = shared_patients.with_tests(unit, holdings(data), run.data.test_patients)
    return counted.get(shared_patients.KEY)


def _images(run: Run, by: list[str]) -> Images:
    """The test images, and their groups by these attributes, some of which are crossed."""
    test = run.data.test["clean"]
    places = {name: column.cpu().numpy() for name, column in test.groups.items()}
    groupings = {name: grouping(name, places, run.data.attributes) for name in by}
    return Images(test.y.cpu().numpy(), run.data.classes, groupings, run.data.test_patients)


def _quality(
    where: Where, images: Images, rounds: Sequence[int], logits: Logits, how: str
) -> Table:
    """Lines of all test images and of each group, with intervals made as `how` says. where: whose, but for versions."""
    table: Table = {}
    last = {
        v: Answered(answers[-1], images.y, images.units, images.groupings)
        for v, answers in logits.items()
    }
    for version, answers in logits.items():
        here = where._replace(version=version)
        table |= facts(here, images, zip(rounds, answers, strict=True), images.groupings)
        add_group_intervals(table, here, last[version], how)
    add_intervals(table, where, last, how)
    return table


def _clients(run: Run, images: Images, logits: Logits) -> tuple[dict[str, Client], Table]:
    """Every client's test images and lines; where clients are corrupted differently, on images corrupted as its own."""
    each = severities.differing(run)
    clients: dict[str, Client] = {}
    table: Table = {}
    of_panel: dict[Any, tuple[Client, Table]] = {}
    for how in (None, *dict.fromkeys(each.values())):
        shown = severities.test_set(run, *how, version=MODELS[1]) if how else run
        answers = predictions(shown) if how else logits
        for client in (client for client in run.data.roster if each.get(client) == how):
            asked = panel(run, client)
            key = client if asked.alone else (how, asked.version)
            if key not in of_panel:
                of_panel[key] = _client(shown, images, answers, asked)
            about, lines = of_panel[key]
            clients[client] = replace(about, corruption=" ".join(map(str, how or ())))
            table |= {where._replace(client=client): score for where, score in lines.items()}
    return {client: clients[client] for client in run.data.roster}, table


def _client(run: Run, images: Images, logits: Logits, asked: Panel) -> tuple[Client, Table]:
    """A client's own model, where it has one, and the global one; groups are those of its own test part."""
    own = asked.places is not None
    here = images.at(asked.places) if asked.places is not None else images
    table: Table = {}
    for model, tables in asked.answers(run, logits):
        where = Where(asked.version, client=asked.client, model=model)
        by = here.groupings if own and model != GLOBAL else ()
        table |= facts(where, here, zip(run.rounds, ([table] for table in tables), strict=True), by)
    return Client(
        asked.version, "own" if own else "whole", groups=here.grouped() if own else {}
    ), table


def _personal(run: Run, images: Images) -> Table:
    """Lines of the clients' own models on the whole test sets, and of their mean where they are whole models."""
    turns = [(version, round) for version in run.data.test for round in run.rounds]
    rounds: dict[Where, list[Table]] = {}
    for version, round in console.progress(
        turns, label="evaluate personal models", total=len(turns)
    ):
        shard = run.data.test[version]
        models = {
            "personal": [runs.predict(run, round, shard, client) for client in run.data.roster]
        }
        if runs.load_mean_personal(run, round):
            models["mean_personal"] = [runs.logits(run.net, shard, run.method.local)]
        for model, tables in models.items():
            where = Where(version, model=model)
            rounds.setdefault(where, []).append(
                of_round(where, images, round, tables, images.groupings)
            )
    return {
        where: score for tables in rounds.values() for where, score in over_rounds(tables).items()
    }


def _clinical(
    run: Run, logits: Logits, images: Images, options: EvaluateOptions
) -> dict[str, Any] | None:
    """Operating points and calibration, where they were asked for and one model answers."""
    if not options.clinical:
        return None
    last = {version: answers[-1][0] for version, answers in logits.items()}
    if any(len(answers[-1]) > 1 for answers in logits.values()):
        what = "--clinical needs one answer for an image: every client trained alone and has no test part of its own"
        raise FedcliError(what, "partition by sites, so that each client has a test part")
    names = positives(run.data.classes, options.positive, several=images.y.ndim == 2)
    if not any(len(shard) for shard in run.data.val.values()):
        console.warn(
            "no validation images, so no thresholds, temperature or conformal sets: partition with --val 0.2"
        )
    return clinical.scores(run, last, images, names, clinical.rules(options.rule, options.cost))


def about(path: Path, run: manifest.Manifest, local: Local, rounds: list[int]) -> dict[str, Any]:
    """Facts that a report needs about the run at this path, so that it reads its scores alone. rounds: those kept."""
    return {
        **{key: run.body[key] for key in COPIED},
        "options": {key: value for key, value in run.options.items() if key not in UNCOPIED},
        "data": {kind: _stage(path, kind) for kind in ("dataset", "partition", "corruption")},
        "roster_size": len(run.body["roster"]),
        "kept_rounds": rounds,
        "view": views_of(local)[0],
        "bytes": Traffic(run.body.get("bytes_down"), run.body.get("bytes_up")),
    }


def _stage(path: Path, kind: str) -> Stage | None:
    data = manifest.parent(
        path, "corruption", "partition", "sites"
    )  # not that of a run that this one started from
    if data is None:
        return None
    if manifest.read(data).kind == "sites":  # which stand for a partition
        above = data if kind == "partition" else None
    else:
        above = data if manifest.read(data).kind == kind else manifest.parent(data, kind)
    return Stage(manifest.sha256(above), manifest.read(above).options) if above else None


def _trained_on(run: Run) -> np.ndarray:
    counts = [shard.class_counts.cpu().numpy() for shard in run.data.train.values()]
    return np.sum([np.zeros(len(run.data.classes), int), *counts], axis=0)
