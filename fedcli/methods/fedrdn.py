"""FedRDN: training images are normalised by the mean and deviation of a client drawn at random,
test images by their own client's.

Source: Yan, Fu, Li, Xie, Ma, Yang and Zhu, "A simple data augmentation for feature distribution
skewed federated learning", CVPR 2025, arXiv 2306.09363. Text at hand: the abstract, a summary with
its formulas, and the authors' code (IAMJackYan/FedRDN). With x in [0, 1]:

    mu_k, sigma_k = means over client k's images of each channel's mean and standard deviation
    training   x -> (x - mu_j) / sigma_j,  j uniform over the clients, for each image
    test       x -> (x - mu_k) / sigma_k,  k the image's own client

A client sends mu_k and sigma_k, two numbers for each channel, and the server hands them to all.
How we differ, and why:
- a layer before the network normalises, and its numbers stay with the client, as FedBN's do. Of
  test images that are no client's, it holds the mean over clients by image count.
- in its first round a client has its own numbers alone. Clients that have not taken part yet have
  none to draw.
- j is drawn for each image and round. The code draws one for each batch, and mu and sigma of two
  clients: rule=released draws both for each image.
- a deviation of less than a grey level, as of a channel that is flat, counts as one.
"""

from dataclasses import dataclass, replace
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from ..data import transforms
from ..seeds import derive
from .contract import Batch, ClientRound, ClientUpdates, Local, Network, Tensors
from .fedavg import Mean
from .registry import register
from .spectra import put_before

LEAST = 1 / 255  # a standard deviation, in pixels of [0, 1]
LAYER = "backbone.0."
TABLE = "channel_statistics"


class StatisticsNorm(nn.Module):
    """Normalises images by a mean and a standard deviation of each channel."""

    mean: Tensor  # [C, 1, 1]
    deviation: Tensor  # [C, 1, 1]

    def __init__(self, channels: int):
        super().__init__()
        # until they are measured: those of every network's input, which then stays as it is
        zero = torch.zeros(1, channels, 1, 1)
        mean = transforms.to_pixels(zero)[0]
        self.register_buffer("mean", mean)
        deviation = transforms.to_pixels(zero + 1)[0] - mean
        self.register_buffer("deviation", deviation)

    def forward(self, x: Tensor) -> Tensor:
        return (transforms.to_pixels(x) - self.mean) / self.deviation


@dataclass(frozen=True)
class RandomNorm(Local):
    """Plain local training on images normalised as those of other clients."""

    cost = {"step": 1}
    needs = "scalars"
    works_without_server = False

    rule: Annotated[
        Literal["paper", "released"], "mean and deviation of one client, or of two as in the code"
    ] = "paper"

    def extend(self, net: Network) -> None:
        put_before(net, StatisticsNorm(net.channels), "fedrdn")

    def personal_tensors(self, net: Network) -> tuple[str, ...]:
        return f"{LAYER}mean", f"{LAYER}deviation"

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        shard = client.shard
        if TABLE not in shard.derived:
            shard.derived[TABLE] = statistics(client)
        own = shard.derived[TABLE]  # [2, C] mu_k, sigma_k
        client.report[TABLE] = own
        for name, numbers in zip(self.personal_tensors(net), own, strict=True):
            buffer = net.get_buffer(name)
            buffer.copy_(numbers.view_as(buffer))
        table = client.shared.get(TABLE, own[None]).clone()  # [N or 1, 2, C]
        table = table[table[:, 1].amin(1) > 0]
        mean, deviation = self._drawn(table, client)  # [N, C] each
        # such that the layer, which divides by sigma_k, leaves (x - mu_j) / sigma_j
        factor = own[1] / deviation
        offset = own[0] - factor * mean
        client.per_image["factor"] = factor[:, :, None, None]
        client.per_image["offset"] = offset[:, :, None, None]

    def _drawn(self, table: Tensor, client: ClientRound) -> tuple[Tensor, Tensor]:
        """The mean and the deviation for each image, [N, C] each; table: [M, 2, C]."""
        seed = derive("fedrdn", client.seed, client.round, client.name)
        stream = torch.Generator().manual_seed(seed)
        chosen = torch.randint(len(table), (2, len(client.shard)), generator=stream)
        chosen = chosen.to(table.device)
        second = 0 if self.rule == "paper" else 1
        return table[chosen[0], 0], table[chosen[second], 1]

    def loss(self, net: Network, batch: Batch, client: ClientRound) -> Tensor:
        pixels = transforms.to_pixels(batch.x)
        moved = pixels * batch.per_image["factor"] + batch.per_image["offset"]
        x = transforms.normalised(moved)
        return super().loss(net, replace(batch, x=x), client)

    def post_aggregate(
        self,
        theta: Tensor,
        updates: ClientUpdates,
        weights: Tensor,
        shared: Tensors,
    ) -> Tensor:
        sent = updates[TABLE]  # [K, 2, C]
        empty = sent.new_zeros(updates.roster, *sent.shape[1:])
        table = shared.get(TABLE, empty).clone()
        table[updates.rows] = sent
        shared[TABLE] = table  # [N, 2, C], 0 of a client that has not taken part
        return theta


def statistics(client: ClientRound) -> Tensor:
    """The means over the client's images of each channel's mean and standard deviation in pixels
    of [0, 1]: float32 [2, C].
    """
    total = torch.zeros(2, 1)
    for batch in client.shard.in_order():
        pixels = transforms.to_pixels(batch.x).flatten(2)  # [B, C, H W]
        means = pixels.mean(2)
        deviations = pixels.std(2)
        sums = torch.stack([means.sum(0), deviations.sum(0)])
        total = total.to(sums) + sums
    table = total / len(client.shard)
    table[1].clamp_(min=LEAST)
    return table


register(
    "fedrdn",
    RandomNorm(),
    Mean(),
    label="FedRDN",
    about="normalises training images as other hospitals' are, for scanners with other colours or "
    "contrast",
    families="domain",
)
