"""A frozen network beside the model, from a file: its features are a reference that all clients
share.

What a file may hold; no code in it is ever run:
- a MoCo-v2 checkpoint (Chen, Fan, Girshick and He, arXiv 2003.04297): the query encoder, a
  ResNet-50 or -18, without its projection head. The key encoder, the queue and the optimizer are
  left out.
- torchvision's ResNet-18 or -50 without its classifier, also from the .h5 of a run.
- a CLIP checkpoint in the names of OpenAI and open_clip: the image tower with its projection,
  through open_clip.
Nothing in CLIP's tensors says which activation it was trained with. OpenAI's own files, which also
hold a tensor `input_resolution`, get the quick GELU they were trained with, all others the plain
GELU. A ResNet sees images as large as the model's, as in the code of Fed-MAS: both are fed 224
pixels. It was trained at 224, so at 32 its features are those of another scale; a run at the size
it was trained at is the remedy. Enlarging 32 pixels to 224 would cost 49 times as much and add no
detail. CLIP's towers work at one size only and are fed that.
"""

import re
from collections import Counter
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..data.transforms import IMAGENET_MEAN, IMAGENET_STD
from ..errors import FedcliError
from .backbones import headless
from .clip_text import open_clip
from .network import in_pixels, normalised
from .weights import HEADS, Tensors, fill, part, read_unwrapped
from .wrapped import Fed

CLIP_MEAN = 0.48145466, 0.4578275, 0.40821073
CLIP_STD = 0.26862954, 0.26130258, 0.27577711
# width of one attention head by that of the tower; 64 in all others
CLIP_HEADS = {1280: 80, 1408: 88, 1664: 104}
TRAINED_AT = 224  # pixels; torchvision's ResNets and MoCo-v2
LIKE_MODELS = Fed(0, IMAGENET_MEAN, IMAGENET_STD)  # as the models' own images
KINDS = "give a MoCo-v2 checkpoint, a torchvision ResNet-18 or -50, or a CLIP checkpoint"


class AbsentTeacher(nn.Module):
    """Replaces a teacher where it is not needed: when a run is scored."""

    def __init__(self, width: int):
        super().__init__()
        self.width = width


class Teacher(nn.Module):
    """Images as the model is fed them -> features [B, width].

    One channel is shown as three, and normalisation is turned into the network's own.

    Args:
        body: the network.
        width: of its features.
        fed: the form in which the network wants its three channels; of side 0 they are as large as
            the model's.
    """

    def __init__(self, body: nn.Module, width: int, fed: Fed):
        super().__init__()
        self.body = body
        self.width = width
        self.fed = fed
        # pixels; where side is 0 the images' own size may be another
        self.trained_at = fed.side or TRAINED_AT

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] == 3 and self.fed == LIKE_MODELS:
            return self.body(x)
        unit = in_pixels(x)  # [B, 1 or 3, H, W]
        square = self.fed.side, self.fed.side
        if self.fed.side and unit.shape[2:] != square:
            unit = F.interpolate(unit, square, mode="bicubic", antialias=True).clamp(0, 1)
        return self.body(normalised(unit, self.fed.mean, self.fed.std))  # [B, 3, H, W]


def load_teacher(path: str) -> nn.Module:
    """A frozen network in eval mode with attribute `width`, images [B, 1 or 3, H, W] to features
    [B, width].

    Raises FedcliError when the file cannot be read or fits none of the kinds above.
    """
    if not Path(path).exists():
        raise FedcliError(f"no such teacher file: {path}", KINDS)
    tensors = read_unwrapped(Path(path))
    load = _clip if part(tensors, "visual.") else _resnet
    # a new network draws weights, which the file then replaces
    with torch.random.fork_rng(devices=[]):
        return load(path, tensors).requires_grad_(False).eval()


def _resnet(path: str, tensors: Tensors) -> Teacher:
    tensors = part(tensors, "encoder_q.") or part(tensors, "backbone.") or tensors
    names = [name for name in tensors if not name.startswith(HEADS)]
    convolutions = set()
    for name in names:
        match = re.fullmatch(r"layer\d\.\d+\.(conv\d)\.weight", name)
        if match:
            convolutions.add(match[1])
    if not convolutions:
        example = f" (its first tensor: {names[0]})" if names else ""
        raise FedcliError(f"{path} holds no network that can be a teacher{example}", KINDS)
    layers = 50 if "conv3" in convolutions else 18
    body, width = headless(f"resnet{layers}")(3)
    backbone = {name: tensors[name] for name in names}
    fill(body, backbone, f"{path} is not a ResNet-{layers}: tensor ", KINDS)
    return Teacher(body, width, LIKE_MODELS)


def _clip(path: str, tensors: Tensors) -> Teacher:
    library = open_clip()
    tower = part(tensors, "visual.")
    describe = _transformer if "proj" in tower else _attention_resnet
    try:
        shape, width = describe(tower)
    except KeyError as missing:
        lacking = f"tensor visual.{missing.args[0]} is missing"
        raise FedcliError(f"{path} is no image tower of CLIP: {lacking}", KINDS) from None
    # built only to be dropped
    text = library.CLIPTextCfg(
        context_length=1,
        vocab_size=1,
        width=64,
        heads=1,
        layers=1,
    )
    quick = "input_resolution" in tensors
    body = library.CLIP(width, library.CLIPVisionCfg(**shape), text, quick_gelu=quick).visual
    fill(body, tower, f"{path} is not an image tower of CLIP: tensor ", KINDS)
    return Teacher(body, width, Fed(shape["image_size"], CLIP_MEAN, CLIP_STD))


def _transformer(tower: Tensors) -> tuple[dict, int]:
    """open_clip's description of a vision transformer, and the width of its features, from the
    tensors' shapes.
    """
    width, _, patch, _ = tower["conv1.weight"].shape
    hidden = len(tower["transformer.resblocks.0.mlp.c_fc.weight"])
    shape = {
        "layers": sum(name.endswith(".attn.in_proj_weight") for name in tower),
        "width": width,
        "head_width": CLIP_HEADS.get(width, 64),
        "mlp_ratio": (hidden + 0.5) / width,  # times width, rounded down
        "patch_size": patch,
        "image_size": patch * _side(tower["positional_embedding"]),
    }
    return shape, tower["proj"].shape[1]


def _attention_resnet(tower: Tensors) -> tuple[dict, int]:
    """open_clip's description of CLIP's ResNets, which end in attention over 1/32 of the image's
    side, and the width.
    """
    blocks = {tuple(name.split(".")[:2]) for name in tower}
    layers = Counter(layer for layer, *_ in blocks)
    shape = {
        "layers": (layers["layer1"], layers["layer2"], layers["layer3"], layers["layer4"]),
        "width": len(tower["layer1.0.conv1.weight"]),
        "image_size": 32 * _side(tower["attnpool.positional_embedding"]),
    }
    return shape, len(tower["attnpool.c_proj.weight"])


def _side(positions: Tensor) -> int:
    """Positions along a square image's side, from the embeddings [1 + positions, W] of all and the
    pooled token.
    """
    return round((len(positions) - 1) ** 0.5)
