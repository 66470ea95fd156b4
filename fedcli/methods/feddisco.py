"""FedDisco: clients whose classes are far from evenly distributed weigh less.

Source: Ye, Xu, Wang, Xu, Chen and Wang, "FedDisco: federated learning with discrepancy-aware
collaboration", ICML 2023, arXiv 2305.19229, Eq. 8 and Algorithm 1.

    p_k ~ max(n_k / n - a d_k + b, 0)

d_k is how far the client's class shares are from even ones over all classes: the Kullback-Leibler
divergence, divided by its sum over the round's clients as in the released code (measure=kl, its
default), or the Euclidean distance (measure=l2). A client sends d_k and no counts. a = 0.5 and b =
0.1 are the released defaults. a = b = 0 is the base; a large b makes all clients count the same.
How we differ: where all p_k would be 0, which the released code has no answer to, they are those of
the base. Checked against the authors' code (MediaBrain-SJTU/FedDisco); the equation's number is not
checked.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from torch import Tensor

from .contract import Aggregated, Aggregator, ClientRound, ClientUpdates, Network, Tensors
from .fedavg import Plain
from .helpers import average
from .registry import register


@dataclass(frozen=True)
class ByDiscrepancy(Aggregator):
    """Weights by image count less the distance of the client's classes from even ones."""

    cost = {}
    needs = "scalars"

    a: Annotated[float, "weight of the discrepancy, >= 0"] = 0.5
    b: Annotated[float, "added to all weights, >= 0"] = 0.1
    measure: Annotated[
        Literal["kl", "l2"], "of the discrepancy: divergence as a share of all, or distance"
    ] = "kl"

    needs_one_label = "it compares the shares of classes, which sum to 1"

    def measure_global(self, net: Network, client: ClientRound) -> None:
        counts = client.shard.class_counts.double()  # [C]
        shares = counts / counts.sum()
        even = 1 / len(counts)
        if self.measure == "kl":
            logs = (shares / even).clamp_min(1e-300).log()
            discrepancy = (shares * logs).sum().clamp_min(0)
        else:
            discrepancy = (shares - even).norm()
        client.report["discrepancy"] = discrepancy

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        d = updates["discrepancy"].double()  # [K]
        if self.measure == "kl":
            d = d / d.sum().clamp_min(1e-300)
        shifted = updates.base - self.a * d + self.b
        weights = shifted.clamp_min(0)  # Eq. 8
        total = weights.sum()
        weights = weights / total if total > 0 else updates.base
        return average(updates.theta, weights), weights


register(
    "feddisco",
    Plain(),
    ByDiscrepancy(),
    label="FedDisco",
    about="gives less weight to hospitals whose classes are far from balanced",
    families="drift",
)
