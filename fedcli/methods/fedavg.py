"""FedAvg: plain local training, models averaged by sample count.

Source: McMahan, Moore, Ramage, Hampson and Aguera y Arcas, AISTATS 2017, arXiv 1602.05629,
Algorithm 1. How we differ: batch-norm statistics, which the paper's networks do not have, are
averaged with the same weights.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from .contract import Aggregated, Aggregator, ClientUpdates, Local, Tensors
from .helpers import average
from .registry import register


@dataclass(frozen=True)
class Plain(Local):
    """Cross-entropy and nothing else."""

    cost = {"step": 1}
    images_in_loss_alone = True


@dataclass(frozen=True)
class Mean(Aggregator):
    """Average local models in proportion to their training images."""

    cost = {}
    needs = "sums"
    of_mean = True
    works_without_server = True

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        return average(updates.theta, updates.base), updates.base  # Alg. 1, last server line


@dataclass(frozen=True)
class WeightedMean(Mean):
    """An average for a method whose own paper averages all clients' models alike."""

    weights: Annotated[
        Literal["samples", "uniform"], "how clients count: by training images, or all the same"
    ] = "samples"

    @property
    def of_mean(self) -> bool:  # type: ignore[override]
        return self.weights == "samples"

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        if self.weights == "samples":
            return super().aggregate(theta, updates, memory)
        even_share = 1 / len(updates.base)
        p = torch.full_like(updates.base, even_share)  # [K]
        return average(updates.theta, p), p


register(
    "fedavg",
    Plain(),
    Mean(),
    label="FedAvg",
    about="every hospital trains the shared model; the models are averaged by number of "
    "images: the baseline",
    families="drift first",
)
