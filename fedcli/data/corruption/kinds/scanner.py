"""Traces of how an image was put together: resampling to fewer pixels and back, and stitching.

Their definitions and amounts are fedcli's: resampling with Pillow's bicubic filter, which averages
when it shrinks; stitching of three strips whose borders do not meet and whose brightness differs,
as of long radiographs and slides.
"""

import numpy as np
from PIL import Image

from .kind import Array, Stream, register_family
from .painting import side_of

STRIPS = 3


def resized(image: Array, size: tuple[int, int], method: Image.Resampling) -> Array:
    """An image [H, W, C] in another (height, width), each channel by itself."""
    height, width = size
    channels = []
    for k in range(image.shape[2]):
        channel = Image.fromarray(image[..., k].astype(np.float32))
        channels.append(np.asarray(channel.resize((width, height), method), np.float64))
    return np.stack(channels, -1)


def resampling(image: Array, amount: float, stream: Stream) -> Array:
    height, width = image.shape[:2]
    smaller = (max(1, round(height * amount)), max(1, round(width * amount)))
    few = resized(image, smaller, Image.Resampling.BICUBIC)
    return resized(few, (height, width), Image.Resampling.BICUBIC)


def stitching(
    image: Array,
    amount: tuple[float, float],
    stream: Stream,
) -> Array:
    """Strips moved along their borders, and brighter or darker, by up to an amount."""
    shift, gain = amount
    axis = int(stream.integers(2))
    turned = np.moveaxis(image, axis, 0)  # strips of rows
    borders = np.sort(stream.uniform(0.2, 0.8, STRIPS - 1))
    rows = [0, *(borders * len(turned)).astype(int), len(turned)]
    signs = stream.choice([-1, 1], (STRIPS, 2)) * stream.uniform(0.5, 1, (STRIPS, 2))
    strips = []
    for k in range(STRIPS):
        strip = turned[rows[k] : rows[k + 1]]
        moved = round(float(signs[k, 0]) * shift * side_of(image.shape))
        columns = np.clip(np.arange(strip.shape[1]) - moved, 0, strip.shape[1] - 1)
        strips.append(strip[:, columns] * (1 + gain * signs[k, 1]))
    return np.moveaxis(np.concatenate(strips), 0, axis)


register_family(__file__, resampling, stitching)
