"""SCAFFOLD: each local step is corrected by how the client's gradient differs from that of all.

Source: Karimireddy, Kale, Mohri, Reddi, Stich and Suresh, ICML 2020, arXiv 1910.06378, Algorithm 1.
A client's variate c_i is renewed by option II, which is the mean of the gradients of its own local
steps. Algorithm 1 gets that mean from the distance gone, (x - y) / (K lr), which holds for plain
SGD alone. Under momentum 0.9 the distance is up to ten times larger, so one would divide by the
effective steps, and under Adam it is no multiple of the gradient at all. We add up the gradients
themselves: the same numbers under plain SGD, the same meaning under every optimizer, and weight
decay, which every client applies anyway, stays out of it.
- rule=released is line 12 as codes copy it, the distance over K lr whatever the optimizer: under
  momentum variates are several times too large, under Adam they are no gradients.
- control=weighted (default): the server's c is renewed with the weights that made the global model,
  so that the correction aims at the same objective. All taking part, c = sum p_i c_i. With K of N
  clients, c moves K/N of the way to the weighted mean of the new variates: weights differ from
  round to round, and summing their changes would leave a remainder that never fades.
- control=uniform: the paper's line 17, c = 1/N sum c_i at all times, whatever weights p the models
  get.
- models are averaged by image count, as in any base here. weights=uniform is the paper's mean, in
  which all clients count the same, and c follows it. Under an add-on the weights are the add-on's.
- no variates for batch-norm statistics. Server step 1.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from .contract import Batch, ClientRound, ClientUpdates, Local, Network, Tensors
from .fedavg import WeightedMean
from .helpers import average
from .registry import register


@dataclass(frozen=True)
class Controlled(Local):
    """Steps along g + c - c_i."""

    cost = {"step": 1}
    one_rate = True

    control: Annotated[
        Literal["weighted", "uniform"], "how clients count in c: as in the model, or all the same"
    ] = "weighted"
    rule: Annotated[
        Literal["original", "released"], "c_i from the gradients, or from the distance gone"
    ] = "original"

    works_without_server = False
    images_in_loss_alone = True

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        zero = torch.zeros_like(client.layout.params)  # [T]
        c = client.shared.get("control", zero)
        mine = client.memory.get("control", zero)
        client.scratch.update(
            c=c,
            mine=mine,
            correction=c - mine,
            total=zero.clone(),
        )

    def gradient(
        self,
        net: Network,
        batch: Batch,
        client: ClientRound,
    ) -> Tensor:
        loss = super().gradient(net, batch, client)
        client.scratch["total"] += client.layout.grad
        client.layout.grad.add_(client.scratch["correction"])  # line 10
        return loss

    def on_round_end(self, net: Network, client: ClientRound) -> None:
        c = client.scratch["c"]
        mine = client.scratch["mine"]
        fresh = client.scratch["total"] / client.steps  # [T] c_i+, line 12 (ii)
        if self.rule == "released":
            start = client.received
            gone = start - client.layout.params  # x - y_i
            mean_gradient = gone / (client.steps * client.lr)
            fresh = mine - c + mean_gradient  # line 12 (ii) to the letter
        client.memory["control"] = fresh
        old = mine if self.control == "uniform" else c
        client.report["control_change"] = fresh - old  # line 13

    def post_aggregate(
        self,
        theta: Tensor,
        updates: ClientUpdates,
        weights: Tensor,
        shared: Tensors,
    ) -> Tensor:
        k = len(weights)
        p = torch.full_like(weights, 1 / k) if self.control == "uniform" else weights  # [K]
        mean_change = average(updates["control_change"], p)
        control = mean_change * (k / updates.roster)  # [T]
        if "control" in shared:
            control = shared["control"] + control  # line 17
        shared["control"] = control
        return theta


register(
    "scaffold",
    Controlled(),
    WeightedMean(),
    label="SCAFFOLD",
    about="corrects local steps for the difference between a hospital and all others",
    families="drift",
)
