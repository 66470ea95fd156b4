"""Source inference: whose training image it is, where the attacker knows its class.

Source: Hu, Salcic, Sun, Dobbie and Zhang, "Source inference attacks in federated learning", ICDM
2021, arXiv 2109.05659, of which the abstract was at hand: the server compares the losses of an
image under the clients' local models. Two servers are compared:

    each hospital's model   its loss of the image, less that model's mean loss of all such images of
                            the class; the lowest names the hospital
    the mean of the models  all that secure aggregation shows: logistic regression on its answers,
                            as in hospital.py, from images of other patients whose hospitals the
                            attacker knows

The hospitals' models are those of the run's last round, played again from the round before it:
plain local training with the run's own options and noise, on images without augmentation. Where the
run kept no earlier model they are trained from its last one.

Hospitals differ in their case mix, so the class alone names a hospital often. All is therefore
measured within classes: how often a hospital is named for its own images, and for the others'
images of the same class. A guess by class alone, whatever it is, names it as often for both.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import fields
from typing import Any

import numpy as np
import torch

from ... import console
from ...data.shard import Shard
from ...federation.client import ClientTask, run_client
from ...federation.training import Training
from ...methods import METHODS
from ...methods.losses import each_loss
from ...methods.priors import COUNTS_OF_ALL
from ...runs import finished as runs
from ...runs.features import fed_features
from ...runs.finished import FinishedRun
from .hospital import FOLDS, at_large_hospitals, linear, named_by
from .membership import with_interval

MODELS = "each hospital's model"
MEAN = "the mean of the models"
HELD_OUT = "held out"
NOBODY = -1
Array = np.ndarray
Namer = Callable[[Array], Array]  # rows [M] of one class -> the hospital named for each [M]


def losses(run: FinishedRun, shards: list[Shard]) -> Array:
    """The loss of each image under each client's model of the last round, float64 [N, K].

    Leaves another model in run.net.
    """
    columns = []
    roster = list(enumerate(run.data.roster))
    for row, client in console.progress(roster, label="audit: sources", total=len(roster)):
        runs.load_model(run, run.rounds[-2:][0])
        model = _local_model(run, row, client)  # [P]
        run.layout.load(model)
        column = []
        for shard in shards:
            logits = torch.from_numpy(runs.logits_of_loaded(run, shard)).double()
            column.append(each_loss(logits, shard.y.cpu()).numpy())
        columns.append(np.concatenate(column))
    return np.stack(columns, axis=1)


def _local_model(run: FinishedRun, row: int, client: str) -> torch.Tensor:
    """The model [P] that a client sends after it trained the one that is in run.net."""
    options = run.manifest.options
    names = [option.name for option in fields(Training) if option.name in options]
    training = Training(**{name: options[name] for name in names})
    shard = run.data.train[client]
    counts = [part.class_counts for part in run.data.train.values()]
    shared = {COUNTS_OF_ALL: torch.stack(counts).sum(0)}
    fed: Any = nullcontext()
    if run.features is not None:
        shard = run.features.shard(shard)
        fed = fed_features(run.net)
    task = ClientTask(
        client,
        row,
        run.rounds[-1],
        run.manifest.body["rounds"],
        options["seed"],
        run.layout.read(),
        shared,
        {"own": run.layout.read_own()},
    )
    with fed:
        report = run_client(METHODS["fedavg"], run.net, run.layout, shard, task, training)
    return report.theta


def by_losses(table: Array, hospital: Array) -> Namer:
    """Names the hospital whose model has the lowest loss beside its mean of the class.

    table: [N, K]. hospital: int [N].
    """

    def name(rows: Array) -> Array:
        hospitals = np.unique(hospital[rows])
        columns = table[rows][:, hospitals]
        apart = columns - columns.mean(0)
        return hospitals[apart.argmin(1)]

    return name


def by_answers(
    table: Array,
    hospital: Array,
    units: Array,
    seed: int,
) -> Namer:
    """Names the hospital by logistic regression on answers [N, D], cross-validated by patient."""

    def name(rows: Array) -> Array:
        return named_by(linear(), FOLDS, table[rows], hospital[rows], units[rows], seed)

    return name


def named(
    namer: Namer,
    classes: Array,
    hospital: Array,
    units: Array,
) -> Array:
    """The hospital that is named for each image: int [N], NOBODY where no other hospital has enough
    patients of its class.
    """
    guesses = np.full(len(classes), NOBODY)
    for one_class in np.unique(classes):
        of_class = np.flatnonzero(classes == one_class)
        rows = at_large_hospitals(of_class, hospital, units)
        if len(np.unique(hospital[rows])) > 1:
            guesses[rows] = namer(rows)
    return guesses


def measured(
    guesses: Array,
    classes: Array,
    hospital: Array,
    weights: Array,
    only: int | None = None,
) -> dict[str, Any] | None:
    """Shares of hospitals' own images, and of others' of the same class, for which they are named.

    The mean over the hospitals of a class, or of one hospital, then over classes by their images.
    None where nothing was named.

    guesses: int [N], NOBODY where none. classes, hospital: int [N]. weights: [B + 1, N]. only: one
    hospital.
    """
    own = []
    others = []
    sizes = []
    count = int(hospital.max(initial=0)) + 1  # H
    for one_class in np.unique(classes[guesses != NOBODY]):
        rows = (classes == one_class) & (guesses != NOBODY)
        hospitals = np.unique(hospital[rows])
        if only is not None:
            hospitals = hospitals[hospitals == only]
        if len(np.unique(hospital[rows])) < 2 or not len(hospitals):
            continue
        pair = hospital[rows] * count + guesses[rows]
        one_hot = np.eye(count**2, dtype=np.float32)[pair]
        counted = weights[:, rows].astype(np.float32)
        sums = counted @ one_hot
        table = sums.reshape(-1, count, count)  # [B + 1, true H, named H]
        images = table.sum(2)
        right = table.diagonal(axis1=1, axis2=2)
        alarms = table.sum(1) - right
        elsewhere = images.sum(1, keepdims=True) - images
        with np.errstate(invalid="ignore", divide="ignore"):
            own_shares = right / images
            other_shares = alarms / elsewhere
        own.append(own_shares[:, hospitals].mean(1))
        others.append(other_shares[:, hospitals].mean(1))
        sizes.append(rows.sum() if only is None else (rows & (hospital == only)).sum())
    if not sizes:
        return None
    mean_own = np.average(own, axis=0, weights=sizes)
    mean_others = np.average(others, axis=0, weights=sizes)
    return {
        "images": int(sum(sizes)),
        "own": with_interval(mean_own),
        "others": with_interval(mean_others),
        "difference": with_interval(mean_own - mean_others),
    }
