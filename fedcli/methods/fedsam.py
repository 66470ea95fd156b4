"""FedSAM and MoFedSAM: sharpness-aware local steps, the second along a momentum that clients share.

Source: Qu, Li, Duan, Liu, Tang and Lu, "Generalized federated learning via sharpness aware
minimization", ICML 2022, arXiv 2206.02618, Algorithms 1 and 2; the step is Foret, Kleiner, Mobahi
and Neyshabur, ICLR 2021, arXiv 2010.01412, Eq. 2.

    FedSAM      w~ = w + rho g / ||g||,  w <- w - lr g~    g~: gradient at w~, on the same batch
    MoFedSAM    w <- w - lr (beta g~ + (1 - beta) D)       D: mean of the last round's steps of all

FedSAM is FedISM+'s local half with rho fixed and without GSAM; rho = 0 is FedAvg. With beta = 1
MoFedSAM is FedSAM. D is 0 in the first round, whose steps are beta times as long, as in the paper.
How we differ, and why:
- Algorithm 2 has D from the distance gone over K lr, which holds for plain SGD alone. We add up the
  directions: the same numbers under plain SGD, the same meaning under every optimizer, as for
  SCAFFOLD here.
- models and D are averaged by image count; under an add-on D has the add-on's weights.
- the second pass moves no batch-norm statistics. g is the batch's own gradient, without momentum.
- rho = 0.05 is that of Foret et al.; the paper tunes it by task. beta = 0.1 is the paper's.
Checked against the code of FedLESAM's authors, whose MoFedSAM also adds (1 - beta) D to beta g~ and
cuts the sum at norm 10; that of FedSAM's authors was not at hand, nor its text, so the numbers of
its algorithms are not checked.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from .contract import Batch, ClientRound, ClientUpdates, Local, Network, Tensors
from .fedavg import Mean
from .fedism import Sharp
from .helpers import average
from .registry import register


@dataclass(frozen=True)
class Perturbed(Local):
    """SAM's step, at a fixed radius."""

    cost = {"step": 2}

    rho: Annotated[float, "perturbation radius, in units of theta, >= 0; 0 is FedAvg"] = 0.05

    def gradient(
        self,
        net: Network,
        batch: Batch,
        client: ClientRound,
    ) -> Tensor:
        sharp = Sharp(alpha=0.0)
        # Alg. 1: g~ is left in the layout
        return sharp.gradient_at_distance(net, batch, client, self.rho)


@dataclass(frozen=True)
class Momentous(Perturbed):
    """SAM's step, mixed with the direction of the last round."""

    beta: Annotated[float, "share of the own gradient in a step, in (0, 1]; 1 is FedSAM"] = 0.1

    works_without_server = False

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        zero = torch.zeros_like(client.layout.params)  # [T]
        client.scratch["shared"] = client.shared.get("direction", zero)
        client.scratch["total"] = zero.clone()

    def gradient(
        self,
        net: Network,
        batch: Batch,
        client: ClientRound,
    ) -> Tensor:
        loss = super().gradient(net, batch, client)
        grad = client.layout.grad
        grad.mul_(self.beta).add_(client.scratch["shared"], alpha=1 - self.beta)  # Alg. 2, v
        client.scratch["total"] += grad
        return loss

    def on_round_end(self, net: Network, client: ClientRound) -> None:
        client.report["direction"] = client.scratch["total"] / client.steps  # [T]

    def post_aggregate(
        self,
        theta: Tensor,
        updates: ClientUpdates,
        weights: Tensor,
        shared: Tensors,
    ) -> Tensor:
        shared["direction"] = average(updates["direction"], weights)  # [T] D
        return theta


register(
    "fedsam",
    Perturbed(),
    Mean(),
    label="FedSAM",
    about="takes robust (sharpness-aware) local steps, and averages plainly",
    families="drift",
)
register(
    "mofedsam",
    Momentous(),
    Mean(),
    label="MoFedSAM",
    about="takes robust local steps along a momentum of all hospitals",
    families="drift",
)
