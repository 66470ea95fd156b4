"""The train stage: what the options leave open, what may go together, a second stage, and a resumed run."""

import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import console
from ..bench import limits
from ..bench.estimate import Estimate
from ..bench.estimate import estimate as measure
from ..data import manifest, pipelines
from ..errors import UsageError
from ..extensions import is_file
from ..federation.engines import named, parsed, remote
from ..federation.training import Training, idle
from ..federation.training import usual as usual_of
from ..methods import METHODS, resolve
from ..methods.mixins import ContinuesRun
from ..methods.registry import Method
from ..reporting import timing, tracking
from ..runs import train as runs
from ..runs.chosen_engine import NOT_REACHED
from ..runs.configuration import Execution, Plan
from ..runs.folder import unfinished
from ..runs.initial import data_of, open_parent
from .call import called_with, path_of, source
from .options import TrainOptions
from .partition import for_training
from .results import Run

ROUNDS, MOST_ROUNDS, STEPS = 20, 50, 100  # by default; local steps of the median client
DATA = "corruption", "partition", "sites", "dataset"
SERVER_OPTIMIZERS = {"momentum": "fedavgm", "adam": "fedadam", "yogi": "fedyogi", "adagrad": "fedadagrad"}
WITH_RESUME = {  # may be given anew
    "engine", "at_once", "jobs", "timeout", "min_clients", "resume", "force", "work", "out", "checkpoint_every",
    "track",
}  # fmt: skip


def run(options: TrainOptions) -> Run:
    """Train a method, and with `then` the stage that follows; without a method, go on with an unfinished run.

    A dataset is partitioned by default first. Raises FedcliError, UsageError, HashError, Interrupted.
    """
    if options.method is None:
        return _go_on(options)
    tracking.check(options.track)
    options = settled(_placed(options))
    plan(options)  # what cannot be is refused before a dataset is partitioned
    data = for_training(_data(options), Path(options.work))
    configuration = plan(fitted(options, data))
    for sentence in idle(configuration.training, configuration.rounds):
        console.warn(sentence)
    made = _train(data, configuration, options, then=options.then)
    return _follow(made, data, configuration, options) if options.then else made


def run_estimate(options: TrainOptions) -> Estimate:
    """Measure a few steps: how long the training would take and how much memory it would hold; nothing is written.

    A second stage is not in the numbers, since it starts from the finished run. Raises FedcliError, UsageError.
    """
    options = settled(options)
    plan(options)
    source = None if options.sites else _data(options)
    if source is None or source.name == "sites.json":
        raise UsageError("--dry-run measures steps on images, which are at their sites", "leave --dry-run out")
    with tempfile.TemporaryDirectory() as folder:  # where a dataset is partitioned, which the run itself would do
        data = for_training(source, Path(folder))
        return measure(data, plan(fitted(options, data)), _execution(options))


train = called_with("train", TrainOptions, run)
estimate = called_with("estimate", TrainOptions, run_estimate)


def settled(options: TrainOptions) -> TrainOptions:
    """The options with what a run that is continued decides: the same network on the same data. Raises FedcliError."""
    if options.weights is None or not isinstance(_method(options).aggregator, ContinuesRun):
        return options
    parent_run = open_parent(str(options.weights))
    if parent_run is None:
        return options
    model = options.model or parent_run.body["model"]["name"]
    return replace(options, model=model, data=options.data or data_of(parent_run.path))


def fitted(options: TrainOptions, data: Path) -> TrainOptions:
    """The options with a number of rounds that fits the data, where none is given and the method has none of its own.

    The usual number, or as many as give the client of median size STEPS local steps, at most MOST_ROUNDS.
    """
    if options.rounds or "rounds" in _method(options).default_training:
        return options
    roster = manifest.read(data).body["roster"]
    images = int(np.median([client["train"] for client in roster]))
    steps = options.epochs * -(-images // options.batch_size)
    rounds = min(max(ROUNDS, -(-STEPS // max(steps, 1))), MOST_ROUNDS)
    if rounds > ROUNDS:
        each = console.counted(steps, "local step", "local steps")
        sizes = f"the client of median size has {console.counted(images, 'image', 'images')}, {each} a round"
        console.say(f"{rounds} rounds instead of the usual {ROUNDS}: {sizes}")
    return replace(options, rounds=rounds)


def plan(options: TrainOptions) -> Plan:
    """What to train, with all that is left open filled in by the method and the optimizer. Raises UsageError."""
    method = _method(options)
    usual = method.default_training
    optimizer = options.optimizer or usual.get("optimizer", "adam")
    _check(options)
    training = Training(
        optimizer=optimizer, epochs=options.epochs, batch_size=options.batch_size, prior=options.prior, bn=options.bn,
        personal=options.personal, warmup=options.warmup, nesterov=options.nesterov, clip_norm=options.clip_norm,
        keep_optimizer=options.keep_optimizer, label_smoothing=options.label_smoothing,
        class_weights=options.class_weights, loss=options.loss, sampling=options.sampling, dp_noise=options.dp_noise,
        dp_clip=options.dp_clip, dp_delta=options.dp_delta, dp_sgd=options.dp_sgd,
        **_completed(options, usual, optimizer),
    )  # fmt: skip
    made = Plan(
        method=_spec(options), settings=_settings(options), training=training, seed=options.seed,
        rounds=options.rounds or usual.get("rounds", ROUNDS), participation=options.participation,
        model=options.model or "cnn", weights=_text(options.weights), teacher=_text(options.teacher),
        freeze=options.freeze_backbone, augment=_augmentation(options), precision=options.precision,
        eval_every=options.eval_every, single_site=options.single_site, patience=options.patience,
    )  # fmt: skip
    made.check()
    if options.then:
        _check_second(options, made, method)
    return made


def _augmentation(options: TrainOptions) -> str | None:
    """A built-in kind by its name, or the pipeline that a file holds."""
    kind = _text(options.augment)
    return pipelines.read(Path(kind)) if kind and pipelines.is_file(kind) else kind


def _train(data: Path, configuration: Plan, options: TrainOptions, *, then: str | None = None) -> Run:
    made = runs.train(
        data, configuration, work=Path(options.work), out=path_of(options.out),
        execution=replace(_execution(options), trained=_say_speed), resume=options.resume, force=options.force,
        then=then,
    )  # fmt: skip
    if place := tracking.training(options.track, made, Path(options.work)):
        console.say(f"tracked in {place}")
    return Run(made)


def _say_speed(folder: Path) -> None:
    if sentence := timing.speed(folder):
        console.say(sentence)


def _placed(options: TrainOptions) -> TrainOptions:
    """The options with the folder that a name means. Raises UsageError."""
    if options.name is None:
        return options
    if options.out is not None:
        raise UsageError("--name and --out exclude each other", "give one of them")
    if not re.fullmatch(r"\w[\w.+-]{0,79}", options.name):
        hint = "letters, digits, and - _ . + after the first, such as --name ablation-3"
        raise UsageError(f"--name {options.name!r} is no name for a folder", hint)
    return replace(options, out=Path(options.work) / "runs" / options.name)


def _data(options: TrainOptions) -> Path:
    if options.single_site and options.data and not Path(options.data).exists():
        hint = "--single-site takes no client: each one trains by itself; leave the word out, or give a partition"
        raise UsageError(f"no such manifest: {options.data}", hint)
    if options.sites and (options.dp_noise or options.dp_sgd):
        flag = "--dp-noise" if options.dp_noise else "--dp-sgd"
        raise UsageError(f"{flag} simulates noise, whose seed the server knows", "a site's policy.toml adds its own")
    if options.sites:
        if options.data:
            raise UsageError("DATA and --sites exclude each other", "give the descriptions alone: images stay there")
        reached = remote(options.engine)
        if reached is None or reached[0].gathered is None:
            raise UsageError(*NOT_REACHED)
        return reached[0].gathered([Path(site) for site in options.sites], Path(options.work))
    return source(options.data, options.work, *DATA)


def _execution(options: TrainOptions) -> Execution:
    engine = named(options.engine, jobs=options.jobs, at_once=options.at_once)
    return Execution(
        options.device, options.threads, engine, options.checkpoint_every, options.timeout, options.min_clients,
        limits=limits.measure,
    )  # fmt: skip


def _follow(first: Run, data: Path, configuration: Plan, options: TrainOptions) -> Run:
    """The second stage of a finished run, beside its folder."""
    then, out = options.then or "", path_of(options.out)
    console.say(f"{configuration.method} is done: {first.path}; now {then}")
    second = _second(configuration, then, str(first.path), precision=first.body["model"]["precision"])
    beside = out and out.resolve().with_name(f"{out.resolve().name}-{then}")
    return _train(data, second, replace(options, out=beside, resume=True, force=False))


def _go_on(options: TrainOptions) -> Run:
    """An unfinished run, as it was begun: the newest one, or the one in out."""
    if not options.resume:
        raise UsageError("which method?", "write for example fedcli train fedavg; `fedcli methods` lists all")
    if ignored := [field.typed for field in options.changed() if field.name not in WITH_RESUME]:
        raise UsageError(
            f"--{ignored[0]} beside a bare --resume would be ignored", "a run goes on as it was begun: leave it out"
        )
    folder = unfinished(Path(options.work), path_of(options.out))
    console.say(f"resuming {folder}")
    configuration, data, begun = runs.plan_of(folder)
    options = replace(options, device=begun["device"], threads=begun["threads"], then=begun["then"])
    made = _train(data, configuration, replace(options, out=folder), then=options.then)
    return _follow(made, data, configuration, options) if options.then else made


def _method(options: TrainOptions) -> Method:
    if options.method and not is_file(options.method) and Path(options.method).exists():
        raise UsageError(
            f"{options.method} is no method but a path", "write the method first: fedcli train METHOD DATA"
        )
    return resolve(_spec(options), _settings(options))


def _spec(options: TrainOptions) -> str:
    """The method's name, with the server's optimizer as its add-on. Raises UsageError where it has another rule."""
    if options.server_optimizer == "none":
        return options.method or ""
    method, addon = resolve(options.method or ""), SERVER_OPTIMIZERS[options.server_optimizer]
    if not isinstance(method.aggregator, type(METHODS["fedavg"].aggregator)):
        what = f"{method.name} has its own server rule, so --server-optimizer has no place"
        raise UsageError(what, "leave it out, or train a method that averages, such as fedprox or moon")
    return addon if method.name == "fedavg" else f"{options.method}+{addon}"


def _settings(options: TrainOptions) -> dict[str, Any]:
    return dict(options.set)


def _text(path: Any) -> str | None:
    return None if path is None else str(path)


def _completed(options: TrainOptions, usual: dict[str, Any], optimizer: str) -> dict[str, Any]:
    """Training options with what is left open filled in: the method's usual values, else the optimizer's."""
    names = "lr", "momentum", "weight_decay", "schedule"
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    return _defaults(usual, optimizer) | given


def _defaults(usual: dict[str, Any], optimizer: str) -> dict[str, Any]:
    known: dict[str, Any] = dict(zip(("lr", "momentum", "weight_decay"), usual_of(optimizer), strict=True))
    known["schedule"] = "constant"
    if usual.get("optimizer", optimizer) == optimizer:
        known |= {name: usual[name] for name in known if name in usual}
    return known


def _check(options: TrainOptions) -> None:
    """Refuse an engine that is unknown, or not for this device, and what is a GPU's alone. Raises UsageError."""
    if options.precision == "tf32" and options.device == "cpu":
        raise UsageError("--precision tf32 is a mode of NVIDIA's GPUs", "add --device cuda, or leave it out")
    if engine := _execution(options).engine:
        parsed(engine, options.device)


def _check_second(options: TrainOptions, first: Plan, method: Method) -> None:
    """Refuse a second stage that could not start from this training. Raises UsageError."""
    then = options.then or ""
    if options.single_site:
        raise UsageError(f"--then {then} needs one model of all clients", "leave --then or --single-site out")
    if flag := options.dp_noise and "--dp-noise" or options.dp_sgd and "--dp-sgd":
        raise UsageError(
            f"--then {then} adds no noise, so the epsilon of {flag} would not hold", "leave one of them out"
        )
    _second(first, then, "RUN").check()
    if options.freeze_backbone or isinstance(method.aggregator, ContinuesRun) or method.local.freezes:
        what = "--freeze-backbone" if options.freeze_backbone else method.name
        raise UsageError(f"--then {then} needs a backbone that {what} does not train", "leave one of them out")


def _second(first: Plan, then: str, weights: str, precision: str | None = None) -> Plan:
    """The plan of a stage that continues a finished run: its own usual training on the same network and seed.

    precision: the finished run's, which was measured where the plan says auto.
    """
    stages = [name for name, known in METHODS.items() if isinstance(known.aggregator, ContinuesRun)]
    if then not in stages:
        raise UsageError(f"--then {then!r} does not continue a run", f"give --then {' or '.join(stages)}")
    method = resolve(then)
    optimizer = method.default_training["optimizer"]
    training = Training(
        optimizer=optimizer, batch_size=first.training.batch_size, **_defaults(method.default_training, optimizer)
    )
    return replace(
        first, method=method.name, settings={}, training=training, rounds=method.default_training["rounds"],
        weights=weights, teacher=None, freeze=False, augment=None, participation=1.0,
        precision=precision or first.precision, patience=0,
    )  # fmt: skip
