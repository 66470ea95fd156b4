"""Artefacts of computed tomography, most of them made in the projections: low dose, rings, metal
and a patient who moves.

Only the error is projected back: a slice is itself plus the filtered back projection of what is
wrong in its projections (parallel beams, Ram-Lak filter: Kak and Slaney, Principles of Computerized
Tomographic Imaging, 1988, chapter 3), so that a slice without an error stays as it is.

    low-dose       photons counted by a Poisson law, Leuschner et al., "LoDoPaB-CT", Scientific Data
                   2021, arXiv 1910.01113, of I0 photons a reading; white is taken as water, of
                   ATTENUATION through the whole field, as a windowed image no longer tells
    ring           a detector's wrong gain, which becomes a ring: Boas and Fleischmann, "CT
                   artifacts: causes and reduction techniques", Imaging in Medicine 2012
    metal-streak   two energies of X-rays (beam hardening) and few photons behind metal, ibid.
    motion-ghost   the projections of the second half are of a moved patient, ibid.

Amounts are fedcli's. Colour images and windows as channels get one error in all channels.
"""

import numpy as np

from .kind import Array, Stream, register_family
from .painting import grid, luma, side_of

ATTENUATION = 5.2  # of water of 26 cm, 0.2 per cm
FEWEST = 48  # views
MOST = 120
METAL = 0.018  # radius, of the shorter side


def _views(shape: tuple[int, ...]) -> Array:
    count = int(np.clip(side_of(shape), FEWEST, MOST))
    return np.arange(count) * np.pi / count


def _detector(shape: tuple[int, ...], angle: float) -> Array:
    """The place [H, W] on the detector to which each pixel's centre is projected, in pixels."""
    y, x = grid(shape)
    middle = _bins(shape) / 2 - 0.5
    return (x * np.cos(angle) + y * np.sin(angle)) * side_of(shape) + middle


def _bins(shape: tuple[int, ...]) -> int:
    return int(np.hypot(shape[0], shape[1])) + 4


def projections(field: Array, views: Array) -> Array:
    """Sums along parallel beams [views, bins] of a field [H, W], in pixels."""
    bins = _bins(field.shape)
    rows = []
    for angle in views:
        positions = _detector(field.shape, angle).ravel()
        lower = positions.astype(int)
        share = positions - lower
        values = field.ravel()
        row = np.bincount(lower, values * (1 - share), bins)
        rows.append(row + np.bincount(lower + 1, values * share, bins))
    return np.stack(rows)


def projected_back(
    sinogram: Array,
    views: Array,
    shape: tuple[int, ...],
) -> Array:
    """The field [H, W] of projections, by filtered back projection."""
    bins = sinogram.shape[1]
    length = 2 ** int(np.ceil(np.log2(2 * bins)))  # so that the filter does not wrap around
    spectrum = np.fft.rfft(sinogram, length) * np.fft.rfftfreq(length)
    filtered = np.fft.irfft(spectrum, length)[:, :bins]
    positions = np.arange(bins)
    field = np.zeros(shape[:2])
    for angle, row in zip(views, filtered, strict=True):
        field += np.interp(_detector(shape, angle), positions, row)
    return field * np.pi / len(views)


def _with_error(image: Array, error: Array, views: Array) -> Array:
    return image + projected_back(error, views, image.shape)[..., None]


def _counted(
    depth: Array,
    photons: float,
    stream: Stream,
) -> Array:
    """The optical depth [views, bins] that counts of photons show."""
    counts = stream.poisson(photons * np.exp(-depth))
    return np.log(photons / np.maximum(counts, 1))


def low_dose(image: Array, amount: float, stream: Stream) -> Array:
    views = _views(image.shape)
    water = ATTENUATION / side_of(image.shape)  # a pixel of white
    depth = water * projections(luma(image), views)
    error = _counted(depth, amount, stream) - depth
    return _with_error(image, error / water, views)


def ring(image: Array, amount: float, stream: Stream) -> Array:
    """Rings around the middle, each a pixel wide."""
    y, x = grid(image.shape)
    radii = stream.uniform(0.04, 0.48, 10)
    signs = stream.choice([-1, 1], 10) * stream.uniform(0.4, 1, 10)
    width = 0.7 / side_of(image.shape)
    distance = np.hypot(y, x)[..., None] - radii  # [H, W, rings]
    profile = np.exp(-0.5 * (distance / width) ** 2) @ signs
    return image + amount * profile[..., None]


def metal_streak(image: Array, amount: float, stream: Stream) -> Array:
    """Two pieces of metal in bright tissue; an amount is the optical depth of one."""
    grey = luma(image)
    views = _views(image.shape)
    water = ATTENUATION / side_of(image.shape)
    metal = np.zeros(grey.shape)
    y, x = grid(image.shape)
    chances = np.cumsum((grey**3 * np.exp(-10 * (y**2 + x**2)) + 1e-6).ravel())
    for draw in stream.random(2):
        pixel = int(np.searchsorted(chances, draw * chances[-1]))
        centre_y = y.ravel()[pixel]
        centre_x = x.ravel()[pixel]
        distance = np.hypot(y - centre_y, x - centre_x)
        soft = (METAL - distance) * side_of(image.shape) + 0.5
        metal = np.maximum(metal, np.clip(soft, 0, 1))
    tissue = water * projections(grey, views)
    trace = projections(metal, views) / (2 * METAL * side_of(image.shape))  # about 1 through one
    depth = amount * trace
    hardened = -np.log((np.exp(-2 * depth) + np.exp(-depth / 2)) / 2)
    behind = trace > 0
    seen = _counted(tissue + hardened, 2e4, stream) - tissue
    error = np.where(behind, seen - 1.25 * depth, 0)  # 1.25: the mean of both energies
    changed = _with_error(image, error / water, views)
    return np.maximum(changed, metal[..., None])


def motion_ghost(image: Array, amount: float, stream: Stream) -> Array:
    """The patient moves by an amount of the side, halfway through the views."""
    from scipy import ndimage

    views = _views(image.shape)
    sinogram = ndimage.gaussian_filter1d(projections(luma(image), views), 1)  # without bins' steps
    angle = stream.uniform(0, 2 * np.pi)
    positions = np.arange(sinogram.shape[1])
    error = np.zeros_like(sinogram)
    for k in range(len(views) // 2, len(views)):
        shift = amount * side_of(image.shape) * np.cos(views[k] - angle)
        moved = np.interp(positions - shift, positions, sinogram[k])
        error[k] = moved - sinogram[k]
    return _with_error(image, error, views)


register_family(__file__, low_dose, ring, metal_streak, motion_ghost)
