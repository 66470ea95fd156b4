"""cRT: a finished run's backbone is frozen and a fresh classifier is trained on class-balanced
draws.

Source: Kang, Xie, Rohrbach, Yan, Gordo, Feng and Kalantidis, "Decoupling representation and
classifier for long-tailed recognition", ICLR 2020, arXiv 1910.09217, section 4; in federated form
Table 7 of Fed-MAS (arXiv 2307.14959), which leaves the details open. Each epoch of a client is as
many draws as it has images: a class it has, all equally likely, then one of its images. Plain
cross-entropy, SGD with momentum and a cosine, ten rounds of one epoch. How we differ, and why:
- the classifier is linear whatever the run before had; only it travels.
- models are averaged with the weights of that run's last round, so that a rule which was fair to
  some client stays so. weights=samples uses image counts, which is also what happens where not
  every client took part in that round.
- CReFF leaves the backbone as FedAvg makes it and re-trains a classifier of its own, which this one
  replaces: after CReFF the result is the same as after FedAvg.
- balance is within a client. A class that few clients have stays rare in the average.
- images are seen as they are and their features computed once, unless --augment asks for
  augmentation.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from torch import Tensor, nn

from .contract import Aggregated, Aggregator, ClientUpdates, Local, Network, Tensors
from .helpers import average
from .mixins import BalancedSampling, ContinuesRun
from .registry import register


@dataclass(frozen=True)
class Retrained(BalancedSampling, Local):
    """Train a fresh linear classifier on balanced draws, the backbone as it is."""

    cost = "it continues a finished run"
    own_prior = True
    freezes = True

    needs_one_label = "it draws images by their one class"

    def extend(self, net: Network) -> None:
        net.backbone.requires_grad_(False)
        net.head = nn.Linear(net.head.in_features, net.head.out_features)


@dataclass(frozen=True)
class PreviousWeights(ContinuesRun, Aggregator):
    """Average with fixed weights: those that ended the run before."""

    cost = "it continues a finished run"
    needs = "sums"

    weights: Annotated[
        Literal["previous", "samples"], "of the run's last round, or image counts"
    ] = "previous"

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        weights = updates.base  # [K]
        if self.weights == "previous" and "start_weights" in memory:
            previous = memory["start_weights"][updates.rows]
            total = previous.sum()
            if total > 0:  # these clients may have had none
                weights = previous / total
        return average(updates.theta, weights), weights


register(
    "crt",
    Retrained(),
    PreviousWeights(),
    label="cRT",
    about="second stage after a finished run: retrains the classifier with all classes in balance",
    families="rare",
    default_training={
        "rounds": 10,
        "optimizer": "sgd",
        "lr": 0.1,
        "momentum": 0.9,
        "weight_decay": 5e-4,
        "schedule": "cosine",
    },
)
