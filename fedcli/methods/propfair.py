"""PropFair: proportional fairness, each client maximises the logarithm of how far its loss is below
a bound.

Source: Zhang, Malekmohammadi, Chen and Yu, "Proportional fairness in federated learning", TMLR
2023, arXiv 2202.01666, Eq. 3.5 and Algorithm 1 (section 3.3 for the part above M - epsilon).

    minimise  - sum_k p_k log(M - F_k)
    in a local step  - log_eps(M - l)  with l the loss of the batch

    log_eps(M - l) = log(M - l)                                    where l <= M - epsilon
                     log(epsilon) - (l - M + epsilon) / epsilon    above, in a straight line

so a step is the plain one divided by M - l: images of a client that does badly push harder. M far
above all losses is FedAvg at a learning rate of lr / M. The authors' code divides by M inside the
logarithm, which changes no gradient, and above M - epsilon takes l / M, which makes the worst
clients' steps small again, or with huber=True l / epsilon, whose gradient is ours. Checked against
that code (huawei-noah/Federated-Learning), whose epsilon is 0.2 too; the paper's text was not at
hand, so the numbers of its equations and sections are not checked.
The recorded training loss is the cross-entropy alone, so that it compares between methods. M is
tuned by dataset in {2, 3, 4, 5} in the paper; 5 is ours, above log C for the datasets here. Adam's
steps do not change with a gradient's length, so under Adam only the differences between batches
remain: use --optimizer sgd, as the paper does.
"""

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from .contract import Batch, ClientRound, Local, Network
from .fedavg import Mean
from .registry import register


@dataclass(frozen=True)
class Proportional(Local):
    """Cross-entropy l, trained as -log(M - l)."""

    cost = {"step": 1}

    bound: Annotated[float, "M, above which a loss is counted in a straight line, > 0"] = 5.0
    epsilon: Annotated[float, "how far below the bound that line begins, > 0"] = 0.2

    def gradient(
        self,
        net: Network,
        batch: Batch,
        client: ClientRound,
    ) -> Tensor:
        loss = self.loss(net, batch, client)
        self.transformed(loss).backward()
        return loss.detach()

    def transformed(self, loss: Tensor) -> Tensor:
        """-log_eps(M - l), of any shape."""
        near = self.bound - loss  # M - l
        at_epsilon = -math.log(self.epsilon)
        below_epsilon = (self.epsilon - near) / self.epsilon
        line = at_epsilon + below_epsilon
        curve = -near.clamp_min(self.epsilon).log()
        return torch.where(near >= self.epsilon, curve, line)  # Eq. 3.5


register(
    "propfair",
    Proportional(),
    Mean(),
    label="PropFair",
    about="improves all hospitals in proportion, so that none is left behind",
    families="hospital",
)
