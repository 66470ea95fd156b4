"""Costs of the engine compared with the work itself, as ratios within one run.

The bare loop is what one would write by hand: the same network, tensors, batches and optimizer steps, with nothing of
fedcli in it. For a method that costs more than plain training, it makes the passes of the method's formula
(see formula()) and does none of its arithmetic. The two sides alternate, so a machine that slows down slows both.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F

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

Optimizer = Literal["adam", "sgd", "adamw"]
CLASSES = 7
LEARNING_RATE = 1e-3
PASSES = (
    "step",
    "look",
    "gradient",
    "forward",
)  # of the network, as halves of methods say in their `cost`
COLUMNS = ["what", "fedcli", "bare", "time ratio", "lowest to highest", "of matrix speed"]


@dataclass(frozen=True)
class Timing:
    """Seconds of the two sides, one pair per repetition.

    flops: of matrix products and convolutions of our side, once; limit: of them in a second, as one large product has.
    """

    what: str
    ours: list[float]
    bare: list[float]
    images: int
    flops: float = 0.0
    limit: float = 0.0

    @property
    def ratio(self) -> float:
        return statistics.median(a / b for a, b in zip(self.ours, self.bare, strict=True))

    @property
    def share(self) -> float | None:
        """Of the limit, by the median of our seconds; None where nothing was counted."""
        return self.flops / statistics.median(self.ours) / self.limit if self.limit else None

    def row(self) -> list[str]:
        ours, bare = map(self._speed, (self.ours, self.bare))
        spread = sorted(a / b for a, b in zip(self.ours, self.bare, strict=True))
        limit = "-" if self.share is None else f"{100 * self.share:.0f} %"
        return [
            self.what,
            ours,
            bare,
            f"{self.ratio:.3f}",
            f"{spread[0]:.3f} to {spread[-1]:.3f}",
            limit,
        ]

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
        return f"{self.images / seconds:,.0f} images/s" if self.images else f"{seconds:.2f} s"


def formula(method: Method) -> dict[str, int]:
    """The passes of a method's two halves together, by kind. Raises UsageError where they are not known."""
    local, rule = method.local.cost, method.aggregator.cost
    if isinstance(local, str) or isinstance(rule, str):
        reason = local if isinstance(local, str) else rule
        hint = f"methods that can be: {', '.join(measurable())}"
        raise UsageError(f"{method.name} cannot be timed against a formula: {reason}", hint)
    return {kind: local.get(kind, 0) + rule.get(kind, 0) for kind in PASSES}


def measurable() -> list[str]:
    """Methods whose cost follows from their formula."""
    return [
        name
        for name, m in METHODS.items()
        if str not in {type(m.local.cost), type(m.aggregator.cost)}
    ]


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
    """Time the second round of a method against bare loops over the same clients: in the first, some do less.

    Raises UsageError for a method whose cost no formula gives.
    """
    timed = resolve(method)
    passes = formula(timed)
    federation = plain_federation(
        model, size, clients, images, device, method=timed, optimizer=optimizer
    )
    shards, training = federation.clients.shards, federation.training
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
    flops, _ = limits.counted(
        lambda: federation.play(state, engine=limits.unrecorded(federation.clients))
    )
    what, limit = f"{method}, {model}, {size} px, {optimizer}", limits.matrix_speed(device)
    return Timing(what, *pairs, images=len(shards) * images, flops=flops, limit=limit)


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
    method, shards = method or resolve("fedavg"), random_shards(clients, images, size, device)
    net = network(model, size, device, precision)
    training = Training(
        optimizer=optimizer, lr=LEARNING_RATE, momentum=0.9 if optimizer == "sgd" else 0.0
    )
    layout = Layout(net, method.local.personal_tensors(net))
    return Federation(InProcess(method, net, layout, shards, training), rounds=10)


def _bare_client(
    net: torch.nn.Module, client: str, shard: Shard, training: Training, passes: dict[str, int]
) -> None:
    """Plain PyTorch over one client's tensors, in the engine's order."""
    net.eval()
    for at in _parts(shard, 64) * passes["gradient"]:
        F.cross_entropy(net(_input(shard, at)), shard.y[at]).backward()
    with torch.no_grad():
        for at in _parts(shard, EVALUATION_BATCH) * passes["forward"]:
            F.cross_entropy(net(_input(shard, at)), shard.y[at])
    net.train()
    kind = torch.optim.Adam if training.optimizer == "adam" else torch.optim.SGD
    rest = (
        {"fused": True}
        if training.optimizer == "adam"
        else {"fused": True, "momentum": training.momentum}
    )
    optimizer = kind(net.parameters(), lr=training.lr, weight_decay=training.weight_decay, **rest)
    order = torch.randperm(
        len(shard), generator=torch.Generator().manual_seed(derive("shuffle", 0, 1, client, 0))
    )
    for at in order.to(shard.rows.device).split(training.batch_size):
        x = _input(shard, at)
        with torch.no_grad():
            for _ in range(passes["look"]):
                net(x)
        for _ in range(passes["step"]):
            optimizer.zero_grad()
            F.cross_entropy(net(x), shard.y[at]).backward()
        optimizer.step()


def _input(shard: Shard, at: torch.Tensor) -> torch.Tensor:
    return transforms.to_input(shard.images[shard.rows[at]], channels=shard.channels)


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
        for side in (ours, bare) if i % 2 == 0 else (bare, ours):
            start = time.perf_counter()
            side()
            times[side].append(time.perf_counter() - start)
        between()
    return times[ours], times[bare]


def random_shards(clients: int, images: int, size: int, device: str) -> dict[str, Shard]:
    rng = np.random.default_rng(derive("bench", size))
    pixels = torch.from_numpy(rng.integers(0, 256, (clients * images, size, size, 3), np.uint8))
    pool = pixels.permute(0, 3, 1, 2).to(device)
    y = torch.from_numpy(rng.integers(0, CLASSES, clients * images)).to(device)
    out = {}
    for k in range(clients):
        rows = torch.arange(k * images, (k + 1) * images, device=device)
        out[f"client-{k:02d}"] = Shard(pool, rows, y[rows], np.array([]), {}, CLASSES, 3)
    return out


def network(model: str, size: int, device: str, precision: str = "fp32") -> models.Network:
    return models.build(model, models.Inputs(3, CLASSES, size), seed=0, precision=precision).to(
        device
    )
