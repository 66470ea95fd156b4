"""Group DRO: minimise the loss of the worst group, whose weight grows exponentially with its loss.

Source: Sagawa, Koh, Hashimoto and Liang, "Distributionally robust neural networks for group
shifts", ICLR 2020, arXiv 1911.08731, Algorithm 1 and Eq. 5; over clients by sums of group losses,
see groups.py.

    q        q_g <- q_g exp(eta (L_g + C / sqrt(n_g))),  q <- q / sum q;  it starts at 1 / G
    theta    descends on sum_g q_g L_g, with L_g the mean loss of group g

How we differ, and why:
- q moves once in a round, by the losses of all training images under the model that the round
  starts from, and not in every step by those of a batch: only then do the clients' sums exist. eta
  is larger for that than the paper's 0.01.
- groups are the values of one attribute; the paper crosses them with the classes.
- the paper draws groups equally often and weighs by q; we weigh each image by q_g n / n_g, which
  has the same mean.
- adjustment is the paper's C, 0 by default as in its first experiments. eta = 0 makes all groups
  count the same.
An image of unknown group weighs 1 and counts in none. A group without an image at any client of a
round keeps its q. A group of one image counts as any other: its image may weigh much, and a run
warns of groups under 30 (see groups.py). The step on q and the adjustment are those of the authors'
code (kohpangwei/group_DRO), where q starts at 1 / G and the step is 0.01; the number of the
equation is not checked.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from .fedavg import Mean
from .groups import Minimax
from .registry import register


@dataclass(frozen=True)
class Exponential(Minimax):
    """Weights of groups that grow exponentially with their losses."""

    cost = {"step": 1, "forward": 1}

    eta: Annotated[
        float,
        "step on the logarithm of a group's weight per unit of loss, >= 0; 0: equal weights",
    ] = 0.1
    adjustment: Annotated[float, "C: a group's loss counts C / sqrt(its images) more, >= 0"] = 0.0

    def start(self, rho: Tensor) -> Tensor:
        return torch.full_like(rho, 1 / len(rho))

    def move(self, mu: Tensor, rho: Tensor, risk: Tensor, n: Tensor) -> Tensor:
        allowance = self.adjustment / n.sqrt()
        adjusted = self.eta * (risk + allowance)  # Eq. 5
        below = adjusted - adjusted.max()  # so that none is infinite
        q = mu * torch.exp(below)  # Alg. 1
        return q / q.sum()


register(
    "group-dro",
    Exponential(),
    Mean(),
    label="Group DRO",
    about="gives more weight to the patient group with the highest loss, so that the "
    "worst-served one improves",
    families="groups first",
)
