"""Drawing on images with values from 0 to 1: smooth fields, strokes, bubbles, and a colour over
them.

Lengths are shares of an image's shorter side, so that an artefact looks alike at every size.
"""

from collections.abc import Iterable

import numpy as np
from PIL import Image, ImageDraw

from .kind import Array, Stream

FINER = 4  # times, at which strokes are drawn before they are averaged

Shape = tuple[int, ...]  # of an image [H, W, C], or of one channel
Stroke = tuple[Array, float]  # points [n, 2] as (y, x), and a width; both are shares


def side_of(shape: Shape) -> int:
    """The shorter side in pixels."""
    return min(shape[:2])


def grid(shape: Shape) -> tuple[Array, Array]:
    """y and x [H, W] of the pixels' centres, in shares of the shorter side from the middle."""
    height, width = shape[:2]
    y = (np.arange(height) + 0.5 - height / 2) / side_of(shape)
    x = (np.arange(width) + 0.5 - width / 2) / side_of(shape)
    return np.broadcast_to(y[:, None], (height, width)), np.broadcast_to(x, (height, width))


def smooth_field(shape: Shape, stream: Stream, cells: int) -> Array:
    """A random field [H, W] from 0 to 1 that changes over about 1 / cells of the image."""
    from scipy import ndimage

    coarse = stream.standard_normal((cells + 1, cells + 1))
    rows = np.linspace(0, cells, shape[0])
    columns = np.linspace(0, cells, shape[1])
    places = np.meshgrid(rows, columns, indexing="ij")
    field = ndimage.map_coordinates(coarse, places, order=3, mode="nearest")
    span = max(field.max() - field.min(), 1e-12)
    return (field - field.min()) / span


def blurred(image: Array, sigma: float) -> Array:
    """An image [H, W, ...] under a normal kernel of so many pixels; channels are not mixed."""
    from scipy import ndimage

    sigmas = [sigma, sigma] + [0] * (image.ndim - 2)
    return ndimage.gaussian_filter(image, sigmas)


def convolved(image: Array, kernel: Array) -> Array:
    """Each channel of an image [H, W, C] under a kernel, whose sum becomes 1."""
    from scipy import ndimage

    return ndimage.convolve(image, (kernel / kernel.sum())[..., None], mode="nearest")


def disc(radius: float) -> Array:
    """A kernel that is 1 within a radius in pixels, with a soft edge."""
    reach = int(np.ceil(radius + 0.5))
    offsets = np.arange(-reach, reach + 1)
    distance = np.hypot(offsets[:, None], offsets)
    return np.clip(radius + 0.5 - distance, 0, 1)


def covered(
    image: Array,
    alpha: Array,
    colour: float | Array,
) -> Array:
    """An image [H, W, C] under a colour that is as opaque as alpha [H, W] says."""
    opacity = alpha[..., None]
    return image * (1 - opacity) + colour * opacity


def painted(shape: Shape, strokes: Iterable[Stroke]) -> Array:
    """The share [H, W] of each pixel that strokes cover."""
    height, width = shape[:2]
    scale = side_of(shape) * FINER
    canvas = Image.new("L", (width * FINER, height * FINER))
    draw = ImageDraw.Draw(canvas)
    for points, stroke_width in strokes:
        pixels = points[:, ::-1] * scale + np.array([width, height]) * FINER / 2
        thickness = max(1, round(stroke_width * scale))
        draw.line([tuple(point) for point in pixels.tolist()], 255, thickness, "curve")
    fine = np.asarray(canvas, np.float64) / 255
    return fine.reshape(height, FINER, width, FINER).mean((1, 3))


def curve(
    start: Array,
    middle: Array,
    end: Array,
    points: int = 24,
) -> Array:
    """Points [n, 2] of the quadratic Bezier curve of three points."""
    t = np.linspace(0, 1, points)[:, None]
    return (1 - t) ** 2 * start + 2 * t * (1 - t) * middle + t**2 * end


def luma(image: Array) -> Array:
    """Grey levels [H, W] of an image [H, W, C]."""
    if image.shape[2] == 3:
        return image @ np.array([0.299, 0.587, 0.114])
    return image.mean(2)


def with_bubbles(
    image: Array,
    centres: Array,
    radii: Array,
    light: Array,
    rim: float = 0.55,
) -> Array:
    """An image with bubbles of air: a dark rim, a bright ring inside it and a reflection of light.

    centres: [n, 2], radii: [n], in shares of the shorter side. light: [2], the direction from which
    it comes. rim: share of the light that the rim takes.
    """
    y, x = grid(image.shape)
    image = image.copy()
    for centre, radius in zip(centres, radii, strict=True):
        window = _window(image.shape, centre, 1.35 * radius)
        down = (y[window] - centre[0]) / radius
        across = (x[window] - centre[1]) / radius
        soft = max(0.09, 0.7 / side_of(image.shape) / radius)  # no rim is thinner than a pixel
        image[window] = _bubble(image[window], down, across, light, soft, rim)
    return image


def _window(shape: Shape, centre: Array, reach: float) -> tuple[slice, slice]:
    """The rows and columns of an image that are within a reach of a place."""
    slices = []
    for length, offset in zip(shape[:2], centre, strict=True):
        middle = offset * side_of(shape) + length / 2
        around = reach * side_of(shape) + 1
        slices.append(slice(max(0, int(middle - around)), max(0, int(middle + around) + 1)))
    return slices[0], slices[1]


def _bubble(
    image: Array,
    down: Array,
    across: Array,
    light: Array,
    soft: float,
    darkness: float,
) -> Array:
    """The part of an image about one bubble; down, across: from its centre, in radii."""
    distance = np.hypot(down, across)
    away_from_light = -(down * light[0] + across * light[1]) / np.maximum(distance, 0.3)
    rim = np.exp(-0.5 * ((distance - 0.96) / soft) ** 2)
    ring = np.exp(-0.5 * ((distance - 0.74) / (1.6 * soft)) ** 2)
    inside = np.clip((1 - distance) / soft, 0, 1)
    spot = np.hypot(down - 0.5 * light[0], across - 0.5 * light[1])
    glint = np.clip((0.2 - spot) / soft + 0.5, 0, 1)
    image = covered(image, 0.08 * inside, 1.0)
    image = covered(image, 0.4 * ring * (0.35 + 0.65 * np.clip(away_from_light, 0, 1)), 1.0)
    image = image * (1 - darkness * rim)[..., None]
    return covered(image, 0.9 * glint, 1.0)
