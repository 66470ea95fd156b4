"""Local steps: one batch, one gradient, one step of the optimizer.

graphs.py records and replays them on a GPU.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
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
    """Adam, AdamW or SGD over everything that a layout trains, one fused step on its flat vectors.

    It has torch's defaults where the papers say nothing, and starts fresh in each round unless it
    is kept. The arithmetic is torch's own (torch.optim.adam, adamw and sgd, fused). Its classes are
    not used because they import a compiler, a second of every command, and allocate their state
    anew for every client. The learning rate is a tensor where the network is on a GPU, so that a
    captured step can be replayed with another one.
    """

    def __init__(self, layout: Layout, name: str):
        self.weights, self.grad = layout.all_trainable  # [Q + T] live
        self.name = name
        device = self.weights.device
        self.lr = torch.zeros((), device=device)
        self.momentum = 0.0
        self.decay = 0.0
        self.clip_norm = 0.0
        self.nesterov = False
        self.state = [torch.zeros_like(self.weights)]
        if name != "sgd":
            self.state += [torch.zeros_like(self.weights), torch.zeros((), device=device)]

    def begin(self, training: Training, state: Tensors | None = None) -> None:
        """Forget the client before.

        state: to go on with, where it is that of the same optimizer.
        """
        self.momentum = training.momentum
        self.decay = training.weight_decay
        self.nesterov = training.nesterov
        self.clip_norm = training.clip_norm
        self.lr.fill_(training.lr)
        # faster as a number, where none captures it
        self._rate: Any = self.lr if self.weights.is_cuda else training.lr
        for name, tensor in zip(STATE[self.name], self.state, strict=True):
            if state and PREFIX + name in state:
                tensor.copy_(state[PREFIX + name])
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
        if self.name == "sgd":
            self._sgd_step()
        else:
            self._adam_step()

    def _adam_step(self) -> None:
        mean, square, count = self.state
        beta1, beta2 = BETAS
        step = adam if self.name == "adam" else adamw
        step(
            [self.weights],
            [self.grad],
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

    def _sgd_step(self) -> None:
        buffers: list[Tensor | None] = [None]
        if self.momentum:  # from zero: at first the gradient
            buffers = [*self.state]
        sgd(
            [self.weights],
            [self.grad],
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
    """The optimizer's state in a client's memory, taken out of it, so that no method sees it."""
    return {name: memory.pop(name) for name in list(memory) if name.startswith(PREFIX)}


# for each batch: indices in the shard [B], draws of augmentation [B, 4]
Turns = Iterable[tuple[Tensor, Tensor | None]]


class Steps:
    """Takes the local steps of every client that uses this network."""

    def __init__(
        self,
        local: Local,
        net: Network,
        layout: Layout,
        optimizer: str,
    ):
        self.local = local
        self.net = net
        self.layout = layout
        self.optimizer = Optimizer(layout, optimizer)

    def train(
        self,
        client: ClientRound,
        epochs: list[dict[str, int]],
        batch_size: int,
        sampling: str = "shuffle",
    ) -> Tensor:
        """Train on the client's shard, once for each epoch's seeds.

        Returns the sum of the losses, a scalar.
        """
        if isinstance(self.local, BalancedSampling):
            sampling = "class"
        if client.private:
            turns = [poisson_turns(client.shard, batch_size, **seeds) for seeds in epochs]
        else:
            parts = strata(sampling, client.shard, self.net.attributes)
            shard = client.shard
            turns = [shard.turns(batch_size, strata=parts, **seeds) for seeds in epochs]
        return self.along(client, chain.from_iterable(turns), batch_size)

    def along(
        self,
        client: ClientRound,
        turns: Turns,
        batch_size: int,
    ) -> Tensor:
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
    """The batch with the values that the client's method has for each image."""
    if not client.per_image:
        return batch
    per_image = {name: values[batch.at] for name, values in client.per_image.items()}
    return replace(batch, per_image=per_image)
