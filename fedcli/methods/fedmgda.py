"""FedMGDA+: the shortest mean of the clients' updates, each of length 1, with weights near
FedAvg's.

Source: Hu, Shaloudegi, Zhang and Yu, IEEE TNSE 2022, arXiv 2006.11489, Algorithm 1 (server).

    g_i = theta - theta_i,  u_i = g_i / ||g_i||
    lambda* = argmin ||sum_i lambda_i u_i||^2  over the simplex with
              max_i |lambda_i - lambda0_i| <= epsilon
    d = sum_i lambda*_i u_i,  theta <- theta - eta d

epsilon = 0 is FedAvg of updates of length 1. epsilon = 1 is MGDA: if d is not 0, u_i d >= ||d||^2 >
0 for every i, so no client's loss rises for a small enough step.

Where we differ. The paper takes a server step eta_t of its own, so d has a length of at most 1
whatever clients did, and eta must be tuned for every network. Here length=kept (default) scales
back: eta = step sum_i lambda0_i ||g_i||, so that step 1 goes as far as FedAvg goes where clients
agree, and one client alone gets its own model; length=unit is the paper's eta = step. lambda0 is
n_i / n of the round. The problem is of the trainable numbers; batch-norm statistics are averaged
with lambda* and not scaled. A client that did not move has no direction: its u_i is 0, which is the
shortest of all, so it weighs as much as epsilon allows. The paper names no solver: ours moves
weight between the two clients that gain most, exactly, until none does (Platt's SMO), from lambda0
on and without random numbers.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from .contract import Aggregated, Aggregator, ClientUpdates, Tensors
from .fedavg import Plain
from .helpers import average, gram
from .registry import register

TOLERANCE = 1e-12  # of the gain by moving weight, on vectors of length 1
MOVES = 100_000


@dataclass(frozen=True)
class MinNorm(Aggregator):
    """The min-norm convex combination of unit updates, near the prior weights."""

    cost = {}

    epsilon: Annotated[
        float, "how far a weight may be from the image share, in [0, 1]; 0 is FedAvg's, 1 is MGDA"
    ] = 0.1
    step: Annotated[float, "server step length, > 0"] = 1.0
    length: Annotated[
        Literal["kept", "unit"],
        "a step is multiplied by the mean length of updates, or, as in the paper, is not",
    ] = "kept"

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        products = gram(theta, updates)  # [K, K] g_i g_j
        norms = products.diagonal().sqrt()  # [K] ||g_i||
        inverse = torch.where(norms > 0, 1 / norms, 0.0)  # [K]
        lambda0 = updates.base.cpu()  # [K]
        unit = inverse[:, None] * products * inverse  # [K, K] u_i u_j
        nearest = min_norm(unit.numpy(), lambda0.numpy(), self.epsilon)
        weights = torch.from_numpy(nearest)  # [K] lambda*, Alg. 1
        length = float(lambda0 @ norms) if self.length == "kept" else 1.0
        eta = self.step * length
        out = average(updates.theta, weights.to(theta.device))  # [P], of which the buffers stay
        moving = slice(updates.layout.trainable)
        d = torch.zeros_like(theta[moving])
        factors = (weights * inverse).tolist()
        for row, factor in zip(updates.theta, factors, strict=True):
            moved = theta[moving] - row[moving]
            d += factor * moved  # d = sum lambda*_i u_i, Alg. 1
        out[moving] = theta[moving] - eta * d  # Alg. 1, last server line
        return out, weights.to(updates.base.device)


def min_norm(
    products: ndarray,
    prior: ndarray,
    epsilon: float,
) -> ndarray:
    """Weights [K] of the simplex, each within epsilon of its prior [K], of the shortest combination
    of K vectors.

    products: [K, K], the vectors' inner products.
    """
    weights = prior / prior.sum()
    low = np.maximum(weights - epsilon, 0)
    high = np.minimum(weights + epsilon, 1)
    for _ in range(MOVES):
        slope = products @ weights  # [K] half the gradient
        may_give = np.where(weights > low, slope, -np.inf)
        giver = int(np.argmax(may_give))
        may_take = np.where(weights < high, slope, np.inf)
        taker = int(np.argmin(may_take))
        gain = slope[giver] - slope[taker]
        below = weights[giver] - low[giver]
        above = high[taker] - weights[taker]
        room = min(below, above)
        if not (gain > TOLERANCE and room > 0):
            break
        squares = products[giver, giver] + products[taker, taker]
        curvature = squares - 2 * products[giver, taker]
        if gain < room * curvature:
            weights[giver] -= gain / curvature
            weights[taker] += gain / curvature
        elif below <= above:  # a bound is met to the last bit
            weights[giver] = low[giver]
            weights[taker] += room
        else:
            weights[giver] -= room
            weights[taker] = high[taker]
    return weights / weights.sum()


register(
    "fedmgda-plus",
    Plain(),
    MinNorm(),
    label="FedMGDA+",
    about="scales updates to one length, and gives more weight to hospitals that the average "
    "step helps least",
    families="hospital",
)
