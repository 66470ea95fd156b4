"""The train stage: options are resolved, checked and run; a second stage, and an unfinished run that goes on."""

import re
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import console
from ..bench import limits
from ..bench.estimate import Estimate, span
from ..bench.estimate import estimate as measure
from ..data import manifest, pipelines, shared_patients
from ..errors import FedcliError, UsageError
from ..extensions import is_file
from ..federation.engines import named, parsed, remote
from ..federation.training import CLASSIFIER, FINE_TUNING, USUAL, idle
from ..io.files import appending
from ..labels import is_multi_label
from ..methods import METHODS, resolve
from ..methods.mixins import ContinuesRun
from ..methods.registry import Method
from ..options import path_of
from ..reporting import timing, tracking
from ..reporting.table import Table
from ..runs import settings
from ..runs import train as runs
from ..runs.assembly import PlannedFederation
from ..runs.chosen_engine import NOT_REACHED
from ..runs.folder import append, unfinished
from ..runs.initial import data_of, open_parent
from ..runs.rules import check, takes_prior
from ..runs.train_options import ROUNDS, TrainOptions
from .call import called_with, source
from .partition import for_training
from .results import Run
from .shown import Shown

MOST_ROUNDS, STEPS = 50, 100  # by default; local steps of the median client
RARE = 10  # times as many images as the rarest class has: from there on the loss is corrected for class counts
DATA = "corruption", "partition", "sites", "dataset"
SERVER_OPTIMIZERS = {
    "momentum": "fedavgm",
    "adam": "fedadam",
    "yogi": "fedyogi",
    "adagrad": "fedadagrad",
}
EXECUTION = (
    "engine",
    "at_once",
    "jobs",
    "timeout",
    "min_clients",
    "checkpoint_every",
    "work",
    "wait",
    "track",
)
WITH_RESUME = {*EXECUTION, "resume", "force", "out"}  # may be given anew
OF_BOTH_STAGES = (
    *EXECUTION,
    "batch_size",
    "seed",
    "model",
    "eval_every",
    "precision",
    "device",
    "threads",
)


@dataclass(frozen=True, repr=False)
class Estimated(Shown, Estimate):
    """Time and memory that a training will need, with the name of its method."""

    method: str

    def tables(self) -> list[Table]:
        """Seconds by what takes them, and memory."""
        total, rounds = self.total_seconds, console.counted(self.rounds, "round", "rounds")
        parts = [
            (name, seconds, f"{100 * seconds / total:.0f} %")
            for name, seconds in self.seconds.items()
        ]
        parts += [("total", total, "100 %"), ("one round", self.seconds_per_round, "")]
        times = [[name, f"{seconds:,.2f}", share] for name, seconds, share in parts]
        sizes = {**self.bytes, "peak": self.peak_bytes, "free": self.free_bytes}
        memory = [[name, f"{size / 1e6:,.1f}" if size else "-"] for name, size in sizes.items()]
        heads = [f"{self.method}, {rounds}", "seconds", "share"]
        return [Table.of("", heads, times), Table.of("", ["memory", "MB"], memory)]

    def words(self) -> list[str]:
        """The time in words."""
        on = f" on {self.processes} processes" if self.processes > 1 else ""
        steps = f"from {self.measured_steps} measured steps"
        return [f"about {span(self.total_seconds)}{on}, {steps}; nothing was written"]


def run(options: TrainOptions, *, typed: bool = False) -> Run:
    """Train a method, and with `then` the stage that follows; without a method, go on with an unfinished run.

    typed: on a command line, where --resume with options that no unfinished run has is refused.
    A dataset is partitioned by default first. Raises FedcliError, UsageError, HashError, Interrupted.
    """
    if options.method is None:
        return _go_on(options)
    tracking.check(options.track)
    settled = resolved(options)  # what cannot be is refused before a dataset is partitioned
    data = for_training(data_for(settled), Path(options.work))
    shared_patients.warn(data)
    settled = resolved(options, data)
    for sentence in idle(settled, settled.rounds):
        console.warn(sentence)
    return _train(settled, data, typed=typed)


def run_estimate(options: TrainOptions) -> Estimated:
    """Measure a few steps: how long the training would take and how much memory it would hold; nothing is written.

    A second stage is not in the numbers, since it starts from the finished run. Raises FedcliError, UsageError.
    """
    settled = resolved(options)
    source = None if options.sites else data_for(settled)
    if source is None or source.name == "sites.json":
        raise UsageError(
            "--dry-run measures steps on images, which are at their sites", "leave --dry-run out"
        )
    with (
        tempfile.TemporaryDirectory() as folder
    ):  # where a dataset is partitioned, which the run itself would do
        data = for_training(source, Path(folder))
        made = measure(data, replace(resolved(options, data), engine=_engine(options)))
        return Estimated(**vars(made), method=settled.method or "")


train = called_with("train", TrainOptions, run)
estimate = called_with("estimate", TrainOptions, run_estimate)


def resolved(options: TrainOptions, data: Path | None = None) -> TrainOptions:
    """The options with all that is left open filled in: by the run it continues, the method, the optimizer, the data.

    Raises FedcliError, UsageError for what cannot be.
    """
    if options.method and not is_file(options.method) and Path(options.method).exists():
        what = f"{options.method} is no method but a path"
        raise UsageError(what, "write the method first: fedcli train METHOD DATA")
    spec = _with_server_optimizer(options)
    method = resolve(spec, dict(options.set))
    given = options
    if isinstance(method.aggregator, ContinuesRun) and (parent := open_parent(options.weights)):
        model = options.model or parent.body["model"]["name"]  # the same network on the same data
        options = replace(options, model=model, data=options.data or data_of(parent.path))
    values = _usual(options, method)
    if data and not given.rounds and "rounds" not in method.default_training:
        values["rounds"] = _fitting_rounds(options, data)
    if data and not options.prior and takes_prior(options, method):
        values["prior"] = _fitting_prior(data)
    values |= {name: value for name in values if (value := getattr(options, name)) is not None}
    if options.augment and pipelines.is_file(str(options.augment)):
        values["augment"] = pipelines.read(Path(options.augment))
    filled = replace(options, **values, method=spec, server_optimizer="none")
    check(filled)
    if engine := _engine(options):
        parsed(engine, options.device)
    if options.then:
        _following(filled, "RUN")
    return filled if options.name is None else replace(filled, name=None, out=_named(options))


def _usual(options: TrainOptions, method: Method) -> dict[str, Any]:
    """Values of open options where nobody says so: the method's own, else the optimizer's, else the usual ones."""
    own = method.default_training
    values = TrainOptions.usual | {
        "optimizer": options.optimizer or own.get("optimizer", "adam"),
        "rounds": ROUNDS,
    }
    values |= zip(("lr", "momentum", "weight_decay"), USUAL[values["optimizer"]], strict=True)
    if options.weights:
        values["lr"] = FINE_TUNING.get(values["optimizer"], values["lr"])
    if options.freeze_backbone:
        values["lr"] = CLASSIFIER.get(values["optimizer"], values["lr"])
    if own.get("optimizer", values["optimizer"]) == values["optimizer"]:
        values |= own
    return values | {"rounds": own.get("rounds", ROUNDS)}


def _fitting_rounds(options: TrainOptions, data: Path) -> int:
    """The usual number, or as many as give the client of median size STEPS local steps, at most MOST_ROUNDS."""
    images = int(
        np.median([client["train"] for client in manifest.read(data, whole=True).body["roster"]])
    )
    steps = options.epochs * -(-images // options.batch_size)
    rounds = min(max(ROUNDS, -(-STEPS // max(steps, 1))), MOST_ROUNDS)
    if rounds > ROUNDS:
        few = console.counted(images, "image", "images")
        console.say(
            f"Training {rounds} rounds, not {ROUNDS}: half of the clients have {few} or fewer."
        )
    return rounds


def _fitting_prior(data: Path) -> str:
    """logit-adjust where the rarest class that has images has under a tenth of those of the commonest, else none."""
    body = manifest.read(data, whole=True).body
    if is_multi_label(body) or not all(
        "class_counts" in client for client in body["roster"]
    ):  # sites keep theirs
        return "none"
    for client in body["roster"]:
        if len(client["class_counts"]) != len(body["classes"]):
            sentence = f"{data}: class_counts of {client['client']} are not of each class"
            raise FedcliError(sentence, manifest.AGAIN)
    counts = np.sum([client["class_counts"] for client in body["roster"]], axis=0)
    images = {
        name: int(count) for name, count in zip(body["classes"], counts, strict=True) if count
    }
    rare, common = min(images, key=images.__getitem__), max(images, key=images.__getitem__)
    if RARE * images[rare] >= images[common]:
        return "none"
    has = console.counted(images[rare], "training image", "training images")
    console.say(
        f"{rare} has {has} and {common} {images[common]:,}: the loss is corrected by --prior logit-adjust; --prior "
        "none leaves it as it is"
    )
    return "logit-adjust"


def _with_server_optimizer(options: TrainOptions) -> str:
    """The method's name, with the server's optimizer as its add-on. Raises UsageError where it has another rule."""
    if options.server_optimizer == "none":
        return options.method or ""
    method, addon = resolve(options.method or ""), SERVER_OPTIMIZERS[options.server_optimizer]
    if not isinstance(method.aggregator, type(METHODS["fedavg"].aggregator)):
        what = f"{method.name} has its own server rule, so --server-optimizer has no place"
        raise UsageError(
            what, "leave it out, or train a method that averages, such as fedprox or moon"
        )
    return addon if method.name == "fedavg" else f"{options.method}+{addon}"


def _named(options: TrainOptions) -> Path:
    """The folder that a name means. Raises UsageError."""
    if not re.fullmatch(r"\w[\w.+-]{0,79}", options.name or ""):
        hint = "letters, digits, and - _ . + after the first, such as --name ablation-3"
        raise UsageError(f"--name {options.name!r} is no name for a folder", hint)
    return Path(options.work) / "runs" / (options.name or "")


def data_for(options: TrainOptions) -> Path:
    """The manifest that a training reads. Raises FedcliError, UsageError."""
    if options.sites:
        reached = remote(options.engine)
        if reached is None or reached[0].gathered is None:
            raise UsageError(*NOT_REACHED)
        return reached[0].gathered([Path(site) for site in options.sites], Path(options.work))
    return source(options.data, options.work, *DATA)


def _engine(options: TrainOptions) -> str | None:
    return named(options.engine, jobs=options.jobs, at_once=options.at_once)


def _told(folder: Path, federation: PlannedFederation, seconds: float) -> None:
    """Write down what the machine can do, which takes no time from the rounds, and say how fast the run was."""
    if not remote(federation.plan.engine) and (line := limits.measure(federation, seconds)):
        with appending(folder / "timing.jsonl") as file:
            append(file, line)
    if took := timing.seconds(folder):
        console.say(f"Trained in {span(took)}.")
    if sentence := timing.speed(folder):
        console.detail(sentence)


def _train(options: TrainOptions, data: Path, *, typed: bool = False) -> Run:
    """Train, and the second stage beside the folder of the first; typed: as of run()."""
    trained = runs.train(
        data, replace(options, engine=_engine(options)), typed=typed, trained=_told
    )
    if place := tracking.training(options.track, trained, Path(options.work)):
        console.say(f"tracked in {place}")
    first = Run(trained)
    if not options.then:
        return first
    console.say(f"{options.method} is done: {first.path}; now {options.then}")
    precision = first.body["model"]["precision"]  # which was measured where the option says auto
    return _train(_following(replace(options, precision=precision), str(first.path)), data)


def _following(first: TrainOptions, weights: str) -> TrainOptions:
    """The stage that continues a finished run: its own usual training on the same network and seed, beside its folder.

    Raises UsageError where it could not.
    """
    then, out = first.then or "", path_of(first.out)
    stages = [name for name, known in METHODS.items() if isinstance(known.aggregator, ContinuesRun)]
    if then not in stages:
        raise UsageError(
            f"--then {then!r} does not continue a run", f"give --then {' or '.join(stages)}"
        )
    beside = out and out.resolve().with_name(f"{out.resolve().name}-{then}")
    kept = {name: getattr(first, name) for name in OF_BOTH_STAGES}
    return resolved(
        TrainOptions(then, first.data, **kept, weights=weights, out=beside, resume=True)
    )


def _go_on(options: TrainOptions) -> Run:
    if not options.resume:
        raise UsageError(
            "which method?", "write for example fedcli train fedavg; `fedcli methods` lists all"
        )
    if ignored := [option.typed for option in options.changed() if option.name not in WITH_RESUME]:
        raise UsageError(
            f"--{ignored[0]} beside a bare --resume would be ignored",
            "a run goes on as it was begun: leave it out",
        )
    folder = unfinished(Path(options.work), path_of(options.out))
    console.say(f"resuming {folder}")
    begun = settings.begun(folder)
    again = {name: getattr(options, name) for name in WITH_RESUME}
    return _train(replace(begun, **again | {"out": folder}), Path(begun.data or ""))
