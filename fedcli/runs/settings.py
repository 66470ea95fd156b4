"""The settings of a run: its plan as a record, and the record as a plan again.

A resolved plan becomes options, which run.json and settings.json hold alike, and the command that
makes the run. settings.json has the places of files and the environment as well: it is written
before the first round, and a resume reads it back and compares.
"""

import hashlib
import json
import os
import platform
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from .. import options as options_of
from ..data import manifest
from ..errors import FedcliError, HashError
from ..io.files import write_text
from ..methods.mixins import LearnsFromTeacher
from ..methods.registry import Method
from ..models import outside
from ..models.weights import PUBLISHED
from ..options import OWN, Source
from ..provenance import other_code, version_of
from ..shapes import read_json
from . import own_code, resources, rules
from .initial import ParentRun
from .train_options import TrainOptions

STARTING = "the starting weights"  # recorded as the teacher where none is given
PATH = (str, None)
CODE = {str: {str: str}}  # half of a method -> where it comes from
SETTINGS = {
    "options": {"method": str, "rounds": int, "settings": dict, "code?": CODE},
    "environment": {"device": str, "threads": int},
    "data": str,
    "data_path": str,
    "weights": PATH,
    "teacher": PATH,
    "then": PATH,
    "device?": str,
    "sha256": str,
}


def options(
    plan: TrainOptions,
    method: Method,
    parent_run: ParentRun | None,
) -> dict[str, Any]:
    """Every option that decides the bytes of a run, files by their hash."""
    weights = parent_run.model if parent_run else plan.weights
    recorded = plan.decided()
    recorded["method"] = method.name
    recorded["settings"] = rules.acting(plan, method)
    recorded["rule"] = method.rule
    recorded["model"] = outside.titled(plan.model)
    recorded["weights"] = _hashed(weights)
    recorded["teacher"] = _hashed(plan.teacher)
    if isinstance(method.local, LearnsFromTeacher) and not plan.teacher:
        recorded["teacher"] = STARTING
    for name in rules.replaced(method):
        if name != "bn" or not plan.changed("bn"):
            recorded[name] = OWN
    code = own_code.recorded(method, plan.model)
    if code:
        recorded["code"] = code
    return recorded


def _hashed(source: Source | None) -> str | None:
    """The hash of a file; another source, such as published weights, by its name."""
    if source is None:
        return None
    name = str(source)
    if name in PUBLISHED or not Path(name).is_file():
        return name
    return manifest.sha256(Path(name))


def plan_of(options: dict[str, Any], **files: str | None) -> TrainOptions:
    """The plan that a run recorded as its options.

    files: the weights and the teacher, of which hashes are recorded.
    """
    declared = options_of.describe(TrainOptions)
    values = dict(options)
    values.pop("rule", None)
    values.pop("code", None)
    for name, value in values.items():
        if value in (OWN, STARTING):
            values[name] = TrainOptions.usual.get(name, declared[name].default)
    values.update(files)
    return TrainOptions.of(values)


def command(options: dict[str, Any]) -> list[str]:
    """The command that makes this run, without locations.

    It spells out the defaults that come from the method or the optimizer.
    """
    method = own_code.typed(options["method"], options.get("code", {}))
    plan = replace(plan_of(options), method=method)
    return plan.made_by([*TrainOptions.usual, "seed"])


def environment(device: str) -> dict[str, Any]:
    """Where a run is trained: equal bits are promised where all of this is the same.

    instruction_set: of the processor, as far as torch uses it.
    """
    device_name = platform.machine()
    if device.startswith("cuda"):
        device_name = torch.cuda.get_device_name(device)
    return {
        "device": device.partition(":")[0],
        "device_name": device_name,
        "threads": torch.get_num_threads(),
        "processor": resources.processor(),
        "instruction_set": torch.backends.cpu.get_cpu_capability(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torchvision": version_of("torchvision"),
        "numpy": version_of("numpy"),
    }


def content(
    folder: Path, data: Path, plan: TrainOptions, options: dict[str, Any]
) -> dict[str, Any]:
    """The content of settings.json, with paths as the folder sees them."""
    return {
        "options": options,
        "data": manifest.sha256(data),
        "data_path": seen_from(folder, str(data)),
        "weights": seen_from(folder, plan.weights),
        "teacher": seen_from(folder, plan.teacher),
        "then": plan.then,
        "device": plan.device,
        "environment": environment(plan.device),
    }


def write(folder: Path, settings: dict[str, Any]) -> None:
    """Write settings.json, with the hash by which load() notices a change."""
    text = json.dumps(
        {**settings, "sha256": _digest(settings)},
        indent=1,
        sort_keys=True,
    )
    write_text(folder / "settings.json", f"{text}\n")


def load(folder: Path) -> dict[str, Any]:
    """The content of settings.json. Raises FedcliError if damaged, HashError if changed."""
    path = folder / "settings.json"
    settings = read_json(path, SETTINGS, "remove its folder and train again")
    digest = settings.pop("sha256")
    if digest != _digest(settings):
        raise HashError(
            f"{path} was changed since the run was begun",
            "restore it; to train with other values, give another --out",
        )
    return settings


def _digest(settings: dict[str, Any]) -> str:
    text = json.dumps(settings, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def begun(folder: Path) -> TrainOptions:
    """The options that a run was begun with, with its data, device, threads and second stage."""
    settings = load(folder)
    options = settings["options"]
    environment = settings["environment"]
    own_code.refuse_bare_resume(folder, options, command(options))
    weights = seen_back(folder, settings["weights"])
    teacher = seen_back(folder, settings["teacher"])
    if teacher and not Path(teacher).is_file():
        path = (folder / settings["teacher"]).resolve()
        raise FedcliError(
            f"the teacher of this run is no longer at {path}",
            "put it back, or give the whole command again with --teacher FILE and --resume",
        )
    plan = plan_of(options, weights=weights, teacher=teacher)
    data_path = folder / settings["data_path"]
    return replace(
        plan,
        data=data_path,
        # the environment does not say which of several GPUs
        device=settings.get("device", environment["device"]),
        threads=environment["threads"],
        then=settings["then"],
    )


def seen_from(folder: Path, path: Source | None) -> str | None:
    """A path as the folder sees it, so that both may move together.

    A name that is no path, such as imagenet, stays as it is.
    """
    if path is None:
        return None
    if not Path(path).exists():
        return str(path)
    relative = os.path.relpath(Path(path).resolve(), folder.resolve())
    return Path(relative).as_posix()


def seen_back(folder: Path, path: str | None) -> str | None:
    """The path that seen_from() was given, as this process can open it."""
    if path and (folder / path).exists():
        return str(folder / path)
    return path


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Words for each option, for each fact of the environment, and for data that differ."""
    differing = []
    for part in ("options", "environment"):
        old_part = old[part]
        new_part = new[part]
        for key in sorted({*old_part, *new_part}):
            old_value = old_part.get(key)
            new_value = new_part.get(key)
            if key == "code":
                differing += other_code(old_value or {}, new_value or {})
            elif old_value != new_value:
                differing.append(f"{key} ({old_value!r}, now {new_value!r})")
    if old["data"] != new["data"]:
        differing.append("data manifest")
    return differing
