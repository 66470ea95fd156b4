"""FedSMOO: sharpness-aware local steps whose perturbations agree between clients, with FedDyn's
penalty.

Source: Sun, Shen, Chen, Ding and Tao, "Dynamic regularized sharpness aware minimization in
federated learning: approaching global consistency and smooth landscape", ICML 2023, arXiv
2305.11584, as its authors' code (woodenchild95/FL-Simulator, FedSMOO and DRegSAM) computes it. Each
client has a dual mu_i of its perturbation, all a common perturbation s; both are 0 at first. A
local step, with g the gradient at w and g~ that at w + s_i, on one batch:

    s_i = rho u / ||u||,  u = g - mu_i - s        mu_i <- mu_i + s_i - s
    w <- w - lr (g~ + alpha (w - (w_t - l_i)))    l_i: sum of the client's own moves, as in FedDyn
    s = rho m / ||m||                             at the server: m is the mean of mu_i, and the
                                                  model is FedDyn's

rho = 0 is FedDyn. How we differ, and why:
- the paper's text was not at hand. The code says of itself that it leaves the last s_i out of m,
  which the paper has.
- m and the model count clients by images, or as control= and weights= say; in the code all count
  the same.
- the whole penalty is cut at `clip`, as in FedDyn here; the code adds alpha w as weight decay,
  after the cut.
- the second pass moves no batch-norm statistics. Absent clients keep mu_i; they are in no m.
alpha and rho are the code's 0.1.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from .contract import Batch, ClientRound, ClientUpdates, Local, Network, Tensors
from .fedavg import WeightedMean
from .feddyn import Drifting
from .helpers import average, still_batchnorm
from .registry import register


@dataclass(frozen=True)
class SmoothAndConsistent(Drifting):
    """FedDyn's steps at a perturbed model, whose perturbation has a dual of its own."""

    cost = {"step": 2}

    alpha: Annotated[float, "strength of the penalty, >= 0"] = 0.1
    rho: Annotated[float, "perturbation radius, in units of theta, >= 0; 0 is FedDyn"] = 0.1

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        super().on_round_start(net, client)
        zero = torch.zeros_like(client.layout.params)  # [T]
        client.scratch["common"] = client.shared.get("perturbation", zero)  # s
        client.scratch["dual"] = client.memory.get("dual", zero).clone()  # mu_i

    def gradient(
        self,
        net: Network,
        batch: Batch,
        client: ClientRound,
    ) -> Tensor:
        layout = client.layout
        dual = client.scratch["dual"]
        common = client.scratch["common"]
        loss = Local.gradient(self, net, batch, client)
        start = layout.params.clone()  # [T]
        u = layout.grad - dual - common  # [T]
        length = u.norm() + 1e-7
        perturbation = self.rho * u / length  # s_i
        layout.params.add_(perturbation)
        dual.add_(perturbation - common)
        layout.zero_grad()
        with still_batchnorm(net):
            Local.gradient(self, net, batch, client)  # g~
        layout.params.copy_(start)
        self.penalise(client)
        return loss

    def on_round_end(self, net: Network, client: ClientRound) -> None:
        super().on_round_end(net, client)
        dual = client.scratch["dual"].clone()
        client.report["dual"] = dual
        client.memory["dual"] = dual

    def post_aggregate(
        self,
        theta: Tensor,
        updates: ClientUpdates,
        weights: Tensor,
        shared: Tensors,
    ) -> Tensor:
        mean = average(updates["dual"], self.counted(weights))  # [T] m
        length = mean.norm() + 1e-7
        shared["perturbation"] = self.rho * mean / length
        return super().post_aggregate(theta, updates, weights, shared)


register(
    "fedsmoo",
    SmoothAndConsistent(),
    WeightedMean(),
    label="FedSMOO",
    about="takes robust local steps that agree between hospitals, with FedDyn's correction",
    families="drift",
)
