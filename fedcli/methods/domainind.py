"""Domain-independent training: one classifier for each group over common features, whose answers
are averaged.

Source: Wang, Qinami, Karakozis, Genova, Nair, Hata and Russakovsky, "Towards fairness in visual
recognition: effective strategies for bias mitigation", CVPR 2020, arXiv 1911.11834, section 4
(domain independent training); one of MEDFAIR's (Zong, Yang and Hospedales, ICLR 2023, arXiv
2210.01725). With z_g the logits of the classifier of group g,

    in training   the cross-entropy of z_g of the image's own group
    in a test     argmax of sum_g z_g: the group of a test image is never read

How we differ, and why:
- a test image has the mean of the groups' logits. The answer is that of the sum, and probabilities
  do not grow surer with the number of groups.
- an image of unknown group trains on that mean.
- the classifiers start at 0, so that one of a group that nobody has adds nothing. All are averaged
  by the clients' images; a client without a group dilutes that group's classifier.
The paper's text was not at hand; the number of its section is not checked.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn

from .contract import Batch, ClientRound, Local, Network, cross_entropy
from .fedavg import Mean
from .groups import Attribute, chosen_attribute
from .registry import register


class GroupHeads(nn.Linear):
    """G linear classifiers side by side; their mean is the answer [B, C]."""

    def __init__(self, features: int, groups: int, classes: int):
        super().__init__(features, groups * classes)
        self.shape = groups, classes
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)

    def by_group(self, features: Tensor) -> Tensor:
        """[B, D] -> [B, G, C]."""
        return super().forward(features).unflatten(1, self.shape)

    def forward(self, features: Tensor) -> Tensor:
        return self.by_group(features).mean(1)


@dataclass(frozen=True)
class DomainIndependent(Local):
    """Cross-entropy under the classifier of each image's own group."""

    cost = {"step": 1}
    head = "group-wise"

    attribute: Annotated[
        Attribute, "whose values are the groups; empty takes the first by name"
    ] = Attribute()

    def extend(self, net: Network) -> None:
        groups = len(net.attributes[self.group_attribute(net)])
        net.head = GroupHeads(
            net.head.in_features,
            groups,
            net.head.out_features,
        )

    def group_attribute(self, net: Network) -> str:
        method = "domain-ind, with a classifier for each group,"
        return chosen_attribute(net, self.attribute, method, "fedavg")

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        client.per_image["groups"] = client.shard.groups[self.group_attribute(net)]  # [N]

    def loss(self, net: Network, batch: Batch, client: ClientRound) -> Tensor:
        by_group = net.head.by_group(net.features(batch.x))  # [B, G, C]
        group = batch.per_image["groups"]  # [B]
        images = torch.arange(len(group), device=group.device)  # [B]
        theirs = by_group[images, group.clamp_min(0)]  # [B, C]
        has_group = group[:, None] >= 0
        logits = torch.where(has_group, theirs, by_group.mean(1))  # [B, C]
        return cross_entropy(logits, batch.y, client)


register(
    "domain-ind",
    DomainIndependent(),
    Mean(),
    label="DomainInd",
    aliases=("domain-independent",),
    about="trains a classifier for each patient group and averages their answers",
    families="groups",
)
