"""CLIP as a network whose images become tokens, under a linear head or under the prompts of clip_text.

Source: Radford, Kim, Hallacy, Ramesh, Goh, Agarwal, Sastry, Askell, Mishkin, Clark, Krueger and Sutskever, arXiv
2103.00020. Volumes are fed as in FairFedMed, arXiv 2508.00873.
The towers are open_clip's, with the quick GELU that OpenAI trained them with.

Images of another size than the tower's are resized to it, bilinear with antialiasing as FairFedMed does; the tower's
position embeddings are never resized. A volume is cut into slabs of 8 slices, each projected to three channels. The
pooled token (ViT: CLS) is left out, except where it alone is asked for: a vision transformer gives its patches, a
ResNet every position of its last map.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import FedcliError, UsageError
from .clip_text import CONTEXT, PromptHead, TextTower, open_clip
from .network import Network, in_pixels, normalised
from .teacher import CLIP_MEAN, CLIP_STD

SLICES = 8  # of a volume in one slab


@dataclass(frozen=True)
class Shape:
    """A shape that open_clip builds, and where OpenAI's weights for it are.

    Attributes:
        width: of the space images and texts share.
        vision, text: open_clip's settings of the towers.
        pretrained: open_clip's name of the weights, "" where there are none.
    """

    width: int
    vision: dict[str, Any]
    text: dict[str, Any] = field(default_factory=lambda: {"width": 512, "heads": 8, "layers": 12})
    pretrained: str = ""


TINY_TEXT = {"width": 32, "heads": 2, "layers": 2}

SHAPES = {
    "clip-vit-b16": Shape(512, {"layers": 12, "width": 768, "patch_size": 16}, pretrained="ViT-B-16"),
    "clip-rn50": Shape(1024, {"layers": (3, 4, 6, 3), "width": 64}, pretrained="RN50"),
    "clip-tiny": Shape(16, {"layers": 2, "width": 32, "head_width": 16, "patch_size": 8, "image_size": 32}, TINY_TEXT),
    "clip-tiny-rn": Shape(16, {"layers": (1, 1, 1, 1), "width": 8, "image_size": 64}, TINY_TEXT),
}


class ClipNetwork(Network):
    """An image tower under a linear head, or under prompts.

    Args:
        name: a key of SHAPES.
        channels: of the images: 1, 3, or a volume's slices, a multiple of 8.
        names: of the classes.

    Attributes:
        backbone: the image tower.
        text: the frozen text tower, once prompts are made; until then it is in `spare`, which is empty where the
            starting weights have none.
        tokens: False: features() is the mean over an image's tokens, [B, D]; True: the tokens [B, S, M, D].
    """

    def __init__(self, name: str, channels: int, names: list[str], precision: str = "fp32"):
        shape = SHAPES[name]
        clip = _random_clip(name)
        super().__init__(ImageTower(clip.visual, channels), shape.width, len(names), precision)
        self.name = name
        self.text: TextTower | None = None
        self.spare: tuple[TextTower, ...] = (TextTower(clip, names),)  # no submodule: a run without prompts keeps none

    @property
    def tokens(self) -> bool:
        return getattr(self.backbone, "tokens", False)

    @tokens.setter
    def tokens(self, wanted: bool) -> None:
        self.backbone.tokens = wanted

    def make_prompts(self, count: int, length: int = 4) -> PromptHead:
        """A head of `count` prompts with `length` learned words each; it reads tokens."""
        self.text = self.text_tower()
        return PromptHead(self.text, count, length)

    def text_tower(self) -> TextTower:
        """The text tower. Raises FedcliError where the starting weights have none."""
        if not self.spare:
            raise FedcliError(
                f"{self.start} holds no text tower, which prompts need", "give a CLIP checkpoint that has both towers"
            )
        return self.spare[0]


class ImageTower(nn.Module):
    """Images as transforms.to_input() makes them, [B, channels, H, W], to tokens [B, S, M, D].

    S slabs of a volume, 1 for an image; M positions; D the width of the space images and texts share.

    Attributes:
        visual: open_clip's tower, its attention pool replaced.
        slices: the projection of a slab to three channels, None for images.
        tokens: False gives the mean over S and M, [B, D].
        pooled: True gives the pooled token alone, M = 1.
        parts: names of the modules in here that adapters go into: "mlp" of a vision transformer; "conv" (1x1),
            "attention" (pool) and "norms" of a ResNet.
    """

    def __init__(self, visual: Any, channels: int):
        super().__init__()
        if channels not in (1, 3) and channels % SLICES:
            raise UsageError(
                f"CLIP takes images of 1 or 3 channels or volumes of a multiple of {SLICES} slices, not {channels}",
                "prepare the volumes with another number of slices",
            )
        self.visual: Any = visual
        self.slices: nn.Conv2d | None = None
        self.tokens = self.pooled = False
        size = visual.image_size
        self.side = size if isinstance(size, int) else size[0]
        self.convolves = hasattr(visual, "attnpool")
        if self.convolves:
            visual.attnpool = TokenPool(visual.attnpool)
        else:
            visual.output_tokens = True
        if channels > 3:
            self.slices = slices = nn.Conv2d(SLICES, 3, 5, padding=2)  # 603 numbers
            nn.init.normal_(slices.weight, std=SLICES**-0.5)
            nn.init.zeros_(slices.get_parameter("bias"))
        self.parts = _parts(self)

    def forward(self, x: Tensor) -> Tensor:
        slabs = x.shape[1] // SLICES if self.slices is not None else 1  # S
        tokens = self._seen(self._prepared(x)).unflatten(0, (len(x), slabs))  # [B, S, M, D]
        return tokens if self.tokens else tokens.float().mean((1, 2))

    def _seen(self, x: Tensor) -> Tensor:
        """Normalised [B*S, 3, side, side] -> [B*S, M, D]."""
        if self.convolves:
            tokens = self.visual(x)
            return tokens[:, :1] if self.pooled else tokens[:, 1:]
        pooled, patches = self.visual(x)  # [B*S, D], [B*S, M, W] after the last norm
        return pooled[:, None] if self.pooled else patches @ self.visual.proj

    def _prepared(self, x: Tensor) -> Tensor:
        """From the toolkit's normalisation and size to CLIP's, [B*S, 3, side, side]."""
        unit = in_pixels(x)  # [B, channels, H, W]
        if unit.shape[2:] != (self.side, self.side):
            unit = F.interpolate(unit, (self.side, self.side), mode="bilinear", antialias=True)
        if self.slices is not None:
            unit = self._projected(unit, self.slices)
        return normalised(unit, CLIP_MEAN, CLIP_STD)

    def _projected(self, unit: Tensor, projection: nn.Conv2d) -> Tensor:
        """Slabs of 8 slices to three channels in [0, 1]: [B, slices, H, W] -> [B*S, 3, H, W]."""
        slabs = unit.reshape(-1, SLICES, *unit.shape[2:])
        with torch.autocast(unit.device.type, enabled=False):  # bf16 has 8 bits, as many as the images
            slabs = projection(slabs)
        low, high = slabs.amin((1, 2, 3), keepdim=True), slabs.amax((1, 2, 3), keepdim=True)
        return (slabs - low) / (high - low + 1e-5)  # an empty slab has no range


class TokenPool(nn.Module):
    """CLIP's attention pool over a map, giving the pooled token and every position; adapters can wrap its projections,
    which are modules."""

    def __init__(self, pool: Any):
        super().__init__()
        self.positional_embedding = pool.positional_embedding
        self.k_proj, self.q_proj, self.v_proj, self.c_proj = pool.k_proj, pool.q_proj, pool.v_proj, pool.c_proj
        self.heads = pool.num_heads

    def forward(self, x: Tensor) -> Tensor:
        """[B, W, h, w] -> [B, 1 + M, D], the pooled token first."""
        x = x.flatten(2).transpose(1, 2)  # [B, M, W]
        x = torch.cat([x.mean(1, keepdim=True), x], 1)
        x = x + self.positional_embedding.to(x.dtype)
        q, k, v = (
            proj(x).unflatten(2, (self.heads, -1)).transpose(1, 2) for proj in (self.q_proj, self.k_proj, self.v_proj)
        )  # [B, heads, 1 + M, W / heads]
        return self.c_proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def _random_clip(name: str) -> Any:
    """open_clip's network with random weights and no vocabulary."""
    shape, package = SHAPES[name], open_clip()
    text = package.CLIPTextCfg(context_length=CONTEXT, vocab_size=1, **shape.text)
    clip = package.CLIP(shape.width, package.CLIPVisionCfg(**shape.vision), text, quick_gelu=True)
    for key, weight in clip.visual.named_parameters():
        if key.endswith("bn3.weight"):
            nn.init.ones_(weight)  # open_clip's zeros would shut the branches of a random tower that stays frozen
    return clip


def _parts(tower: ImageTower) -> dict[str, list[str]]:
    def named(*endings: str) -> list[str]:
        return [name for name, _ in tower.named_modules() if name.endswith(endings)]

    return {
        "mlp": named("mlp.c_fc", "mlp.c_proj"),
        "conv": [name for name in named("conv1", "conv3") if ".layer" in name],  # the stem's are 3x3
        "attention": named(*(f"attnpool.{x}_proj" for x in "qkvc")),
        "norms": [name for name, module in tower.named_modules() if isinstance(module, nn.BatchNorm2d)],
    }
