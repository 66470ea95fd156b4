"""FedNS: clients whose images are noisy, found by the norms of gradients, weigh less.

Source: Li, Funk, Gürel and Saeed, "Collaboratively learning federated models from noisy
decentralized data", 2024, arXiv 2409.02189. Text at hand: the abstract, the authors' project page
(haoyuan-l.github.io/fedns) and their code (Haoyuan-L/FedNS-official), whose names these are:

    g_k      the mean over batches of client k's images of the L1 norm of the gradient of the
             classifier's weights, at its model after training; the loss is - sum_c log p_c,
             which needs no label
    noisy    the lower of two clusters of the g_k by k-means, once
    theta    sum_k p_k theta_k, with p_k ~ alpha n_k of a clean client, beta n_k of a noisy one

Only the ratio of alpha and beta counts. A client sends g_k, of its first round, beside its model.
How we differ, and why:
- the classifier's gradient of a batch has a closed form, so that no backward pass is needed.
- two clusters of numbers are found exactly, by the best of the K - 1 cuts. Clients that first
  take part in a later round are sorted in then.
- weights count images, so that alpha = beta is FedAvg. The code's are alpha and beta alone, and its
  clusters serve the first round: later ones read which clients were made noisy.
Two clusters are always found: where no client is noisy, some are called so. The norm also falls
where a client's images are of few classes, or easy.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from .contract import Aggregated, Aggregator, ClientRound, ClientUpdates, Network, Tensors
from .fedavg import Plain
from .helpers import average, by_row
from .mixins import LinearHeadOnly
from .registry import register


@dataclass(frozen=True)
class NoiseSifting(LinearHeadOnly, Aggregator):
    """Weights by image count, smaller for clients of the cluster with small gradients."""

    cost = {"forward": 1}
    needs = "scalars"
    needs_one_label = "its loss is of classes that exclude each other"

    alpha: Annotated[float, "weight of an image of a clean client, > 0"] = 1.2
    beta: Annotated[float, "weight of an image of a noisy client, > 0"] = 0.1
    batch: Annotated[int, "images of a gradient, >= 1"] = 16

    def measure_local(self, net: Network, client: ClientRound) -> None:
        if "gradient_norm" not in client.memory:
            client.memory["gradient_norm"] = self.mean_norm(net, client)
        client.report["gradient_norm"] = client.memory["gradient_norm"]

    @torch.no_grad()
    def mean_norm(self, net: Network, client: ClientRound) -> Tensor:
        """The mean L1 norm of the gradient of the classifier's weights over batches, a scalar."""
        net.eval()
        norms = []
        for batch in client.shard.in_order(self.batch):
            features = net.features(batch.x)  # [B, D]
            p = net.head(features).softmax(1)  # [B, C]
            slopes = p.shape[1] * p - 1  # of - sum_c log p_c by the logits
            gradient = slopes.T @ features / len(features)  # [C, D]
            norms.append(gradient.abs().sum())
        return torch.stack(norms).mean().double()

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        norms = by_row(memory, "gradient_norms", updates, -1.0)  # [N], -1 of a client not met
        norms[updates.rows] = updates["gradient_norm"].double()
        memory["gradient_norms"] = norms
        low = below_cut(norms, norms >= 0)  # [N]
        noisy = low[updates.rows]  # [K]
        factors = torch.where(noisy, self.beta, self.alpha)
        weights = factors * updates.base
        weights = weights / weights.sum()
        return average(updates.theta, weights), weights


def below_cut(numbers: Tensor, counted: Tensor) -> Tensor:
    """The lower of two clusters of the counted numbers, with the least sum of squares within
    clusters: bool [N]; none where all are equal. numbers: [N]. counted: bool [N].
    """
    order = numbers[counted].sort().values  # [M]
    if len(order) < 2 or order[0] == order[-1]:
        return torch.zeros_like(counted)
    below = torch.arange(1, len(order), device=order.device)  # [M - 1] sizes of the lower cluster
    low = order.cumsum(0)[:-1]
    high = order.sum() - low
    above = len(order) - below
    explained = low.square() / below + high.square() / above
    cut = int(explained.argmax()) + 1
    return counted & (numbers < order[cut])


register(
    "fedns",
    Plain(),
    NoiseSifting(),
    label="FedNS",
    about="gives little weight to hospitals whose images look noisy to the network",
    families="noise",
)
