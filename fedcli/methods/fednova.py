"""FedNova: updates are divided by the local steps behind them before they are averaged.

Source: Wang, Liu, Liang, Joshi and Poor, NeurIPS 2020, arXiv 2007.07481, Section 4; with FedProx
clients it is the baseline of FedMRL (MICCAI 2024).

    theta <- theta + tau_eff sum_k p_k (theta_k - theta) / a_k,   p_k = n_k / n

a_k is what the local steps add up to if every gradient is 1: with learning rate lr, momentum rho
and FedProx's mu, each step does c <- rho c + 1 and then a <- (1 - lr mu) a + c. Plain SGD gives the
number of steps; under Nesterov's momentum 1 + rho c is added in place of c. tau_eff is sum p_k a_k,
or sum p_k (steps of k) where mu > 0, as in the authors' code.
A FedProx client reports its proximal coefficient mu; with every other base mu is 0.
How we differ from the authors' code, and why:
- under --optimizer keep a_k counts the gradients of this round, and what older ones still move is
  divided by it too.
- with momentum and mu at once, a follows the line above; the code's recursion mixes the two terms.
- Adam has no such sum; a_k is then the number of steps, which is the paper's rule for any optimizer
  whose steps have one size.
- batch-norm statistics are averaged with p: they are no sum of steps.
Equal steps and mu = 0 make it FedAvg. The weights of the rule are p_k: the paper normalises by a_k
so that the objective stays sum p_k F_k, and what a base sums with the weights (variates of
SCAFFOLD, moves of FedDyn) must aim at the same one.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from .contract import Aggregated, Aggregator, ClientRound, ClientUpdates, Network, Tensors
from .fedavg import Plain
from .helpers import average
from .registry import register


@dataclass(frozen=True)
class Normalized(Aggregator):
    """Average updates per local step."""

    cost = {}
    one_rate = True
    needs = "scalars"

    def measure_local(self, net: Network, client: ClientRound) -> None:
        mu = client.scratch.get("mu", 0.0)
        a = c = 0.0
        for _ in range(client.steps):
            c = client.momentum * c + 1
            step = 1 + client.momentum * c if client.nesterov else c
            a = (1 - client.lr * mu) * a + step
        effective = client.theta.new_tensor([a, mu], dtype=torch.float64)
        client.report["local_steps_effective"] = effective[0]
        client.report["mu"] = effective[1]

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        p = updates.base
        a = updates["local_steps_effective"].double()
        t = updates.layout.trainable
        is_proximal = updates["mu"] > 0
        steps = torch.where(is_proximal, updates.steps, a)  # [K]
        share = (p @ steps) * p / a  # [K] tau_eff p_k / a_k
        out = average(updates.theta, share)
        stay = 1 - share.sum()
        out[:t] += stay * theta[:t]
        buffers = updates.theta[:, t:]
        out[t:] = average(buffers, p)
        return out, p


register(
    "fednova",
    Plain(),
    Normalized(),
    label="FedNova",
    about="averages updates per local step, so that more steps give a hospital no more influence",
    families="drift",
)
