"""The loss of a run's model moved along filter-normalised random directions.

Source: Li et al., NeurIPS 2018, arXiv 1712.09913, section 4. A filter is what makes one output: a row of a tensor's
first dimension. Entries of batch norm and biases are 0, as in the authors' code, and so is all else of one dimension;
statistics of batch norm and what is frozen stay put.
"""

from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .. import console
from ..errors import UsageError
from ..methods.losses import plain_loss
from ..runs import finished as runs
from ..seeds import derive
from .trained import opened


def around(folder: Path, label: str, *, dims: int, version: str, seed: int, points: int, device: str) -> np.ndarray:
    """Losses around the last global model of one run, [points] or [points, points]."""
    run = opened(folder, device)
    if version not in run.data.test:
        hint = f"give one of {', '.join(run.data.test)}"
        raise UsageError(f"the data of {folder} has no {version} test images", hint)
    shard = run.data.test[version]
    y = shard.y.cpu()

    def loss() -> float:
        logits = torch.from_numpy(runs.logits(run.net, shard, run.method.local))  # [N, C]
        several = y.ndim == 2
        return float(plain_loss(logits.double(), y) / len(y) if several else F.cross_entropy(logits.double(), y))

    return surface(run.net, loss, dims=dims, seed=seed, points=points, label=f"loss around {label}")


def surface(
    net: nn.Module,
    loss: Callable[[], float],
    *,
    dims: int,
    seed: int,
    points: int,
    label: str = "loss around the model",
) -> np.ndarray:
    """loss() on a grid around net, [points] or [points, points]; net is as it was afterwards."""
    moved: dict[str, Tensor] = {name: tensor for name, tensor in net.named_parameters() if tensor.requires_grad}
    start = {name: tensor.detach().clone() for name, tensor in moved.items()}
    ways = [direction(start, seed, axis) for axis in range(dims)]
    steps = np.linspace(-1, 1, points)
    steps[points // 2] = 0
    grid = list(product(steps, repeat=dims))
    losses = []
    try:
        for place in console.progress(grid, label=label, total=len(grid)):
            _move(moved, start, ways, place)
            losses.append(loss())
    finally:
        _move(moved, start, [], ())
    return np.array(losses).reshape([points] * dims)


def direction(weights: dict[str, Tensor], seed: int, axis: int) -> dict[str, Tensor]:
    """A random direction with filters as long as these weights'; each tensor has random numbers of its own, so that
    models which share some tensors share their directions."""
    out = {}
    for name, weight in weights.items():
        if weight.ndim < 2:
            out[name] = torch.zeros_like(weight)
            continue
        random = torch.Generator().manual_seed(derive("landscape", seed, axis, name))
        way = torch.randn(weight.shape, generator=random).to(weight.device)
        length, own = (torch.linalg.vector_norm(t.flatten(1), dim=1) for t in (weight, way))  # [filters]
        scale = length / own.clamp_min(1e-10)  # a filter of one number may draw 0
        out[name] = way * scale.view(-1, *[1] * (weight.ndim - 1))
    return out


@torch.no_grad()
def _move(
    moved: Mapping[str, Tensor], start: Mapping[str, Tensor], ways: list[dict[str, Tensor]], place: tuple[float, ...]
) -> None:
    for name, tensor in moved.items():
        tensor.copy_(start[name])
        for way, step in zip(ways, place, strict=True):
            tensor.add_(way[name], alpha=step)
