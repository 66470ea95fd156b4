"""LoRA and SVD-LoRA: a frozen network that learns through low-rank adapters, averaged factor by
factor.

Source: Hu, Shen, Wallis, Allen-Zhu, Li, Wang, Wang and Chen, "LoRA: low-rank adaptation of large
language models", ICLR 2022, arXiv 2106.09685. Averaged by clients: Sun, Li, Li and Ding, "Improving
LoRA in privacy-preserving federated learning", ICLR 2024, arXiv 2403.12313, section 2. As rivals in
FairFedMed, arXiv 2508.00873, whose code sets what trains.

    ViT   rank 12, alpha 2   adapters on both linear layers of every MLP
    RN50  rank 32, alpha 8   on the 1x1 convolutions conv1 and conv3 of every bottleneck and on
                             the attention pool; batch norms train as well

Two contexts of 4 tokens train beside them and are shared by all clients; for volumes, so does the
projection of slices. On any network but CLIP, which the paper does not train, adapters stand on
every linear layer and convolution that is called, see models/adapted.py, with the ViT's rank and
alpha where most of these are linear layers and with RN50's where most are convolutions; the linear
classifier and batch norms train as well.
All else is frozen and never travels. `lora` is y = W0 x + s x A B. `svd-lora` adds one S [r]
between the two, which starts at linspace(1, 0.1, r); the attention pool is plain LoRA in both.
Averages of A, S and B are not the average of their product, which is what the paper's section 4.2
writes. exact=true averages the products, and brings each back to rank r by QR and a small SVD, see
adapters.py; `exact_loss` in rounds.jsonl is the share of their norm that this loses.
The paper says "exponential moving average" and no more; here it is that of the code, without which
rivals would differ from FairLoRA in their server: new <- (1 - b) average + b old, b = 0.999 (t - 1)
/ T. It stands in for a learning rate that falls: of 50 rounds, the last model is in effect a mean
over some 15. The paper smooths "the global parameters", which in line 16 of its Algorithm 1 are the
factors; contexts, batch norms and the projection of slices are not named there, though they travel
too. ema_of=factors reads it so, ema_of=all smooths all that travels, as the code does; rule= paper
takes the first and rule=released the second, unless ema_of is given. With exact=true factors have
none, since those of two rounds lie in other bases.
How we differ from the authors' code, and why:
- it refuses LoRA and SVD-LoRA on RN50; we train them where FairLoRA trains.
- it sends the whole network in float16 and averages and smooths what is frozen, which moves it by
  rounding.
- one optimizer served all clients and never forgot; here each starts fresh in each round (see
  --optimizer keep).
- the paper's learning rate falls to a tenth at round 40, which is --schedule step:40:0.1; the
  code's never does.
- every client takes part unless --participation says otherwise (theirs: all in the first round,
  then 2 of 3).
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import torch
from torch import Tensor

from ..models.adapted import beside_layers, falling, plain
from ..models.network import Groups
from . import adapters
from .contract import Aggregated, Aggregator, ClientUpdates, Layout, Local, Network, Tensors
from .helpers import average
from .registry import register

Singular = tuple[Tensor | None, Groups | None]
DEFAULT_TRAINING = {
    "optimizer": "sgd",
    "lr": 1e-3,
    "momentum": 0.9,
    "weight_decay": 5e-4,
    "rounds": 50,
}


@dataclass(frozen=True)
class LowRank(Local):
    """Train adapters and two contexts; all else is frozen."""

    cost = "little of the network trains"

    rank: Annotated[
        int, "of the adapters, >= 0; 0 is the backbone's default, 12 for a ViT and 32 for a ResNet"
    ] = 0
    alpha: Annotated[
        float, "adapters count alpha / rank, >= 0; 0 is the default, 2 for a ViT and 8 for a ResNet"
    ] = 0.0

    freezes = True
    head = "prompts"

    def extend(self, net: Network) -> None:
        if hasattr(net, "make_prompts"):
            net.tokens = True
            net.head = net.make_prompts(2)
        beside_layers(net, self.rank, self.alpha, partial(self.singular, net))

    def singular(
        self,
        net: Network,
        rank: int,
    ) -> Singular:
        """Values that S starts with, and where group shares are read."""
        return plain(rank)


@dataclass(frozen=True)
class SingularValues(LowRank):
    """Train adapters with a singular value for each direction, and two contexts."""

    def singular(
        self,
        net: Network,
        rank: int,
    ) -> Singular:
        return falling(rank)


@dataclass(frozen=True)
class FactorMean(Aggregator):
    """Average by image count; adapters by factors with a moving average, or by their products."""

    cost = "little of the network trains"
    needs = "sums"

    ema: Annotated[bool, "moving average over rounds"] = True
    ema_of: Annotated[
        Literal["rule", "factors", "all"], "of the factors, of all that travels, or as the rule"
    ] = "rule"
    exact: Annotated[
        bool,
        "average the products of the factors, not each factor; then they have no moving average",
    ] = False
    rule: Annotated[
        Literal["paper", "released"], "the moving average is of the factors, or of all that travels"
    ] = "paper"

    works_without_server = True

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        mean = self.mean(theta, updates)  # [P]
        if self.ema:
            mean = self.smoothed(theta, mean, updates)
        if self.exact:
            mean, memory["exact_loss"] = self.by_products(theta, mean, updates)
        return mean, updates.base

    def mean(self, theta: Tensor, updates: ClientUpdates) -> Tensor:
        """The average of what the clients sent [P]."""
        return average(updates.theta, updates.base)

    def smoothed(
        self,
        theta: Tensor,
        mean: Tensor,
        updates: ClientUpdates,
    ) -> Tensor:
        """The moving average [P]."""
        keep = 0.999 * (updates.round - 1) / updates.rounds
        part = self.ema_of
        if part == "rule":
            part = "all" if self.rule == "released" else "factors"
        if part == "all":
            return torch.lerp(mean, theta, keep)
        for adapter in adapters.roles(updates.layout):
            for name in adapter.names:
                span = updates.layout.spans[name]
                mean[span] = torch.lerp(mean[span], theta[span], keep)
        return mean

    def by_products(
        self, theta: Tensor, mean: Tensor, updates: ClientUpdates
    ) -> tuple[Tensor, Tensor]:
        """mean [P] with adapters whose products are averages of products, and the share of their
        norm that is lost.
        """
        models = torch.cat([updates.theta, theta[None]])  # [K+1, P]
        weights = by_images(updates)  # [K+1]
        layout = updates.layout
        lost = theta.new_zeros((), dtype=torch.float64)
        whole = theta.new_zeros((), dtype=torch.float64)
        for adapter in adapters.roles(layout):
            by_group = self.by_group(adapter, updates)  # [K+1, G]
            sent = factors(models, layout, adapter)
            new, (adapter_lost, adapter_whole) = adapters.product_mean(
                sent,
                weights,
                by_group,
            )
            lost = lost + adapter_lost
            whole = whole + adapter_whole
            names = (adapter.A, adapter.S, adapter.B)
            for name, values in zip(names, new, strict=True):
                if name:
                    flat = values.flatten().to(mean.dtype)
                    mean[layout.spans[name]] = flat
        tiny = torch.finfo(whole.dtype).tiny
        share = lost.clamp_min(0) / whole.clamp_min(tiny)
        return mean, share.sqrt()

    def by_group(
        self,
        adapter: adapters.Roles,
        updates: ClientUpdates,
    ) -> Tensor:
        """Weights [K+1, G] of each client, and of the old model, in a group's product."""
        return by_images(updates)[:, None]


def by_images(updates: ClientUpdates) -> Tensor:
    """[K+1] how much each client counts, and the old model at the end not at all."""
    return torch.cat([updates.base, updates.base.new_zeros(1)])


def factors(
    models: Tensor,
    layout: Layout,
    adapter: adapters.Roles,
) -> adapters.Factors:
    """The factors of one adapter in models [K, P]."""
    k = len(models)
    a_columns = models[:, layout.spans[adapter.A]]
    a = a_columns.view(k, *layout.shapes[adapter.A])
    b_columns = models[:, layout.spans[adapter.B]]
    b = b_columns.view(k, *layout.shapes[adapter.B])
    rank = a.shape[2]
    if adapter.S:
        s_columns = models[:, layout.spans[adapter.S]]
        s = s_columns.view(k, -1, rank)
    else:
        s = a.new_ones(k, 1, rank)
    return adapters.Factors(a, s, b)


register(
    "lora",
    LowRank(),
    FactorMean(),
    label="LoRA",
    about="trains small adapters of a large frozen network, so that little is sent",
    families="large",
    default_training=DEFAULT_TRAINING,
)
register(
    "svd-lora",
    SingularValues(),
    FactorMean(),
    label="SVD-LoRA",
    about="trains small adapters whose directions have adjustable strengths",
    families="large",
    default_training=DEFAULT_TRAINING,
)
