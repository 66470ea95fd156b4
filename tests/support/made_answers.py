"""Models that answer from a seed: what is computed from their answers is the same on every processor."""

import contextlib
from collections.abc import Iterator
from unittest import mock

import numpy as np
import torch

from fedcli.runs import finished
from fedcli.seeds import derive

DECIMALS = 2  # softmax of such logits has no ties that rounding would break
SKILL = 1.5


@contextlib.contextmanager
def made_answers() -> Iterator[None]:
    """Let every model answer as its method, its run's seed, its round and its client decide."""
    loaded: list[str] = ["in training"]
    load = finished.load_model
    pass_batches = finished._passed

    def remember(run, round, client=None):
        options = run.manifest.options
        loaded[:] = map(str, (options["method"], options["seed"], round, client))
        load(run, round, client)

    def answer(net, forward, shard, local, view):
        batches = pass_batches(net, forward, shard, local, view)
        if forward is not net:
            yield from batches
            return
        classes = next(iter(batches)).shape[1]
        yield torch.from_numpy(logits(shard, classes, [*loaded, view]))

    with (
        mock.patch.object(finished, "load_model", remember),
        mock.patch.object(finished, "_passed", answer),
    ):
        yield


def logits(shard, classes: int, names: list[str]) -> np.ndarray:
    """Logits float32 [N, C] that favour the label."""
    noise = np.random.default_rng(derive("made answers", *names, *shard.ids))
    y = shard.y.cpu().numpy()
    is_label = y if y.ndim == 2 else np.eye(classes)[y]  # [N, C]
    table = noise.normal(size=(len(y), classes)) + SKILL * is_label
    return table.round(DECIMALS).astype(np.float32)
