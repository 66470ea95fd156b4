"""Artefacts of radiographs: too much or too little exposure, and the border of the collimator.

Source: Shepard et al., "An exposure indicator for digital radiography: AAPM Task Group 116",
Medical Physics 2009, for exposure as a factor of the intended one. A grey level is taken as minus
the logarithm of the exposure over DECADES: white is where least passes. More exposure darkens and
saturates; less brightens and shows the noise of few photons, whose number falls with the factor and
with the brightness. The collimator leaves the border unexposed, which is bright.
"""

import numpy as np

from .kind import Array, Stream, register_family
from .painting import blurred, grid, side_of

DECADES = 3.0  # of exposure from black to white
PHOTONS = 2e4  # of a black pixel at the intended exposure


def over_exposure(image: Array, amount: float, stream: Stream) -> Array:
    return image - np.log10(amount) / DECADES


def under_exposure(image: Array, amount: float, stream: Stream) -> Array:
    photons = PHOTONS / amount * 10 ** (-image.mean(2) * DECADES)
    noise = stream.standard_normal(photons.shape) / np.sqrt(np.maximum(photons, 1))
    noise /= np.log(10) * DECADES  # of the logarithm, in grey levels
    return image + np.log10(amount) / DECADES + noise[..., None]


def collimator(image: Array, amount: float, stream: Stream) -> Array:
    """Four straight bright borders, slightly turned, of widths up to an amount of the side."""
    turn = stream.normal(0, 0.03)
    y, x = grid(image.shape)
    down = y * np.cos(turn) + x * np.sin(turn)
    across = x * np.cos(turn) - y * np.sin(turn)
    half_height = image.shape[0] / side_of(image.shape) / 2
    half_width = image.shape[1] / side_of(image.shape) / 2
    widths = amount * stream.uniform(0.35, 1, 4)
    borders = (
        half_height - widths[0] - down,
        half_height - widths[1] + down,
        half_width - widths[2] - across,
        half_width - widths[3] + across,
    )
    inside = np.minimum.reduce(borders) * side_of(image.shape)  # pixels from the border
    light = blurred(np.clip(inside + 0.5, 0, 1), 0.004 * side_of(image.shape))[..., None]
    return image * light + 0.94 * (1 - light)


register_family(__file__, over_exposure, under_exposure, collimator)
