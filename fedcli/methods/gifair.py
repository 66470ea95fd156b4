"""GIFAIR-FL: a penalty on the spread of losses, between groups of patients or between clients.

Source: Yue, Nouiehed and Al Kontar, "GIFAIR-FL: a framework for group and individual fairness in
federated learning", INFORMS Journal on Data Science 2023, arXiv 2108.02741. The objective is F +
lambda sum_(i<j) |L_i - L_j|, whose descent weighs the loss of group i by its share plus lambda
times a rank:

    r_i = sum_(j /= i) sign(L_i - L_j)                       1 - G for the lowest loss, G - 1 for
                                                             the highest
    mu_i = share_i + lambda r_i,    lambda = strength min_j share_j / (G - 1)

so that mu sums to 1 and, as the paper asks, stays above 0 for a strength below 1. strength is ours,
a share of the largest lambda for which no mu is below 0; 1 may give the smallest group the weight
0, and 0 is FedAvg. Losses are those under the model that a round starts from.

    gifair           groups are the values of an attribute of patients: images are weighed by
                     mu / share, see groups.py
    gifair-clients   every client is a group of its own, the paper's individual fairness: models
                     are averaged by mu

How we differ, and why:
- the paper's groups are sets of clients, of which each client is in one; patients of both sexes are
  in every hospital, so `gifair` weighs images by what its groups' losses are over all clients.
- `gifair-clients` weighs models where the paper multiplies a client's local gradient by mu_k /
  share_k. Under plain SGD both are the same to first order; Adam undoes such a factor, so under it
  only weights of models have an effect.
- of one group mu is 1; equal losses have rank 0.
`gifair` gives an image of unknown group the weight 1 and counts it in none. A group without an
image at any client of a round keeps its mu. A group of one image has a rank as any other, and as
the smallest it bounds lambda for all: then all weights stay near 1. A run warns of groups under 30
(see groups.py).
The paper's text was not at hand. The formula is the one others cite, and the ranks are those of the
GIFAIR baseline in the code of FedFB's authors (yzeng58/Improving-Fairness-via-Federated-Learning).
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from .contract import Aggregated, ClientUpdates, Tensors
from .fedavg import Mean, Plain
from .groups import Minimax
from .helpers import average
from .probes import LossBefore
from .registry import register

Strength = Annotated[
    float, "lambda, as a share of the largest for which no weight is below 0, in [0, 1]"
]


def spread_weights(share: Tensor, loss: Tensor, strength: float) -> Tensor:
    """mu [G], in sum 1, from shares [G] above 0 and losses [G]."""
    if len(share) < 2:
        return share / share.sum()
    signs = torch.sign(loss[:, None] - loss)
    rank = signs.sum(1)  # [G]
    others = len(share) - 1
    largest = float(share.min()) / others
    weights = share + strength * largest * rank
    return weights.clamp_min(0)  # rounding may leave the smallest just below 0


@dataclass(frozen=True)
class SpreadOfGroups(Minimax):
    """Weights of groups that follow the rank of their losses."""

    cost = {"step": 1, "forward": 1}

    strength: Strength = 0.5

    def start(self, rho: Tensor) -> Tensor:
        return rho

    def move(self, mu: Tensor, rho: Tensor, risk: Tensor, n: Tensor) -> Tensor:
        return spread_weights(rho / rho.sum(), risk, self.strength)


@dataclass(frozen=True)
class SpreadOfClients(LossBefore):
    """Models weighed by image share and by the rank of the client's loss."""

    strength: Strength = 0.5

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        loss = updates["loss_before"].double()  # [K]
        weights = spread_weights(updates.base, loss, self.strength)  # [K]
        return average(updates.theta, weights), weights


register(
    "gifair",
    SpreadOfGroups(),
    Mean(),
    label="GIFAIR",
    aliases=("gifair-fl",),
    about="penalises the spread of losses between patient groups",
    families="groups",
)
register(
    "gifair-clients",
    Plain(),
    SpreadOfClients(),
    label="GIFAIR (clients)",
    about="penalises the spread of losses between hospitals",
    families="hospital",
)
