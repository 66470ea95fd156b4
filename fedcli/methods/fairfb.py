"""FedFB: images weighed by group and class, until groups get the positive decision equally often.

Source: Zeng, Chen and Lee, "Improving fairness via federated learning", 2021, arXiv 2110.15545:
FairBatch's outer problem (Roh, Lee, Whang and Suh, ICLR 2021, arXiv 2012.01696) over clients. With
n_ya images of class y and group a, n_a and n_y their sums, S_ya the summed losses and L_ya = S_ya /
n_ya, such an image has in the loss the weight w_ya:

    parity=demographic    w_0a = lambda_a n / n_a,  w_1a = 2 - w_0a;  lambda_a starts at n_a / n
                          mu_a = g_a - g_0,  g_a = (S_0a - S_1a - n_0a) / n_a
                          mu_0 = - sum_a mu_a
    parity=opportunity    w_1a = lambda_a n / n_1a,  w_0a = 1;  lambda_a starts at n_1a / n
                          mu_a = L_1a - L_10,  and lambda_0 is what the others leave of n_1 / n
    parity=odds           as opportunity, in both classes; one norm over all mu

    lambda <- lambda + alpha mu / ||mu||, within [0, 2 n_a / n], or [0, n_y / n]

1 is the positive class and 0 the attribute's first value. If the losses were errors, g_a + 1 would
be the share of group a with a positive decision, so mu is how far that is from the first group's.
alpha = 0 is FedAvg, as is the first round.
How we differ, and why:
- rule=released is the step of the authors' code
  (yzeng58/Improving-Fairness-via-Federated-Learning), which has demographic parity alone: alpha /
  sqrt(t) times mu. There the counts in g enter once for each client, and group 0's bound holds for
  every group; here they enter once, and each group has its own.
- the paper's text was not at hand: the code, its authors' older one and declearn's FedFB (Inria)
  were read, the last two for opportunity and odds of two groups; of more, each is compared with the
  first, as demographic parity has it, and where lambda of all but the first come to more than n_y /
  n, they shrink in proportion until that is their sum. declearn compares sums of losses there; we
  take means, as the authors' older code does, since rates shall be equal.
- losses are of all training images under the model that a round starts from, summed over clients as
  in groups.py, so lambda is one round late. The code averages models by weighted counts, we weigh
  losses and average by image count.
- an image of unknown group weighs 1 and counts in none. A group without images in a round keeps its
  weights, and the first that has some takes the first one's place. A group of one image counts as
  any other, so its weight moves fast to its bound; a run warns of groups and of pairs of group and
  class under 30 images.
The default alpha is declearn's: lambda of a rare positive class is small itself. Tasks of more than
two classes are refused: parity of one positive class is what is defined.
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
class TowardParity(WithGroups):
    """Images weighed by group and class, by how unequal the groups' losses are."""

    cost = {"step": 1, "forward": 1}
    works_without_server = False
    by_class = True
    needs_one_label = "parity is of one positive class and one negative"
    needs_two_classes = "parity is of one positive class and one negative"

    parity: Annotated[
        Literal["demographic", "opportunity", "odds"],
        "what is to be equal: positive decisions, of all images, of the positive ones, or errors "
        "in both classes",
    ] = "demographic"
    alpha: Annotated[float, "step on the groups' shares of the loss, >= 0; 0 is FedAvg"] = 0.005
    rule: Annotated[
        Literal["paper", "released"], "a step's length: alpha, or alpha / sqrt(t) times mu"
    ] = "paper"

    def extend(self, net: Network) -> None:
        super().extend(net)
        if self.rule == "released" and self.parity != "demographic":
            problem = (
                f"rule=released has no parity={self.parity}: "
                "the authors' code is of demographic parity"
            )
            raise UsageError(problem, "leave --set rule=released out")

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        is_positive = (client.shard.y == 1).long()
        self.weigh_cells(net, client, is_positive, 2)

    def post_aggregate(
        self,
        theta: Tensor,
        updates: ClientUpdates,
        weights: Tensor,
        shared: Tensors,
    ) -> Tensor:
        n = updates["cell_counts"].sum(0)  # [G, 2]
        losses = updates["cell_losses"].sum(0)  # [G, 2]
        w = shared["cell_weights"] if "cell_weights" in shared else torch.ones_like(n)
        if self.parity == "demographic":
            w = self._demographic(w, n, losses, updates.round)
        else:
            classes = [1] if self.parity == "opportunity" else [0, 1]
            w = self._of_classes(w, n, losses, classes)
        shared["cell_weights"] = w
        return theta

    def _demographic(
        self,
        w: Tensor,
        n: Tensor,
        losses: Tensor,
        t: int,
    ) -> Tensor:
        of_group = n.sum(1)  # [G] n_a
        groups = (of_group > 0).nonzero().flatten()
        if len(groups) < 2:
            return w
        n_a = of_group[groups]
        loss_gaps = losses[groups, 0] - losses[groups, 1]
        differences = loss_gaps - n[groups, 0]
        mu = against_first(differences / n_a)
        mu[0] = -mu.sum()
        direction = mu / t**0.5 if self.rule == "released" else unit(mu)
        step = self.alpha * direction
        lambda_step = step * of_group.sum() / n_a
        moved = w[groups, 0] + lambda_step  # lambda_a n / n_a
        w = w.clone()
        w[groups, 0] = moved.clamp(0, 2)
        w[groups, 1] = 2 - w[groups, 0]
        return w

    def _of_classes(
        self,
        w: Tensor,
        n: Tensor,
        losses: Tensor,
        classes: list[int],
    ) -> Tensor:
        groups = [(n[:, y] > 0).nonzero().flatten() for y in classes]  # that have each class
        differences = []
        for y, members in zip(classes, groups, strict=True):
            counts = n[members, y]
            means = losses[members, y] / counts
            differences.append(against_first(means))
        mu = unit(torch.cat(differences))
        steps = mu.split([len(members) for members in groups])
        w = w.clone()
        total = n.sum()
        for y, members, step in zip(classes, groups, steps, strict=True):
            if len(members) < 2:
                continue
            images = n[members, y]
            largest = n[:, y].sum() / total  # n_y / n, which the groups' lambda sum to
            shares_now = w[members, y] * images / total
            share = (shares_now + self.alpha * step).clamp_min(0)  # lambda
            of_others = share[1:].sum().clamp_min(1e-300)
            excess = largest / of_others
            share[1:] *= excess.clamp_max(1)
            share[0] = largest - share[1:].sum()
            w[members, y] = share.clamp_min(0) * total / images
        return w


def against_first(values: Tensor) -> Tensor:
    """Each value's distance from the first, whose own is 0."""
    return values - values[:1]


def unit(mu: Tensor) -> Tensor:
    """mu at length 1; 0 where there is no direction."""
    return mu / mu.norm().clamp_min(1e-12)


register(
    "fairfb",
    TowardParity(),
    Mean(),
    label="FedFB",
    about="weights images by group and class, so that patient groups get positive decisions "
    "equally often",
    families="groups",
)
