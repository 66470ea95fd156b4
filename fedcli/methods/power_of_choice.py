"""Power-of-Choice: of some candidates, the clients on which the global model is worst train.

Source: Cho, Wang and Joshi, "Client selection in federated learning: convergence analysis and
power-of-choice selection strategies", 2020, arXiv 2010.01243 (AISTATS 2022 under another title),
the strategy pow-d. In each round

    1. d candidates are drawn without replacement, each in proportion to its images
    2. each candidate sends its mean loss under the global model
    3. the m candidates with the highest losses train, and their models are averaged, all alike

d = m is sampling by images, d of all clients takes the worst m. How we differ, and why:
- d and m are shares of the clients of a round, which --participation has drawn before; by default
  half of all clients are candidates and a quarter trains. Few hospitals need other shares: of four,
  one would train.
- every client of the round measures its loss, since all are asked before the draw; the others'
  losses are not looked at. The variants that save this pass, cpow-d (the loss of one batch) and
  rpow-d (the last known loss), are left out.
- the draw is the clients': each has a random number, log(u) / images, and those with the largest
  are the candidates, which has the same law (Efraimidis and Spirakis, 2006).
Clients that do not train have weight 0, so that a small or unlike hospital is heard when it is
served badly.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from ..seeds import derive
from .contract import Aggregated, ClientRound, ClientUpdates, Network, Tensors
from .fedavg import Plain
from .helpers import average
from .mixins import SubsetTraining
from .probes import LossBefore
from .registry import register


@dataclass(frozen=True)
class HighestLosses(SubsetTraining, LossBefore):
    """The plain mean of the models of those candidates that had the highest losses."""

    candidates: Annotated[
        float, "d, share of a round's clients whose losses are compared, in (0, 1]"
    ] = 0.5
    chosen: Annotated[
        float, "m, share of a round's clients that train, at most the candidates, in (0, 1]"
    ] = 0.25

    def measure_global(self, net: Network, client: ClientRound) -> None:
        super().measure_global(net, client)  # step 2
        seed = derive("power of choice", client.seed, client.round, client.name)
        u = np.random.default_rng(seed).random()  # in [0, 1)
        key = np.log1p(-u) / len(client.shard)
        client.report["candidate_key"] = client.theta.new_tensor(key, dtype=torch.float64)

    def select_clients(self, columns: Tensors, rows: Tensor) -> Tensor:
        k = len(rows)
        d = max(1, round(self.candidates * k))
        m = max(1, round(self.chosen * k))
        keys = columns["candidate_key"]
        candidates = keys.argsort(descending=True, stable=True)[:d]  # step 1
        losses = columns["loss_before"][candidates]  # [d]
        worst = losses.argsort(descending=True, stable=True)[:m]
        trains = rows.new_zeros(k, dtype=torch.bool)
        return trains.index_fill(0, candidates[worst], True)  # step 3

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        trained = self.select_clients(updates.columns, updates.rows).double()  # [K]
        weights = trained / trained.sum()
        return average(updates.theta, weights), weights  # step 3


register(
    "power-of-choice",
    Plain(),
    HighestLosses(),
    label="Power-of-Choice",
    aliases=("pow-d",),
    about="lets hospitals with a high loss take part more often",
    families="hospital",
)
