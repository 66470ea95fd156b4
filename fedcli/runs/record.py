"""The content of run.json: the command behind it, its options, where it ran and what it made."""

import json
import math
import platform
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import options as options_of
from ..data import manifest
from ..federation import dp_sgd
from ..federation.privacy import epsilon
from ..federation.server import Played
from ..federation.state import Best
from ..methods.mixins import ContinuesRun, Histograms, LearnsFromTeacher
from ..methods.registry import Method
from ..metrics import Task
from ..models import outside
from ..models.weights import PUBLISHED
from ..options import OWN
from . import own_code, resources, rules
from .assembly import PlannedFederation
from .initial import ParentRun
from .train_options import TrainOptions

BINNED = 10, 100  # rounds, beside the last, whose line has the histograms of the rule's state
STARTING = "the starting weights"  # recorded as the teacher where none is given
CORRUPTION = "kind", "severity", "ratio", "clients", "each"


def command(options: dict[str, Any]) -> list[str]:
    """The command that makes this run, without locations; what a default of its method or optimizer decides is spelt
    out."""
    asked = replace(read(options), method=own_code.typed(options["method"], options.get("code", {})))
    return asked.made_by([*TrainOptions.usual, "seed"])


def read(options: dict[str, Any], **files: str | None) -> TrainOptions:
    """The options that a run recorded; files: the weights and the teacher, of which hashes are recorded."""
    known = options_of.describe(TrainOptions)
    usual = {k: TrainOptions.usual.get(k, known[k].default) for k, v in options.items() if v in (OWN, STARTING)}
    return TrainOptions.of({**{k: v for k, v in options.items() if k not in ("rule", "code")}, **usual, **files})


def options(plan: TrainOptions, method: Method, parent_run: ParentRun | None) -> dict[str, Any]:
    """Every option that decides the bytes of a run, files by their hash."""
    recorded = plan.decided() | {"method": method.name, "settings": rules.acting(plan, method), "rule": method.rule}
    own = [name for name in rules.replaced(method) if name not in [option.name for option in plan.changed("bn")]]
    recorded |= dict.fromkeys(own, OWN)
    weights = str(parent_run.model) if parent_run else plan.weights
    for name, path in (("weights", weights), ("teacher", plan.teacher)):
        if path and path not in PUBLISHED:
            recorded[name] = manifest.sha256(Path(path)) if Path(path).is_file() else path
    if isinstance(method.local, LearnsFromTeacher) and not plan.teacher:
        recorded["teacher"] = STARTING
    recorded["model"] = outside.titled(plan.model)
    if code := own_code.recorded(method, plan.model):
        recorded["code"] = code
    return recorded


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

    rounds: the file rounds.jsonl, by whose lines the bytes to and from a client are a mean.
    personal: whether clients have models of their own.
    warning: one that only the played rounds could give.
    """
    plan, method, parent_run = federation.plan, federation.method, federation.parent_run
    lines = [json.loads(line) for line in rounds.read_text(encoding="utf-8").splitlines()]
    stopped = {"stopped_after": len(lines)} if len(lines) < plan.rounds else {}  # by --patience
    traffic = {way: sum(line[way] for line in lines) / len(lines) for way in ("bytes_down", "bytes_up")}
    followed = _followed(federation)
    about = federation.data.body
    metric = Task.of_body(about).curves[0]
    warning = "; ".join(filter(None, [federation.warning, warning]))
    return {
        "method": method.name, "label": _label(federation), "rule": method.rule, "settings": method.settings,
        "rounds": plan.rounds, **stopped, "roster": federation.data.roster, "dataset": about["dataset"],
        "model": {**federation.model, "personal_models": personal},
        **({"needs_code": needs} if (needs := own_code.needed(method, plan.model)) else {}),
        "corruption": {k: about[k] for k in CORRUPTION if k in about} if federation.data.corrupted else None,
        "numbers_sent": 0 if plan.single_site else federation.layout.size, "single_site": plan.single_site,
        **traffic, "start": parent_run and parent_run.about,
        "warning": warning or (followed.body.get("warning", "") if followed else ""),
        **({"privacy": privacy} if (privacy := _privacy(federation)) else {}),
        **({"best": {"round": best.round, "metric": metric, "score": best.score}} if best else {}),
    }  # fmt: skip


def line(federation: PlannedFederation, played: Played) -> dict[str, Any]:
    """The line of a round in rounds.jsonl, without its scores."""
    state, rule = played.state, federation.method.aggregator
    line: dict[str, Any] = {
        "round": state.round, "weights": _numbers(played.weights), "loss": _numbers(played.losses),
        "bytes_down": played.bytes_down, "bytes_up": played.bytes_up,
    }  # fmt: skip
    if federation.plan.participation < 1 or played.absent:
        line["clients"] = played.clients
    if played.absent:
        line["absent"] = played.absent
    line["reports"] = {name: _numbers(column) for name, column in played.columns.items() if column.ndim == 1}
    server = {k: v.reshape(1) for k, v in state.server.items() if v.ndim == 0 and v.is_floating_point()}
    if server:
        line["server"] = {name: _numbers(value)[0] for name, value in sorted(server.items())}
    due = state.round in (*BINNED, federation.rounds)
    if due and isinstance(rule, Histograms) and (binned := rule.histograms(state.server)):
        line["histograms"] = {name: counts.tolist() for name, counts in binned.items()}
    return line


def _numbers(values: Tensor) -> list[float | None]:
    """Seven digits, which is what float32 holds; null for what is not finite."""
    return [float(f"{v:.7g}") if math.isfinite(v) else None for v in values.tolist()]


def titled(federation: PlannedFederation, label: str) -> str:
    """A label that says so where the data are of a synthetic sample."""
    return label + ", SYNTHETIC data" * bool(federation.data.body.get("sample"))


def _privacy(federation: PlannedFederation) -> dict[str, Any]:
    """The privacy that the run grants a client, or of an image, that takes part in every round; {} without noise.

    An epsilon that is infinite is None.
    """
    asked, rounds = federation.plan, federation.plan.rounds
    if not (asked.dp_noise or asked.dp_sgd):
        return {}

    def spent(noise: float, epsilon: float) -> dict[str, Any]:
        return {"clip": asked.dp_clip, "noise": noise, "epsilon": _finite(epsilon), "delta": asked.dp_delta}

    if asked.dp_noise:
        return spent(asked.dp_noise, epsilon(asked.dp_noise, rounds, asked.dp_delta))
    each = {
        client: dp_sgd.epsilon(
            asked.dp_sgd, dp_sgd.rate(count, asked.batch_size),
            rounds * asked.epochs * dp_sgd.steps_of_epoch(count, asked.batch_size), asked.dp_delta,
        )
        for client, count in federation.counts.items()
    }  # fmt: skip
    about = {"of": "image", "sampling": "Poisson", "clients": {c: _finite(value) for c, value in each.items()}}
    return {**spent(asked.dp_sgd, max(each.values())), **about}


def _finite(value: float) -> float | None:
    return value if value < math.inf else None


def _label(federation: PlannedFederation) -> str:
    plan, label = federation.plan, federation.method.label
    if followed := _followed(federation):
        label = f"{followed.body['label'].removesuffix(titled(federation, ''))} + {label}"
    for option in plan.unusual():
        if option.flag.label:
            label += f", {option.flag.label.format(getattr(plan, option.name))}"
    if privacy := _privacy(federation):
        spent = "infinite" if privacy["epsilon"] is None else f"{privacy['epsilon']:.3g}"
        label += f", epsilon {spent} and delta {privacy['delta']:g} per {privacy.get('of', 'client')}"
    return titled(federation, label)


def _followed(federation: PlannedFederation) -> ParentRun | None:
    return federation.parent_run if isinstance(federation.method.aggregator, ContinuesRun) else None
