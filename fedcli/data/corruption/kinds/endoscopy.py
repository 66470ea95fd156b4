"""Artefacts of endoscopy: reflections of the light, bubbles and smoke.

Source: Ali et al., "An objective comparison of detection and segmentation algorithms for artefacts
in clinical endoscopy", Scientific Reports 2020 (EAD2019, arXiv 1905.03209), whose classes
specularity and bubbles these are; smoke as light that is scattered, I t + A (1 - t), as in fog
(Koschmieder). Look and amounts are fedcli's.
"""

import numpy as np

from .kind import Array, Stream, register_family
from .painting import blurred, covered, grid, luma, side_of, smooth_field, with_bubbles

MOST = 96  # spots or bubbles that are drawn, of which a severity takes the first


def _bright_places(image: Array, stream: Stream) -> Array:
    """Places [MOST, 2], more of them where the image is bright."""
    y, x = grid(image.shape)
    grey = blurred(luma(image), 0.03 * side_of(image.shape))
    chances = np.cumsum(grey.ravel() ** 2 + 1e-6)
    pixels = np.searchsorted(chances, stream.random(MOST) * chances[-1])
    return np.stack([y.ravel()[pixels], x.ravel()[pixels]], 1)


def specular_light(image: Array, amount: int, stream: Stream) -> Array:
    """White spots of irregular shape with a soft halo, most of them where it is bright."""
    centres = _bright_places(image, stream)
    sizes = np.clip(stream.exponential(0.018, (MOST, 1)), 0.006, 0.07) * stream.uniform(
        0.6, 1.6, (MOST, 2)
    )
    turns = stream.uniform(0, np.pi, MOST)
    ragged = smooth_field(image.shape, stream, 28)
    y, x = grid(image.shape)
    white = np.zeros(image.shape[:2])
    for centre, size, turn in zip(centres[:amount], sizes, turns, strict=False):
        down = y - centre[0]
        across = x - centre[1]
        long = (down * np.cos(turn) + across * np.sin(turn)) / size[0]
        short = (across * np.cos(turn) - down * np.sin(turn)) / size[1]
        distance = np.hypot(long, short) + 0.9 * (ragged - 0.5)
        softness = max(0.2, 0.8 / (size.min() * side_of(image.shape)))
        spot = np.clip((1 - distance) / softness + 0.5, 0, 1)
        halo = 0.35 * np.exp(-0.5 * (distance / 1.6) ** 2)
        white = np.maximum(white, np.maximum(spot, halo))
    return covered(image, white, 1.0)


def bubbles(image: Array, amount: int, stream: Stream) -> Array:
    """Foam: bubbles of all sizes in a few heaps, whose walls are thin and hardly dark."""
    heaps = stream.uniform(-0.4, 0.4, (3, 2))
    centres = heaps[stream.integers(3, size=MOST)] + stream.normal(0, 0.13, (MOST, 2))
    radii = np.clip(stream.exponential(0.016, MOST) + 0.014, 0, 0.075)
    light = np.array([-0.8, -0.6])
    return with_bubbles(image, centres[:amount], radii[:amount], light, rim=0.25)


def smoke(image: Array, amount: float, stream: Stream) -> Array:
    """Grey smoke in drifts, at most as opaque as an amount; a tenth as much between them."""
    drifts = 0.65 * smooth_field(image.shape, stream, 3)
    drifts += 0.35 * smooth_field(image.shape, stream, 8)
    density = np.clip(1.8 * drifts - 0.35, 0.1, 1)
    return covered(image, amount * density, 0.82)


register_family(__file__, specular_light, bubbles, smoke)
