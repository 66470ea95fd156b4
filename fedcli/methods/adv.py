"""Adversarial debiasing: a second classifier guesses the group from the features, which learn to
give nothing away.

Source: Ganin and Lempitsky, "Unsupervised domain adaptation by backpropagation", ICML 2015, arXiv
1409.7495, Eqs. 4-6 and 14 (the gradient reversal layer); with a group in place of the domain as in
Raff and Sylvester, "Gradient reversal against discrimination", 2018, arXiv 1807.00392.

    minimise over features and classifier, maximise over the adversary:   L_y - strength lambda L_g

by one backward pass through a layer that turns the gradient round. L_g is the cross-entropy of the
adversary, one linear layer from the features to the groups, which all clients share and average
with the rest; lambda grows from 0 to 1 over the run, 2 / (1 + exp(-10 p)) - 1 with p the share of
rounds that are done (Eq. 14).

Images of unknown group train the classifier alone. L_g is a mean over the whole batch, to which
they add 0: the fewer groups are known, the less the adversary counts. A client without a known
group, or with one group only, trains the adversary on what it has. All images count the same, small
groups too, so nothing is weighed. The groups' adversary is part of the model that travels; test
images' groups are never read. strength = 0 trains an adversary that changes nothing. How we differ:
Raff and Sylvester keep lambda constant (schedule=constant).
"""

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .contract import Batch, ClientRound, Local, Network, cross_entropy
from .fedavg import Mean
from .groups import Attribute, chosen_attribute
from .mixins import LinearHeadOnly
from .registry import register


class Reversed(torch.autograd.Function):
    """The identity, whose gradient is turned round and multiplied."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, strength: Tensor) -> Tensor:
        ctx.save_for_backward(strength)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (strength,) = ctx.saved_tensors
        return -strength * grad, None


@dataclass(frozen=True)
class Adversarial(LinearHeadOnly, Local):
    """Cross-entropy, and an adversary behind a gradient reversal layer."""

    cost = {"step": 1}

    attribute: Annotated[
        Attribute, "whose values are the groups; empty takes the first by name"
    ] = Attribute()
    strength: Annotated[float, "of the reversed gradient, >= 0"] = 1.0
    schedule: Annotated[Literal["growing", "constant"], "of the strength over the rounds"] = (
        "growing"
    )

    trains_backbone = True

    def extend(self, net: Network) -> None:
        name = self.group_attribute(net)
        groups = len(net.attributes[name])
        net.adversary = nn.Linear(net.head.in_features, groups)

    def group_attribute(self, net: Network) -> str:
        return chosen_attribute(net, self.attribute, "an adversary", "fedavg")

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        growth = 1.0
        if self.schedule == "growing":
            decay = math.exp(-10 * (client.round - 1) / client.rounds)
            growth = 2 / (1 + decay) - 1  # Eq. 14
        groups = client.shard.groups[self.group_attribute(net)]
        client.per_image["groups"] = groups
        strength = self.strength * growth
        client.scratch["strength"] = client.theta.new_tensor(strength)

    def loss(self, net: Network, batch: Batch, client: ClientRound) -> Tensor:
        features = net.features(batch.x)  # [B, D]
        groups = batch.per_image["groups"]  # [B]
        reversed_features = Reversed.apply(features, client.scratch["strength"])
        guesses = net.adversary(reversed_features)  # [B, G]
        losses = F.cross_entropy(guesses, groups.clamp_min(0), reduction="none")  # [B]
        losses = losses * (groups >= 0)
        supervised = cross_entropy(net.head(features), batch.y, client)
        return supervised + losses.mean()  # Eq. 4


register(
    "adv",
    Adversarial(),
    Mean(),
    label="Adversarial debiasing",
    aliases=("adversarial",),
    about="learns features from which a linear classifier can hardly tell the patient group",
    families="groups",
)
