"""Local steps: one batch, one gradient, one step of the optimizer. graphs.py records and replays them on a GPU."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

from ..data.shard import Batch
from ..methods.contract import ClientRound, Local, Tensors
from ..methods.helpers import cut_to_norm
from ..methods.mixins import BalancedSampling
from ..models.layout import Layout
from ..models.network import Network
from .dp_sgd import poisson_turns
from .sampling import strata
from .training import Training

BETAS = 0.9, 0.999
EPS = 1e-8
PREFIX = "optimizer_"  # of its state in a client's memory
STATE = {
    "sgd": ("momentum",),
    "adam": ("mean", "square", "steps"),
    "adamw": ("mean", "square", "steps"),
}


class Optimizer:
    """Adam, AdamW or SGD over everything that a layout trains, one fused step on its flat vectors; torch's defaults
    where the papers say nothing. It starts fresh in each round unless it is kept.

    The arithmetic is torch's own (torch.optim.adam, adamw and sgd, fused). Its classes are not used because they import
    a compiler, a second of every command, and allocate their state anew for every client. The learning rate is a tensor
    where the network is on a GPU, so that a captured step can be replayed with another one.
    """

    def __init__(self, layout: Layout, name: str):
        self.weights, self.grad = layout.all_trainable  # [Q + T] live
        self.name = name
        device = self.weights.device
        self.lr = torch.zeros((), device=device)
        self.momentum = self.decay = self.clip_norm = 0.0
        self.nesterov = False
        vector = torch.zeros_like(self.weights)
        self.state = (
            [vector] if name == "sgd" else [vector, vector.clone(), torch.zeros((), device=device)]
        )

    def begin(self, training: Training, kept: Tensors | None = None) -> None:
        """Forget the client before; go on with what this one kept, where it is the state of the same optimizer."""
        self.momentum, self.decay = training.momentum, training.weight_decay
        self.nesterov, self.clip_norm = training.nesterov, training.clip_norm
        self.lr.fill_(training.lr)
        self._rate: Any = (
            self.lr if self.weights.is_cuda else training.lr
        )  # faster as a number, where none captures it
        for name, tensor in zip(STATE[self.name], self.state, strict=True):
            if kept and PREFIX + name in kept:
                tensor.copy_(kept[PREFIX + name])
            else:
                tensor.zero_()

    def kept(self) -> Tensors:
        """A copy of its state, for the client's memory."""
        return {
            PREFIX + name: tensor.clone()
            for name, tensor in zip(STATE[self.name], self.state, strict=True)
        }

    def step(self) -> None:
        """One step along the gradient that is in the layout."""
        if self.clip_norm:
            cut_to_norm(self.grad, self.clip_norm)
        weights, grad = [self.weights], [self.grad]
        if self.name != "sgd":
            mean, square, count = self.state
            beta1, beta2 = BETAS
            (adam if self.name == "adam" else adamw)(
                weights,
                grad,
                [mean],
                [square],
                [],
                [count],
                amsgrad=False,
                beta1=beta1,
                beta2=beta2,
                eps=EPS,
                fused=True,
                lr=self._rate,
                weight_decay=self.decay,
                maximize=False,
            )
            return
        buffers: list[Tensor | None] = (
            [*self.state] if self.momentum else [None]
        )  # from zero: first the gradient
        sgd(
            weights,
            grad,
            buffers,
            momentum=self.momentum,
            dampening=0.0,
            nesterov=self.nesterov,
            fused=True,
            lr=self._rate,
            weight_decay=self.decay,
            maximize=False,
        )


def own_state(memory: Tensors) -> Tensors:
    """State that an optimizer kept in a client's memory, taken out of it, so that no method sees it."""
    return {name: memory.pop(name) for name in list(memory) if name.startswith(PREFIX)}


Turns = Iterable[
    tuple[Tensor, Tensor | None]
]  # of each batch: indices in the shard [B], draws of augmentation [B, 4]


class Steps:
    """Takes the local steps of every client that uses this network."""

    def __init__(self, local: Local, net: Network, layout: Layout, optimizer: str):
        self.local, self.net, self.layout = local, net, layout
        self.optimizer = Optimizer(layout, optimizer)

    def train(
        self,
        client: ClientRound,
        epochs: list[dict[str, int]],
        batch_size: int,
        sampling: str = "shuffle",
    ) -> Tensor:
        """Train on the client's shard, once for each epoch's seeds; returns the sum of the losses, a scalar."""
        if isinstance(self.local, BalancedSampling):
            sampling = "class"
        if client.private:
            turns = (
                turn
                for seeds in epochs
                for turn in poisson_turns(client.shard, batch_size, **seeds)
            )
        else:
            parts = strata(sampling, client.shard, self.net.attributes)
            turns = (
                turn
                for seeds in epochs
                for turn in client.shard.turns(batch_size, strata=parts, **seeds)
            )
        return self.along(client, turns, batch_size)

    def along(self, client: ClientRound, turns: Turns, batch_size: int) -> Tensor:
        """Take a step for each batch, as it comes; returns the sum of the losses, a scalar."""
        total = torch.zeros((), device=client.theta.device)
        for batch in client.shard.batches(turns):
            self.step(client, with_own(batch, client), total)
            client.steps += 1
        return total

    def step(self, client: ClientRound, batch: Batch, total: Tensor) -> None:
        """Take one step; its loss is added to total, a scalar."""
        self.layout.zero_grad()
        total += self.local.gradient(self.net, batch, client)
        self.optimizer.step()


def with_own(batch: Batch, client: ClientRound) -> Batch:
    """The batch, with what the client's method has of each image."""
    if not client.per_image:
        return batch
    return replace(
        batch, per_image={name: values[batch.at] for name, values in client.per_image.items()}
    )
