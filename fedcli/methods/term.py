"""TERM: clients weigh exponentially with their loss, a smooth way between the mean and the worst
client.

Source: Li, Beirami, Sanjabi and Smith, "Tilted empirical risk minimization", ICLR 2021, arXiv
2007.01162, Eq. 2 and Lemma 1, with the tilt over clients as in its federated experiments.

    minimise (1 / t) log sum_k p_k exp(t F_k)
    its gradient is  sum_k w_k grad F_k,  with  w_k ~ p_k exp(t F_k)

p_k = n_k / n, and F_k is plain cross-entropy of the broadcast model on the client's training
images. t = 0 is the base, a large t follows the worst client, and t below 0 leaves out clients
whose loss is far above the others'. How we differ, and why:
- a client takes the run's local steps and w weighs its model; the paper's objective gives only the
  gradient.
- the released code smooths the estimate of the sum over rounds, as it sees few clients in each;
  here losses of all clients of the round are known, and nothing is smoothed.
- the paper tunes t by task; 1 is ours.
Checked against the authors' code (litian96/TERM), where p_k is 1 / K and losses are those of the
broadcast model; of the paper's text Eq. 2 was seen and Lemma 1 was not. exp(t (F_k - max F)) is
computed, which keeps a large t within range; under secure aggregation no one knows max F, so there
it is exp(t F_k), which a large t can take out of range.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from .contract import Aggregated, ClientUpdates, Tensors
from .fedavg import Plain
from .helpers import average
from .mixins import ClientPart, WeighsBySums
from .probes import LossBefore
from .registry import register


@dataclass(frozen=True)
class Tilted(WeighsBySums, LossBefore):
    """Weights by image count times exp(t loss)."""

    t: Annotated[float, "tilt; 0 is the base, large follows the worst client, below 0 the best"] = (
        1.0
    )

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        tilted = self.t * updates["loss_before"].double()  # [K] t F_k
        below = tilted - tilted.max()  # so that none is infinite
        weights = updates.base * torch.exp(below)  # Lemma 1
        weights = weights / weights.sum()
        return average(updates.theta, weights), weights

    def number(self, client: ClientPart, sums: Sequence[Tensor]) -> Tensor:
        tilted = self.t * client.columns["loss_before"].double()
        return client.base * torch.exp(tilted)  # Lemma 1


register(
    "term",
    Plain(),
    Tilted(),
    label="TERM",
    aliases=("tilted",),
    about="gives exponentially more weight to hospitals with a high loss",
    families="hospital",
)
