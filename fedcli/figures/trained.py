"""Trained models opened for figures: mean features of classes at clients, FairLoRA's matrices, and
the loss of a model moved along filter-normalised random directions.

Source of the latter: Li et al., NeurIPS 2018, arXiv 1712.09913, section 4. A filter is what makes
one output: a row of a tensor's first dimension. Entries of batch norm and biases are 0, as in the
authors' code, and so is all else of one dimension; statistics of batch norm and what is frozen stay
put.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from pathlib import Path

import numpy as np
import torch
from numpy import ndarray
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


def opened(folder: Path, device: str) -> runs.FinishedRun:
    """A run with its last global model in its network. Raises FedcliError, HashError."""
    run = runs.open_run(folder, device)
    if runs.trains_alone(run):
        sentence = f"the clients of {folder} trained alone, so it has no global model"
        raise FedcliError(sentence, "draw another run")
    if not run.rounds:
        raise FedcliError(f"{folder} kept no model", "train the run again")
    runs.load_model(run, run.rounds[-1])
    return run


@torch.inference_mode()
def mean_features(run: runs.FinishedRun) -> list[tuple[str, str, str, ndarray]]:
    """space, client, class and mean features [D] of chosen classes at clients with images of them.

    space: "features" before the projector, "projected" behind it where there is one.
    Raises FedcliError.
    """
    data = run.data
    shards = data.train
    if next(iter(shards.values())).multi_label:
        dataset = data.body["dataset"]
        sentence = f"features are shown by class, and images of {dataset} have several labels"
        raise FedcliError(sentence, "draw counts or adapters")
    run.net.eval()
    counts = {}
    for client, shard in shards.items():
        labels = shard.y.cpu().numpy()
        counts[client] = np.bincount(labels, minlength=len(data.classes))
    counts_of_classes = np.sum(list(counts.values()), axis=0)
    chosen = some_classes(counts_of_classes)
    sums = {client: _sums(run, shard) for client, shard in shards.items()}
    spaces = next(iter(sums.values()))
    means = []
    for space, client, k in product(spaces, shards, chosen):
        count = counts[client][k]
        if count:
            mean = sums[client][space][k] / count
            feature_mean = mean.cpu().numpy()
            means.append((space, client, data.classes[k], feature_mean))
    return means


def _sums(run: runs.FinishedRun, shard: Shard) -> dict[str, Tensor]:
    """Spaces -> sum of the features of each class's images [C, D]."""
    sums = {}
    projector = getattr(run.net, "projector", None)
    for batch in shard.in_order():
        z = run.net.features(batch.x)
        spaces = {"features": z}
        if projector is not None:
            spaces["projected"] = projector(z)
        for name, features in spaces.items():
            if features.ndim > 2:  # of tokens, [B, S, M, D] of CLIP's
                features = features.flatten(1, -2).mean(1)
            flat = features.double()  # [B, D]
            if name not in sums:
                sums[name] = flat.new_zeros(len(run.data.classes), flat.shape[1])
            sums[name].index_add_(0, batch.y, flat)
    return sums


def some_classes(counts: ndarray) -> list[int]:
    """At most CHOSEN classes by their training images [C], most first.

    A third of them each from the head, the middle and the tail.
    """
    by_count = np.argsort(-counts, kind="stable")
    order = [int(k) for k in by_count if counts[k]]
    if len(order) <= CHOSEN:
        return order
    third = CHOSEN // 3
    begin = len(order) // 2 - third // 2
    middle = order[begin : begin + third]
    first_third = order[:third]
    last_third = order[-third:]
    return first_third + middle + last_third


def matrices(run: runs.FinishedRun) -> tuple[str, dict[str, Tensor], list[str]]:
    """The last layer that has singular values; S [G, r], U'U and VV' [r, r]; the groups of S.

    U'U and VV' are cosines. Raises FedcliError where no layer has an adapter with singular values.
    """
    with_singular_values = [roles for roles in adapters.roles(run.layout) if roles.S]
    if not with_singular_values:
        sentence = f"{run.manifest.body['label']} has no adapter with singular values"
        raise FedcliError(sentence, "give a run of fairlora or svd-lora")
    last = with_singular_values[-1]
    tensors = run.layout.named(run.layout.read())
    u = tensors[last.A].double()  # [in, r]
    s = tensors[last.S].double()  # [G, r]
    v = tensors[last.B].double()  # [r, out]
    s = s.reshape(-1, s.shape[-1])
    between_columns = cosines(u.T)
    between_rows = cosines(v)
    tables = {"S": s, "U'U": between_columns, "VV'": between_rows}
    return last.A.removesuffix(".A"), tables, _groups(run, len(s))


def cosines(vectors: Tensor) -> Tensor:
    """[r, n] -> [r, r]: near I where the vectors are orthogonal, however long they are.

    0 of a vector without a length.
    """
    directions = functional.normalize(vectors)
    return directions @ directions.T


def _groups(run: runs.FinishedRun, count: int) -> list[str]:
    """Names of the rows of S: the values of the attribute of the run's groups, or "all"."""
    attributes = run.data.attributes
    attribute = run.manifest.body["settings"].get("attribute")
    if not attribute:
        attribute = next(iter(attributes), "")
    values = attributes.get(attribute, [])
    if len(values) == count:
        return values
    if count == 1:
        return ["all"]
    return [f"group {k}" for k in range(count)]


def around(
    folder: Path,
    label: str,
    *,
    dims: int,
    version: str,
    seed: int,
    points: int,
    device: str,
) -> ndarray:
    """Losses around the last global model of one run, [points] or [points, points]."""
    run = opened(folder, device)
    if version not in run.data.test:
        hint = f"give one of {', '.join(run.data.test)}"
        raise UsageError(f"the data of {folder} has no {version} test images", hint)
    shard = run.data.test[version]
    y = shard.y.cpu()

    def loss() -> float:
        answers = runs.logits_of_loaded(run, shard)
        logits = torch.from_numpy(answers).double()  # [N, C]
        if y.ndim == 2:
            return float(plain_loss(logits, y) / len(y))
        return float(functional.cross_entropy(logits, y))

    words = f"loss around {label}"
    return surface(
        run.net,
        loss,
        dims=dims,
        seed=seed,
        points=points,
        label=words,
    )


def surface(
    net: nn.Module,
    loss: Callable[[], float],
    *,
    dims: int,
    seed: int,
    points: int,
    label: str = "loss around the model",
) -> ndarray:
    """loss() on a grid around net, [points] or [points, points]; net is as it was afterwards."""
    moved = {}
    start = {}
    for name, tensor in net.named_parameters():
        if tensor.requires_grad:
            moved[name] = tensor
            start[name] = tensor.detach().clone()
    directions = [direction(start, seed, axis) for axis in range(dims)]
    steps = np.linspace(-1, 1, points)
    steps[points // 2] = 0
    grid = list(product(steps, repeat=dims))
    losses = []
    try:
        for point in console.progress(grid, label=label, total=len(grid)):
            _move(moved, start, directions, point)
            losses.append(loss())
    finally:
        _move(moved, start, [], ())
    return np.array(losses).reshape([points] * dims)


def direction(
    weights: dict[str, Tensor],
    seed: int,
    axis: int,
) -> dict[str, Tensor]:
    """A random direction with filters as long as these weights'.

    Each tensor has random numbers of its own, so that models which share some tensors share their
    directions.
    """
    tensors = {}
    for name, weight in weights.items():
        if weight.ndim < 2:
            tensors[name] = torch.zeros_like(weight)
            continue
        random = torch.Generator().manual_seed(derive("landscape", seed, axis, name))
        tensor = torch.randn(weight.shape, generator=random).to(weight.device)
        lengths = _filter_lengths(tensor).clamp_min(1e-10)  # a filter of one number may draw 0
        scale = _filter_lengths(weight) / lengths
        others = [1] * (weight.ndim - 1)
        factor = scale.view(-1, *others)
        tensors[name] = tensor * factor
    return tensors


def _filter_lengths(tensor: Tensor) -> Tensor:
    return torch.linalg.vector_norm(tensor.flatten(1), dim=1)  # [filters]


@torch.no_grad()
def _move(
    moved: Mapping[str, Tensor],
    start: Mapping[str, Tensor],
    directions: list[dict[str, Tensor]],
    point: Iterable[float],
) -> None:
    for name, tensor in moved.items():
        tensor.copy_(start[name])
        for way, step in zip(directions, point, strict=True):
            tensor.add_(way[name], alpha=step)
