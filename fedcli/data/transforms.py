"""The way of a batch of uint8 images into the net, on the device, for all images at once.

Random numbers are drawn per client and epoch, one row per image of the shard, so what happens to an
image depends on its place in the shard and never on the batch it lands in.
"""

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import UsageError, nearest
from . import pipelines

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
GREY_MEAN = (0.449,)  # ImageNet's averaged over its channels
GREY_STD = (0.226,)

ROTATION = 10.0  # degrees either way, specs of FedISM+
SHIFT = 0.02  # share of the side either way
PADDING = 4  # pixels around the image before a random crop, FedHEAL's digits

CPU = torch.device("cpu")

AUGMENTS = {
    "none": "the image as it is",
    "flip": "mirrored left to right half the time (FedHEAL, Office-Caltech)",
    "crop": "random crop after 4 pixels of black padding (FedHEAL, digits)",
    "affine-flip": "rotated up to 10 degrees, moved up to 2 %, mirrored half the time (FedISM+)",
}


def check_augment(kind: str) -> str:
    if kind.startswith(pipelines.PREFIX):
        pipelines.pipeline(kind)
        return kind
    if kind not in AUGMENTS:
        raise UsageError(f"unknown augmentation {kind!r}", nearest(kind, AUGMENTS))
    return kind


def to_input(x: Tensor, *, channels: int) -> Tensor:
    """uint8 or unit-range float [B, C, H, W] -> normalised float32 [B, channels, H, W]; grey may
    become three."""
    x = to_unit(x)
    if x.shape[1] != channels:
        x = x.expand(-1, channels, -1, -1)
    x = normalised(x)
    return x.contiguous(memory_format=torch.channels_last)  # as most convolutions are fastest


def normalised(x: Tensor) -> Tensor:
    """Pixels in [0, 1], [B, C, H, W], as a network takes them."""
    scale, offset = _normal(x.shape[1] == 3, x.device)
    return torch.addcmul(offset, x, scale)


def to_pixels(x: Tensor) -> Tensor:
    """A network's input, back in [0, 1]."""
    scale, offset = _normal(x.shape[1] == 3, x.device)
    return (x - offset) / scale


@cache
# a tensor made for scoring could not be part of a training step that follows
@torch.inference_mode(False)
def _normal(colour: bool, device: torch.device) -> tuple[Tensor, Tensor]:
    """The factor of pixels, and what is then added: [1, C, 1, 1] each."""
    mean, std = (IMAGENET_MEAN, IMAGENET_STD) if colour else (GREY_MEAN, GREY_STD)
    scale = 1 / by_channel(std, CPU)
    offset = -by_channel(mean, CPU) * scale
    return scale.to(device), offset.to(device)  # finished, for every stream of a GPU


@cache
@torch.inference_mode(False)
def by_channel(values: tuple[float, ...], device: torch.device) -> Tensor:
    """A number per channel as [1, C, 1, 1], sent to the device once."""
    return torch.tensor(values, device=device).view(1, -1, 1, 1)


def to_unit(x: Tensor) -> Tensor:
    """uint8 -> float32 in [0, 1]."""
    return x.float().div_(255) if x.dtype == torch.uint8 else x


def draw(count: int, seed: int, device: torch.device) -> Tensor:
    """Uniform numbers in [0, 1) that decide each image's augmentation: [count, 4]."""
    stream = torch.Generator().manual_seed(seed)
    return sent(torch.rand(count, 4, generator=stream), device)


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """To the device; from pinned memory where that is a GPU, which then need not be waited for."""
    if device.type != "cuda" or tensor.device == device:
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def augment(x: Tensor, kind: str, chance: Tensor) -> Tensor:
    """Augment uint8 [B, C, H, W] with chance [B, 4]; returns uint8 or unit-range float of the same
    shape.

    A step of DP-SGD may draw no image: B is then 0.
    """
    if kind == "none" or not len(x):
        return x
    if kind.startswith(pipelines.PREFIX):
        return pipelines.augment(x, kind, chance)
    if kind == "flip":
        is_mirrored = chance[:, 3, None, None, None] < 0.5
        return torch.where(is_mirrored, x.flip(3), x)
    if kind == "crop":
        return _crop(x, chance)
    return _affine(to_unit(x), chance)


def _crop(x: Tensor, chance: Tensor) -> Tensor:
    count, _, height, width = x.shape
    padded = F.pad(x, (PADDING,) * 4).permute(0, 2, 3, 1)
    corner = (chance[:, :2] * (2 * PADDING + 1)).long()  # [B, 2], 0..2*PADDING
    rows = corner[:, 0, None] + torch.arange(height, device=x.device)  # [B, H]
    columns = corner[:, 1, None] + torch.arange(width, device=x.device)  # [B, W]
    image = torch.arange(count, device=x.device)[:, None, None]
    cropped = padded[image, rows[:, :, None], columns[:, None, :]]
    return cropped.permute(0, 3, 1, 2)


def _affine(x: Tensor, chance: Tensor) -> Tensor:
    """Rotation, shift and mirror as one resampling to the nearest pixel; outside is black."""
    angle = torch.deg2rad((chance[:, 0] * 2 - 1) * ROTATION)
    cos = angle.cos()
    sin = angle.sin()
    shift = (chance[:, 1:3] * 2 - 1) * SHIFT * 2  # affine_grid measures a side as 2
    mirror = torch.where(chance[:, 3] < 0.5, -1.0, 1.0)
    ratio = x.shape[2] / x.shape[3]  # keeps angles true where the image is not square
    upper_row = torch.stack([cos * mirror, -sin * ratio, shift[:, 0]], 1)
    lower_row = torch.stack([sin / ratio * mirror, cos, shift[:, 1]], 1)
    matrix = torch.stack([upper_row, lower_row], 1)  # [B, 2, 3]
    grid = F.affine_grid(matrix, list(x.shape), align_corners=False)  # [B, H, W, 2]
    return F.grid_sample(x, grid, mode="nearest", align_corners=False)
