"""The audit of a finished run, in its folder:

    audit.json             the manifest; its body has a row per attack and group of images, per
                           probe, and the inversion
    reconstructions.h5     uint8 [B, H, W, C]: the images of the batch, and what was made of their
                           gradient

An image is a member where a client trained on it, and held out where it is in a client's test or
validation part.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ... import console
from ...data import manifest, shared_patients, transforms
from ...data.pool import pool_of
from ...data.shard import Shard
from ...errors import FedcliError, UsageError, nearest
from ...io.hdf5 import create_hdf5
from ...methods.losses import each_loss
from ...methods.mixins import GroupViews
from ...metrics import Task, apart, title
from ...options import path_of
from ...runs import finished as runs
from ...runs.finished import FinishedRun, open_run, part, starting_network
from ...seeds import derive
from ..answering import panel
from ..evaluation_options import AuditOptions
from ..groups import SMALL
from ..statistics.bootstrap import interval
from ..statistics.intervals import Answered
from ..statistics.stratified import scores as score_of
from . import inversion, source
from .finished import FILE, ORIGINAL
from .hospital import by_class, probe, within_classes
from .membership import Scores, allowed, attack, lira, weights_of

LOSS = "its loss"
ALL = "all"
DIVERGED = (
    "Training diverged: losses of its last round are not finite, so these numbers say nothing of "
    "a model that learned"
)
CHANCE = (
    "The model may be no better than chance ({:.1f} %) on held-out images: {} {:.1f} %, its 95 % "
    "interval begins at {:.1f} %. What has learned little gives little away"
)
# of the probe
LOCAL_BATCH = 8  # images of a gradient
BATCHES = 100  # gradients of a hospital
SKETCHED = 256  # numbers of a gradient
TRAINING = "train"
VALIDATION = "val"
Facts = dict[str, Any]
Array = np.ndarray


@dataclass(frozen=True)
class Probed:
    """Answers or gradients by which the hospital is guessed.

    Attributes:
        table: [M, D].
        counts: int [M, C], the images of each class behind a row.
        hospital: int [M].
        units: [M], patients.
    """

    table: Array
    counts: Array
    hospital: Array
    units: Array


@dataclass(frozen=True)
class AuditedImages:
    """Every training and held-out image of each client, with the model's answer to it.

    Attributes:
        shards: of a client each, in this order.
        client: int [N].
        member: bool [N].
        once: bool [N], False where the same held-out image is another client's too.
        logits: float32 [N, C].
        y: [N], or [N, L] of several labels per image.
        classes: int [N], the class; of several labels, the index of their combination.
        units: [N], patients.
        groups: attribute -> int [N].
    """

    shards: list[Shard]
    client: Array
    member: Array
    once: Array
    logits: Array
    y: Array
    classes: Array
    units: Array
    groups: dict[str, Array]


def audit(path: Path, shadows: list[Path], options: AuditOptions) -> Path:
    """Audit a run and return the path of audit.json. Raises FedcliError, HashError, UsageError."""
    recorded: Facts = {
        "batch": options.batch,
        "iterations": options.iterations,
        "client": options.client or "",
        "seed": options.seed,
    }
    if shadows:
        recorded["shadows"] = len(shadows)
    default = path.parent / "audit" / manifest.identity(recorded, [path, *shadows])
    return manifest.stage(
        "audit",
        folder=path_of(options.out) or default,
        made_by=options.made_by(),
        options=recorded,
        parents=[path, *shadows],
        build=partial(_build, path, shadows, options),
    )


def _build(
    path: Path,
    shadows: list[Path],
    options: AuditOptions,
    folder: Path,
) -> Facts:
    run = open_run(path, options.device)
    if not run.rounds:
        raise FedcliError(f"{run.path} kept no model", "train the run again")
    alone = runs.trains_alone(run)
    if alone and shadows:
        raise UsageError(
            "--shadow is for a global model, and the clients of this run trained alone",
            "leave it out",
        )
    if options.client and options.client not in run.data.train:
        fault = f"there is no client {options.client!r}"
        raise UsageError(fault, nearest(options.client, run.data.train))
    images = _images(run, alone)
    losses = each_loss(torch.from_numpy(images.logits).double(), torch.from_numpy(images.y))
    scores: Scores = {LOSS: (np.ones(len(losses), bool), -losses.numpy())}
    if shadows:
        scores |= _lira(run, images, shadows)
    facts: Facts = {
        "label": run.manifest.body["label"],
        "dataset": run.data.body["dataset"],
        "round": run.rounds[-1],
        "shared_tests": not _have_own_tests(run),
        "caution": _caution(run, images),
        "membership": list(_membership(run, images, scores, options.seed)),
        "hospital": [],
        "source": [],
        "inversion": None,
    }
    if shared_patients.KEY in run.data.body:
        facts[shared_patients.KEY] = run.data.body[shared_patients.KEY]
    if "privacy" in run.manifest.body:
        facts["privacy"] = run.manifest.body["privacy"]
    if not alone:
        facts["hospital"] = list(_hospitals(run, images, options.seed))
        if not isinstance(run.method.local, GroupViews):  # whose network also needs groups
            facts["source"] = list(_sources(run, images, options.seed))
        facts["inversion"] = _inversion(run, options, folder)
    return facts


def _have_own_tests(run: FinishedRun) -> bool:
    return all(len(places) for places in run.data.client_test.values())


def _images(run: FinishedRun, alone: bool) -> AuditedImages:
    """All images with answers. alone: each client's own model answers for its images."""
    shards = []
    clients = []
    members = []
    logits = []
    keys: list[str] = []
    turns = console.progress(
        enumerate(run.data.roster),
        label="audit: answers",
        total=len(run.data.roster),
    )
    for row, client in turns:
        for name, shard in _shards(run, client).items():
            if not len(shard):
                continue
            owner = client
            if name in run.data.test and not alone:
                owner = ""  # a test image is the same one at every client
            keys += [f"{owner}/{name}/{image}" for image in shard.ids]
            shards.append(shard)
            clients.append(np.full(len(shard), row))
            members.append(np.full(len(shard), name == TRAINING))
            logits.append(runs.predict(run, run.rounds[-1], shard, client if alone else None))
    once = np.zeros(len(keys), bool)
    once[np.unique(keys, return_index=True)[1]] = True
    y = _column(shard.y for shard in shards)
    groups = {}
    for attribute in run.data.attributes:
        groups[attribute] = _column(shard.groups[attribute] for shard in shards)
    return AuditedImages(
        shards,
        np.concatenate(clients),
        np.concatenate(members),
        once,
        np.concatenate(logits),
        y,
        classes_of(y),
        _units(run, _ids(shards)),
        groups,
    )


def _shards(run: FinishedRun, client: str) -> dict[str, Shard]:
    """The training, validation and test images of a client; the test images by their version."""
    models = panel(run, client)
    test = run.data.test[models.version]
    if models.places is not None:
        test = part(test, models.places)
    training = run.data.train[client]
    return {
        TRAINING: training,
        VALIDATION: run.data.val[client],
        models.version: test,
    }


def _column(tensors: Iterable[torch.Tensor]) -> Array:
    return np.concatenate([tensor.cpu().numpy() for tensor in tensors])


def _ids(shards: Iterable[Shard]) -> Array:
    return np.concatenate([shard.ids for shard in shards])


def classes_of(y: Array) -> Array:
    """The class of each image, or the index of its combination of labels: int [N]. y: [N], or [N,
    L].
    """
    return np.unique(y, axis=0, return_inverse=True)[1].reshape(-1)


def _caution(run: FinishedRun, images: AuditedImages) -> str:
    """A sentence on a model that may have learned nothing; "" of others. Raises FedcliError for
    infinite logits.
    """
    held_out = images.once & ~images.member
    if not held_out.any():
        return ""
    logits = images.logits[held_out]
    y = images.y[held_out]
    task = Task.of(images.y)
    metric = task.usual[0]
    low, _ = interval(Answered([logits], y, images.units[held_out]).resampled()[metric])
    if _diverged(run):
        return DIVERGED
    chance = 1 / (2 if task.several else len(np.unique(y)))
    if low is None or chance == 1 or apart(low, chance) > 0:
        return ""
    score = score_of([logits], y, np.arange(len(y)), metric)
    return CHANCE.format(100 * chance, title(metric), 100 * score, 100 * low)


def _diverged(run: FinishedRun) -> bool:
    """Tell whether a client that trained in the last round had a loss that is not finite."""
    if run.manifest.options["dp_sgd"]:  # its draws may have had no image, and so no loss
        return False
    last = (run.path.parent / "rounds.jsonl").read_text(encoding="utf-8").splitlines()[-1]
    record = json.loads(last)
    pairs = zip(record["loss"], record["weights"], strict=True)
    return any(loss is None and weight != 0 for loss, weight in pairs)


def _units(run: FinishedRun, ids: Array) -> Array:
    """The patient or lesion of each image, or the image itself where that is unknown: str [N]."""
    pool = pool_of(manifest.above(run.path, "dataset"))
    patients = pool.id if pool.patient is None else pool.patient
    order = np.argsort(pool.id)
    units = patients[order[np.searchsorted(pool.id[order], ids)]]
    return np.where(units == "", np.char.add("image ", ids), units)


def _parts(run: FinishedRun, images: AuditedImages) -> list[tuple[str, str, Array]]:
    """All images, those of each client and of each group: attribute, group, bool [N]."""
    parts = [("", "", images.once)]
    for row, client in enumerate(run.data.roster):
        parts.append(("client", client, images.client == row))
    for attribute, groups in run.data.attributes.items():
        if set(groups) == set(run.data.roster):
            continue  # its groups are the clients
        for code, group in enumerate(groups):
            parts.append((attribute, group, images.once & (images.groups[attribute] == code)))
    return parts


def _membership(
    run: FinishedRun,
    images: AuditedImages,
    scores: Scores,
    seed: int,
) -> Iterator[Facts]:
    """A row for each attack on all images, on those of each client and of each group."""
    turns = list(product(scores, _parts(run, images)))
    for name, (attribute, group, chosen) in console.progress(
        turns, label="audit: membership", total=len(turns)
    ):
        has_score, score = scores[name]
        rows = chosen & has_score
        member = images.member[rows]
        members = int(member.sum())
        held_out = len(member) - members
        if not members or not held_out:
            continue
        score = score[rows]
        threshold = float(score[member].mean()) if name == LOSS else None
        classes = images.classes[rows]
        yield {
            "attack": name,
            "attribute": attribute,
            "group": group,
            "members": members,
            "held_out": held_out,
            "small": min(members, held_out) < SMALL,
            "numbers": attack(score, member, classes, images.units[rows], threshold, seed),
            "allowed": _allowed(run, group if attribute == "client" else ""),
        }


def _allowed(run: FinishedRun, client: str) -> dict[str, float] | None:
    """The most that the run's differential privacy allows an attack on a client's images; None
    without a bound.
    """
    privacy = run.manifest.body.get("privacy", {})
    epsilon = privacy.get("clients", {}).get(client, privacy.get("epsilon"))
    return None if epsilon is None else {"epsilon": epsilon, **allowed(epsilon, privacy["delta"])}


def _lira(
    run: FinishedRun,
    images: AuditedImages,
    shadows: list[Path],
) -> Scores:
    """The attacks by shadow runs of which some training images were left out.

    Raises FedcliError for a shadow run of other images or settings, and where none left images out.
    """
    if images.y.ndim == 2:
        fault = "--shadow needs one label per image, and images have several"
        raise UsageError(fault, "leave --shadow out")
    ids = _ids(images.shards)
    answers = []
    trained = []
    for path in console.progress(shadows, label="audit: shadow runs", total=len(shadows)):
        shadow = open_run(path, run.device)
        _check_alike(run, shadow, path)
        logits = [runs.predict(shadow, shadow.rounds[-1], shard) for shard in images.shards]
        answers.append(_confidence(np.concatenate(logits), images.y))
        trained.append(np.isin(ids, _ids(shadow.data.train.values())))
    scores: Scores = {}
    attacks = lira(
        _confidence(images.logits, images.y),
        np.stack(answers),
        np.stack(trained),
    )
    for name, (has_score, score) in attacks.items():
        if len(np.unique(images.member[has_score])) == 2:
            scores[name] = (has_score, score)
    if not scores:
        hint = "train more of them, each on `partition --val 0.5 --seed N` with another N"
        raise FedcliError("no training image was left out by two of the shadow runs", hint)
    return scores


def _check_alike(run: FinishedRun, shadow: FinishedRun, path: Path) -> None:
    """Refuse a shadow run that differs in more than its seed and images. Raises FedcliError."""
    ours = _settings(run)
    theirs = _settings(shadow)
    names = {*run.manifest.options, "dataset", "classes", "size", "channels"} - {"seed"}
    for name in sorted(names):
        if ours[name] != theirs.get(name):
            raise FedcliError(
                f"{path} differs from the run in {name}: {theirs.get(name)}, not {ours[name]}",
                "a shadow run is trained as the run was, on other images of the same dataset",
            )


def _settings(run: FinishedRun) -> Facts:
    return run.data.body | run.manifest.body["model"] | run.manifest.options


def _confidence(logits: Array, y: Array) -> Array:
    """phi of Carlini et al., the logit of the label's probability: its logit against all others
    together. [N]
    """
    z = torch.from_numpy(logits).double()
    label = torch.from_numpy(y)[:, None]
    others = z.scatter(1, label, -torch.inf).logsumexp(1)
    return (z.gather(1, label)[:, 0] - others).numpy()


def _hospitals(
    run: FinishedRun,
    images: AuditedImages,
    seed: int,
) -> Iterator[Facts]:
    """The probe on answers to held-out images, where each client has its own, and on gradients of
    training images.
    """
    kind = "training"
    rows = images.member
    if _have_own_tests(run):
        kind = "held-out"
        rows = ~images.member
    runs.load_model(run, run.rounds[-1])
    run.net.eval()
    answers = _answers(images, rows)
    yield from _probed(f"answers to {kind} images", answers, answers, seed)
    mixed = _gradients(run, images, seed)
    of_one_class = _gradients(run, images, seed, of_one_class=True)
    yield from _probed(f"gradients of {LOCAL_BATCH} training images", mixed, of_one_class, seed)


def _probed(
    name: str,
    probed: Probed,
    of_one_class: Probed,
    seed: int,
) -> Iterator[Facts]:
    """A row of the probe; none where a hospital has too few. of_one_class: answers or gradients of
    a single class each.
    """
    accuracy = probe(probed.table, probed.hospital, probed.units, seed)
    if not accuracy:
        return
    hospitals = len(np.unique(probed.hospital))
    classes = of_one_class.counts.argmax(1)
    by_images = within_classes(
        of_one_class.table,
        classes,
        of_one_class.hospital,
        of_one_class.units,
        seed,
    )
    yield {
        "of": name,
        "count": len(probed.table),
        "hospitals": hospitals,
        "accuracy": accuracy,
        "chance": 1 / hospitals,
        "by_class": by_class(probed.counts, probed.hospital, probed.units, seed),
        "within": by_images,
    }


def _answers(images: AuditedImages, rows: Array) -> Probed:
    """Answers without their mean, which shifts all classes alike. rows: bool [N]."""
    logits = images.logits[rows]
    one_hot = np.eye(images.classes.max() + 1, dtype=int)
    return Probed(
        logits - logits.mean(1, keepdims=True),
        one_hot[images.classes[rows]],
        images.client[rows],
        images.units[rows],
    )


def _gradients(
    run: FinishedRun,
    images: AuditedImages,
    seed: int,
    *,
    of_one_class: bool = False,
) -> Probed:
    """Directions of gradients; no two of a hospital have a patient in common.

    of_one_class: the images of each gradient are of one class.
    Sketched as Charikar, Chen and Farach-Colton, ICALP 2002: sums of the numbers with random signs,
    which keep angles.
    """
    random = np.random.default_rng(derive("audit gradients", seed))
    cell = torch.from_numpy(random.integers(SKETCHED, size=run.layout.trainable))
    sign = torch.from_numpy(random.choice([-1.0, 1.0], size=run.layout.trainable))
    rows = []
    counts = []
    hospital = []
    classes = int(images.classes.max()) + 1
    end = 0
    for shard in console.progress(
        images.shards, label="audit: gradients", total=len(images.shards)
    ):
        span = slice(end, end + len(shard))
        end = span.stop
        one_of_each_patient = np.unique(images.units[span], return_index=True)[1]
        order = random.permutation(one_of_each_patient)
        if not images.member[span][0]:
            continue
        class_of = images.classes[span]
        batches = _batches(order, class_of if of_one_class else np.zeros_like(class_of))
        if of_one_class:
            batches = [batches[k] for k in random.permutation(len(batches))]
        for k, batch in enumerate(batches[:BATCHES]):
            places = torch.from_numpy(batch)
            g = inversion.sent(run, run.net, shard, places, derive(seed, end, k)).double().cpu()
            row = torch.zeros(SKETCHED, dtype=g.dtype)
            row.index_add_(0, cell, sign * g / g.norm().clamp_min(1e-12))
            rows.append(row.numpy())
            counts.append(np.bincount(class_of[batch], minlength=classes))
            hospital.append(images.client[span][0])
    table = np.array(rows).reshape(-1, SKETCHED)
    counts_by_row = np.array(counts, int).reshape(-1, classes)
    return Probed(
        table,
        counts_by_row,
        np.array(hospital, int),
        np.arange(len(rows)),
    )


def _batches(order: Array, classes: Array) -> list[Array]:
    """Whole batches of images of one class, in this order. order: places [n] of the images with
    these classes [N].
    """
    batches = []
    for one_class in np.unique(classes):
        places = order[classes[order] == one_class]
        whole = len(places) // LOCAL_BATCH * LOCAL_BATCH
        batches += list(places[:whole].reshape(-1, LOCAL_BATCH))
    return batches


def _sources(
    run: FinishedRun,
    images: AuditedImages,
    seed: int,
) -> Iterator[Facts]:
    """A row for each server and part of the training images, and where clients have their own
    held-out images, one of those.
    """
    losses = source.losses(run, images.shards)
    run.net.eval()
    parts = _parts(run, images)
    yield from _sources_of(run, images, images.member, losses, parts, seed)
    if _have_own_tests(run):
        held_out = [("", source.HELD_OUT, images.once)]
        yield from _sources_of(run, images, ~images.member, losses, held_out, seed)


def _sources_of(
    run: FinishedRun,
    images: AuditedImages,
    among: Array,
    losses: Array,
    parts: list[tuple[str, str, Array]],
    seed: int,
) -> Iterator[Facts]:
    """Rows for these parts of the images `among`, bool [N], by each server."""
    hospital = images.client[among]
    units = images.units[among]
    classes = images.classes[among]
    weights = weights_of(units, seed)
    table = _answers(images, among).table
    namers = {
        source.MODELS: source.by_losses(losses[among], hospital),
        source.MEAN: source.by_answers(table, hospital, units, seed),
    }
    for server, namer in namers.items():
        names = source.named(namer, classes, hospital, units)
        for attribute, group, chosen in parts:
            only = None
            rows = chosen[among]
            if attribute == "client":  # against the images of all others
                only = run.data.roster.index(group)
                rows = np.ones_like(rows)
            numbers = source.measured(
                names[rows],
                classes[rows],
                hospital[rows],
                weights[:, rows],
                only,
            )
            if numbers:
                small = numbers["images"] < SMALL
                yield {
                    "server": server,
                    "attribute": attribute,
                    "group": group,
                    "small": small,
                    **numbers,
                }


def _inversion(run: FinishedRun, options: AuditOptions, folder: Path) -> Facts:
    """Images from the gradient of one batch, at the initial and at the final model."""
    sizes = {client: len(shard) for client, shard in run.data.train.items()}
    client = options.client or min(sizes, key=sizes.__getitem__)
    shard = run.data.train[client]
    stream = torch.Generator().manual_seed(derive("audit batch", options.seed, client))
    places = torch.randperm(len(shard), generator=stream)[: options.batch]
    original = transforms.to_pixels(shard.batch(places).x).cpu().numpy()  # [B, C, H, W]
    means = _mean_images(run.data.test[panel(run, client).version])
    labels = [_label(y) for y in shard.y[places.to(shard.y.device)]]
    runs.load_model(run, run.rounds[-1])
    models = []
    pictures = {ORIGINAL: original}
    for model, net in (("initial", starting_network(run)), ("final", run.net)):
        if net is None:
            continue
        rebuilt, distance = inversion.reconstructed(
            run,
            net,
            shard,
            places,
            iterations=options.iterations,
            label=f"audit: inversion, {model} model",
            seed=options.seed,
        )
        pictures[model] = inversion.matched(original, rebuilt.cpu().numpy())
        psnr = _psnr(original, pictures[model])
        models.append({"model": model, "distance": distance, "psnr": psnr})
    with create_hdf5(folder / FILE) as file:
        for name, pixels in pictures.items():
            file[name] = np.rint(pixels.transpose(0, 2, 3, 1) * 255).astype(np.uint8)
    mean_of_class = [means.get(label, means[ALL]) for label in labels]
    return {
        "client": client,
        "blind": _psnr(original, [means[ALL] for _ in original]),
        "blind_by_class": _psnr(original, mean_of_class),
        "models": models,
    }


def _psnr(originals: Array, others: Iterable[Array]) -> list[float]:
    """The peak signal to noise ratio of each image to its original."""
    pairs = zip(originals, others, strict=True)
    return [inversion.psnr(original, other) for original, other in pairs]


def _label(y: torch.Tensor) -> str:
    """The class of an image, or its labels, as a name of a mean image."""
    return str(y.tolist())


def _mean_images(test: Shard) -> dict[str, np.ndarray]:
    """The mean of all test images, under ALL, and of those of each class, or combination of labels:
    [C, H, W].
    """
    sums: dict[str, np.ndarray] = {}
    counts: Counter[str] = Counter()
    for batch in test.in_order():
        pixels = transforms.to_pixels(batch.x).double().cpu().numpy()
        labels = np.array([_label(y) for y in batch.y])
        for label in [ALL, *np.unique(labels)]:
            images = pixels[(labels == label) | (label == ALL)]
            sums[label] = sums.get(label, 0.0) + images.sum(0)
            counts[label] += len(images)
    return {label: total / counts[label] for label, total in sums.items()}
