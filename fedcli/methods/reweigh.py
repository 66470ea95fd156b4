"""Reweighing: images weigh so that group and class are independent in the training data.

Source: Kamiran and Calders, "Data preprocessing techniques for classification without
discrimination", Knowledge and Information Systems 33, 2012, doi 10.1007/s10115-011-0463-8, section
4.3 (Algorithm 3); over clients with their own or with all counts as in Abay, Zhou, Baracaldo,
Rajamoni, Chuba and Ludwig, "Mitigating bias in federated learning", 2020, arXiv 2012.02447, section
4.

    W(g, y) = (|g| |y|) / (|D| |g and y|)          |.|: images with this group, this class, both

counts=global adds the clients' counts up at the server, over all rounds so far: where clients are
absent, each counts as often as it took part. In the first round there is no sum yet, and a client
uses its own counts, as counts=local always does, where nothing is sent. Images of unknown group
have weight 1 and count nowhere. A pair that a client has and the sum does not, because its images
came with a client that is new, has weight 1. A pair of one image weighs up to |D|; a run warns of
groups and pairs under 30 images. Where group and class are independent all weights are 1, which is
FedAvg.
How we differ: the paper weighs or resamples for classifiers that take weights; here the loss is
weighted. W agrees with AIF360's Reweighing; the numbers of sections and algorithm are not checked.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from .contract import ClientRound, ClientUpdates, Network, Tensors
from .fedavg import Mean
from .groups import WithGroups, weigh_images
from .registry import register


@dataclass(frozen=True)
class Reweighed(WithGroups):
    """Weigh images by W(g, y)."""

    cost = {"step": 1}

    counts: Annotated[
        Literal["global", "local"], "whose images are counted: all clients', or the client's own"
    ] = "global"

    works_without_server = False
    by_class = True
    needs_one_label = "its weights are for a group and one class"

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        groups, count = self.groups_of(net, client)
        classes = client.shard.classes
        cell_of_image = groups * classes + client.shard.y
        cells = cell_of_image.where(groups >= 0, -1)  # [N]
        of_cells = cells[cells >= 0]
        counts = of_cells.bincount(minlength=count * classes).double()
        counts = counts.view(count, classes)  # [G, C]
        if self.counts == "global":
            client.report["group_class_counts"] = counts
            counts = client.shared.get("group_class_counts", counts)
        weigh_images(client, cells, kamiran(counts).flatten())

    def post_aggregate(
        self,
        theta: Tensor,
        updates: ClientUpdates,
        weights: Tensor,
        shared: Tensors,
    ) -> Tensor:
        if self.counts == "global":
            counts = updates["group_class_counts"].sum(0)  # [G, C]
            before = shared.get("group_class_counts", torch.zeros_like(counts))
            shared["group_class_counts"] = before + counts
        return theta


def kamiran(counts: Tensor) -> Tensor:
    """W [G, C] from the images of each group and class; 1 where there are none."""
    of_group = counts.sum(1, keepdim=True)  # [G, 1]
    expected = of_group * counts.sum(0) / counts.sum().clamp_min(1)
    ratio = expected / counts.clamp_min(1)
    return torch.where(counts > 0, ratio, 1.0)  # Alg. 3


register(
    "reweigh",
    Reweighed(),
    Mean(),
    label="Reweighing",
    about="weights images so that patient group and class are independent in the training data",
    families="groups",
)
