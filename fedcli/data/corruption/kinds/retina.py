"""Artefacts of the retina's images: uneven light and a lid's shadow of photographs, speckle and
vessels' shadows of optical coherence tomography. Defocus is MedMNIST-C's, defocus-blur@fundus and
@oct.

Sources: Shen et al., "Modeling and enhancing low-quality retinal fundus images", IEEE TMI 2020,
arXiv 2005.05594, for light transmission that varies over a photograph. Schmitt, Xiang and Yung,
"Speckle in optical coherence tomography", Journal of Biomedical Optics 1999, for speckle that
multiplies and is correlated over neighbouring pixels. Shadows below vessels as in Ghassabi et al.
and others. Look and amounts are fedcli's.
"""

import numpy as np

from .kind import Array, Stream, register_family
from .painting import blurred, grid, luma, side_of

VESSELS = 5


def uneven_light(image: Array, amount: float, stream: Stream) -> Array:
    """Dark away from a bright place that is not in the middle."""
    y, x = grid(image.shape)
    angle = stream.uniform(0, 2 * np.pi)
    centre = 0.38 * np.array([np.sin(angle), np.cos(angle)])
    distance = np.hypot(y - centre[0], x - centre[1])
    light = np.exp(-0.5 * (distance / 0.38) ** 2)
    return image * (1 - amount * (1 - light))[..., None]


def lid_shadow(image: Array, amount: float, stream: Stream) -> Array:
    """A dark crescent from above or below, with a soft edge; an amount is its depth."""
    y, x = grid(image.shape)
    side = stream.choice([-1, 1])
    tilt = stream.normal(0, 0.15)
    height = image.shape[0] / side_of(image.shape)
    edge = height / 2 - amount + 0.35 * (x - 0.2 * tilt) ** 2 + tilt * x
    shade = 1 / (1 + np.exp(-(side * y - edge) / 0.035))
    return image * (1 - 0.94 * shade)[..., None]


def speckle(image: Array, amount: float, stream: Stream) -> Array:
    """Grey levels times a correlated random factor of mean 1."""
    grain = blurred(stream.exponential(1, image.shape[:2]), 0.6)
    grain = 1 + (grain - grain.mean()) / max(grain.std(), 1e-12)
    return image * (1 + amount * (grain - 1))[..., None]


def vessel_shadow(image: Array, amount: float, stream: Stream) -> Array:
    """Dark columns from the inner layers down, where vessels take the light."""
    x = grid(image.shape)[1]
    half_width = image.shape[1] / side_of(image.shape) / 2
    surface = _surface(luma(image))
    shade = np.zeros(image.shape[:2])
    for _ in range(VESSELS):
        centre = stream.uniform(-half_width, half_width)
        width = stream.uniform(0.01, 0.028)
        shade = np.maximum(shade, np.exp(-0.5 * ((x - centre) / width) ** 2))
    rows = np.arange(image.shape[0])[:, None]
    below = 1 / (1 + np.exp(-(rows - surface) / (0.02 * side_of(image.shape))))
    return image * (1 - amount * shade * below)[..., None]


def _surface(grey: Array) -> Array:
    """The first row [W] of each column that is half as bright as its brightest, smoothed over
    columns: vessels are in the inner layers, above the brightest one."""
    from scipy import ndimage

    smooth = blurred(grey, 0.02 * side_of(grey.shape))
    rows = (smooth >= smooth.max(0) / 2).argmax(0).astype(float)
    return ndimage.gaussian_filter1d(rows, 0.05 * side_of(grey.shape), mode="nearest")


register_family(__file__, uneven_light, lid_shadow, speckle, vessel_shadow)
