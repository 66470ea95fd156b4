"""HarmoFL: every image at the amplitude spectrum that all clients have in the mean, and
sharpness-aware local steps.

Source: Jiang, Wang and Dou, "HarmoFL: harmonizing local and global drifts in federated learning on
heterogeneous medical images", AAAI 2022, arXiv 2112.10775, as its authors' code (med-air/HarmoFL)
computes it:

    first round     A_k = mean over client k's images of their amplitudes, A = sum_k p_k A_k
    every image     is seen with the amplitudes A and its own phases, in training and at test
    local step      w~ = w + rho g / ||g||,  w <- w - lr g~,  as FedSAM's

What leaves a hospital beside the model, as a part of it: A_k, once. It is a mean over its training
images; of a single image it would be that image's.
How we differ, and why:
- low=0 is the code's, which replaces the amplitude at frequency 0 alone, the mean of each colour;
  low=0.5 replaces all. The paper's text was not at hand.
- A_k is a mean over all images. The code has a moving average over batches, whose momentum of 0.1
  its compiled part takes as a whole number, 0: that is the first batch's.
- in the first round a client trains with its own A_k, as in the code. Where clients are absent in
  it, A is of those that are there.
- models count by images (weights=uniform: all the same, as in the code); the code's networks have
  batch norms without statistics, ours keep those of the network that is trained.
- the second pass moves no batch-norm statistics. Noise on updates (--dp client) covers A, and moves
  it in every round.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn

from ..models.network import Network
from .contract import ClientRound
from .fedavg import WeightedMean
from .fedsam import Perturbed
from .registry import register
from .spectra import Low, amplitudes, exchanged, put_before, window

STANDS = "backbone.0.amplitude"


class AmplitudeNorm(nn.Module):
    """Gives images a common amplitude spectrum, once there is one."""

    amplitude: Tensor  # [C, n, n]; 0: there is none yet

    def __init__(self, channels: int, side: int, low: float):
        super().__init__()
        square = window(side, low)
        n = square.stop - square.start
        self.low = low
        self.register_buffer("amplitude", torch.zeros(channels, n, n))

    def forward(self, x: Tensor) -> Tensor:
        moved = exchanged(x, self.amplitude, self.low)
        return torch.where(self.amplitude.amax() > 0, moved, x)


@dataclass(frozen=True)
class Harmonised(Perturbed):
    """FedSAM's steps on images at a common amplitude spectrum."""

    rho: Annotated[float, "perturbation radius, in units of theta, >= 0; 0 is a plain step"] = 0.05
    low: Low = 0.0

    works_without_server = False

    def extend(self, net: Network) -> None:
        layer = AmplitudeNorm(net.channels, net.side, self.low)
        put_before(net, layer, "harmofl")

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        span = client.layout.spans[STANDS]
        amplitude = client.theta[span]  # all clients', under --bn local too
        if not amplitude.any():
            batches = client.shard.in_order()
            sums = [amplitudes(batch.x, self.low).sum(0) for batch in batches]  # [C, n, n] each
            total = torch.stack(sums).sum(0)
            amplitude = total / len(client.shard)  # A_k
        client.layout.flat[span] = amplitude.flatten()


register(
    "harmofl",
    Harmonised(),
    WeightedMean(),
    label="HarmoFL",
    about="gives all hospitals' images the same overall style, and takes robust steps",
    families="domain",
)
