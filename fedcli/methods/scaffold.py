"""SCAFFOLD: each local step is corrected by how the client's gradient differs from everybody's.

Source: Karimireddy, Kale, Mohri, Reddi, Stich and Suresh, ICML 2020, arXiv 1910.06378, Algorithm 1.
A client's variate c_i is renewed by option II, which is the mean of the gradients of its own local
steps. Algorithm 1 gets that mean from the distance gone, (x - y) / (K lr), which holds for plain SGD
alone. Under momentum 0.9 the distance is up to ten times larger, so one would divide by the effective
steps, and under Adam it is no multiple of the gradient at all. We add up the gradients themselves:
the same numbers under plain SGD, the same meaning under every optimizer, and weight decay, which
every client applies anyway, stays out of it.
- rule=released is line 12 as codes copy it, the distance over K lr whatever the optimizer: under
  momentum variates are several times too large, under Adam they are no gradients.
- control=weighted (default): the server's c is renewed with the weights that made the global model,
  so that the correction pulls to the same objective. All taking part, c = sum p_i c_i. With K of N
  clients, c moves K/N of the way to the weighted mean of the new variates: weights differ from round
  to round, and summing their changes would leave a remainder that never fades.
- control=uniform: the paper's line 17, c = 1/N sum c_i at all times, whatever weights p the models get.
- no variates for batch-norm statistics. Server step 1, and models averaged by image count as in any
  base here; the paper averages them alike.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import torch
from torch import Tensor, nn

from .fedavg import Mean
from .method import Local, Replies, Tensors, Visit, average, register

if TYPE_CHECKING:
    from ..data.load import Batch


@dataclass(frozen=True)
class Controlled(Local):
    """Steps along g + c - c_i."""

    control: Annotated[Literal["weighted", "uniform"], "how clients count in c: as in the model, or alike"] = "weighted"
    rule: Annotated[Literal["original", "released"], "c_i from the gradients, or from the distance gone"] = "original"

    alone = False

    def begin(self, net: nn.Module, visit: Visit) -> None:
        zero = torch.zeros_like(visit.layout.moving)  # [T]
        c, mine = visit.shared.get("control", zero), visit.memory.get("control", zero)
        visit.scratch.update(c=c, mine=mine, correction=c - mine, total=zero.clone())

    def gradient(self, net: nn.Module, batch: "Batch", visit: Visit) -> Tensor:
        loss = super().gradient(net, batch, visit)
        visit.scratch["total"] += visit.layout.grad
        visit.layout.grad.add_(visit.scratch["correction"])  # line 10
        return loss

    def end(self, net: nn.Module, visit: Visit) -> None:
        c, mine = visit.scratch["c"], visit.scratch["mine"]
        fresh = visit.scratch["total"] / visit.steps  # [T] c_i+, line 12 (ii)
        if self.rule == "released":
            gone = visit.theta[: visit.layout.trainable] - visit.layout.moving  # x - y_i
            fresh = mine - c + gone / (visit.steps * visit.lr)  # line 12 (ii) to the letter
        visit.memory["control"] = fresh
        visit.report["control_change"] = fresh - (mine if self.control == "uniform" else c)  # line 13

    def fold(self, theta: Tensor, replies: Replies, weights: Tensor, shared: Tensors) -> Tensor:
        p = torch.full_like(weights, 1 / len(weights)) if self.control == "uniform" else weights  # [K]
        change = average(replies["control_change"], p) * (len(weights) / replies.roster)  # [T]
        shared["control"] = shared["control"] + change if "control" in shared else change  # line 17
        return theta


register(
    "scaffold",
    Controlled(),
    Mean(),
    label="SCAFFOLD",
    about="steps corrected by how the client's gradient differs from everybody's",
)
