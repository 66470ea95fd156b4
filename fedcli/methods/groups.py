"""Parts shared by methods that weigh training images by the group of their patient, such as sex or
age.

Source: the weighted sum of losses is that of minimax fairness, Martinez et al., ICML 2020, arXiv
2011.01821, over clients as in arXiv 2201.08304, section 3. Part of other methods, and none by
itself. With n_kg the images of group g at client k, n_g and n_k their sums, rho_g = n_g / n and l_i
the loss of image i:

    sum_g mu_g (1 / n_g) sum_(i in g) l_i  =  sum_k (n_k / n) (1 / n_k) sum_(i in k) w_g(i) l_i

with w_g = mu_g / rho_g, so that clients who weigh their images by w and are averaged by image count
minimise the left side. Each client sends n_kg and the sum of its losses in each group, on the fixed
view and before it trains; the server adds them up, which secure aggregation could do. mu moves
after the round, so a round trains with the weights that earlier ones led to, and the first with all
weights 1.

Of groups these methods know the following, each of them:
- an image without a value of the attribute has the weight 1 and counts in no group;
- a client without an image of a group adds nothing to it; a group that no client of the round has
  keeps its mu, and the others share what is left;
- a group of one image counts as any other, so its weight may be large: a run warns of groups under
  30 images;
- with absent clients, losses are those of the clients that are there, and rho is of all rounds so
  far, in which a client counts as often as it took part. A group that first comes in a later round
  starts as it would have in the first one, and the others make room in proportion;
- test images' groups are never read.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from ..errors import UsageError
from . import probes
from .contract import Batch, ClientRound, ClientUpdates, Local, Network, Tensors, cross_entropy
from .mixins import WeighsGroups


class Attribute(str):
    """Name of a group attribute; one with a blank or a sign in it is none."""

    def __new__(cls, value: str = "") -> "Attribute":
        word = str(value).replace("-", "_")
        if value != "" and not word.isidentifier():
            hint = "write for example --set attribute=sex"
            raise UsageError(f"attribute={value!r} is no name", hint)
        return super().__new__(cls, value)


def chosen_attribute(
    net: Network,
    requested: str,
    method: str,
    instead: str,
) -> str:
    """The attribute whose values are the groups: the requested one, or the dataset's first.

    instead: a method for data without groups. Raises UsageError where the dataset has no such one.
    """
    if not net.attributes:
        problem = f"{method} needs a group attribute, and this dataset has none"
        raise UsageError(problem, f"train {instead}")
    name = requested or next(iter(net.attributes))
    if name not in net.attributes:
        names = ", ".join(net.attributes)
        raise UsageError(f"the dataset has no attribute {str(name)!r}", f"known: {names}")
    return name


@dataclass(frozen=True)
class WithGroups(WeighsGroups, Local):
    """Local training that knows the group of every training image."""

    attribute: Annotated[
        Attribute, "whose values are the groups; empty takes the first by name"
    ] = Attribute()

    def extend(self, net: Network) -> None:
        self.group_attribute(net)  # data without groups are refused before anything trains

    def group_attribute(self, net: Network) -> str:
        return chosen_attribute(
            net,
            self.attribute,
            "a method that weighs groups",
            "fedavg",
        )

    def groups_of(
        self,
        net: Network,
        client: ClientRound,
    ) -> tuple[Tensor, int]:
        """The group of each training image [N], -1 where unknown, and the dataset's number of
        groups.
        """
        name = self.group_attribute(net)
        return client.shard.groups[name], len(net.attributes[name])

    def weigh_cells(
        self,
        net: Network,
        client: ClientRound,
        classes: Tensor,
        count: int,
    ) -> None:
        """Weigh images by group and class [N] of `count`, with shared["cell_weights"] [G, C], which
        are 1 at first.

        Reports how many images of each there are, and their summed losses under the global model.
        """
        groups, group_count = self.groups_of(net, client)
        cell_of_image = groups * count + classes
        cells = cell_of_image.where(groups >= 0, -1)  # [N]
        shape = group_count, count
        cell_count = group_count * count
        of_cells = cells[cells >= 0]
        counts = of_cells.bincount(minlength=cell_count).double()
        losses = probes.group_losses(net, client, cells, cell_count)
        client.report["cell_counts"] = counts.view(shape)  # [G, C]
        client.report["cell_losses"] = losses.view(shape)  # [G, C]
        ones = cells.new_ones(shape, dtype=torch.float64)
        w = client.shared.get("cell_weights", ones).flatten()
        weigh_images(client, cells, w)

    def loss(self, net: Network, batch: Batch, client: ClientRound) -> Tensor:
        return cross_entropy(
            net(batch.x),
            batch.y,
            client,
            batch.per_image["weights"],
        )


@dataclass(frozen=True)
class Minimax(WithGroups):
    """Train on the group losses weighted by mu, which the server moves.

    A method overrides start() and move() of mu.
    """

    works_without_server = False

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        groups, count = self.groups_of(net, client)
        known_groups = groups[groups >= 0]
        client.report["group_counts"] = known_groups.bincount(minlength=count).double()  # [G] n_kg
        client.report["group_losses"] = probes.group_losses(
            net,
            client,
            groups,
            count,
        )  # [G]
        ones = groups.new_ones(count, dtype=torch.float64)
        w = client.shared.get("group_weights", ones)  # [G]
        weigh_images(client, groups, w)

    def post_aggregate(
        self,
        theta: Tensor,
        updates: ClientUpdates,
        weights: Tensor,
        shared: Tensors,
    ) -> Tensor:
        n = updates["group_counts"].sum(0)  # [G]
        losses = updates["group_losses"].sum(0)  # [G]
        present = n > 0  # [G]
        if not present.any():
            return theta
        zeros = torch.zeros_like(n)
        before = shared.get("group_images", zeros)  # [G] summed over rounds
        images = before + n  # [G]
        rho = images / images.sum()  # [G]
        mu = shared.get("group_shares", zeros)
        is_new = before == 0
        mu = self._with_new(mu, images > 0, is_new, rho)
        share = mu[present].sum()  # of those that are present; the others wait with theirs
        normed = mu[present] / share.clamp_min(1e-300)
        risk = losses[present] / n[present]
        moved = self.move(normed, rho[present], risk, n[present])
        mu[present] = share * moved
        ratio = mu / rho
        w = torch.where(images > 0, ratio, 1.0)
        shared.update(group_shares=mu, group_weights=w, group_images=images)
        return theta

    def _with_new(
        self,
        mu: Tensor,
        met: Tensor,
        new: Tensor,
        rho: Tensor,
    ) -> Tensor:
        """A copy of mu [G] in which groups that are new [G] among those met [G] start anew."""
        start = torch.zeros_like(mu)
        start[met] = self.start(rho[met])
        old = mu * (1 - start[new].sum())
        return torch.where(new, start, old)

    def start(self, rho: Tensor) -> Tensor:
        """mu before any round [G], in sum 1, from the groups' shares of the images [G], above 0."""
        raise TypeError(f"{type(self).__name__} has no start()")

    def move(self, mu: Tensor, rho: Tensor, risk: Tensor, n: Tensor) -> Tensor:
        """mu after a round, in sum 1, of the groups that had images in it, [G] each.

        rho: their shares of all images. risk, n: their mean losses and images in this round.
        """
        raise TypeError(f"{type(self).__name__} has no move()")


def weigh_images(client: ClientRound, cells: Tensor, w: Tensor) -> None:
    """Give each training image the weight w of its cell [N], and 1 where that is -1."""
    weight_of_image = w[cells.clamp_min(0)]
    weights = torch.where(cells >= 0, weight_of_image, 1.0)  # [N]
    client.per_image["weights"] = weights.float()
