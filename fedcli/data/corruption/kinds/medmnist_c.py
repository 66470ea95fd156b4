"""The corruptions of MedMNIST-C with its intensities for each modality: gaussian-noise@ct and so
on.

Source: Di Salvo, Doerrich and Ledig, "MedMNIST-C: comprehensive benchmark and improved classifier
robustness by simulating realistic image corruptions", arXiv 2406.17536. Kinds and intensities are
those of its code (medmnistc-api, corruptions/registry.py, at b6dee0e), which was at hand; of the
paper the abstract. Its data sets stand for modalities: DermaMNIST for dermoscopy, RetinaMNIST for
fundus, OCTMNIST, BreastMNIST for ultrasound, ChestMNIST for x-ray, OrganA/C/SMNIST for ct,
PathMNIST for histology, BloodMNIST, TissueMNIST for fluorescence.

How this differs from that code:
    * its images have 224 pixels; lengths in pixels are scaled by the shorter side, with kernels
      whose edge is soft, so that they work at every size
    * motion is a one-sided normal kernel along a random direction, of its radius and sigma, as in
      ImageMagick, which is not needed
    * five severities where it lists six. Left out are stain deposits of histology and blood, whose
      pictures of ink come with its package; black corners are dark-corner
    * noise and blur are of the image's own channels, so that a grey image stays grey
"""

import string
from io import BytesIO

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from . import tone
from .kind import Array, CorruptionKind, Stream, declarations, register
from .painting import blurred, convolved, covered, disc, grid, side_of
from .scanner import resized

SOURCE = "Di Salvo, Doerrich and Ledig, MedMNIST-C, arXiv 2406.17536; intensities of its code"
SIDE = 224  # pixels of its images
WORDS = 6  # at most, over an image


def _scale(image: Array) -> float:
    return side_of(image.shape) / SIDE


def gaussian_noise(image: Array, amount: float, stream: Stream) -> Array:
    return image + amount * stream.standard_normal(image.shape)


def speckle_noise(image: Array, amount: float, stream: Stream) -> Array:
    return image * (1 + amount * stream.standard_normal(image.shape))


def impulse_noise(image: Array, amount: float, stream: Stream) -> Array:
    is_changed = stream.random(image.shape) < amount
    is_white = stream.random(image.shape) < 0.5
    return np.where(is_changed, is_white, image)


def shot_noise(image: Array, amount: float, stream: Stream) -> Array:
    return stream.poisson(image * amount) / amount


def gaussian_blur(image: Array, amount: float, stream: Stream) -> Array:
    """A normal kernel of so many pixels, with torchvision's sigma for it."""
    return blurred(image, (0.15 * amount + 0.35) * _scale(image))


def defocus_blur(
    image: Array,
    amount: tuple[float, float],
    stream: Stream,
) -> Array:
    radius, softness = amount
    kernel = disc(radius * _scale(image))
    return convolved(image, blurred(np.pad(kernel, 2), softness * _scale(image)))


def motion_blur(
    image: Array,
    amount: tuple[float, float],
    stream: Stream,
) -> Array:
    """A normal kernel, cut in half, along a direction within 45 degrees of the horizontal."""
    radius, sigma = amount
    angle = np.deg2rad(stream.uniform(-45, 45))
    steps = np.arange(0, 2 * radius, 0.25)
    weights = np.exp(-0.5 * (steps / sigma) ** 2)
    down = steps * _scale(image) * np.sin(angle)
    across = steps * _scale(image) * np.cos(angle)
    reach = int(np.ceil(2 * radius * _scale(image))) + 1
    bins = np.arange(-reach, reach + 2) - 0.5
    kernel, _, _ = np.histogram2d(down, across, (bins, bins), weights=weights)
    return convolved(image, kernel)


def zoom_blur(
    image: Array,
    amount: tuple[float, float],
    stream: Stream,
) -> Array:
    """The mean of the image and of enlarged copies: up to a factor, in steps."""
    from scipy import ndimage

    most, step = amount
    middle = (np.array(image.shape[:2]) - 1) / 2
    factors = np.arange(1, most, step)
    total = image.copy()
    for factor in factors:
        offset = [*(middle - middle / factor), 0]
        scales = [1 / factor, 1 / factor, 1]
        total += ndimage.affine_transform(image, scales, offset, order=1, mode="nearest")
    return total / (len(factors) + 1)


def pixelate(image: Array, amount: float, stream: Stream) -> Array:
    height, width = image.shape[:2]
    smaller = (max(1, int(height * amount)), max(1, int(width * amount)))
    few = resized(image, smaller, Image.Resampling.BOX)
    return resized(few, (height, width), Image.Resampling.BOX)


def jpeg_compression(image: Array, amount: int, stream: Stream) -> Array:
    levels = np.rint(255 * image).astype(np.uint8)
    file = BytesIO()
    Image.fromarray(levels.squeeze()).save(file, "JPEG", quality=amount)
    return np.asarray(Image.open(file)).reshape(image.shape) / 255


def saturate(image: Array, amount: float, stream: Stream) -> Array:
    """A higher saturation of hue, saturation and value."""
    top = image.max(2, keepdims=True)
    span = top - image.min(2, keepdims=True)
    before = span / np.maximum(top, 1e-12)
    after = np.clip(before + amount, 0, 1)
    stretch = np.where(before > 0, after / np.maximum(before, 1e-12), 1)
    return top - (top - image) * stretch


def characters(
    image: Array,
    amount: tuple[int, int],
    stream: Stream,
) -> Array:
    """Words of random letters, each of one colour."""
    words, letters = amount
    font = ImageFont.load_default()
    height, width = image.shape[:2]
    draws = stream.random((WORDS, 16))  # of each word: its length, place, colour and letters
    for draw in draws[:words]:
        length = 3 + int(draw[0] * (letters - 2))
        picked = (draw[6 : 6 + length] * 26).astype(int)
        word = "".join(string.ascii_lowercase[letter] for letter in picked)
        left, top, right, bottom = font.getbbox(word)
        size = (int(right - left) + 2, int(bottom - top) + 2)
        mask = Image.new("L", size)
        ImageDraw.Draw(mask).text((1 - left, 1 - top), word, 255, font=font)
        scale = max(0.55 * _scale(image), 0.3)
        small = (max(1, round(size[0] * scale)), max(1, round(size[1] * scale)))
        ink = np.asarray(mask.resize(small, Image.Resampling.BOX), np.float64) / 255
        ink = ink[:height, :width]
        row = int(draw[1] * (height - ink.shape[0] + 1))
        column = int(draw[2] * (width - ink.shape[1] + 1))
        alpha = np.zeros((height, width))
        alpha[row : row + ink.shape[0], column : column + ink.shape[1]] = ink
        colour = draw[3:6]
        image = covered(image, alpha, colour if image.shape[2] == 3 else colour.mean())
    return image


def bubble(
    image: Array,
    amount: tuple[int, int],
    stream: Stream,
) -> Array:
    """Pale discs with a paler border of two pixels; amount: the largest radius, and how many."""
    largest, count = amount
    y, x = grid(image.shape)
    pixel = _scale(image) / side_of(image.shape)
    centres = stream.uniform(-0.5, 0.5, (count, 2))
    radii = (3 + (largest - 3) * stream.random(count)) * pixel
    alpha = np.zeros(image.shape[:2])
    for centre, radius in zip(centres, radii, strict=True):
        inwards = radius - np.hypot(y - centre[0], x - centre[1])
        inside = np.clip(inwards * side_of(image.shape) + 0.5, 0, 1)
        with_border = np.clip((inwards + 2 * pixel) * side_of(image.shape) + 0.5, 0, 1)
        alpha = np.maximum(alpha, (130 * with_border - 30 * inside) / 255)
    return covered(image, alpha, 1.0)


CHANGES = (
    gaussian_noise,
    speckle_noise,
    impulse_noise,
    shot_noise,
    gaussian_blur,
    defocus_blur,
    motion_blur,
    zoom_blur,
    pixelate,
    jpeg_compression,
    saturate,
    characters,
    bubble,
    tone.gamma,
    tone.contrast,
    tone.brightness,
)


def _register(file: str) -> None:
    """Register each kind with the amounts of each modality."""
    function_by_name = {change.__name__: change for change in CHANGES}
    declared = declarations(file)
    for modality, amounts_by_kind in declared["amounts"].items():
        for name, amounts in amounts_by_kind.items():
            facts = dict(declared["kinds"][name])
            change = function_by_name[facts.pop("change", name.replace("-", "_"))]
            facts |= {"amounts": amounts, "modalities": (modality,), "source": SOURCE}
            register(CorruptionKind(f"{name}@{modality}", change=change, **facts))


_register(__file__)
