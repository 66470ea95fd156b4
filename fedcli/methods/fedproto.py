"""FedProto: a penalty keeps features near the class means that all clients share.

Source: Tan, Long, Liu, Zhou, Lu, Jiang and Zhang, AAAI 2022, arXiv 2105.00243, Eqs. 3-7. How we
differ, and why: in the paper only class means travel and models stay local. Here models are
averaged as well, as in the comparison tables of FedHEAL; without that there is no global model to
compare.
- a client's class means are computed after training, with its local model on one fixed view of all
  its images (Eq. 3). Codes collect them while training: augmented, and of a model that still moves.
- the server counts clients by their images of the class (the paper's weights, without its further
  division by the number of clients, which would shrink every mean towards zero). rule=released: the
  means of all clients that have the class count the same, as in the authors' code.
- a class that no client had this round keeps its last mean; images of a class without one add zero.
- strength 1 is the paper's value for MNIST and FEMNIST, 0.1 that for CIFAR-10.
- prototypes are not re-weighted by an add-on's weights.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from .contract import Batch, ClientRound, ClientUpdates, Local, Network, Tensors, cross_entropy
from .fedavg import Mean
from .registry import register


@dataclass(frozen=True)
class Prototypes(Local):
    """Clients send sums of features by class; the server keeps the mean feature of each class."""

    rule: Annotated[
        Literal["original", "released"], "clients count by images of the class, or all the same"
    ] = "original"

    works_without_server = False
    trains_backbone = True

    needs_one_label = "a prototype is the mean of the images of one class"

    @torch.no_grad()
    def on_round_end(self, net: Network, client: ClientRound) -> None:
        net.eval()
        total = n = torch.zeros((), device=client.theta.device)
        for batch in client.shard.in_order():
            member = F.one_hot(batch.y, client.shard.classes).float()  # [B, C]
            features = net.features(batch.x)
            total = total + member.T @ features
            n = n + member.sum(0)
        client.report["feature_sum"] = total  # [C, D]
        client.report["feature_n"] = n  # [C]; Eq. 3 is their ratio

    def post_aggregate(
        self,
        theta: Tensor,
        updates: ClientUpdates,
        weights: Tensor,
        shared: Tensors,
    ) -> Tensor:
        total = updates["feature_sum"]  # [K, C, D]
        n = updates["feature_n"]  # [K, C]
        if self.rule == "released":
            at_least_one = n.clamp_min(1)
            total = total / at_least_one[:, :, None]
            n = n.clamp_max(1)
        images = n.sum(0)  # [C]
        present = images > 0  # [C]
        at_least_one_image = images.clamp_min(1)
        fresh = total.sum(0) / at_least_one_image[:, None]  # [C, D], Eq. 6
        old = shared.get("prototypes", fresh)
        shared["prototypes"] = torch.where(present[:, None], fresh, old)
        shared["prototype_known"] = present | shared.get("prototype_known", present)
        return theta


@dataclass(frozen=True)
class NearPrototypes(Prototypes):
    """Cross-entropy plus a penalty on the distance of features z to their class's prototype: the
    mean over the D numbers of the squared difference, as in the authors' code.
    """

    cost = {"step": 1, "forward": 1}

    strength: Annotated[
        float, "of the penalty on the distance to the prototypes, >= 0; 0 is FedAvg"
    ] = 1.0

    def loss(self, net: Network, batch: Batch, client: ClientRound) -> Tensor:
        if "prototypes" not in client.shared:
            return super().loss(net, batch, client)
        z = net.features(batch.x)  # [B, D]
        prototypes = client.shared["prototypes"][batch.y]
        distance = (z - prototypes).square().mean(1)  # [B]
        is_known = client.shared["prototype_known"][batch.y]
        penalty = (distance * is_known).mean()
        loss = cross_entropy(net.head(z), batch.y, client)
        return loss + self.strength * penalty  # Eq. 7


register(
    "fedproto",
    NearPrototypes(),
    Mean(),
    label="FedProto",
    about="keeps features near the class means that all hospitals share",
    families="drift",
)
