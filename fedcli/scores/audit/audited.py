"""The audit of a finished run, in its folder:

    audit.json             the manifest; its body has a row per attack and group of images, per probe, and the inversion
    reconstructions.h5     uint8 [B, H, W, C]: the images of the batch, and what was made of their gradient

An image is a member where a client trained on it, and held out where it is in a client's test or validation part.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ... import console
from ...data import manifest, transforms
from ...data.pool import pool_of
from ...data.shard import Shard
from ...errors import FedcliError, UsageError, nearest
from ...io.hdf5 import create_hdf5
from ...methods.losses import each_loss
from ...metrics import Task, apart, title
from ...options import path_of
from ...runs import finished as runs
from ...runs.finished import Run, open_run, part, starting_network
from ...seeds import derive
from ..answering import panel
from ..evaluation_options import AuditOptions
from ..groups import SMALL
from ..statistics.bootstrap import interval
from ..statistics.intervals import Answered
from ..statistics.stratified import scores as score_of
from . import inversion
from .finished import FILE
from .hospital import by_class, probe, within_classes
from .membership import allowed, attack, lira

LOSS = "its loss"
ALL = "all"
DIVERGED = "Training diverged: losses of its last round are not finite, so these numbers say nothing of a model that learned"
CHANCE = (
    "The model may be no better than chance ({:.1f} %) on held-out images: {} {:.1f} %, its 95 % interval begins at "
    "{:.1f} %. What has learned little gives little away"
)
LOCAL_BATCH, BATCHES, SKETCHED = (
    8,
    100,
    256,
)  # of the probe: images of a gradient, gradients of a hospital, its numbers
Facts = dict[str, Any]


@dataclass(frozen=True)
class Probed:
    """Answers or gradients by which the hospital is guessed.

    Attributes:
        table: [M, D]. counts: int [M, C], the images of each class behind a row. hospital: int [M]. units: [M], patients.
    """

    table: np.ndarray
    counts: np.ndarray
    hospital: np.ndarray
    units: np.ndarray


@dataclass(frozen=True)
class Images:
    """Every training and held-out image of each client, as the model answers for it.

    Attributes:
        shards: of a client each, in this order. client: int [N]. member: bool [N]. once: bool [N], False where the same
            held-out image is another client's too. logits: float32 [N, C]. y: [N], or [N, L] of several labels per
            image. classes: int [N], the class; of several labels, which combination of them. units: [N], patients.
            groups: attribute -> int [N].
    """

    shards: list[Shard]
    client: np.ndarray
    member: np.ndarray
    once: np.ndarray
    logits: np.ndarray
    y: np.ndarray
    classes: np.ndarray
    units: np.ndarray
    groups: dict[str, np.ndarray]


def audit(path: Path, shadows: list[Path], options: AuditOptions) -> Path:
    """Audit a run and return the path of audit.json. Raises FedcliError, HashError, UsageError."""
    recorded = {
        "batch": options.batch,
        "iterations": options.iterations,
        "client": options.client or "",
    }
    recorded |= {"seed": options.seed} | ({"shadows": len(shadows)} if shadows else {})
    default = path.parent / "audit" / manifest.identity(recorded, [path, *shadows])
    return manifest.stage(
        "audit",
        folder=path_of(options.out) or default,
        made_by=options.made_by(),
        options=recorded,
        parents=[path, *shadows],
        build=partial(_build, path, shadows, options),
    )


def _build(path: Path, shadows: list[Path], options: AuditOptions, folder: Path) -> Facts:
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
        raise UsageError(
            f"there is no client {options.client!r}", nearest(options.client, run.data.train)
        )
    images = _images(run, alone)
    losses = each_loss(torch.from_numpy(images.logits).double(), torch.from_numpy(images.y)).numpy()
    scores = {LOSS: (np.ones(len(losses), bool), -losses)}
    scores |= _lira(run, images, shadows) if shadows else {}
    return {
        "label": run.manifest.body["label"],
        "dataset": run.data.body["dataset"],
        "round": run.rounds[-1],
        "shared_tests": not all(len(places) for places in run.data.client_test.values()),
        "caution": _caution(run, images),
        **({"privacy": run.manifest.body["privacy"]} if "privacy" in run.manifest.body else {}),
        "membership": list(_membership(run, images, scores, options.seed)),
        "hospital": [] if alone else list(_hospitals(run, images, options.seed)),
        "inversion": None if alone else _inversion(run, options, folder),
    }


def _images(run: Run, alone: bool) -> Images:
    """alone: whether each client's own model answers for its images."""
    shards, keys, columns = [], [], []
    roster = run.data.roster
    for row, client in console.progress(
        enumerate(roster), label="audit: answers", total=len(roster)
    ):
        seen = panel(run, client)
        test = run.data.test[seen.version]
        test = test if seen.places is None else part(test, seen.places)
        for whose, shard in (
            ("train", run.data.train[client]),
            ("val", run.data.val[client]),
            (seen.version, test),
        ):
            if len(shard):
                logits = runs.predict(run, run.rounds[-1], shard, client if alone else None)
                shards.append(shard)
                columns.append(
                    (np.full(len(shard), row), np.full(len(shard), whose == "train"), logits)
                )
                owner = "" if whose == seen.version and not alone else client
                keys += [f"{owner}/{whose}/{name}" for name in shard.ids]
    client_of, member, logits = (np.concatenate(column) for column in zip(*columns))
    ids, y = (
        np.concatenate([shard.ids for shard in shards]),
        np.concatenate([s.y.cpu().numpy() for s in shards]),
    )
    once = np.zeros(len(keys), bool)
    once[np.unique(keys, return_index=True)[1]] = True
    groups = {
        k: np.concatenate([shard.groups[k].cpu().numpy() for shard in shards])
        for k in run.data.attributes
    }
    return Images(
        shards, client_of, member, once, logits, y, classes_of(y), _units(run, ids), groups
    )


def classes_of(y: np.ndarray) -> np.ndarray:
    """The class of each image, or the number of its combination of labels: int [N]. y: [N], or [N, L]."""
    return np.unique(y, axis=0, return_inverse=True)[1].reshape(-1)


def _caution(run: Run, images: Images) -> str:
    """A sentence on a model that may have learned nothing; "" of others. Raises FedcliError for infinite logits."""
    held = images.once & ~images.member
    if not held.any():
        return ""
    logits, y, task = images.logits[held], images.y[held], Task.of(images.y)
    low, _ = interval(Answered([logits], y, images.units[held]).resampled()[task.usual[0]])
    if _diverged(run):
        return DIVERGED
    chance = 1 / (2 if task.several else len(np.unique(y)))
    if low is None or chance == 1 or apart(low, chance) > 0:
        return ""
    score = score_of([logits], y, np.arange(len(y)), task.usual[0])
    return CHANCE.format(100 * chance, title(task.usual[0]), 100 * score, 100 * low)


def _diverged(run: Run) -> bool:
    """Tell whether a client that trained in the last round had a loss that is not finite."""
    if run.manifest.options["dp_sgd"]:  # its draws may have had no image, and so no loss
        return False
    last = (run.path.parent / "rounds.jsonl").read_text(encoding="utf-8").splitlines()[-1]
    record = json.loads(last)
    pairs = zip(record["loss"], record["weights"], strict=True)
    return any(loss is None and weight != 0 for loss, weight in pairs)


def _units(run: Run, ids: np.ndarray) -> np.ndarray:
    """The patient or lesion of each image, or the image itself where that is unknown: str [N]."""
    pool = pool_of(manifest.above(run.path, "dataset"))
    order = np.argsort(pool.id)
    patients = pool.id if pool.patient is None else pool.patient
    known = patients[order[np.searchsorted(pool.id[order], ids)]]
    return np.where(known == "", np.char.add("image ", ids), known)


def _membership(
    run: Run, images: Images, scores: dict[str, tuple[np.ndarray, np.ndarray]], seed: int
) -> Iterator[Facts]:
    """A row for each attack on all images, on those of each client and of each group."""
    parts = [("", "", images.once)]
    parts += [("client", name, images.client == k) for k, name in enumerate(run.data.roster)]
    for name, values in run.data.attributes.items():
        if {*values} != {*run.data.roster}:  # else its groups are the clients
            parts += [
                (name, value, images.once & (images.groups[name] == k))
                for k, value in enumerate(values)
            ]
    turns = [(kind, *some) for kind in scores for some in parts]
    for kind, attribute, group, chosen in console.progress(
        turns, label="audit: membership", total=len(turns)
    ):
        enough, score = scores[kind]
        at = chosen & enough
        member, score = images.member[at], score[at]
        if 0 < member.sum() < len(member):
            mean = float(score[member].mean()) if kind == LOSS else None
            yield {
                "attack": kind,
                "attribute": attribute,
                "group": group,
                "members": int(member.sum()),
                "held_out": int((~member).sum()),
                "small": bool(min(member.sum(), (~member).sum()) < SMALL),
                "numbers": attack(score, member, images.classes[at], images.units[at], mean, seed),
                "allowed": _allowed(run, group if attribute == "client" else ""),
            }


def _allowed(run: Run, client: str) -> dict[str, float] | None:
    """The most that the run's differential privacy allows an attack on a client's images; None without a bound."""
    privacy = run.manifest.body.get("privacy", {})
    epsilon = privacy.get("clients", {}).get(client, privacy.get("epsilon"))
    return None if epsilon is None else {"epsilon": epsilon, **allowed(epsilon, privacy["delta"])}


def _lira(
    run: Run, images: Images, shadows: list[Path]
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Raises FedcliError for a shadow run of other images or settings, and where none left images out."""
    if images.y.ndim == 2:
        raise UsageError(
            "--shadow needs one label per image, and images have several", "leave --shadow out"
        )
    ids = np.concatenate([shard.ids for shard in images.shards])
    answers, trained = [], []
    for path in console.progress(shadows, label="audit: shadow runs", total=len(shadows)):
        other = open_run(path, run.device)
        ours, theirs = (
            {**r.data.body, **r.manifest.body["model"], **r.manifest.options} for r in (run, other)
        )
        alike = {*run.manifest.options, "dataset", "classes", "size", "channels"} - {"seed"}
        for key in sorted(key for key in alike if ours[key] != theirs.get(key)):
            what = f"{path} differs from the run in {key}: {theirs.get(key)}, not {ours[key]}"
            raise FedcliError(
                what, "a shadow run is trained as the run was, on other images of the same dataset"
            )
        logits = [runs.predict(other, other.rounds[-1], shard) for shard in images.shards]
        answers.append(_confidence(np.concatenate(logits), images.y))
        trained.append(
            np.isin(ids, np.concatenate([shard.ids for shard in other.data.train.values()]))
        )
    made = lira(_confidence(images.logits, images.y), np.stack(answers), np.stack(trained))
    made = {
        name: scored
        for name, scored in made.items()
        if len(np.unique(images.member[scored[0]])) == 2
    }
    if not made:
        hint = "train more of them, each on `partition --val 0.5 --seed N` with another N"
        raise FedcliError("no training image was left out by two of the shadow runs", hint)
    return made


def _confidence(logits: np.ndarray, y: np.ndarray) -> np.ndarray:
    """phi of Carlini et al., the logit of the label's probability: its logit against all others together. [N]"""
    z = torch.from_numpy(logits).double()
    label = torch.from_numpy(y)[:, None]
    return (z.gather(1, label)[:, 0] - z.scatter(1, label, -torch.inf).logsumexp(1)).numpy()


def _hospitals(run: Run, images: Images, seed: int) -> Iterator[Facts]:
    """The probe on answers to held-out images, where each client has its own, and on gradients of training images."""
    own_tests = all(len(places) for places in run.data.client_test.values())
    runs.load_model(run, run.rounds[-1])
    run.net.eval()
    answers = _answers(images, ~images.member if own_tests else images.member)
    yield from _probed(
        f"answers to {'held-out' if own_tests else 'training'} images", answers, answers, seed
    )
    yield from _probed(
        f"gradients of {LOCAL_BATCH} training images",
        _gradients(run, images, seed),
        _gradients(run, images, seed, of_one_class=True),
        seed,
    )


def _probed(name: str, probed: Probed, of_one_class: Probed, seed: int) -> Iterator[Facts]:
    """A row of the probe; none where a hospital has too few. of_one_class: the same, each row of a single class."""
    accuracy = probe(probed.table, probed.hospital, probed.units, seed)
    if not accuracy:
        return
    hospitals = len(np.unique(probed.hospital))
    yield {
        "of": name,
        "count": len(probed.table),
        "hospitals": hospitals,
        "accuracy": accuracy,
        "chance": 1 / hospitals,
        "by_class": by_class(probed.counts, probed.hospital, probed.units, seed),
        "within": within_classes(
            of_one_class.table,
            of_one_class.counts.argmax(1),
            of_one_class.hospital,
            of_one_class.units,
            seed,
        ),
    }


def _answers(images: Images, shown: np.ndarray) -> Probed:
    """Answers without their mean, which shifts all classes alike. shown: bool [N]."""
    logits = images.logits[shown]
    one_hot = np.eye(images.classes.max() + 1, dtype=int)
    return Probed(
        logits - logits.mean(1, keepdims=True),
        one_hot[images.classes[shown]],
        images.client[shown],
        images.units[shown],
    )


def _gradients(run: Run, images: Images, seed: int, *, of_one_class: bool = False) -> Probed:
    """Directions of gradients; no two of a hospital have a patient in common.

    of_one_class: the images of each gradient are of one class.
    Sketched as Charikar, Chen and Farach-Colton, ICALP 2002: sums of the numbers with random signs, which keep angles.
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
        if of_one_class:
            batches = _batches(order, class_of)
            batches = [batches[k] for k in random.permutation(len(batches))]
        else:
            batches = _batches(order, np.zeros_like(class_of))
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
    return Probed(table, counts_by_row, np.array(hospital, int), np.arange(len(rows)))


def _batches(order: np.ndarray, classes: np.ndarray) -> list[np.ndarray]:
    """Whole batches of images of one class, in this order. order: places [n] of the images with these classes [N]."""
    batches = []
    for one_class in np.unique(classes):
        places = order[classes[order] == one_class]
        whole = len(places) // LOCAL_BATCH * LOCAL_BATCH
        batches += list(places[:whole].reshape(-1, LOCAL_BATCH))
    return batches


def _inversion(run: Run, options: AuditOptions, folder: Path) -> Facts:
    """Images from the gradient of one batch, at the initial and at the final model."""
    sizes = {client: len(shard) for client, shard in run.data.train.items()}
    client = options.client or min(sizes, key=sizes.__getitem__)
    shard, stream = (
        run.data.train[client],
        torch.Generator().manual_seed(derive("audit batch", options.seed, client)),
    )
    at = torch.randperm(len(shard), generator=stream)[: options.batch]
    original = transforms.to_pixels(shard.batch(at).x).cpu().numpy()  # [B, C, H, W]
    means = _mean_images(run.data.test[panel(run, client).version])
    labels = [_label(y) for y in shard.y[at.to(shard.y.device)]]
    runs.load_model(run, run.rounds[-1])
    made, shown = [], {"original": original}
    for model, net in (("initial", starting_network(run)), ("final", run.net)):
        if net is None:
            continue
        found, distance = inversion.reconstructed(
            run,
            net,
            shard,
            at,
            iterations=options.iterations,
            label=f"audit: inversion, {model} model",
            seed=options.seed,
        )
        shown[model] = inversion.matched(original, found.cpu().numpy())
        psnr = [inversion.psnr(a, b) for a, b in zip(original, shown[model], strict=True)]
        made.append({"model": model, "distance": distance, "psnr": psnr})
    with create_hdf5(folder / FILE) as file:
        for name, pixels in shown.items():
            file[name] = np.rint(pixels.transpose(0, 2, 3, 1) * 255).astype(np.uint8)
    return {
        "client": client,
        "blind": [inversion.psnr(image, means[ALL]) for image in original],
        "blind_by_class": [
            inversion.psnr(image, means.get(label, means[ALL]))
            for image, label in zip(original, labels, strict=True)
        ],
        "models": made,
    }


def _label(y: torch.Tensor) -> str:
    """The class of an image, or its labels, as a name of a mean image."""
    return str(y.tolist())


def _mean_images(test: Shard) -> dict[str, np.ndarray]:
    """The mean of all test images, under ALL, and of those of each class, or combination of labels: [C, H, W]."""
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
