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

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
GREY_MEAN, GREY_STD = (0.449,), (0.226,)  # ImageNet's averaged over its channels

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
    """uint8 or unit-range float [B, C, H, W] -> normalised float32 [B, channels, H, W]; grey may become three."""
    x = to_unit(x)
    if x.shape[1] != channels:
        x = x.expand(-1, channels, -1, -1)
    return normalised(x).contiguous(
        memory_format=torch.channels_last
    )  # what convolutions like best


def normalised(x: Tensor) -> Tensor:
    """Pixels in [0, 1], [B, C, H, W], as a network takes them."""
    scale, offset = _normal(x.shape[1] == 3, x.device)
    return torch.addcmul(offset, x, scale)


def to_pixels(x: Tensor) -> Tensor:
    """A network's input, back in [0, 1]."""
    scale, offset = _normal(x.shape[1] == 3, x.device)
    return (x - offset) / scale


@cache
@torch.inference_mode(
    False
)  # a tensor made for scoring could not be part of a training step that follows
def _normal(colour: bool, device: torch.device) -> tuple[Tensor, Tensor]:
    """The factor of pixels, and what is then added: [1, C, 1, 1] each."""
    mean, std = (IMAGENET_MEAN, IMAGENET_STD) if colour else (GREY_MEAN, GREY_STD)
    scale = 1 / by_channel(std, CPU)
    return scale.to(device), (-by_channel(mean, CPU) * scale).to(
        device
    )  # finished, for every stream of a GPU


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
    table = torch.rand(count, 4, generator=torch.Generator().manual_seed(seed))
    return sent(table, device)


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """To the device; from pinned memory where that is a GPU, which then need not be waited for."""
    if device.type != "cuda" or tensor.device == device:
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def augment(x: Tensor, kind: str, chance: Tensor) -> Tensor:
    """Augment uint8 [B, C, H, W] with chance [B, 4]; returns uint8 or unit-range float of the same shape.

    A step of DP-SGD may draw no image: B is then 0.
    """
    if kind == "none" or not len(x):
        return x
    if kind.startswith(pipelines.PREFIX):
        return pipelines.augment(x, kind, chance)
    if kind == "flip":
        return torch.where(chance[:, 3, None, None, None] < 0.5, x.flip(3), x)
    if kind == "crop":
        return _crop(x, chance)
    return _affine(to_unit(x), chance)


def _crop(x: Tensor, chance: Tensor) -> Tensor:
    b, _, h, w = x.shape
    padded = F.pad(x, (PADDING,) * 4)
    top, left = (chance[:, :2] * (2 * PADDING + 1)).long().unbind(1)  # [B], 0..2*PADDING
    rows = top[:, None] + torch.arange(h, device=x.device)  # [B, H]
    columns = left[:, None] + torch.arange(w, device=x.device)  # [B, W]
    image = torch.arange(b, device=x.device)[:, None, None]
    return padded.permute(0, 2, 3, 1)[image, rows[:, :, None], columns[:, None, :]].permute(
        0, 3, 1, 2
    )


def _affine(x: Tensor, chance: Tensor) -> Tensor:
    """Rotation, shift and mirror as one resampling to the nearest pixel; outside is black."""
    angle = torch.deg2rad((chance[:, 0] * 2 - 1) * ROTATION)
    cos, sin = angle.cos(), angle.sin()
    shift = (chance[:, 1:3] * 2 - 1) * SHIFT * 2  # affine_grid measures a side as 2
    mirror = torch.where(chance[:, 3] < 0.5, -1.0, 1.0)
    ratio = x.shape[2] / x.shape[3]  # keeps angles true where the image is not square
    matrix = torch.stack(
        [
            torch.stack([cos * mirror, -sin * ratio, shift[:, 0]], 1),
            torch.stack([sin / ratio * mirror, cos, shift[:, 1]], 1),
        ],
        1,
    )  # [B, 2, 3]
    grid = F.affine_grid(matrix, list(x.shape), align_corners=False)  # [B, H, W, 2]
    return F.grid_sample(x, grid, mode="nearest", align_corners=False)
