"""Costs of the engine compared with the work itself, as ratios within one run.

The bare loop is what one would write by hand: the same network, tensors, batches and optimizer
steps, with nothing of fedcli in it. For a method that costs more than plain training, it makes the
passes of the method's formula (see formula()) and does none of its arithmetic. The two sides
alternate, so a machine that slows down slows both.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch.nn import functional

from .. import models
from ..data import transforms
from ..data.shard import EVALUATION_BATCH, Shard
from ..errors import UsageError
from ..federation.client import Training
from ..federation.engines.in_process import InProcess
from ..federation.server import Federation
from ..methods import METHODS, Method, resolve
from ..models.layout import Layout
from ..runs.resources import be_deterministic
from ..seeds import derive
from . import limits
from .measuring import wait
from .passes import summed

Optimizer = Literal["adam", "sgd"]
CLASSES = 7
LEARNING_RATE = 1e-3
COLUMNS = ["what", "fedcli", "bare", "time ratio", "lowest to highest", "of matrix speed"]


@dataclass(frozen=True)
class Timing:
    """Seconds of the two sides, one pair per repetition.

    flops: of matrix products and convolutions of our side, once.
    limit: of them in a second, as one large product has.
    """

    what: str
    ours: list[float]
    bare: list[float]
    images: int
    flops: float = 0.0
    limit: float = 0.0

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def ratios(self) -> list[float]:
        """Our seconds over those of the bare side, from the lowest to the highest."""
        return sorted(a / b for a, b in zip(self.ours, self.bare, strict=True))

    @property
    def share(self) -> float | None:
        """The share of the limit, by the median of our seconds; None where nothing was counted."""
        if not self.limit:
            return None
        return self.flops / statistics.median(self.ours) / self.limit

    def row(self) -> list[str]:
        ratio = f"{self.ratio:.3f}"
        spread = f"{self.ratios[0]:.3f} to {self.ratios[-1]:.3f}"
        limit = "-" if self.share is None else f"{100 * self.share:.0f} %"
        return [self.what, self._speed(self.ours), self._speed(self.bare), ratio, spread, limit]

    def body(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "ratio": self.ratio,
            "seconds": self.ours,
            "bare_seconds": self.bare,
            "images": self.images,
            "share_of_limit": self.share,
        }

    def _speed(self, side: list[float]) -> str:
        """Images a second, or how long where there is nothing to count."""
        seconds = statistics.median(side)
        if not self.images:
            return f"{seconds:.2f} s"
        return f"{self.images / seconds:,.0f} images/s"


def formula(method: Method) -> dict[str, int]:
    """The passes of a method's two halves together, by kind.

    Raises UsageError where they are not known.
    """
    stated: list[Mapping[str, int]] = []
    for cost in (method.local.cost, method.aggregator.cost):
        if isinstance(cost, str):
            names = ", ".join(measurable())
            sentence = f"{method.name} cannot be timed against a formula: {cost}"
            raise UsageError(sentence, f"methods that can be: {names}")
        stated.append(cost)
    return summed(stated)


def measurable() -> list[str]:
    """Methods whose cost follows from their formula."""
    names = []
    for name, method in METHODS.items():
        costs = method.local.cost, method.aggregator.cost
        if not any(isinstance(cost, str) for cost in costs):
            names.append(name)
    return names


def engine(
    method: str,
    *,
    model: str,
    size: int,
    clients: int,
    images: int,
    optimizer: Optimizer,
    repeats: int,
    device: str = "cpu",
) -> Timing:
    """Time the second round of a method against bare loops over the same clients.

    In the first round, some methods do less.
    Raises UsageError for a method whose cost no formula gives.
    """
    resolved = resolve(method)
    passes = formula(resolved)
    federation = plain_federation(
        model,
        size,
        clients,
        images,
        device,
        method=resolved,
        optimizer=optimizer,
    )
    shards = federation.clients.shards
    training = federation.training
    state = federation.play(federation.first()).state

    def ours() -> None:
        be_deterministic(device, models.describe(model).threads)  # as fedcli train is
        federation.play(state)
        wait(device)

    other = network(model, size, device)
    start = {name: tensor.clone() for name, tensor in other.state_dict().items()}

    def bare() -> None:
        torch.set_deterministic_debug_mode("default")
        for client, shard in shards.items():
            other.load_state_dict(start)
            _bare_client(other, client, shard, training, passes)
        wait(device)

    pairs = alternate(ours, bare, repeats)
    plain = limits.unrecorded(federation.clients)
    flops, _ = limits.counted(lambda: federation.play(state, engine=plain))
    limit = limits.matrix_speed(device)
    problem = f"{method}, {model}, {size} px, {optimizer}"
    return Timing(
        problem,
        *pairs,
        images=len(shards) * images,
        flops=flops,
        limit=limit,
    )


def plain_federation(
    model: str,
    size: int,
    clients: int,
    images: int,
    device: str,
    *,
    precision: str = "fp32",
    method: Method | None = None,
    optimizer: Optimizer = "sgd",
) -> Federation:
    """Clients of so many random images each, under FedAvg by default."""
    method = method or resolve("fedavg")
    shards = random_shards(clients, images, size, device)
    net = network(model, size, device, precision)
    momentum = 0.9 if optimizer == "sgd" else 0.0
    training = Training(
        optimizer=optimizer,
        lr=LEARNING_RATE,
        momentum=momentum,
    )
    layout = Layout(net, method.local.personal_tensors(net))
    return Federation(InProcess(method, net, layout, shards, training), rounds=10)


def _bare_client(
    net: torch.nn.Module,
    client: str,
    shard: Shard,
    training: Training,
    passes: dict[str, int],
) -> None:
    """Plain PyTorch over one client's tensors, in the engine's order."""
    net.eval()
    for indices in _parts(shard, 64) * passes["gradient"]:
        _loss(net, shard, indices).backward()
    with torch.no_grad():
        for indices in _parts(shard, EVALUATION_BATCH) * passes["forward"]:
            _loss(net, shard, indices)
    net.train()
    optimizer = _optimizer(net, training)
    generator = torch.Generator().manual_seed(derive("shuffle", 0, 1, client, 0))
    order = torch.randperm(len(shard), generator=generator)
    for indices in order.to(shard.rows.device).split(training.batch_size):
        x = _input(shard, indices)
        with torch.no_grad():
            for _ in range(passes["look"]):
                net(x)
        for _ in range(passes["step"]):
            optimizer.zero_grad()
            functional.cross_entropy(net(x), shard.y[indices]).backward()
        optimizer.step()


def _optimizer(net: torch.nn.Module, training: Training) -> torch.optim.Optimizer:
    options: dict[str, Any] = {
        "lr": training.lr,
        "weight_decay": training.weight_decay,
        "fused": True,
    }
    if training.optimizer == "adam":
        return torch.optim.Adam(net.parameters(), **options)
    return torch.optim.SGD(
        net.parameters(),
        momentum=training.momentum,
        **options,
    )


def _loss(
    net: torch.nn.Module,
    shard: Shard,
    indices: torch.Tensor,
) -> torch.Tensor:
    logits = net(_input(shard, indices))
    return functional.cross_entropy(logits, shard.y[indices])


def _input(shard: Shard, indices: torch.Tensor) -> torch.Tensor:
    images = shard.images[shard.rows[indices]]
    return transforms.to_input(images, channels=shard.channels)


def _parts(shard: Shard, size: int) -> list[torch.Tensor]:
    return list(torch.arange(len(shard), device=shard.rows.device).split(size))


def alternate(
    ours: Callable[[], None],
    bare: Callable[[], None],
    repeats: int,
    *,
    between: Callable[[], None] = lambda: None,
) -> tuple[list[float], list[float]]:
    """Seconds of each repetition, in alternating order after one that does not count."""
    ours()
    bare()
    between()
    times: dict[Callable, list[float]] = {ours: [], bare: []}
    for i in range(repeats):
        sides = (ours, bare) if i % 2 == 0 else (bare, ours)
        for side in sides:
            start = time.perf_counter()
            side()
            times[side].append(time.perf_counter() - start)
        between()
    return times[ours], times[bare]


def random_shards(
    clients: int,
    images: int,
    size: int,
    device: str,
) -> dict[str, Shard]:
    """Random images of each client, of random classes."""
    rng = np.random.default_rng(derive("bench", size))
    image_count = clients * images
    pixels = rng.integers(0, 256, (image_count, size, size, 3), np.uint8)
    pool = torch.from_numpy(pixels).permute(0, 3, 1, 2).to(device)
    y = torch.from_numpy(rng.integers(0, CLASSES, image_count)).to(device)
    shards = {}
    for k in range(clients):
        rows = torch.arange(k * images, (k + 1) * images, device=device)
        shards[f"client-{k:02d}"] = Shard(
            pool,
            rows,
            y[rows],
            np.array([]),
            {},
            CLASSES,
            3,
        )
    return shards


def network(
    model: str,
    size: int,
    device: str,
    precision: str = "fp32",
) -> models.Network:
    inputs = models.Inputs(3, CLASSES, size)
    return models.build(model, inputs, seed=0, precision=precision).to(device)
