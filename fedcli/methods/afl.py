"""AFL: the server raises the weight of clients with a large loss, step by step.

Source: Mohri, Sivek and Suresh, ICML 2019, arXiv 1902.00146, Algorithm 1 (Stochastic-AFL).

              original (default)                          released (FFL4MIA, for arXiv 2503.09587)
    weights   lambda, uniform at first, moved by ascent   1 for the largest loss, 0 for all others
    memory    lambda from round to round                  none

In both, a client's loss is plain cross-entropy of the broadcast model on its training images. Under
`released` the new global model is the local model of one client (ties: the first in the roster),
which explains the large spread between rounds in the printed tables. How we differ from the
original, and why:
- several local steps a round instead of one minibatch, as every method here; the model is
  aggregated with lambda before lambda moves.
- the model of the last round is kept, not the mean over all rounds, as for every other method.
- an absent client gets no ascent. The projection is over the whole roster, and the weights are
  lambda over those present, divided by their sum; uniform where that sum is 0.
- the projection sorts and cuts; that of fair_flearn leaves the current element out of its prefix
  sum.
FedHEAL's group (MarsFL) starts lambda anew every round and takes losses on test data: not offered.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from .contract import Aggregated, ClientUpdates, Tensors
from .fedavg import Plain
from .helpers import average, by_row, normalised
from .mixins import SubsetTraining
from .probes import LossBefore
from .registry import register


@dataclass(frozen=True)
class Agnostic(SubsetTraining, LossBefore):
    """Minimax: descend on the weighted loss, ascend on the weights."""

    gamma: Annotated[
        float, "ascent step on lambda per unit of loss, >= 0; 0 keeps it uniform; original only"
    ] = 0.01
    rule: Annotated[Literal["original", "released"], "ascent, or the worst client alone"] = (
        "original"
    )

    @property
    def trains_subset(self) -> bool:
        return self.rule == "released"

    def select_clients(self, columns: Tensors, rows: Tensor) -> Tensor:
        return worst(columns["loss_before"], rows)

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        loss = updates["loss_before"].double()  # [K]
        rows = updates.rows  # [K]
        if self.rule == "released":
            weights = worst(loss, rows).double()
            return average(updates.theta, weights), weights
        dual = by_row(memory, "lambda", updates, 1 / updates.roster)  # [N]
        weights = normalised(dual[rows])
        dual[rows] += self.gamma * loss
        memory["lambda"] = project_to_simplex(dual)  # Alg. 1, the step on lambda
        return average(updates.theta, weights), weights


def worst(loss: Tensor, rows: Tensor) -> Tensor:
    """bool [K]: the largest loss, and of equals the first in the roster."""
    worst_rows = rows.where(loss == loss.max(), rows.max() + 1)
    chosen = worst_rows.argmin()
    return torch.arange(len(rows), device=rows.device) == chosen


def project_to_simplex(v: Tensor) -> Tensor:
    """The nearest point to v [N] with entries >= 0 and sum 1."""
    falling = v.cpu().sort(descending=True).values  # a sum along CUDA has no fixed order
    counts = torch.arange(1, len(v) + 1)
    excess = (falling.cumsum(0) - 1) / counts
    above = (falling > excess).sum()
    shift = excess[above - 1].to(v.device)
    return (v - shift).clamp_min(0)


register(
    "afl",
    Plain(),
    Agnostic(),
    label="AFL",
    aliases=("agnostic-fl",),
    about="gives more weight to hospitals with a high loss, so that the worst-served one improves",
    families="hospital",
)
