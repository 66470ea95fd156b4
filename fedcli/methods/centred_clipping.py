"""Centred clipping: updates are cut where they are far from the update of the round before.

Source: Karimireddy, He and Jaggi, "Learning from history for Byzantine robust optimization", ICML
2021, arXiv 2012.10333, Algorithm 2 and Eq. 3; the paper's text was not at hand.

D_k = theta_k - theta is the update of client k of K, and v begins at the server's last update, in
the first round at 0:

    v <- v + 1 / K sum_k (D_k - v) min(1, tau / ||D_k - v||)    `iterations` times
    theta <- theta + v

so hostile clients can move a round by no more than their share of tau, and have to pull in one
direction over many rounds to go far.

How we differ, and why:
- clients send updates of several local steps, where the paper's have momentum of single gradients,
  kept from round to round; --optimizer keep keeps that of the local optimizer.
- tau = radius; 0, the default, takes the median of the round's ||D_k - v||, the lower one of an
  even number of clients, as no length suits all networks.
Clients count alike, whatever their images. The recorded weights are the shares of the D_k in v
without that of the round before; batch-norm statistics are averaged with them.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from .contract import Aggregated, Aggregator, ClientUpdates, Tensors
from .fedavg import Plain
from .helpers import average, gram, moved_towards
from .registry import register
from .robust import distances_to_sum, lower_median, shortened


@dataclass(frozen=True)
class CentredClipping(Aggregator):
    """The last update, moved towards each of the new ones by no more than a limit."""

    cost = {}

    radius: Annotated[
        float,
        "tau: distance from the last update at which an update is cut, >= 0; 0 takes the median of "
        "the round's distances",
    ] = 0.0
    iterations: Annotated[int, "l: steps from the last update, >= 1"] = 1

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        k = len(updates.rows)
        t = updates.layout.trainable
        start = torch.zeros_like(theta[:t])
        last = memory.get("update", start)  # [T]
        products = gram(theta, updates, [-last])  # [K + 1, K + 1]; the D_k have this sign there too
        shares = torch.zeros(k + 1).double()  # of the D_k and of the last update in v
        shares[k] = 1
        for _ in range(self.iterations):
            distances = distances_to_sum(products, shares)[:k]  # [K] ||D_k - v||
            tau = self.radius or lower_median(distances)
            steps = shortened(distances, tau) / k  # [K]
            shares *= 1 - steps.sum()
            shares[:k] += steps  # Eq. 3
        moved = shares[:k].to(updates.base)  # [K]
        weights = moved / moved.sum()
        out = average(updates.theta, weights)  # [P], of which the buffers stay
        out[:t] = moved_towards(theta, updates, moved)
        out[:t] += shares[k].to(theta) * last
        memory["update"] = out[:t] - theta[:t]
        return out, weights


register(
    "centred-clipping",
    Plain(),
    CentredClipping(),
    label="Centred clipping",
    about="cuts updates that are far from the last round's, so that no hospital turns the model",
    families="hostile",
)
