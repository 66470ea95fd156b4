"""The evaluate stage: predictions of a run's last models on its test sets, and every score made from them.

    predictions.h5   logits of every image, see predictions.py
    scores.json      the manifest; its body's `legend` says what each number is

Clients follow FedISM+ (arXiv 2503.09587, Table IV): a client is scored on its own test part where the
partition gives it one, else on the whole test set, corrupted as its own images are. The spread among
clients is taken in each round and then averaged.
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .. import console
from ..data import manifest
from ..errors import FedcliError, UsageError, nearest
from ..federation import run as runs
from ..federation.run import Run, has_personal_models, open_run, trains_alone
from .groups import HEADLINE, group_scores
from .metrics import score
from .predictions import of_client, predictions, who_answers, write
from .rounds import Logits, among, among_global, mean, over_rounds, summary, with_average
from .shots import shot_scores, thresholds

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
UNCOPIED = *COPIED, "eval_every", "single_site"  # of its options: said elsewhere, or of no meaning for its scores
LEGEND = {
    "scale": "scores run from 0 to 1; null where a score has no meaning",
    "last": "the last round's model",
    "mean_last5": "mean over the rounds in kept_rounds: the last five, or all of a shorter run",
    "std_last5": "population standard deviation (ddof 0) over the same rounds; null for a single round",
    "average": "mean of clean and corrupted in each round",
    "single_site": "every client trained alone, so there is no global model: `versions`, `groups` and `shots` are of the "
    "clients' own models, each on the images of its own test part where the parts make up the whole test set, else "
    "the mean over clients of each one's score on the whole test set, where a worst group's name is null if clients "
    "differ; `caution` says which",
    "views": "the method can be shown test images in other ways than `view`, which tells it their groups; here no image's "
    "group is used, unknown groups are scored as all others are",
    "bytes": "what travels to and from a client in a round, mean over clients and rounds: the model, and what the method "
    "tells or reports beside it",
    "personal": "where clients keep models of their own: `personal` is the mean over clients of each one's model on the "
    "whole test set, `mean_personal` the model that is their mean by image count; versions and groups are the global one's. "
    "A client that never took part has the global model",
    "clients": "a client's own test part where it has one, else the whole test set; corrupted images for corrupted "
    "clients, clean for others; by the client's own model if personal_models, else by the global one",
    "among_clients": "mean, population std and minimum over clients in each round, then the mean over rounds; "
    "null where all clients share model and images",
    "global_model": "the global model on the images of a client that has a model of its own",
    "among_clients_global": "among_clients with global_model in place of a client's own; std and worst are null where "
    "clients share images. The mean of own models is what Fed-MAS calls pFL (a client's model on the client's images), its "
    "gFL is the global model on all test images: versions; it takes the best round of each, here no round is chosen",
    "shots": "the global model's mean recall of classes by training images of all clients: head above `upper`, tail below "
    "`lower`, medium between; a class without a test image is skipped; all is the mean of the groups that have a score",
    "groups": "last_round holds every group; over_rounds takes worst group, gap and std in each round",
    "small": "a group of fewer than 30 images, or without a class that the test set has",
    "classes_missing": "places in classes; they are left out of the AUC",
}


def evaluate(
    run_path: Path, *, by: list[str], out: Path | None, device: str, made_by: list[str], shots: str | None = None
) -> Path:
    """Score a run and return the path of scores.json.

    by: attributes whose groups are compared; none for all that the dataset has.
    shots: training images above which a class is head and below which it is tail, "700,70"; asked for, reports show them.
    Raises FedcliError, UsageError, HashError.
    """
    limits = thresholds(shots)
    run = open_run(run_path, device)
    if not run.rounds:
        raise FedcliError(f"{run.path} kept no model", "train the run again")
    options = {"by": _attributes(by, run)} | ({"shots": list(limits)} if shots else {})
    folder = out or run.path.parent / "scores" / manifest.identity(options, [run.path])
    build = partial(_build, run, options["by"], limits)
    return manifest.stage("scores", folder=folder, made_by=made_by, options=options, parents=[run.path], build=build)


def _attributes(by: list[str], run: Run) -> list[str]:
    """The attributes asked for, in the dataset's order."""
    known = run.data.attributes
    for name in by:
        if name not in known:
            raise UsageError(f"{run.manifest.body['dataset']} has no attribute {name!r}", nearest(name, known))
    return [name for name in known if name in by or not by]


def _build(run: Run, by: list[str], limits: tuple[int, int], folder: Path) -> dict[str, Any]:
    logits = predictions(run)
    others = {view: predictions(run, view) for view in run.method.local.views[1:]}
    write(folder / "predictions.h5", run, {"": logits, **others})
    y = run.data.test["clean"].y.cpu().numpy()  # [N]
    clients = {client: _client(run, logits, y, client) for client in run.data.roster}
    general = has_personal_models(run) and not trains_alone(run)  # beside the clients' own models
    return {
        **_about(run),
        **_quality(run, logits, y, by),
        "views": {view: _quality(run, found, y, by) for view, found in others.items()},
        "shots": shot_scores(logits, y, run.data.classes, _trained_on(run), limits),
        "personal": _personal(run, y) if general else {},
        "clients": clients,
        "among_clients": among(clients, personal=has_personal_models(run)),
        "among_clients_global": among_global(clients) if general else {},
        "legend": LEGEND,
    }


def _quality(run: Run, logits: Logits, y: np.ndarray, by: list[str]) -> dict[str, Any]:
    """How good, and how good for each group; where several models answer, the mean of their scores."""
    scores = {v: [mean([score(table, y) for table in tables]) for tables in answers] for v, answers in logits.items()}
    return {
        "versions": {version: summary(rounds) for version, rounds in with_average(scores).items()},
        "groups": {name: {v: _groups(run, answers, y, name) for v, answers in logits.items()} for name in by},
    }


def _about(run: Run) -> dict[str, Any]:
    """What a report needs to know about the run, so that it reads scores.json alone."""
    body, data = run.manifest.body, run.data
    return {
        **{key: body[key] for key in COPIED},
        "caution": "; ".join(filter(None, [body.get("caution"), who_answers(run)])),
        "options": {key: value for key, value in run.manifest.options.items() if key not in UNCOPIED},
        "data": {kind: _stage(run.path, kind) for kind in ("dataset", "partition", "corruption")},
        "roster_size": len(data.roster),
        "kept_rounds": run.rounds,
        "classes": data.classes,
        "attributes": data.attributes,
        "personal_models": has_personal_models(run),
        "single_site": trains_alone(run),
        "view": run.method.local.views[0],
        "bytes": {way: body.get(f"bytes_{way}") for way in ("down", "up")},
    }


def _stage(path: Path, kind: str) -> dict[str, Any] | None:
    """Hash and options of the stage of this kind above a run, which tell runs on other data apart."""
    own = manifest.parent(path, "corruption", "partition")  # not the data of a run that this one started from
    above = own if manifest.read(own).kind == kind else manifest.parent(own, kind)
    return above and {"sha256": manifest.sha256(above), "options": manifest.read(above).options}


def _client(run: Run, logits: Logits, y: np.ndarray, client: str) -> dict[str, Any]:
    """A client's scores; where clients keep tensors of their own, those of its own model."""
    version = "corrupted" if client in run.data.corrupted else "clean"
    own = run.data.client_test[client]
    at = own if len(own) else slice(None)
    about = {"version": version, "part": "own" if len(own) else "whole"}
    answers = of_client(run, logits[version], client)
    if trains_alone(run) and not len(own) and runs.has_own_tests(run.data):  # others answer in that one table
        answers = [runs.predict(run, round, run.data.test[version], client) for round in run.rounds]
    scores = summary([score(part[at], y[at]) for part in answers])
    if not has_personal_models(run) or trains_alone(run):
        return about | scores
    parts = [runs.predict(run, round, run.data.test[version], client) for round in run.rounds]
    return about | summary([score(part[at], y[at]) for part in parts]) | {"global_model": scores}


def _personal(run: Run, y: np.ndarray) -> dict[str, Any]:
    """Scores of the clients' own models on the whole test sets, and of their mean where they are whole models."""
    turns = [(version, round) for version in run.data.test for round in run.rounds]
    own: dict[str, list] = {version: [] for version in run.data.test}
    averaged: dict[str, list] = {version: [] for version in run.data.test}
    for version, round in console.progress(turns, label="evaluate personal models", total=len(turns)):
        shard = run.data.test[version]
        own[version].append(mean([score(runs.predict(run, round, shard, client), y) for client in run.data.roster]))
        if runs.load_mean_personal(run, round):
            averaged[version].append(score(runs.logits(run.net, shard, run.method.local), y))
    found = {"personal": own, "mean_personal": averaged}
    return {
        name: {version: summary(scores) for version, scores in parts.items()}
        for name, parts in found.items()
        if all(parts.values())
    }


def _groups(run: Run, answers: list[list[np.ndarray]], y: np.ndarray, name: str) -> dict[str, Any]:
    groups = run.data.test["clean"].groups[name].cpu().numpy()  # [N]
    values, classes = run.data.attributes[name], run.data.classes
    rounds = [mean([group_scores(t, y, groups, values, classes=classes) for t in tables]) for tables in answers]
    between = {metric: _between([r["between"][metric] for r in rounds]) for metric in HEADLINE}
    scaled = over_rounds([r["es_auc_ovo_macro"] for r in rounds])
    return {"last_round": rounds[-1], "over_rounds": {**between, "es_auc_ovo_macro": scaled}}


def _trained_on(run: Run) -> np.ndarray:
    """Training images of each class [C], of all clients together."""
    counts = [shard.class_counts.cpu().numpy() for shard in run.data.train.values()]
    return np.sum([np.zeros(len(run.data.classes), int), *counts], axis=0)


def _between(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    worst = over_rounds([r["worst"] and r["worst"]["score"] for r in rounds])
    return {"worst": worst, **{key: over_rounds([r[key] for r in rounds]) for key in ("gap", "std")}}
