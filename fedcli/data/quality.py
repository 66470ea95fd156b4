"""Image quality: numbers of each image by its pixels alone, and their histograms, whose bins no
image decides.

Every number is of the prepared image, uint8, as it is trained on: of three channels the luma (ITU-R
BT.601), of a volume the mean over its slices. Sources:

    noise       Immerkaer, "Fast noise variance estimation", CVIU 64, 1996: the mean absolute
                response to a mask that constant and linear grey levels do not pass, times sqrt(pi /
                2) / 6; exact for Gaussian noise
    snr         20 log10 of brightness over noise, neither below the noise of rounding to whole grey
                levels, 1/sqrt(12)
    sharpness   variance of the Laplacian: Pech-Pacheco et al., ICPR 2000. Noise raises it too
    contrast    standard deviation of the grey levels (RMS contrast: Peli, JOSA A 7, 1990)
    entropy     Shannon's, of the histogram of the 256 grey levels
    blockiness  mean step over the borders of JPEG's 8x8 blocks over that inside them, 1 without
                blocks: B and A of Wang, Sheikh and Bovik, ICIP 2002, without the exponents that
                they fitted to both and to a third factor. Resizing blurs blocks: seen are those of
                files in the size of the prepared images, and of corruption

A histogram has BINS bins on a fixed scale, so that the histograms of several sites add up; see
quality_by_site.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

BINS = 64
LUMA = np.array([0.299, 0.587, 0.114], np.float32)
ROUNDING = 12**-0.5  # grey levels: the noise of whole numbers
FLAT = 0.1  # grey levels added to both steps of blockiness, so that it is 1 of a flat image
BLOCK = 8  # pixels
LEVELS = 256  # of grey
PIXELS = (2, 3)  # axes of grey levels [N, S, H, W]


@dataclass(frozen=True)
class Measure:
    """One number of an image.

    Attributes:
        title: in words. unit: of its values.
        low, high: the ends of its histogram; a value beyond is in the outermost bin.
        log: whether the bins are as wide on a logarithmic scale.
    """

    name: str
    title: str
    unit: str
    low: float
    high: float
    log: bool = False

    def places(self, values: np.ndarray) -> np.ndarray:
        """Values on the scale of the bins: the first begins at 0, the last ends at BINS."""
        low = self.low
        high = self.high
        values = np.maximum(values, low)
        if self.log:
            low, high = np.log([low, high])
            values = np.log(values)
        return (values - low) / (high - low) * BINS

    def values(self, places: np.ndarray) -> np.ndarray:
        """places() the other way."""
        share = np.asarray(places) / BINS
        if self.log:
            return self.low * (self.high / self.low) ** share
        return self.low + (self.high - self.low) * share


MEASURES = (
    Measure("noise", "noise", "grey levels", 0.25, 128, log=True),
    Measure("snr", "signal to noise", "dB", -4, 60),
    Measure("sharpness", "sharpness", "variance", 0.25, 2.0**18, log=True),
    Measure("contrast", "contrast", "grey levels", 0, 128),
    Measure("brightness", "brightness", "grey levels", 0, 256),
    Measure("entropy", "entropy", "bits", 0, 8),
    Measure("blockiness", "blockiness", "ratio", 0.25, 4, log=True),
)
NAMES = tuple(measure.name for measure in MEASURES)


def shown(value: float) -> str:
    """Three digits, never as a power of ten: 3,950 and not 3.95e+03."""
    three_digits = f"{value:.3g}"
    if abs(value) < 999.5:
        return three_digits
    return f"{float(three_digits):,.0f}"


def measure(images: np.ndarray) -> np.ndarray:
    """MEASURES of images uint8 [N, H, W, C], of at least 3 x 3 pixels: float64 [N, M]."""
    grey = greys(images)  # [N, S, H, W]
    across = np.diff(grey, 2, axis=3)  # second differences, [N, S, H, W - 2]
    down = np.diff(grey, 2, axis=2)  # [N, S, H - 2, W]
    response = np.abs(np.diff(across, 2, axis=2)).mean(PIXELS, dtype=np.float64)
    noise = np.sqrt(np.pi / 2) / 6 * response  # [N, S]
    laplacian = across[:, :, 1:-1] + down[..., 1:-1]
    sharpness = laplacian.var(PIXELS, dtype=np.float64)
    contrast = grey.std(PIXELS, dtype=np.float64)
    brightness = grey.mean(PIXELS, dtype=np.float64)
    ratio = np.maximum(brightness, ROUNDING) / np.maximum(noise, ROUNDING)
    snr = 20 * np.log10(ratio)
    blockiness = (_blockiness(grey, 2) + _blockiness(grey, 3)) / 2
    columns = noise, snr, sharpness, contrast, brightness, _entropy(grey), blockiness
    return np.stack([column.mean(1) for column in columns], 1)


def greys(images: np.ndarray) -> np.ndarray:
    """Grey levels of images uint8 [N, H, W, C]: float32 [N, S, H, W], S the slices of a volume and
    else 1."""
    x = images.astype(np.float32)
    if x.shape[3] == 3:
        return (x @ LUMA)[:, None]
    return np.moveaxis(x, 3, 1)


def _entropy(grey: np.ndarray) -> np.ndarray:
    """[N, S] of [N, S, H, W], in bits."""
    count, slices, height, width = grey.shape
    flat = np.rint(grey).astype(np.int64).reshape(-1, height * width)
    offsets = LEVELS * np.arange(len(flat))  # bins of its own for each slice
    bins = (flat + offsets[:, None]).ravel()
    counts = np.bincount(bins, minlength=LEVELS * len(flat)).reshape(-1, LEVELS)
    share = counts / flat.shape[1]
    logs = np.log2(np.where(share > 0, share, 1))
    return -(share * logs).sum(1).reshape(count, slices)


def _blockiness(grey: np.ndarray, axis: int) -> np.ndarray:
    """Mean absolute step over the borders of blocks along an axis, over that of all other steps:
    [N, S]."""
    steps = np.moveaxis(np.abs(np.diff(grey, axis=axis)), axis, 0)  # [L - 1, N, S, ...]
    is_border = np.arange(1, len(steps) + 1) % BLOCK == 0
    if not is_border.any():
        return np.ones(grey.shape[:2])
    over = steps[is_border].mean((0, 3), dtype=np.float64)
    inside = steps[~is_border].mean((0, 3), dtype=np.float64)
    return (over + FLAT) / (inside + FLAT)


def histograms(values: np.ndarray) -> np.ndarray:
    """Images in each bin of each measure, int64 [M, BINS], of values [N, M]."""
    rows = []
    for measured, column in zip(MEASURES, values.T, strict=True):
        bins = measured.places(column).astype(np.int64)
        bins = np.clip(bins, 0, BINS - 1)
        rows.append(np.bincount(bins, minlength=BINS))
    return np.stack(rows)


def cells(counts: np.ndarray, smallest: int) -> list[list[int]]:
    """A histogram [BINS] as it may leave a hospital: cells [first bin, last bin, images] of at
    least `smallest` images.

    Neighbouring bins are taken together until there are as many. A cell begins at a bin with an
    image; the outermost two reach to the ends, so that no cell shows the smallest or the largest
    value. [] of too few images.
    """
    cells: list[list[int]] = []
    start = 0
    images = 0
    for k, count in enumerate(counts.tolist()):
        if not images:
            start = k
        images += count
        if images >= max(smallest, 1):
            cells.append([start, k, images])
            images = 0
    if cells:
        cells[-1][2] += images
        if np.count_nonzero(counts) > 1:
            cells[0][0] = 0
            cells[-1][1] = BINS - 1
    return cells


def spread(cells: Sequence[Sequence[int]]) -> np.ndarray:
    """The histogram float64 [BINS] that cells() stand for.

    Images lie evenly over a cell, and at the inner edge of the outermost two. It is the histogram
    itself where `smallest` was 1.
    """
    counts = np.zeros(BINS)
    outermost = len(cells) - 1
    for k, (start, end, images) in enumerate(cells):
        if outermost and k == 0:
            start = end
        elif outermost and k == outermost:
            end = start
        counts[start : end + 1] += images / (end + 1 - start)
    return counts


def sound(cells: Sequence[Sequence[int]], images: int) -> bool:
    """Tell whether somebody's cells can be those of so many images."""
    edges = []
    total = 0
    for cell in cells:
        if len(cell) != 3:
            return False
        start, end, count = cell
        if not 0 <= start <= end < BINS or count < 0:
            return False
        edges += [start, end + 1]
        total += count
    return edges == sorted(edges) and total == images
