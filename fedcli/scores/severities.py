"""A run's models on its test images under any corruption and severity, without training again.

Under the corruption of the run's own data the images are those of its corrupted test set: each image has a random
stream that follows from the corruption's seed, the image's id, the kind and the severity.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..data import manifest
from ..data.corruption import mixture
from ..data.corruption.attack import BACKDOOR, of_body
from ..data.corruption.corrupt import KINDS, SEVERITIES, check_images, corrupt_images, full_kind
from ..data.shard import Shard, with_images
from ..errors import UsageError
from ..runs.finished import Run
from .answering import predictions
from .parts import PATCHED, SUCCESS, Severity
from .predictions import Logits
from .table import Number, Score, Table, Where

Asked = list[tuple[str, int]]  # kind and severity


def asked(kinds: Sequence[str], severities: Sequence[str], run: Path) -> Asked:
    """Kinds times severities, in order; without a kind that of the run's own data, without a severity all five.

    Raises FedcliError, UsageError.
    """
    if not kinds and not severities:
        return []
    data = manifest.read(manifest.above(run, "corruption", "partition", "sites"))
    own = dict.fromkeys(kind for kind, _ in mixture.of_body(data.body).values() if kind in KINDS)
    if not kinds and not own:
        raise UsageError(
            "--severity is about a corruption, and the run has none", "add --corrupt KIND"
        )
    named = list(dict.fromkeys(full_kind(kind) for kind in kinds) or own)
    for kind in named:
        check_images(kind, data.body)
    wanted = sorted({severity for text in severities for severity in _severities(text)}) or list(
        SEVERITIES
    )
    return [(kind, severity) for kind in named for severity in wanted]


def _severities(text: str) -> range:
    """The severities that "3", "1..5" or "1-5" mean. Raises UsageError."""
    match = re.fullmatch(r"([1-5])(?:(?:\.\.|-)([1-5]))?", text.strip())
    if match is None or int(match[2] or 5) < int(match[1]):
        raise UsageError(
            f"--severity {text} is none of 1 to 5", "write --severity 3, or --severity 1..5 for all"
        )
    return range(int(match[1]), int(match[2] or match[1]) + 1)


def test_set(run: Run, kind: str, severity: int, version: str = "") -> Run:
    """The run with its test images under this corruption as its one test set, by default named after both."""
    clean = run.data.test["clean"]
    data = _data(run)
    seed = data.options["seed"] if data.kind == "corruption" else 0
    images = corrupt_images(
        pixels(clean), clean.ids.tolist(), kind=kind, severity=severity, seed=seed
    )
    shard = with_images(clean, torch.from_numpy(images).permute(0, 3, 1, 2), run.device)
    return replace(run, data=replace(run.data, test={version or f"{kind} {severity}": shard}))


def pixels(shard: Shard) -> Any:
    """uint8 [N, H, W, C] as they lie in the pool."""
    return shard.images[shard.rows.to(shard.images.device)].permute(0, 2, 3, 1).cpu().numpy()


def backdoor(run: Run, logits: Logits) -> Table:
    """The success of a backdoor: the share of clean test images of other classes that are called the target class once
    they have its patch, and without it; {} of a run that nobody attacks so. logits: of all versions."""
    attack = next(
        (attack for attack in of_body(run.data.body).values() if attack.kind == BACKDOOR), None
    )
    if attack is None:
        return {}
    clean = run.data.test["clean"]
    stamped = with_images(clean, attack.stamped(clean.images[clean.rows]), str(clean.images.device))
    shown = predictions(replace(run, data=replace(run.data, test={PATCHED[0]: stamped})))[
        PATCHED[0]
    ]
    others = (clean.y != attack.target).cpu().numpy()  # [N]
    table: Table = {}
    for version, answers in zip(PATCHED, (shown, logits["clean"]), strict=True):
        shares = [success(models, others, attack.target) for models in answers]
        where = Where(version, metric=SUCCESS)
        table[where] = Score(shares, list(run.rounds), int(others.sum()))
    return table


def success(models: Sequence[np.ndarray], others: np.ndarray, target: int) -> Number:
    """The share of images of other classes that models call the target; None where there is no such image.

    models: logits [N, C] of each. others: bool [N].
    """
    if not others.any():
        return None
    return float(np.mean([logits[others].argmax(1) == target for logits in models]))


def _data(run: Run) -> manifest.Manifest:
    return manifest.read(run.images or manifest.above(run.path, "corruption", "partition"))


def differing(run: Run) -> mixture.HowByClient:
    """The corruption of each corrupted client, where they do not all have the same kind and severity; else {}."""
    each = {
        client: how
        for client, how in mixture.of_body(_data(run).body).items()
        if client in run.data.corrupted
    }
    return each if len(set(each.values())) > 1 else {}


def described(run: Run, wanted: Asked) -> dict[str, dict[str, Severity]]:
    """Kind -> severity -> whether clients trained on such images."""
    trained = set(mixture.of_body(_data(run).body).values())
    kinds = {kind for kind, _ in trained}
    about: dict[str, dict[str, Severity]] = {}
    for kind, severity in wanted:
        about.setdefault(kind, {})[str(severity)] = Severity(
            kind in kinds, (kind, severity) in trained
        )
    return about
