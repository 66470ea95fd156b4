"""What run.json says of a run: the command behind it, its options, where it ran and what it made."""

import json
import math
import platform
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from ..data import manifest
from ..federation import dp_sgd
from ..federation.privacy import epsilon
from ..federation.state import Best
from ..federation.training import LOSS_OPTIONS, OPTIONAL, Training
from ..methods.mixins import ContinuesRun
from ..methods.registry import Method
from ..metrics import Task
from ..models import outside
from ..models.weights import PUBLISHED
from . import own_code, resources
from .assembly import PlannedFederation
from .configuration import Plan
from .initial import ParentRun

CORRUPTION = "kind", "severity", "ratio", "clients", "each"
WORDS = {"label_smoothing": "label smoothing", "class_weights": "class weights", "loss": "loss"}  # in a label
FLAGS = {"freeze": "freeze-backbone"}  # options whose flag has another name


def command(options: dict[str, Any]) -> list[str]:
    """The command that makes this run, without locations; every option is spelt out."""
    words = ["train", own_code.typed(options["method"], options.get("code", {}))]
    for key, value in sorted(options.items()):
        if key in ("method", "settings", "rule", "weights", "teacher", "code") or value in (None, False):
            continue
        words += [f"--{FLAGS.get(key, key).replace('_', '-')}"] + ([] if value is True else [str(value)])
    return words + [word for key, value in options["settings"].items() for word in ("--set", f"{key}={value}")]


def options(plan: Plan, method: Method, parent_run: ParentRun | None) -> dict[str, Any]:
    """Every option that decides the bytes of a run, files by their hash."""
    flat = {**asdict(plan), **asdict(plan.training)}
    changed = plan.training.changed(OPTIONAL)
    flat = {name: value for name, value in flat.items() if name not in OPTIONAL or name in changed}
    flat.pop("training")
    if not plan.patience:  # so that a run without it is the same as one of a version that had none
        flat.pop("patience")
    flat.update(method=method.name, settings=plan.acting(method), rule=method.rule)
    weights = str(parent_run.model) if parent_run else plan.weights
    for name, path in (("weights", weights), ("teacher", plan.teacher)):
        if path and path not in PUBLISHED:
            flat[name] = manifest.sha256(Path(path)) if Path(path).is_file() else path
    flat["model"] = outside.titled(plan.model)
    if code := own_code.recorded(method, plan.model):
        flat["code"] = code
    return flat


def environment(device: str) -> dict[str, Any]:
    """Where a run is trained: equal bits are promised where all of this is the same.

    instruction_set: of the processor, as far as torch uses it.
    """
    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else platform.machine()
    return {
        "device": device.partition(":")[0],
        "device_name": name,
        "threads": torch.get_num_threads(),
        "processor": resources.processor(),
        "instruction_set": torch.backends.cpu.get_cpu_capability(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        **{package: version(package) for package in ("torchvision", "numpy")},
    }


def body(
    federation: PlannedFederation, rounds: Path, *, best: Best | None, personal: bool, warning: str
) -> dict[str, Any]:
    """The body of run.json.

    rounds: the file rounds.jsonl.
    personal: whether clients have models of their own.
    warning: one that only the played rounds could give.
    """
    plan, method, parent_run = federation.plan, federation.method, federation.parent_run
    followed = _followed(federation)
    about = federation.data.body
    metric = Task.of_body(about).curves[0]
    warning = "; ".join(filter(None, [federation.warning, warning]))
    return {
        "method": method.name, "label": _label(federation), "rule": method.rule, "settings": method.settings,
        "rounds": plan.rounds, **_stopped(plan, rounds), "roster": federation.data.roster, "dataset": about["dataset"],
        "model": {**federation.model, "personal_models": personal},
        **({"needs_code": needs} if (needs := own_code.needed(method, plan.model)) else {}),
        "corruption": {k: about[k] for k in CORRUPTION if k in about} if federation.data.corrupted else None,
        "numbers_sent": 0 if plan.single_site else federation.layout.size, "single_site": plan.single_site,
        **_traffic(rounds), "start": parent_run and parent_run.about,
        "warning": warning or (followed.body.get("warning", "") if followed else ""),
        **({"privacy": privacy} if (privacy := _privacy(federation)) else {}),
        **({"best": {"round": best.round, "metric": metric, "score": best.score}} if best else {}),
    }  # fmt: skip


def titled(federation: PlannedFederation, label: str) -> str:
    """A label that says so where the data are of a synthetic sample."""
    return label + ", SYNTHETIC data" * bool(federation.data.body.get("sample"))


def _privacy(federation: PlannedFederation) -> dict[str, Any]:
    """What the run reveals of a client, or of an image, that takes part in every round; {} without noise.

    An epsilon that is infinite is None.
    """
    asked, rounds = federation.plan.training, federation.plan.rounds
    if not (asked.dp_noise or asked.dp_sgd):
        return {}
    if asked.dp_noise:
        spent = epsilon(asked.dp_noise, rounds, asked.dp_delta)
        return _spent(asked, asked.dp_noise, spent)
    each = {
        client: dp_sgd.epsilon(
            asked.dp_sgd, dp_sgd.rate(count, asked.batch_size),
            rounds * asked.epochs * dp_sgd.steps_of_epoch(count, asked.batch_size), asked.dp_delta,
        )
        for client, count in federation.counts.items()
    }  # fmt: skip
    about = {"of": "image", "sampling": "Poisson", "clients": {c: _finite(value) for c, value in each.items()}}
    return {**_spent(asked, asked.dp_sgd, max(each.values())), **about}


def _spent(asked: Training, noise: float, spent: float) -> dict[str, Any]:
    return {"clip": asked.dp_clip, "noise": noise, "epsilon": _finite(spent), "delta": asked.dp_delta}


def _finite(value: float) -> float | None:
    return value if value < math.inf else None


def _label(federation: PlannedFederation) -> str:
    plan, label = federation.plan, federation.method.label
    if followed := _followed(federation):
        label = f"{followed.body['label'].removesuffix(titled(federation, ''))} + {label}"
    label += ", single-site" * plan.single_site
    if plan.training.prior != "none":
        label += f", prior {plan.training.prior}"
    if privacy := _privacy(federation):
        spent = "infinite" if privacy["epsilon"] is None else f"{privacy['epsilon']:.3g}"
        label += f", epsilon {spent} and delta {privacy['delta']:g} per {privacy.get('of', 'client')}"
    if plan.training.sampling != "shuffle":
        label += f", sampling {plan.training.sampling}"
    label += "".join(f", {getattr(plan.training, name)} {WORDS[name]}" for name in plan.training.changed(LOSS_OPTIONS))
    return titled(federation, label + ", frozen backbone" * plan.freeze)


def _followed(federation: PlannedFederation) -> ParentRun | None:
    """The run that this one is the second stage of."""
    return federation.parent_run if isinstance(federation.method.aggregator, ContinuesRun) else None


def _stopped(plan: Plan, rounds: Path) -> dict[str, int]:
    """The round after which --patience ended the training, where it did."""
    played = len(rounds.read_text(encoding="utf-8").splitlines())
    return {"stopped_after": played} if played < plan.rounds else {}


def _traffic(rounds: Path) -> dict[str, float]:
    """Bytes to and from a client, mean over the rounds."""
    lines = [json.loads(line) for line in rounds.read_text(encoding="utf-8").splitlines()]
    return {way: sum(line[way] for line in lines) / len(lines) for way in ("bytes_down", "bytes_up")}
