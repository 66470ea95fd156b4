"""Amplitude spectra of images: what HarmoFL and FedDG share between clients, since it tells style
more than content.

Source: the exchange of low-frequency amplitudes is that of Yang and Soatto, "FDA: Fourier domain
adaptation for semantic segmentation", CVPR 2020, arXiv 2004.05498. Part of other methods, and none
by itself. Of an image x with the Fourier transform A exp(i P), amplitudes A and phases P, only A
within a square of frequencies around 0 is touched:

    b = floor(low * side): a frequency is within where both its numbers are at most b
    x' = inverse transform of (A + mix (A' - A)) exp(i P)

low=0 touches the mean alone. Images are taken as they are before they are normalised, in [0, 1],
and transforms are divided by the number of pixels, so that the amplitude at 0 is the mean.
"""

from typing import Annotated

import torch
from torch import Tensor, nn

from ..data.transforms import normalised, to_pixels
from ..errors import UsageError
from ..models.network import Network
from .helpers import is_frozen

Low = Annotated[
    float,
    "half side of the square of frequencies that are shared, in image sides, in [0, 0.5]; 0 is "
    "the mean alone",
]
SIDES = (-2, -1)


def window(side: int, low: float) -> slice:
    """Where the square's frequencies stand on each side of a shifted transform."""
    centre = side // 2
    half = int(side * low)
    begin = max(centre - half, 0)
    end = min(centre + half + 1, side)
    return slice(begin, end)


def amplitudes(x: Tensor, low: float) -> Tensor:
    """Amplitudes float32 [B, C, n, n] of normalised images [B, C, H, H]."""
    pixels = to_pixels(x)
    if _mean_alone(pixels, low):
        return _mean(pixels).abs()
    square = window(x.shape[-1], low)
    return _transformed(pixels)[..., square, square].abs()


def exchanged(
    x: Tensor,
    other: Tensor,
    low: float,
    mix: Tensor | float = 1.0,
    cut: bool = False,
) -> Tensor:
    """Normalised images [B, C, H, H] with their amplitudes moved to `other` [B or 1, C, n, n] by
    the share `mix`.

    cut: to [0, 1], before they are normalised again.
    """
    pixels = to_pixels(x)
    if _mean_alone(pixels, low):  # needs no transform, which ONNX does not know
        mean = _mean(pixels)
        pixels = pixels + (_moved(mean, other, mix) - mean)
    else:
        spectrum = _transformed(pixels)  # [B, C, H, H]
        square = window(x.shape[-1], low)
        low_part = spectrum[..., square, square]
        spectrum[..., square, square] = _moved(
            low_part,
            other,
            mix,
        )
        unshifted = torch.fft.ifftshift(spectrum, dim=SIDES)
        pixels = torch.fft.ifft2(unshifted, norm="forward").real
    if cut:
        pixels = pixels.clamp(0, 1)
    return normalised(pixels)


def refuse_features(net: Network, method: str) -> None:
    """Raises UsageError where the network would not see images as they are."""
    if is_frozen(net):
        problem = f"{method} changes images, but a frozen backbone sees each image once"
        raise UsageError(problem, "train the backbone too")


def put_before(net: Network, layer: nn.Module, method: str) -> None:
    """Put a layer before the network. Raises UsageError where it would not see the images."""
    refuse_features(net, method)
    if type(net).features is not Network.features:
        problem = (
            f"{method} puts a layer before the network, and this one prepares its images itself"
        )
        raise UsageError(problem, "--model cnn")
    net.backbone = nn.Sequential(layer, net.backbone)


def _moved(part: Tensor, other: Tensor, mix: Tensor | float) -> Tensor:
    """A part of a spectrum with its amplitudes moved to `other`, its phases as they are; 0 has the
    phase 0.
    """
    amplitude = part.abs()
    unit = part / amplitude.clamp_min(1e-30)
    phase = torch.where(amplitude > 0, unit, 1)
    mixed = amplitude + mix * (other - amplitude)
    return mixed * phase


def _mean_alone(pixels: Tensor, low: float) -> bool:
    square = window(pixels.shape[-1], low)
    return square.stop - square.start == 1


def _mean(pixels: Tensor) -> Tensor:
    """The transform at frequency 0 [B, C, 1, 1], which is real."""
    return pixels.mean(SIDES, keepdim=True)


def _transformed(pixels: Tensor) -> Tensor:
    spectrum = torch.fft.fft2(pixels, norm="forward")
    return torch.fft.fftshift(spectrum, dim=SIDES)
