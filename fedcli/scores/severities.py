"""A run's models on its test images under any corruption and severity, without training again.

Under the corruption of the run's own data the images are those of its corrupted test set: each
image has a random stream that follows from the corruption's seed, the image's id, the kind and the
severity.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ..data import manifest
from ..data.corruption import mixture
from ..data.corruption.attack import BACKDOOR, of_body
from ..data.corruption.corrupt import corrupt_images
from ..data.shard import Shard, with_images
from ..runs.finished import FinishedRun
from ..runs.recorded_code import load_corruptions
from .answering import predictions
from .corrupted_tests import Asked
from .parts import PATCHED, SUCCESS, Severity
from .predictions import Logits
from .table import Number, Score, Table, Where


def test_set(
    run: FinishedRun,
    kind: str,
    severity: int,
    version: str,
) -> FinishedRun:
    """The run with its test images under this corruption as its one test set, of this name."""
    clean = run.data.test["clean"]
    data = _data(run)
    seed = data.options["seed"] if data.kind == "corruption" else 0
    ids = clean.ids.tolist()
    images = corrupt_images(
        pixels(clean),
        ids,
        kind=kind,
        severity=severity,
        seed=seed,
    )
    shard = with_images(
        clean,
        torch.from_numpy(images).permute(0, 3, 1, 2),
        run.device,
    )
    return _with_test(run, version, shard)


def _with_test(run: FinishedRun, version: str, shard: Shard) -> FinishedRun:
    return replace(run, data=replace(run.data, test={version: shard}))


def name_of(kind: str, severity: int) -> str:
    """The version of test images under this corruption, in the table of scores."""
    return f"{kind} {severity}"


def pixels(shard: Shard) -> Any:
    """uint8 [N, H, W, C] as they lie in the pool."""
    rows = shard.rows.to(shard.images.device)
    return shard.images[rows].permute(0, 2, 3, 1).cpu().numpy()


def backdoor(run: FinishedRun, logits: Logits) -> Table:
    """The success of a backdoor; {} of a run that nobody attacks so.

    It is the share of clean test images of other classes that are called the target class once they
    have its patch, and without it. logits: of all versions.
    """
    attacks = of_body(run.data.body).values()
    backdoors = [attack for attack in attacks if attack.kind == BACKDOOR]
    if not backdoors:
        return {}
    attack = backdoors[0]
    clean = run.data.test["clean"]
    stamped = attack.stamped(clean.images[clean.rows])
    shard = with_images(clean, stamped, str(clean.images.device))
    patched = predictions(_with_test(run, PATCHED[0], shard))[PATCHED[0]]
    others = (clean.y != attack.target).cpu().numpy()  # [N]
    table: Table = {}
    for version, answers in zip(PATCHED, (patched, logits["clean"]), strict=True):
        shares = [success(models, others, attack.target) for models in answers]
        where = Where(version, metric=SUCCESS)
        table[where] = Score(shares, list(run.rounds), int(others.sum()))
    return table


def success(
    models: Sequence[np.ndarray],
    others: np.ndarray,
    target: int,
) -> Number:
    """The share of images of other classes that models call the target.

    None where there is no such image. models: logits [N, C] of each. others: bool [N].
    """
    if not others.any():
        return None
    called = [logits[others].argmax(1) == target for logits in models]
    return float(np.mean(called))


def _data(run: FinishedRun) -> manifest.Manifest:
    return manifest.read(run.images or manifest.above(run.path, "corruption", "partition"))


def differing(run: FinishedRun) -> mixture.HowByClient:
    """The corruption of each corrupted client; {} where all have the same kind and severity."""
    data = _data(run)
    by_client = mixture.of_body(data.body)
    corruptions = {c: how for c, how in by_client.items() if c in run.data.corrupted}
    if len(set(corruptions.values())) < 2:
        return {}
    load_corruptions(data)
    return corruptions


def described(run: FinishedRun, corruptions: Asked) -> dict[str, dict[str, Severity]]:
    """Kind -> severity -> whether clients trained on such images."""
    trained = set(mixture.of_body(_data(run).body).values())
    trained_kinds = {kind for kind, _ in trained}
    kinds: dict[str, dict[str, Severity]] = {}
    for kind, severity in corruptions:
        facts = Severity(kind in trained_kinds, (kind, severity) in trained)
        kinds.setdefault(kind, {})[str(severity)] = facts
    return kinds
