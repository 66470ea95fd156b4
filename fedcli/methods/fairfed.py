"""FairFed: weight moves from clients whose accuracy is far from the global one to those near it.

Source: Ezzeldin, Yan, He, Ferrara and Avestimehr, AAAI 2023, arXiv 2110.00857, Eq. 6, with the
accuracy gap that the paper uses where a client has no group metric; adapted in FedISM+, arXiv
2503.09587.

                 gap d_k                          who gains
    original     |a_k - sum_j p_j a_j|            clients near the mean accuracy
    released     |a_k - a_k p_k| = a_k (1 - p_k)  clients with a low accuracy

a_k is the balanced accuracy of the broadcast model on the client's training images, on the fixed
view (the code: with random augmentation), and p_k = n_k / n. Then w <- w - beta (d_k - mean d), cut
at 0 and divided by the sum; w starts at p, which is also what round 1 uses. `released` is FFL4MIA's
code: the mean accuracy lacks its sum and is a vector. The FairFed rows in print come from it, and
it favours weak clients; the original lowers them, because a client far below the mean is far from
it. gap=eod and gap=spd are what the paper is about: a client's d_k is how far its own unfairness
F_k is from that of all clients' images together, |F_k - F| (Eq. 6, with F of Eq. 7), counted under
the broadcast model. For two classes and two groups

    eod    F = P(guess 1 | group 0, class 1) - P(guess 1 | group 1, class 1)
    spd    F = P(guess 1 | group 0) - P(guess 1 | group 1)

With more classes or groups d_k is the largest such distance over classes and pairs of groups that
the client has. A client that has no pair (no group, or one alone) falls back to its accuracy gap,
as in the paper, whose accuracy is that of all images and ours balanced. Images of unknown group are
in no rate. Clients send counts of predictions by group and class, and F is of their sums. A group
of one image at a client makes a rate of 0 or 1, and d_k large: nothing guards against it, and a run
warns of groups, or pairs of group and class, of few training images in all. `released` has no such
gap. The numbers of the equations are those that other implementations cite, the paper's text was
not at hand. It carries weights on that are not divided by their sum; since steps add up to 0, that
differs from ours only after a weight was cut at 0.
With absent clients, w is kept per client as a multiple of p, so that rounds with other participants
compare; with all present this is the rule above.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from ..errors import UsageError
from . import probes
from .contract import Aggregated, Aggregator, ClientRound, ClientUpdates, Network, Tensors
from .fedavg import Plain
from .groups import Attribute, chosen_attribute
from .helpers import average, by_row
from .mixins import ClientPart, WeighsBySums, WeighsGroups
from .registry import register


@dataclass(frozen=True)
class ByGap(WeighsGroups, WeighsBySums, Aggregator):
    """Weights that move with the distance from the mean accuracy."""

    cost = {"forward": 1}
    needs = "scalars"

    beta: Annotated[float, "step on the weights per unit of accuracy, >= 0; 0 is the base"] = 1.0
    rule: Annotated[
        Literal["original", "released"], "gap to the mean accuracy, or with its sum missing"
    ] = "original"

    gap: Annotated[
        Literal["accuracy", "eod", "spd"],
        "what a client's distance is of: accuracy or group fairness",
    ] = "accuracy"
    attribute: Annotated[
        Attribute, "of eod and spd: whose values are the groups; empty takes the first"
    ] = Attribute()

    def __post_init__(self) -> None:
        if self.gap != "accuracy" and self.rule == "released":
            raise UsageError(f"gap={self.gap} has no rule=released", "leave rule at original")

    @property
    def by_class(self) -> bool:  # type: ignore[override]
        return self.gap == "eod"

    def group_attribute(self, net: Network) -> str:
        if self.gap == "accuracy" and self.attribute:
            # not in __post_init__: options are set one by one, in any order
            problem = f"attribute={self.attribute} has no effect on gap=accuracy"
            raise UsageError(problem, "add --set gap=eod or gap=spd, or leave attribute out")
        if self.gap == "accuracy":
            return ""
        instead = "fairfed with --set gap=accuracy"
        return chosen_attribute(net, self.attribute, f"gap={self.gap}", instead)

    def measure_global(self, net: Network, client: ClientRound) -> None:
        client.report["accuracy"] = probes.balanced_accuracy(net, client)
        name = self.group_attribute(net)
        if name:
            groups = client.shard.groups[name]
            count = len(net.attributes[name])
            counts = probes.group_predictions(net, client, groups, count)  # [G, C, C]
            client.report["group_predictions"] = counts

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        p = updates.base  # [K]
        a = updates["accuracy"].double()  # [K]
        rows = updates.rows  # [K]
        lift = by_row(memory, "lift", updates, 1.0)  # [N], weight over p
        weights = p * lift[rows]
        total = weights.sum()
        weights = weights / total if total > 0 else p
        if updates.round > 1:
            mean = p @ a if self.rule == "original" else p * a
            gap = (a - mean).abs()  # [K] Eq. 6
            if self.gap != "accuracy":
                unfair = unfairness_gaps(updates["group_predictions"], self.gap)  # [K]
                gap = torch.where(unfair.isnan(), gap, unfair)  # Eq. 6, its first line
            surplus = gap - gap.mean()
            weights = (weights - self.beta * surplus).clamp_min(0)
            weights = weights / weights.sum()  # the sum is at least 1: steps add up to 0
        lift[rows] = weights / p
        memory["lift"] = lift
        return average(updates.theta, weights), weights

    @property
    def sums(self) -> int:
        """Three: of accuracies, of gaps and of weights; 0 where gaps of groups need counts."""
        return 3 if self.gap == "accuracy" else 0

    def number(self, client: ClientPart, sums: Sequence[Tensor]) -> Tensor:
        p = client.base
        a = client.columns["accuracy"].double()
        past = p * client.memory.get("lift", 1.0)
        if not sums:
            return torch.stack([p * a, past])
        mean, total = sums[0]
        weight = past / total if total > 0 else p
        if client.round == 1:
            return weight
        if self.rule == "released":
            mean = p * a
        gap = (a - mean).abs()  # Eq. 6
        if len(sums) == 1:
            return gap
        surplus = gap - sums[1] / client.clients
        return (weight - self.beta * surplus).clamp_min(0)

    def weight(self, client: ClientPart, sums: Sequence[Tensor]) -> Tensor:
        weight = self.number(client, sums[:2]) / sums[2]
        client.memory["lift"] = weight / client.base
        return weight


def unfairness_gaps(counts: Tensor, kind: str) -> Tensor:
    """|F_k - F| [K] from predictions by client, group, class and guess [K, G, C, C]; NaN where a
    client has no pair.
    """
    everyone = counts.sum(0, keepdim=True)
    counts = torch.cat([counts, everyone])  # [K + 1, G, C, C]
    if kind == "eod":
        hits = counts.diagonal(dim1=2, dim2=3)  # [K + 1, G, C]
        cases = counts.sum(3)
    else:
        hits = counts.sum(2)
        of_groups = counts.sum((2, 3))[..., None]
        cases = of_groups.expand_as(hits)
    rates = hits / cases  # NaN where there is no case
    if rates.shape[2] == 2:
        rates = rates[..., 1:]  # of two classes the second is the positive one
    of_first = rates[:, :, None]
    between = of_first - rates[:, None]  # [K + 1, G, G, C] F of every pair of groups
    differences = between[:-1] - between[-1]
    gaps = differences.abs()
    gaps.diagonal(dim1=1, dim2=2).fill_(torch.nan)  # a group and itself are no pair
    gaps = gaps.flatten(1)  # [K, G G C]
    has_pair = gaps.isnan().logical_not().any(1)
    largest = gaps.nan_to_num(-1.0).amax(1)
    return torch.where(has_pair, largest, torch.nan)


register(
    "fairfed",
    Plain(),
    ByGap(),
    label="FairFed",
    about="gives more weight to hospitals whose accuracy is near the average",
    families="groups hospital",
)
