"""FedISM and FedISM+: sharpness-aware clients, weighted by how sharp the global model is for them.

Source: Wu et al., arXiv 2503.09587, Eqs. 9-18 (FedISM: arXiv 2404.17805).
How we differ from the paper's text:
- the local step is GSAM (Zhuang et al., ICLR 2022, arXiv 2203.08065), as in the authors' code with
  alpha = 0.1, which the paper does not give; alpha=0 is the plain SAM step of Eq. 14.
- sharpness is clipped below at 1e-10 before Eq. 16, as in the authors' code.
How we differ from the authors' code:
- sharpness and loss are measured on one fixed view of all images; the code draws new augmentations
  for each of its three passes, which adds noise that can make sharpness negative.
- the loss at theta is a by-product of the gradient pass, which saves one of their four forward
  passes.
- state=loss (FedISM+ (L)) and the ablations salt and saga, absent from the code, follow the paper.
- with absent clients, the moving average is kept per client and renormalised over those present.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from . import probes
from .contract import (
    Aggregated,
    Aggregator,
    Batch,
    ClientRound,
    ClientUpdates,
    Local,
    Network,
    Tensors,
)
from .fedavg import Mean, Plain
from .helpers import average, by_row, still_batchnorm
from .mixins import ClientPart, WeighsBySums
from .registry import register


@dataclass(frozen=True)
class Sharp(Local):
    """SALT: descend along the gradient at distance rho(t) along the ascent direction."""

    cost = {"step": 2}

    rho: Annotated[float, "largest perturbation radius, in units of theta, >= 0"] = 0.1
    tau: Annotated[float, "growth of rho over the run, >= 0; 0 keeps it fixed, which is FedISM"] = (
        0.5
    )
    alpha: Annotated[float, "share of the across-gradient that GSAM removes, >= 0; 0 is SAM"] = 0.1

    def warning(self, net: Network, rounds: int) -> str:
        if not (net.bf16 and self.alpha):
            return ""
        return (
            "in bf16 the difference of two near gradients, which GSAM removes, is mostly "
            "rounding: --precision fp32"
        )

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        # a tensor, so that a recorded step serves every round; full() does not wait for a GPU
        radius = perturbation_radius(self, client)
        client.scratch["radius"] = torch.full((), radius, device=client.theta.device)

    def gradient(
        self,
        net: Network,
        batch: Batch,
        client: ClientRound,
    ) -> Tensor:
        return self.gradient_at_distance(net, batch, client, client.scratch["radius"])

    def gradient_at_distance(
        self,
        net: Network,
        batch: Batch,
        client: ClientRound,
        radius: Tensor | float,
    ) -> Tensor:
        """Leave the gradient at this distance in net; returns the loss for the record."""
        layout = client.layout
        loss = super().gradient(net, batch, client)
        g = layout.grad.clone()  # [T] at theta
        theta = layout.params.clone()  # [T]
        step = (g.norm() + 1e-12).reciprocal() * radius
        layout.params.addcmul_(g, step)  # theta + eps*, Eq. 9
        layout.zero_grad()
        with still_batchnorm(net):
            super().gradient(net, batch, client)
        layout.params.copy_(theta)
        g_p = layout.grad  # [T] at theta + eps*, Eq. 14
        squared = g_p @ g_p + 1e-24
        along = (g @ g_p) / squared
        across = g - along * g_p
        g_p.sub_(across, alpha=self.alpha)  # GSAM: less of the part that points across
        return loss


@dataclass(frozen=True)
class BySharpness(WeighsBySums, Aggregator):
    """SAGA: average local models in proportion to sharpness (or perturbed loss) ** q."""

    cost = {"gradient": 1, "forward": 1}
    needs = "scalars"

    rho: Annotated[float, "largest perturbation radius, in units of theta, >= 0"] = 0.1
    tau: Annotated[float, "growth of rho over the run, >= 0; 0 keeps it fixed"] = 0.5
    q: Annotated[float, "exponent, >= 0; larger gives more to the sharpest client"] = 2.0
    beta: Annotated[float, "share of this round in the moving average of weights, in [0, 1]"] = 0.5
    state: Annotated[
        Literal["sharpness", "loss"], "what is weighed: FedISM+ (S) or FedISM+ (L)"
    ] = "sharpness"

    def measure_global(self, net: Network, client: ClientRound) -> None:
        radius = perturbation_radius(self, client)
        loss, perturbed = probes.ascend(net, client, radius)
        if self.state == "sharpness":
            perturbed = perturbed - loss  # Eq. 10
        client.report[self.state] = perturbed

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        s = updates[self.state].double().clamp_min(1e-10)  # [K]
        share = s / s.sum() + 1e-10
        # by the largest, so that a large q cannot make all of them 0
        fresh = (share / share.max()) ** self.q
        fresh = fresh / fresh.sum()  # Eq. 16
        rows = updates.rows
        table = by_row(memory, "weights", updates, -1.0)  # [N], -1 before a client's first round
        past = table[rows]  # [K]
        mixed = self.beta * fresh + (1 - self.beta) * past  # Eq. 18
        mixed = torch.where(past < 0, fresh, mixed)
        table[rows] = mixed
        memory["weights"] = table
        weights = mixed / mixed.sum()
        return average(updates.theta, weights), weights

    def number(self, client: ClientPart, sums: Sequence[Tensor]) -> Tensor:
        s = client.columns[self.state].double().clamp_min(1e-10)
        return s**self.q

    def weight(self, client: ClientPart, sums: Sequence[Tensor]) -> Tensor:
        fresh = super().weight(client, sums)  # Eq. 16
        past = client.memory.get("saga_weight", fresh)
        mixed = self.beta * fresh + (1 - self.beta) * past  # Eq. 18
        client.memory["saga_weight"] = mixed
        return mixed


def perturbation_radius(half: Sharp | BySharpness, client: ClientRound) -> float:
    progress = client.round / client.rounds
    return half.rho * progress**half.tau  # Eq. 12


register(
    "fedism-plus",
    Sharp(),
    BySharpness(),
    label="FedISM+",
    about="makes the model robust to noisy images, and gives more weight to hospitals "
    "where it is least stable",
    families="noise first",
)
register(
    "fedism",
    Sharp(rho=0.05, tau=0.0),
    BySharpness(rho=0.05, tau=0.0),
    label="FedISM",
    about="FedISM+ with a constant strength of its robust steps",
    families="noise",
)
register(
    "salt",
    Sharp(),
    Mean(),
    label="SALT",
    about="the local half of FedISM+: steps that are robust to noise, and a plain average",
    families="noise",
)
register(
    "saga",
    Plain(),
    BySharpness(),
    label="SAGA",
    about="the server half of FedISM+: plain steps, and more weight for hospitals where "
    "the model is least stable",
    families="noise",
)
