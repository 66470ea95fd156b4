"""A federation small enough to play in milliseconds: four clients, 8x8 images, batch norm, dropout.

What a method must hold is checked on it, by `fedcli check` and by the tests.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from ..data.shard import Shard
from ..federation.client import Training
from ..federation.engines.in_process import InProcess
from ..federation.server import Federation
from ..methods.registry import Method
from ..models.clip import ClipNetwork
from ..models.layout import Layout
from ..models.network import Network, make_lone_safe
from ..seeds import derive, seed_torch

ROSTER = ["north", "south", "east", "west"]
CLASSES = 3

Extend = Callable[[Network], None]


def _nothing(_net: Network) -> None:
    """Add no layers."""


def toy_net(
    seed: int = 0,
    dropout: float = 0.2,
    extend: Extend = _nothing,
) -> Network:
    """A convolution and a linear layer. extend: as Local.extend."""

    def build() -> Network:
        layers = (
            nn.Conv2d(1, 4, 3, padding=1, bias=False),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(4),
            nn.Flatten(),
        )
        return Network(nn.Sequential(*layers, nn.Dropout(dropout)), 16, CLASSES)

    return _extended(build, seed, extend)


def toy_clip(seed: int = 0, extend: Extend = _nothing) -> Network:
    """The tiny vision transformer over toy images, enlarged to 32 x 32: 16 tokens of width 16."""
    return _extended(
        lambda: ClipNetwork("clip-tiny", 1, ["a", "b", "c"]),
        seed,
        extend,
    )


def _extended(
    build: Callable[[], Network],
    seed: int,
    extend: Extend,
) -> Network:
    with torch.random.fork_rng(devices=[]):
        seed_torch(seed)
        net = build()
        net.channels = 1
        net.side = 8
        net.class_names = ["a", "b", "c"]
        net.attributes = {"sex": ["f", "m"]}
        seed_torch(seed + 1)
        extend(net)
    make_lone_safe(net)
    return net


def toy_shard(
    client: str,
    count: int | None = None,
    kind: str = "none",
    absent: int | None = None,
) -> Shard:
    """Images whose upper, middle or lower part is brighter, by class.

    absent: a class that no image has.
    """
    rng = np.random.default_rng(derive("toy", client))
    n = count or 20 + int(rng.integers(30))
    y = rng.integers(0, CLASSES, n)
    if absent is not None:
        y[y == absent] = (absent + 1) % CLASSES
    x = rng.integers(0, 150, (n, 1, 8, 8))
    for c in range(CLASSES):
        x[y == c, :, 2 * c : 2 * c + 3] += 80
    ids = np.array([f"{client}-{i}" for i in range(n)])
    groups = {"sex": torch.from_numpy(rng.integers(-1, 2, n))}
    images = torch.from_numpy(x.clip(0, 255).astype(np.uint8))
    return Shard(
        images,
        torch.arange(n),
        torch.from_numpy(y),
        ids,
        groups,
        CLASSES,
        1,
        kind,
    )


def toy_federation(
    method: Method,
    *,
    shards: dict[str, Shard] | None = None,
    training: Training | None = None,
    rounds: int = 3,
    participation: float = 1.0,
    seed: int = 1,
    dropout: float = 0.2,
    device: str = "cpu",
) -> Federation:
    """The toy clients under a method, by default on 20 to 50 images each and by SGD.

    device: where these shards are.
    """
    if method.local.freezes or method.adapters:  # which stand beside layers of a transformer
        net = toy_clip(extend=method.extend)
    else:
        net = toy_net(dropout=dropout, extend=method.extend)
    net = net.to(device)
    layout = Layout(net, method.personal_tensors(net))
    shards = shards or {client: toy_shard(client) for client in ROSTER}
    training = training or Training(
        optimizer="sgd", lr=0.1, momentum=0.0, weight_decay=0.0, batch_size=8
    )
    clients = InProcess(method, net, layout, shards, training)
    return Federation(clients, rounds, seed, participation)
