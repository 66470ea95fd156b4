"""FlexFair: a penalty on how far the losses of groups are from their mean, over all images or
within each class.

Source: Xing, Sun, Ren, Wei, Feng, Ding, Guo, Wang, Hu, Wei, Ban, Xie, Tan, Liu, Cui, Duan and Li,
"Achieving flexible fairness metrics in federated medical imaging", Nature Communications 2025, doi
10.1038/s41467-025-58549-0, as its authors' code (MaksimXing/FlexFair) computes it:

    F + strength sum_c (1 / G_c) sum_g (L_cg - L_c)^2

with L_cg the mean loss of group g's images of class c, and L_c that of all images of class c.

    within=all      one sum over all images: equal accuracy
    within=class    a sum for each class, as the code has for demographic parity ("dp", two
                    classes); the sum over the positive class alone ("eo", equal opportunity) is
                    only=1

Its descent weighs an image of class c and group g by

    w = 1 + 2 strength n / G_c (d_cg / n_cg - sum_h d_ch / n_c)

where d_cg = L_cg - L_c, G_c is the number of groups with images of class c, n_cg and n_c count the
images of class c in group g and in all groups, and n counts all images of known group. w is 1 in
the mean. How we differ, and why:
- the code takes a step on batches of all sites at once, for which a server would see single
  batches' losses. Here d is that of all training images under the model a round starts from, summed
  over clients as in groups.py, and stays for the next round: only then do the clients' sums exist.
- in the code a client's model has the penalty's gradient by its own images beside its own mean
  loss, so that in the mean of K models of one size the penalty counts strength / K. Here strength
  is that of the formula above.
- weights below 0, which would unlearn the groups that fare best, are cut off, and the others scaled
  to a mean of 1.
- an image of unknown group weighs 1 and counts in none. A group without an image of a class in a
  round keeps its weight in that class, which is 1 at first. A group with one image of a class
  counts there as any other, so this image may weigh as much as a large group, and a run warns of
  pairs under 30 images.
- sites are groups where the dataset has them as an attribute, such as --set attribute=center.
The default strength is that of the code's classification. strength = 0 is FedAvg.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from ..errors import UsageError
from .contract import ClientRound, ClientUpdates, Network, Tensors
from .fedavg import Mean
from .groups import WithGroups
from .registry import register


@dataclass(frozen=True)
class NearTheMean(WithGroups):
    """Images weighed by how far their group's loss is from the mean."""

    cost = {"step": 1, "forward": 1}
    works_without_server = False
    needs_one_label = "it compares groups within a class"

    strength: Annotated[float, "of the penalty, >= 0; 0 is FedAvg"] = 2.0
    within: Annotated[
        Literal["all", "class"], "groups are compared over all images, or within each class"
    ] = "class"
    only: Annotated[
        int,
        "the one class within which they are compared, by its place from 0, >= -1; -1: every class",
    ] = -1

    @property
    def by_class(self) -> bool:  # type: ignore[override]
        return self.within == "class"

    def extend(self, net: Network) -> None:
        super().extend(net)
        if self.only >= 0 and self.within == "all":
            problem = f"only={self.only} compares groups within a class"
            raise UsageError(problem, "add --set within=class")
        if self.only >= len(net.class_names):
            classes = ", ".join(f"{index} {name}" for index, name in enumerate(net.class_names))
            raise UsageError(f"only={self.only} is no class", f"the classes are {classes}")

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        y = client.shard.y
        classes = client.shard.classes
        if self.within == "all":
            y = torch.zeros_like(y)
            classes = 1
        self.weigh_cells(net, client, y, classes)
        counted = y.new_ones(classes, dtype=torch.float64)  # [C]
        if self.only >= 0:
            counted = counted * 0
            counted[self.only] = 1
        client.report["counted"] = counted

    def post_aggregate(
        self,
        theta: Tensor,
        updates: ClientUpdates,
        weights: Tensor,
        shared: Tensors,
    ) -> Tensor:
        n = updates["cell_counts"].sum(0)  # [G, C]
        losses = updates["cell_losses"].sum(0)  # [G, C]
        strength = self.strength * updates["counted"][0]
        w = cell_weights(n, losses, strength)
        old = shared.get("cell_weights", torch.ones_like(w))
        shared["cell_weights"] = torch.where(n > 0, w, old)
        return theta


def cell_weights(n: Tensor, losses: Tensor, strength: Tensor) -> Tensor:
    """w [G, C] from the images and summed losses of each group and class; strength of each class
    [C].
    """
    present = n > 0  # [G, C]
    n_gc = n.clamp_min(1)  # [G, C]
    n_c = n.sum(0).clamp_min(1)  # [C]
    mean = losses.sum(0) / n_c  # [C] L_c
    d = (losses / n_gc - mean).where(present, 0.0)  # [G, C]
    of_class = d.sum(0) / n_c
    slope = d / n_gc - of_class  # [G, C]
    groups = present.sum(0).clamp_min(1)  # [C]
    w = 1 + 2 * strength * n.sum() / groups * slope
    w = w.clamp_min(0).where(present, 1.0)
    total = (n * w).sum()
    return w * (n.sum() / total) if total > 0 else torch.ones_like(w)


register(
    "flexfair",
    NearTheMean(),
    Mean(),
    label="FlexFair",
    about="weights images by patient group, so that losses or error rates become equal "
    "between groups",
    families="groups",
)
