"""Artefacts of magnetic resonance: a bias field and ghosts.

Sources: Perez-Garcia, Sparks and Ourselin, "TorchIO", Computer Methods and Programs in Biomedicine
2021, arXiv 2003.04696. Bias field: the exponential of a polynomial of third order whose
coefficients are drawn (after Van Leemput et al., IEEE TMI 1999). Ghosts: every few lines of k-space
are weaker, but for those about its middle.
"""

import numpy as np

from .kind import Array, Stream, register_family
from .painting import grid

ORDER = 3
KEPT = 0.02  # share of the lines of k-space, about its middle, that no ghost weakens


def bias_field(image: Array, amount: float, stream: Stream) -> Array:
    y, x = grid(image.shape)
    field = np.zeros(image.shape[:2])
    for i in range(ORDER + 1):
        for j in range(ORDER + 1 - i):
            if i + j:
                field += stream.uniform(-1, 1) * (2 * y) ** i * (2 * x) ** j
    return image * np.exp(amount * field)[..., None]


def ghosting(image: Array, amount: float, stream: Stream) -> Array:
    """Copies of the image along one direction: an amount of every few lines of k-space is lost."""
    axis = int(stream.integers(2))
    ghosts = int(stream.integers(3, 8))
    lines = image.shape[axis]
    weights = np.ones(lines)
    weights[::ghosts] = 1 - amount
    middle = lines // 2
    reach = max(1, round(KEPT * lines / 2))
    weights[middle - reach : middle + reach + 1] = 1
    weights = np.fft.ifftshift(weights)
    shape = [1, 1, 1]
    shape[axis] = lines
    spectrum = np.fft.fft(image, axis=axis) * weights.reshape(shape)
    return np.abs(np.fft.ifft(spectrum, axis=axis))


register_family(__file__, bias_field, ghosting)
