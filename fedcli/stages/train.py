"""The train stage: options are resolved, checked and run; a second stage, and an unfinished run
that goes on.
"""

import re
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import console, leaves
from ..bench.estimate import Estimate, span
from ..bench.estimate import estimate as measure
from ..data import manifest, pipelines, shared_patients
from ..errors import UsageError
from ..extensions import is_file
from ..federation.engines import named, parsed, remote
from ..federation.training import CLASSIFIER, FINE_TUNING, USUAL, idle
from ..io.files import appending
from ..labels import is_multi_label
from ..methods import METHODS, resolve
from ..methods.mixins import ContinuesRun, StartsFromRun
from ..methods.priors import OF_ALL
from ..methods.registry import Method
from ..options import path_of
from ..reporting import timing
from ..reporting.table import ReportTable
from ..runs import settings
from ..runs import train as runs
from ..runs.assembly import PlannedFederation
from ..runs.chosen_engine import NOT_REACHED
from ..runs.folder import append, unfinished
from ..runs.initial import data_of, open_parent
from ..runs.rules import check, class_counts_are_known, takes_prior
from ..runs.train_options import ROUNDS, TrainOptions
from .call import called_with, source
from .partition import for_training
from .results import Run
from .shown import Shown

MOST_ROUNDS = 50  # by default
STEPS = 100  # local steps of the median client that the default rounds give
# times as many images as the rarest class has: from there on the loss is corrected for class counts
RARE = 10
NOT_CORRECTED = (
    "The sites keep their class counts, so the loss is not corrected for rare classes: --prior "
    "logit-adjust corrects it at each site, and --sampling class draws classes equally often"
)
DATA = "corruption", "partition", "sites", "dataset"


@dataclass(frozen=True, repr=False)
class Estimated(Shown, Estimate):
    """Time and memory that a training will need, with the name of its method."""

    method: str

    def tables(self) -> list[ReportTable]:
        """Seconds by what takes them, and memory."""
        total = self.total_seconds
        parts = {**self.seconds, "total": total}.items()
        times = [[name, f"{part:,.2f}", f"{100 * part / total:.0f} %"] for name, part in parts]
        times.append(["one round", f"{self.seconds_per_round:,.2f}", ""])
        sizes = {**self.bytes, "peak": self.peak_bytes, "free": self.free_bytes}
        memory = [[name, f"{size / 1e6:,.1f}" if size else "-"] for name, size in sizes.items()]
        rounds = console.counted(self.rounds, "round", "rounds")
        columns = [f"{self.method}, {rounds}", "seconds", "share"]
        return [ReportTable.of("", columns, times), ReportTable.of("", ["memory", "MB"], memory)]

    def words(self) -> list[str]:
        """The time in words."""
        processes = f" on {self.processes} processes" if self.processes > 1 else ""
        steps = f"from {self.measured_steps} measured steps"
        return [f"about {span(self.total_seconds)}{processes}, {steps}; nothing was written"]


def run(options: TrainOptions, *, typed: bool = False) -> Run:
    """Train a method, and with `then` the stage that follows; without a method, go on with an
    unfinished run.

    typed: on a command line, where --resume with options that no unfinished run has is refused. A
    dataset is partitioned by default first. Raises FedcliError, UsageError, HashError, Interrupted.
    """
    if options.method is None:
        return _go_on(options)
    if options.track is not None:
        leaves.require("fedcli.reporting.tracking", "--track")
        from ..reporting import tracking

        tracking.check(options.track)
    plan = resolved(options)  # what cannot be is refused before a dataset is partitioned
    data = for_training(data_for(plan), Path(options.work))
    shared_patients.warn(data)
    plan = _fitted(plan, options, data)
    for sentence in idle(plan, plan.rounds):
        console.warn(sentence)
    return _train(plan, data, typed=typed)


def run_estimate(options: TrainOptions) -> Estimated:
    """Measure a few steps: how long the training would take and how much memory it would hold;
    nothing is written.

    A second stage is not in the numbers, since it starts from the finished run. Raises FedcliError,
    UsageError.
    """
    plan = resolved(options)
    images = None if options.sites else data_for(plan)
    if images is None or images.name == "sites.json":
        sentence = "--dry-run measures steps on images, which are at their sites"
        raise UsageError(sentence, "leave --dry-run out")
    # a dataset is partitioned in a folder that goes, as the run itself would do it in its own
    with tempfile.TemporaryDirectory() as folder:
        data = for_training(images, Path(folder))
        plan = replace(_fitted(plan, options, data), engine=_engine(options))
        return Estimated(**vars(measure(data, plan)), method=plan.method or "")


train = called_with("train", TrainOptions, run)
estimate = called_with("estimate", TrainOptions, run_estimate)


def resolved(options: TrainOptions, data: Path | None = None) -> TrainOptions:
    """The options with all that is left open filled in: by the run it continues, the method, the
    optimizer, the data.

    Raises FedcliError, UsageError for what cannot be.
    """
    name = options.method or ""
    if name and not is_file(name) and Path(name).exists():
        hint = "write the method first: fedcli train METHOD DATA"
        raise UsageError(f"{name} is no method but a path", hint)
    method = resolve(name, dict(options.set))
    plan = _continuing(options, method)
    values = plan.filled(_usual(options, method))
    if options.augment and pipelines.is_file(str(options.augment)):
        values["augment"] = pipelines.read(Path(options.augment))
    plan = replace(plan, **values)
    check(plan)
    engine = _engine(options)
    if engine:
        parsed(engine, options.device)
    if options.then:
        _following(plan, "RUN")
    if options.name is not None:
        plan = replace(plan, name=None, out=_folder_of(options, options.name))
    return _fitted(plan, options, data) if data else plan


def _continuing(options: TrainOptions, method: Method) -> TrainOptions:
    """The options; with the network and the data of the run that the method continues."""
    if not isinstance(method.aggregator, StartsFromRun):
        return options
    parent = open_parent(options.weights)
    if parent is None:
        return options
    model = options.model or parent.body["model"]["name"]
    data = options.data
    if data is None and not options.sites:
        data = data_of(parent.path)
    return replace(options, model=model, data=data)


def _usual(options: TrainOptions, method: Method) -> dict[str, Any]:
    """Values of open options where nobody says so: the method's own, else the optimizer's, else the
    usual ones.
    """
    of_method = method.default_training
    optimizer = options.optimizer or of_method.get("optimizer", "adam")
    lr, momentum, weight_decay = USUAL[optimizer]
    if options.weights:
        lr = FINE_TUNING.get(optimizer, lr)
    if options.freeze_backbone:
        lr = CLASSIFIER.get(optimizer, lr)
    values = TrainOptions.usual | {
        "optimizer": optimizer,
        "lr": lr,
        "momentum": momentum,
        "weight_decay": weight_decay,
    }
    if of_method.get("optimizer", optimizer) == optimizer:
        values |= of_method
    values["rounds"] = of_method.get("rounds", ROUNDS)
    return values


def _fitted(
    plan: TrainOptions,
    options: TrainOptions,
    data: Path,
) -> TrainOptions:
    """The plan with the rounds and the prior that suit the data, where options leave them open."""
    method = resolve(plan.method or "", dict(plan.set))
    if not options.rounds and "rounds" not in method.default_training:
        plan = replace(plan, rounds=_fitting_rounds(options, data))
    if not options.prior and takes_prior(options, method):
        linear = options.freeze_backbone and not options.single_site
        plan = replace(plan, prior=_fitting_prior(data, OF_ALL if linear else "logit-adjust"))
    return plan


def _fitting_rounds(options: TrainOptions, data: Path) -> int:
    """The usual number, or as many as give the client of median size STEPS local steps, at most
    MOST_ROUNDS.
    """
    roster = manifest.read(data, whole=True).body["roster"]
    images = int(np.median([client["train"] for client in roster]))
    steps = options.epochs * -(-images // options.batch_size)
    rounds = min(max(ROUNDS, -(-STEPS // max(steps, 1))), MOST_ROUNDS)
    if rounds > ROUNDS:
        few = console.counted(images, "image", "images")
        console.say(
            f"Training {rounds} rounds, not {ROUNDS}: half of the clients have {few} or fewer."
        )
    return rounds


def _fitting_prior(data: Path, correction: str) -> str:
    """The correction where the rarest class that has images has under a tenth of those of the
    commonest, else none.
    """
    body = manifest.read(data, whole=True).body
    roster = body["roster"]
    if is_multi_label(body):
        return "none"
    if not class_counts_are_known(body):
        console.say(NOT_CORRECTED)
        return "none"
    counts = np.sum([client["class_counts"] for client in roster], axis=0)
    counts_by_class = zip(body["classes"], counts.tolist(), strict=True)
    images: dict[str, int] = {name: count for name, count in counts_by_class if count}
    rare = min(images, key=images.__getitem__)
    common = max(images, key=images.__getitem__)
    if RARE * images[rare] >= images[common]:
        return "none"
    counted = console.counted(images[rare], "training image", "training images")
    console.say(
        f"{rare} has {counted} and {common} {images[common]:,}: the loss is corrected by --prior "
        f"{correction}; --prior none leaves it as it is"
    )
    return correction


def _folder_of(options: TrainOptions, name: str) -> Path:
    """The folder that a name means. Raises UsageError."""
    if not re.fullmatch(r"\w[\w.+-]{0,79}", name):
        hint = "letters, digits, and - _ . + after the first, such as --name ablation-3"
        raise UsageError(f"--name {name!r} is no name for a folder", hint)
    return Path(options.work) / "runs" / name


def data_for(options: TrainOptions) -> Path:
    """The manifest that a training reads. Raises FedcliError, UsageError."""
    if not options.sites:
        return source(options.data, options.work, *DATA)
    sites = remote(options.engine)
    if sites is None or sites[0].gathered is None:
        raise UsageError(*NOT_REACHED)
    return sites[0].gathered([Path(site) for site in options.sites], Path(options.work))


def _engine(options: TrainOptions) -> str | None:
    return named(options.engine, options.jobs, options.device)


def _say_speed(
    folder: Path,
    federation: PlannedFederation,
    seconds: float,
) -> None:
    """Write down what the machine can do, which takes no time from the rounds, and say how fast the
    run was.
    """
    if not remote(federation.plan.engine) and leaves.is_installed("fedcli.bench.limits"):
        from ..bench import limits

        line = limits.measure(federation, seconds)
        if line:
            with appending(folder / "timing.jsonl") as file:
                append(file, line)
    seconds_of_run = timing.seconds(folder)
    if seconds_of_run:
        console.say(f"Trained in {span(seconds_of_run)}.")
    speed = timing.speed(folder)
    if speed:
        console.detail(speed)


def _train(options: TrainOptions, data: Path, *, typed: bool = False) -> Run:
    """Train, and the second stage beside the folder of the first; typed: as of run()."""
    plan = replace(options, engine=_engine(options))
    run = Run(runs.train(data, plan, typed=typed, trained=_say_speed))
    if options.track is not None:
        from ..reporting import tracking

        tracked_in = tracking.training(
            options.track,
            run.path,
            Path(options.work),
        )
        console.say(f"tracked in {tracked_in}")
    if not options.then:
        return run
    console.say(f"{options.method} is done: {run.path}; now {options.then}")
    precision = run.body["model"]["precision"]  # which was measured where the option says auto
    return _train(_following(replace(options, precision=precision), str(run.path)), data)


def _following(options: TrainOptions, weights: str) -> TrainOptions:
    """The stage that continues a finished run: its own usual training on the same network and seed,
    beside its folder.

    options: of the finished run. Raises UsageError where it could not.
    """
    then = options.then or ""
    stages = [
        name for name, method in METHODS.items() if isinstance(method.aggregator, ContinuesRun)
    ]
    if then not in stages:
        hint = f"give --then {' or '.join(stages)}"
        raise UsageError(f"--then {then!r} does not continue a run", hint)
    common = options.of_mark("second")
    out = path_of(options.out)
    if out:
        folder = out.resolve()
        out = folder.with_name(f"{folder.name}-{then}")
    return resolved(
        TrainOptions(then, options.data, **common, weights=weights, out=out, resume=True)
    )


def _go_on(options: TrainOptions) -> Run:
    """Go on with an unfinished run as it was begun. Raises FedcliError, UsageError."""
    if not options.resume:
        hint = "write for example fedcli train fedavg; `fedcli methods` lists all"
        raise UsageError("which method?", hint)
    for option in options.changed():
        if "again" not in option.flag.marks:
            sentence = f"--{option.typed} would be ignored by a bare --resume"
            raise UsageError(sentence, "a run continues with its own options: leave it out")
    folder = unfinished(Path(options.work), path_of(options.out))
    console.say(f"resuming {folder}")
    begun = settings.begun(folder)
    values = options.of_mark("again") | {"out": folder}
    return _train(replace(begun, **values), Path(begun.data or ""))
