"""Local steps: one batch, one gradient, one step of the optimizer.

graphs.py records and replays them on a GPU.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
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


@dataclass(frozen=True)
class Span:
    """Weights that share a learning rate, with their part of the gradient and of the state.

    Attributes:
        weights, grad: [S] live. moments: [S] each; of SGD the momentum.
        rate: a number, or a scalar tensor where a captured step reads it.
    """

    weights: Tensor
    grad: Tensor
    moments: list[Tensor]
    rate: Any


class Optimizer:
    """Adam, AdamW or SGD over everything that a layout trains, one fused step on its flat vectors,
    or one for each span where the backbone has a learning rate of its own.

    It has torch's defaults where the papers say nothing, and starts fresh in each round unless it
    is kept. The arithmetic is torch's own (torch.optim.adam, adamw and sgd, fused). Its classes are
    not used because they import a compiler, a second of every command, and allocate their state
    anew for every client. The learning rate is a tensor where the network is on a GPU, so that a
    captured step can be replayed with another one.
    """

    def __init__(self, layout: Layout, name: str):
        self.weights, self.grad = layout.all_trainable  # [Q + T] live
        self.name = name
        self.layout = layout
        device = self.weights.device
        self.lr = torch.zeros((), device=device)
        self.backbone_lr = torch.zeros((), device=device)
        self.momentum = 0.0
        self.decay = 0.0
        self.clip_norm = 0.0
        self.nesterov = False
        self.state = [torch.zeros_like(self.weights)]
        self.spans: list[Span] = []
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
        for name, tensor in zip(STATE[self.name], self.state, strict=True):
            if state and PREFIX + name in state:
                tensor.copy_(state[PREFIX + name])
            else:
                tensor.zero_()
        rate = self._rate(self.lr, training.lr)
        if training.backbone == 1:
            self._divide([slice(None)], [rate])
            return
        backbone_rate = self._rate(self.backbone_lr, training.lr * training.backbone)
        spans = [*self.layout.rest, *self.layout.backbone]
        rates = [rate] * len(self.layout.rest) + [backbone_rate] * len(self.layout.backbone)
        self._divide(spans, rates)

    def _rate(self, live: Tensor, number: float) -> Any:
        """A learning rate as the step takes it: as a number, which is faster, where no graph
        captures it."""
        live.fill_(number)
        return live if live.is_cuda else number

    def _divide(self, spans: list[slice], rates: list[Any]) -> None:
        """Divide the vectors into spans, each with its learning rate."""
        moments = self.state[:2] if self.name != "sgd" else self.state
        self.spans = []
        for span, rate in zip(spans, rates, strict=True):
            of_span = [moment[span] for moment in moments]
            self.spans.append(Span(self.weights[span], self.grad[span], of_span, rate))

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
        for index, span in enumerate(self.spans):
            if self.name == "sgd":
                self._sgd_step(span)
                continue
            if index:
                self.state[-1].sub_(1)  # it counts a step of all spans once
            self._adam_step(span)

    def _adam_step(self, span: Span) -> None:
        mean, square = span.moments
        beta1, beta2 = BETAS
        step = adam if self.name == "adam" else adamw
        step(
            [span.weights],
            [span.grad],
            [mean],
            [square],
            [],
            [self.state[-1]],
            amsgrad=False,
            beta1=beta1,
            beta2=beta2,
            eps=EPS,
            fused=True,
            lr=span.rate,
            weight_decay=self.decay,
            maximize=False,
        )

    def _sgd_step(self, span: Span) -> None:
        buffers: list[Tensor | None] = [None]
        if self.momentum:  # from zero: at first the gradient
            buffers = [*span.moments]
        sgd(
            [span.weights],
            [span.grad],
            buffers,
            momentum=self.momentum,
            dampening=0.0,
            nesterov=self.nesterov,
            fused=True,
            lr=span.rate,
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
