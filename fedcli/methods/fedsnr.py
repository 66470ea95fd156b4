"""FedSNR: clients weigh by a ratio of brightness that the authors call signal-to-noise.

Source: Catalfamo, Villari and Galletta, "FedSNR: enhancing federated learning aggregation using
signal-to-noise ratio in MRI analysis", SSRN 5357509, 2025, doi 10.2139/ssrn.5357509, as the
authors' code (alecatalfamo/fedsnr) computes it:

    SNR_i = mean(x_i) / mean(pixels of x_i below mean(x_i))      of a grey image
    SNR_k = mean over client k's training images
    p_k   = SNR_k / sum_j SNR_j                                  numbers of images do not count

The paper's text was not at hand; its abstract says that SNR is a further factor in FedAvg's
weights, which weights=samples is: p_k ~ n_k SNR_k, as in a part of the code that is not run. A
client sends SNR_k alone. How we differ: a mean of darker pixels below 1/sqrt(12) grey level, the
error of rounding, counts as that, and a flat image has the ratio 1; the code divides by zero there,
and by 1e-6. Beware that this ratio is one of brightness. Noise lowers it where the background is
black, and raises it on most other images: of a square 50 grey levels above its background, on a
quarter of the image, noise of standard deviation 40 changes it from 43 to 5.8 on a background of 0,
from 3.5 to 4.8 on one of 5, from 1.6 to 3.4 on 20 and from 1.06 to 1.19 on 200. snr=immerkaer is
ours: mean over Immerkaer's noise (data/quality.py), which falls with noise on any image.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from ..data.quality import NAMES, ROUNDING, greys, measure
from ..errors import UsageError
from .contract import Aggregated, Aggregator, ClientRound, ClientUpdates, Network, Shard, Tensors
from .fedavg import Plain
from .helpers import average
from .mixins import ClientPart, WeighsBySums
from .registry import register

PIECE = 256  # images at a time


@dataclass(frozen=True)
class BySignalToNoise(WeighsBySums, Aggregator):
    """Weights by the mean signal-to-noise ratio of a client's images."""

    cost = {}
    needs = "scalars"

    snr: Annotated[
        Literal["released", "immerkaer"], "mean over the mean of darker pixels, or over the noise"
    ] = "released"
    weights: Annotated[
        Literal["snr", "samples"], "SNR alone as in the code, or times training images"
    ] = "snr"

    def warning(self, rounds: int, validation: bool) -> str:
        if self.snr == "immerkaer":
            return ""
        return (
            "its ratio is one of brightness, which noise often raises: "
            "--set snr=immerkaer measures noise"
        )

    def measure_global(self, net: Network, client: ClientRound) -> None:
        shard = client.shard
        name = f"snr {self.snr}"
        if name not in shard.derived:
            shard.derived[name] = self.mean_ratio(shard)
        device = shard.images.device
        client.report["snr"] = torch.tensor(
            shard.derived[name],
            dtype=torch.float64,
            device=device,
        )

    def mean_ratio(self, shard: Shard) -> float:
        """The mean signal-to-noise ratio of a client's images."""
        if shard.images.ndim == 2:
            problem = "fedsnr looks at pixels, and a frozen backbone has only their features"
            raise UsageError(problem, "train it whole")
        ratios = []
        for rows in shard.rows.split(PIECE):
            images = shard.images[rows].permute(0, 2, 3, 1)
            ratios.append(_ratios(images.cpu().numpy(), self.snr))
        return float(np.concatenate(ratios).mean())

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        weights = updates["snr"].double()  # [K]
        if self.weights == "samples":
            weights = weights * updates.base
        weights = weights / weights.sum()
        return average(updates.theta, weights), weights

    def number(self, client: ClientPart, sums: Sequence[Tensor]) -> Tensor:
        snr = client.columns["snr"].double()
        return snr * client.base if self.weights == "samples" else snr


def _ratios(images: ndarray, kind: str) -> ndarray:
    """The signal-to-noise ratio of each image, float64 [N], > 0; images uint8 [N, H, W, C]."""
    if kind == "immerkaer":
        measures = dict(zip(NAMES, measure(images).T, strict=True))
        return _ratio(measures["brightness"], measures["noise"])
    flat = greys(images).reshape(len(images), -1)
    grey = flat.astype(np.float64)  # [N, S H W]
    mean = grey.mean(1)
    below = grey < mean[:, None]
    sums = np.where(below, grey, 0).sum(1)
    pixels = np.maximum(below.sum(1), 1)
    dark = sums / pixels
    return np.where(below.any(1), _ratio(mean, dark), 1.0)


def _ratio(signal: ndarray, noise: ndarray) -> ndarray:
    return np.maximum(signal, ROUNDING) / np.maximum(noise, ROUNDING)


register(
    "fedsnr",
    Plain(),
    BySignalToNoise(),
    label="FedSNR",
    about="weighs hospitals by a ratio of brightness that its authors call signal-to-noise",
    families="noise",
)
