"""Local steps: one batch, one gradient, one step of the optimizer. graphs.py records and replays them on a GPU."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from ..data.shard import Batch
from ..methods.contract import ClientRound, Local
from ..methods.mixins import BalancedSampling
from ..models.layout import Layout
from ..models.network import Network
from .dp_sgd import poisson_turns
from .optimizer import Optimizer
from .sampling import strata

Turns = Iterable[tuple[Tensor, Tensor | None]]  # of each batch: indices in the shard [B], draws of augmentation [B, 4]


@dataclass(frozen=True)
class LocalStep:
    """One step of a client's training on one network."""

    local: Local
    net: Network
    layout: Layout
    optimizer: Optimizer

    def __call__(self, client: ClientRound, batch: Batch, total: Tensor) -> None:
        """Take it; its loss is added to total, a scalar."""
        self.layout.zero_grad()
        total += self.local.gradient(self.net, batch, client)
        self.optimizer.step()


class Recorder(Protocol):
    """Training of a client by replaying a recorded step."""

    def fits(self, client: ClientRound, batch_size: int) -> bool: ...

    def train(self, client: ClientRound, turns: Turns, batch_size: int) -> Tensor: ...


@dataclass(frozen=True)
class Steps:
    """Takes the local steps of every client that uses this network.

    recorder: None takes every step as it comes.
    """

    step: LocalStep
    recorder: Recorder | None = None

    def train(
        self, client: ClientRound, epochs: list[dict[str, int]], batch_size: int, sampling: str = "shuffle"
    ) -> Tensor:
        """Train on the client's shard, once for each epoch's seeds; returns the sum of the losses, a scalar."""
        if isinstance(self.step.local, BalancedSampling):
            sampling = "class"
        if client.private:
            turns = (turn for seeds in epochs for turn in poisson_turns(client.shard, batch_size, **seeds))
        else:
            parts = strata(sampling, client.shard, self.step.net.attributes)
            turns = (turn for seeds in epochs for turn in client.shard.turns(batch_size, strata=parts, **seeds))
        if not client.private and self.recorder and self.recorder.fits(client, batch_size):
            return self.recorder.train(client, turns, batch_size)
        total = torch.zeros((), device=client.theta.device)
        for batch in client.shard.batches(turns):
            self.step(client, with_own(batch, client), total)
            client.steps += 1
        return total


def with_own(batch: Batch, client: ClientRound) -> Batch:
    """The batch, with what the client's method has of each image."""
    if not client.per_image:
        return batch
    return replace(batch, per_image={name: values[batch.at] for name, values in client.per_image.items()})
