"""FLTrust: updates count by how well their direction agrees with that of a hospital the server
trusts.

Source: Cao, Fang, Liu and Gong, "FLTrust: Byzantine-robust federated learning via trust
bootstrapping", NDSS 2021, arXiv 2012.13995, Algorithm 2 and Eqs. 1 to 4; the paper's text was not
at hand.

    TS_k = ReLU(cos(g_0, g_k)),  u_k = ||g_0|| / ||g_k|| g_k
    theta <- theta + step sum_k TS_k u_k / sum_k TS_k

g_k = theta_k - theta, and g_0 is the update of the server on clean images of its own, the root
dataset. How we differ, and why: a server has no images here. The root dataset is the training part
of one hospital, such as the one that runs the server, and g_0 is its update of the round. It takes
part as a client too, with TS = 1. So the rule needs it in every round, and a hospital whose images
are unlike its own counts less, hostile or not. Batch-norm statistics are averaged with the same
weights.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from ..errors import FedcliError
from .contract import Aggregated, Aggregator, ClientUpdates, Tensors
from .fedavg import Plain
from .helpers import average, gram, moved_towards
from .registry import register


@dataclass(frozen=True)
class Trusted(Aggregator):
    """The mean of updates of one length, weighted by their cosine to the trusted one."""

    cost = {}
    full_participation = True

    trusted: Annotated[int, "place in the roster of the hospital that is trusted, >= 1"] = 1
    step: Annotated[float, "alpha: server step length, > 0"] = 1.0

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        rows = updates.rows.tolist()
        if self.trusted - 1 not in rows:
            problem = (
                f"client {self.trusted} of the roster is trusted, but {len(rows)} took part "
                "and it is not among them"
            )
            raise FedcliError(problem, "give --set trusted=1, or the place of one that does")
        root = rows.index(self.trusted - 1)
        products = gram(theta, updates)  # [K, K]
        norms = products.diagonal().sqrt()  # [K] ||g_k||
        inverse = torch.where(norms > 0, 1 / norms, 0.0)  # [K]
        cosines = products[root] * inverse * inverse[root]  # [K]
        trust = cosines.clamp_min(0)  # [K] TS_k, Eq. 2
        trust[root] = 1
        weights = (trust / trust.sum()).to(updates.base.device)  # [K]
        lengths = self.step * norms[root] * inverse  # [K] of Eq. 3, times alpha
        moved = weights * lengths.to(weights.device)  # [K]
        out = average(updates.theta, weights)  # [P], of which the buffers stay
        out[: updates.layout.trainable] = moved_towards(theta, updates, moved)  # Eq. 4
        return out, weights


register(
    "fltrust",
    Plain(),
    Trusted(),
    label="FLTrust",
    about=("trusts an update only as far as it agrees with the update of one trusted hospital"),
    families="hostile",
)
