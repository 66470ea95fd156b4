"""FairLoRA: low-rank adapters whose singular values differ by demographic group and whose vectors
all groups share.

Source: Li, Wen, Tian, Shi, Luo, Huang, Fang and Wang, "FairFedMed: benchmarking group fairness in
federated medical imaging with FairLoRA", 2025, arXiv 2508.00873, first as an anonymous submission;
Eqs. 2-3, Algorithm 1 and the section "Initialization". What trains, and on which layers, is in
lora.py.

    y = W0 x + s ((x A) * (pi S)) B     S [G, r], pi [G] the group shares of the image     Eq. 2
    A = sum_k alpha_k A_k, B the same   alpha_k = n_k / n                                  Eq. 3
    S_g = sum_k alpha_kg S_kg           alpha_kg = n_kg / n_g                              Eq. 3

                      paper (default)                  released (the authors' later code)
    pi                1 for the image's group          0.7, and 0.3 / (G - 1) for each other group
    S starts at       h, then h rotated by group       h, then 0.2 times h rotated by group
    columns 1..r/2    as they come                     their mean over groups after every round
    moving average    of A, S and B, see lora.py       of all that travels

with h = linspace(0.5, 0.1, r/2), rotated left by g ((r/2) // G) entries, and by g where that is 0.
n counts the clients that take part; the paper's text sums over all. The code the paper first came
with has pi as `paper` and another start, linspace(1, 0.1, r) rotated by group; its fairness loss
carries no gradient and is not here. The group of every test image is read in the paper's scores,
which the paper does not say. That is view `group`. View `uniform` gives all groups the same share,
and `prior` the share that each has among the training images of all clients that have taken part so
far; neither reads a group. A client's own model holds its own shares. Images without a group train
with uniform shares and are scored so.
A client sends how many images it has of each group, which reveals a little about its patients;
nothing else for S. How we differ, and why:
- a group that no client of the round has keeps its row and stays out of the shared columns; the
  code divides by 0.
- one optimizer step per batch; theirs registers its optimizer twice and steps twice on the same
  gradient.
- exact=true (see lora.py) takes the singular vectors of the average of A_k diag(mean over groups of
  S_kg) B_k, and S_g from the diagonal of the group's own average in that basis. What is off the
  diagonal is lost: even with one client the products by group change, while their mean does not.
  `exact_loss` says how much. No columns are shared then.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import UsageError
from . import adapters
from .contract import Aggregated, Batch, ClientRound, ClientUpdates, Network, Shard, Tensors
from .groups import Attribute, chosen_attribute
from .lora import DEFAULT_TRAINING, FactorMean, LowRank, Singular
from .mixins import GroupViews
from .registry import register

RULE = (
    "as the text has it, or 0.7 of an image's own group, another start, shared columns and moving "
    "average of all"
)


@dataclass(frozen=True)
class ByGroup(GroupViews, LowRank):
    """Train adapters whose singular values depend on the image's group."""

    attribute: Annotated[
        Attribute, "whose values are the groups; empty takes the first by name"
    ] = Attribute()
    pi: Annotated[
        Literal["rule", "onehot", "smoothed"],
        "shares of an image of known group: 1, 0.7 and the rest, or as the rule",
    ] = "rule"
    rule: Annotated[Literal["paper", "released"], RULE] = "paper"

    views = ("group", "uniform", "prior")

    def extend(self, net: Network) -> None:
        super().extend(net)
        groups = len(net.attributes[self.group_attribute(net)])
        even = torch.full((groups,), 1 / groups)
        net.register_buffer("group_prior", even)  # [G]

    def singular(
        self,
        net: Network,
        rank: int,
    ) -> Singular:
        if rank % 2:
            problem = f"rank={rank} has no half, and fairlora's singular values start in two"
            raise UsageError(problem, "--set rank=12")
        groups = len(net.attributes[self.group_attribute(net)])
        factor = 0.2 if self.rule == "released" else 1.0
        return start(rank, groups, factor), net.groups

    def group_attribute(self, net: Network) -> str:
        """The attribute whose values are the groups.

        Raises UsageError where the dataset has no such one.
        """
        return chosen_attribute(net, self.attribute, "fairlora", "svd-lora")

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        groups = client.shard.groups[self.group_attribute(net)]  # [N]
        of_groups = groups[groups >= 0]
        counts = of_groups.bincount(minlength=len(net.group_prior))  # [G]
        client.report["group_counts"] = counts.double()
        client.per_image["shares"] = self.shares(groups, len(counts))  # [N, G]

    def loss(self, net: Network, batch: Batch, client: ClientRound) -> Tensor:
        net.groups.shares = batch.per_image["shares"]  # [B, G]
        return super().loss(net, batch, client)

    def on_round_end(self, net: Network, client: ClientRound) -> None:
        net.groups.shares = None
        counts = client.report["group_counts"]
        if counts.any():
            net.group_prior.copy_(counts / counts.sum())

    def set_groups(
        self,
        net: Network,
        shard: Shard,
        images: Tensor,
        view: str,
    ) -> None:
        net.groups.shares = None
        if view == "group":
            groups = shard.groups[self.group_attribute(net)][images]  # [B]
            net.groups.shares = self.shares(groups, len(net.group_prior))
        if view == "prior":
            net.groups.shares = net.group_prior.expand(len(images), -1)

    def shares(self, groups: Tensor, count: int) -> Tensor:
        """pi of images of these groups [B], -1 unknown: float32 [B, G], rows in sum 1."""
        kind = self.pi
        if kind == "rule":
            kind = "smoothed" if self.rule == "released" else "onehot"
        is_smoothed = kind == "smoothed" and count > 1
        share = 0.7 if is_smoothed else 1.0  # of an image's own group
        others = max(count - 1, 1)
        rest = (1 - share) / others
        onehot = F.one_hot(groups.clamp_min(0), count)  # [B, G]
        shares = torch.where(onehot > 0, share, rest)
        has_group = groups[:, None] >= 0
        return torch.where(has_group, shares, 1 / count).float()


@dataclass(frozen=True)
class GroupMean(FactorMean):
    """Average by image count, and each group's singular values by the count of its own images."""

    needs = "scalars"

    rule: Annotated[Literal["paper", "released"], RULE] = "paper"

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        mean, weights = super().aggregate(theta, updates, memory)
        counts = updates["group_counts"]  # [K, G]
        zeros = counts.new_zeros(updates.roster, counts.shape[1])
        roster_counts = memory.get("group_counts", zeros).clone()  # [N, G]
        roster_counts[updates.rows] = counts
        memory["group_counts"] = roster_counts
        if roster_counts.any():
            prior = roster_counts.sum(0) / roster_counts.sum()  # [G]
            mean[updates.layout.spans["group_prior"]] = prior.to(mean.dtype)
        return mean, weights

    def mean(self, theta: Tensor, updates: ClientUpdates) -> Tensor:
        mean = super().mean(theta, updates)  # [P]
        counts = updates["group_counts"]  # [K, G]
        for adapter in adapters.roles(updates.layout):
            if adapter.S:
                span = updates.layout.spans[adapter.S]
                vectors = updates.theta[:, span]
                sent = vectors.view(*counts.shape, -1)  # [K, G, r]
                old = theta[span].view_as(sent[0])  # [G, r]
                averaged = by_counts(sent, counts, old, self.rule == "released")
                mean[span] = averaged.flatten()
        return mean

    def by_group(
        self,
        adapter: adapters.Roles,
        updates: ClientUpdates,
    ) -> Tensor:
        if not adapter.S:
            return super().by_group(adapter, updates)
        weights, missing = group_weights(updates["group_counts"])
        # a group that no client has is that of the old model
        return torch.cat([weights, missing[None].to(weights)])


def start(rank: int, groups: int, factor: float) -> Tensor:
    """S [G, r] before training: one half that groups have in common, and one that peaks elsewhere
    in each.
    """
    half = torch.linspace(0.5, 0.1, rank // 2)
    shift = max(rank // 2 // groups, 1)
    rows = []
    for g in range(groups):
        rolled = half.roll(-g * shift)
        peaked = factor * rolled
        rows.append(torch.cat([half, peaked]))
    return torch.stack(rows)


def group_weights(counts: Tensor) -> tuple[Tensor, Tensor]:
    """alpha_kg [K, G] from images by client and group [K, G]; and bool [G], True for groups without
    any.
    """
    total = counts.sum(0)
    return counts / total.clamp_min(1), total == 0


def by_counts(sent: Tensor, counts: Tensor, old: Tensor, share: bool) -> Tensor:
    """S of the clients [K, G, r] and their counts [K, G] -> S [G, r]; rows of groups that no client
    has stay old.
    """
    weights, missing = group_weights(counts)
    weighted = weights[..., None].to(sent) * sent  # [K, G, r]
    new = weighted.sum(0)  # Eq. 3
    if share and not missing.all():
        half = new.shape[1] // 2
        of_others = new[~missing, :half]
        new[:, :half] = of_others.mean(0)
    return torch.where(missing[:, None], old, new)


register(
    "fairlora",
    ByGroup(),
    GroupMean(),
    label="FairLoRA",
    about="trains small adapters of a large network with a part for each patient group",
    families="groups large",
    default_training=DEFAULT_TRAINING,
)
