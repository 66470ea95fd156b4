"""The federated training that fedcli and every other framework or loop do side by side."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedcli import models
from fedcli.bench import engine
from fedcli.data import transforms
from fedcli.data.shard import Shard
from fedcli.seeds import derive
from fedcli.system.processes import cores

BATCH = 32
LEARNING_RATE = 5e-3  # small, so that rounding does not grow from step to step

Train = Callable[[], Tensor]  # all rounds from the start; the trained weights [T] at the end


@dataclass(frozen=True)
class Problem:
    """The training that every side does. Plain data, so that another process can make the same
    tensors from it.

    Attributes:
        images: per client.
        cores: that every side may use.
    """

    model: str = "cnn"
    size: int = 32
    clients: int = 20
    images: int = 64
    rounds: int = 3
    cores: int = field(default_factory=cores)

    @property
    def names(self) -> list[str]:
        return [f"client-{k:02d}" for k in range(self.clients)]

    def shards(self) -> dict[str, Shard]:
        return engine.random_shards(self.clients, self.images, self.size, "cpu")

    def net(self) -> models.Network:
        """The network with the starting weights."""
        return engine.network(self.model, self.size, "cpu")

    def order(self, client: str, round: int) -> Tensor:
        """The indices of a client's images in the order of one round, t from 1: int64 [N]."""
        stream = torch.Generator().manual_seed(derive("shuffle", 0, round, client, 0))
        return torch.randperm(self.images, generator=stream)


def weights(net: nn.Module) -> Tensor:
    """A copy of all parameters as one vector [T]."""
    return torch.cat([parameter.detach().flatten() for parameter in net.parameters()])


@functools.cache
def in_worker(problem: Problem) -> tuple[nn.Module, dict[str, Shard]]:
    """A network to train and all images, which a process that works for another keeps, on one
    thread.
    """
    torch.set_num_threads(1)
    return problem.net().train(), problem.shards()


def train_epoch(net: nn.Module, shard: Shard, order: Tensor) -> None:
    """Plain PyTorch over one client's images in this order [N]."""
    optimizer = torch.optim.SGD(net.parameters(), lr=LEARNING_RATE)
    for at in order.split(BATCH):
        x = transforms.to_input(shard.images[shard.rows[at]], channels=shard.channels)
        optimizer.zero_grad()
        F.cross_entropy(net(x), shard.y[at]).backward()
        optimizer.step()
