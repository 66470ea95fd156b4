"""Trained models opened for figures: mean features of classes at clients, FairLoRA's matrices, and the loss of a model
moved along filter-normalised random directions.

Source of the latter: Li et al., NeurIPS 2018, arXiv 1712.09913, section 4. A filter is what makes one output: a row of
a tensor's first dimension. Entries of batch norm and biases are 0, as in the authors' code, and so is all else of one
dimension; statistics of batch norm and what is frozen stay put.
"""

from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from .. import console
from ..data.shard import Shard
from ..errors import FedcliError, UsageError
from ..methods import adapters
from ..methods.losses import plain_loss
from ..runs import finished as runs
from ..seeds import derive

CHOSEN = 9  # classes of a picture: three with most images, three in the middle, three with fewest


def opened(folder: Path, device: str) -> runs.Run:
    """A run with its last global model in its network. Raises FedcliError, HashError."""
    run = runs.open_run(folder, device)
    if runs.trains_alone(run):
        raise FedcliError(
            f"the clients of {folder} trained alone, so it has no global model", "draw another run"
        )
    if not run.rounds:
        raise FedcliError(f"{folder} kept no model", "train the run again")
    runs.load_model(run, run.rounds[-1])
    return run


@torch.inference_mode()
def mean_features(run: runs.Run) -> list[tuple[str, str, str, np.ndarray]]:
    """space, client, class and mean features [D] of the chosen classes at clients that have training images of them.

    space: "features" before the projector, "projected" behind it where there is one. Raises FedcliError.
    """
    if next(iter(run.data.train.values())).multi_label:
        what = f"features are shown by class, and images of {run.data.body['dataset']} have several labels"
        raise FedcliError(what, "draw counts or adapters")
    run.net.eval()
    counts = {
        client: np.bincount(shard.y.cpu().numpy(), minlength=len(run.data.classes))
        for client, shard in run.data.train.items()
    }
    chosen = some_classes(np.sum(list(counts.values()), axis=0))
    sums = {
        client: _sums(run, shard, len(run.data.classes)) for client, shard in run.data.train.items()
    }
    return [
        (space, client, run.data.classes[k], (tables[space][k] / counts[client][k]).cpu().numpy())
        for space in next(iter(sums.values()))
        for client, tables in sums.items()
        for k in chosen
        if counts[client][k]
    ]


def _sums(run: runs.Run, shard: Shard, classes: int) -> dict[str, Tensor]:
    """Places -> sum of the features of each class's images [C, D]."""
    sums: dict[str, Tensor] = {}
    projector = getattr(run.net, "projector", None)
    for batch in shard.in_order():
        z = run.net.features(batch.x)
        whole = {"features": z} | ({"projected": projector(z)} if projector is not None else {})
        for name, table in whole.items():
            flat = (
                table.mean(1) if table.ndim == 3 else table
            ).double()  # [B, D]; of tokens the mean
            sums.setdefault(name, flat.new_zeros(classes, flat.shape[1])).index_add_(
                0, batch.y, flat
            )
    return sums


def some_classes(counts: np.ndarray) -> list[int]:
    """At most CHOSEN classes by their training images [C]: a third each from the head, the middle and the tail."""
    order = [int(k) for k in np.argsort(-counts, kind="stable") if counts[k]]
    if len(order) <= CHOSEN:
        return order
    third, middle = CHOSEN // 3, len(order) // 2
    return [
        *order[:third],
        *order[middle - third // 2 : middle + third - third // 2],
        *order[-third:],
    ]


def matrices(run: runs.Run) -> tuple[str, dict[str, Tensor], list[str]]:
    """The last layer that has singular values; S [G, r], and cosines of U'U and VV' [r, r]; the groups of S.

    Raises FedcliError where no layer has an adapter with singular values.
    """
    having = [roles for roles in adapters.roles(run.layout) if roles.S]
    if not having:
        hint = "give a run of fairlora or svd-lora"
        raise FedcliError(f"{run.manifest.body['label']} has no adapter with singular values", hint)
    tensors = run.layout.named(run.layout.read())
    last = having[-1]
    u, s, v = (
        tensors[name].double() for name in (last.A, last.S, last.B)
    )  # [in, r], [G, r], [r, out]
    s = s.reshape(-1, s.shape[-1])
    return (
        last.A.removesuffix(".A"),
        {"S": s, "U'U": cosines(u.T), "VV'": cosines(v)},
        _groups(run, len(s)),
    )


def cosines(vectors: Tensor) -> Tensor:
    """[r, n] -> [r, r]: near I where the vectors are orthogonal, however long they are; 0 of one without a length."""
    directions = functional.normalize(vectors)
    return directions @ directions.T


def _groups(run: runs.Run, count: int) -> list[str]:
    """Names of the rows of S: the values of the attribute that the run's groups are of, or "all"."""
    attribute = run.manifest.body["settings"].get("attribute") or next(
        iter(run.data.attributes), ""
    )
    values = run.data.attributes.get(attribute, [])
    return (
        values
        if len(values) == count
        else ["all"] * (count == 1) or [f"group {k}" for k in range(count)]
    )


def around(
    folder: Path, label: str, *, dims: int, version: str, seed: int, points: int, device: str
) -> np.ndarray:
    """Losses around the last global model of one run, [points] or [points, points]."""
    run = opened(folder, device)
    if version not in run.data.test:
        hint = f"give one of {', '.join(run.data.test)}"
        raise UsageError(f"the data of {folder} has no {version} test images", hint)
    shard = run.data.test[version]
    y = shard.y.cpu()

    def loss() -> float:
        logits = torch.from_numpy(runs.logits(run.net, shard, run.method.local)).double()  # [N, C]
        return float(
            plain_loss(logits, y) / len(y) if y.ndim == 2 else functional.cross_entropy(logits, y)
        )

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
    moved: dict[str, Tensor] = {
        name: tensor for name, tensor in net.named_parameters() if tensor.requires_grad
    }
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
        length, own = (
            torch.linalg.vector_norm(t.flatten(1), dim=1) for t in (weight, way)
        )  # [filters]
        scale = length / own.clamp_min(1e-10)  # a filter of one number may draw 0
        out[name] = way * scale.view(-1, *[1] * (weight.ndim - 1))
    return out


@torch.no_grad()
def _move(
    moved: Mapping[str, Tensor],
    start: Mapping[str, Tensor],
    ways: list[dict[str, Tensor]],
    place: tuple[float, ...],
) -> None:
    for name, tensor in moved.items():
        tensor.copy_(start[name])
        for way, step in zip(ways, place, strict=True):
            tensor.add_(way[name], alpha=step)
