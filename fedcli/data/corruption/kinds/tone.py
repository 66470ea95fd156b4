"""Gamma, contrast and brightness, up and down; a scale with a shift; noise with blur.

Sources: Di Salvo, Doerrich and Ledig, "MedMNIST-C", arXiv 2406.17536: gamma, contrast and
brightness, with the intensities that its code (medmnistc-api, registry.py) has for chest
radiographs. Of MedFL-Stress (Naseer and Butt, arXiv 2605.09025), whose gradings were not at hand
beyond the abstract, the kinds alone: a scale with a shift of the grey levels, and noise with blur;
their amounts are fedcli's.
"""

from .kind import Array, Stream, register_family
from .painting import blurred, luma, side_of


def gamma(image: Array, amount: float, stream: Stream) -> Array:
    return image**amount


def contrast(image: Array, amount: float, stream: Stream) -> Array:
    mean = luma(image).mean()
    return mean + amount * (image - mean)


def brightness(image: Array, amount: float, stream: Stream) -> Array:
    return amount * image


def scale_shift(image: Array, amount: float, stream: Stream) -> Array:
    """Grey levels times 1 plus or minus an amount, and moved by half of it, either way."""
    scale, shift = stream.choice([-1, 1], 2)
    return image * (1 + scale * amount) + shift * amount / 2


def noise_blur(
    image: Array,
    amount: tuple[float, float],
    stream: Stream,
) -> Array:
    sigma, noise = amount
    softened = blurred(image, sigma * side_of(image.shape))
    return softened + noise * stream.standard_normal(image.shape)


register_family(__file__, gamma, contrast, brightness, scale_shift, noise_blur)
