"""CLIP as a network whose images become tokens, under a linear head or under the prompts of clip_text.

Source: Radford, Kim, Hallacy, Ramesh, Goh, Agarwal, Sastry, Askell, Mishkin, Clark, Krueger and Sutskever, arXiv
2103.00020. Volumes are fed as in FairFedMed, arXiv 2508.00873.
The towers are open_clip's, with the quick GELU that OpenAI trained them with.

Images of another size than the tower's are resized to it, bilinear with antialiasing as FairFedMed does; the tower's
position embeddings are never resized. A volume is cut into slabs of 8 slices, each projected to three channels. The
pooled token (ViT: CLS) is left out, except where it alone is asked for: a vision transformer gives its patches, a
ResNet every position of its last map.

Starting weights are OpenAI's, a file in the names of OpenAI and open_clip, or a run's model. Nothing in their tensors
says which activation they were trained with: a file trained with the plain GELU (LAION's, DataComp's) is accepted, and
means something a little different here.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import FedcliError, UsageError
from ..io.files import regular
from .clip_text import CONTEXT, PromptHead, TextTower, open_clip
from .network import Network, in_pixels, normalised
from .teacher import CLIP_MEAN, CLIP_STD
from .weights import Tensors, fill, part, read

SLICES = 8  # of a volume in one slab
KINDS = "give a state dict in the names of OpenAI's CLIP or open_clip, or a model of a run of the same network"
TABLE = "token_embedding.weight"
VOCABULARY = 49408
BESIDE = (
    "input_resolution",
    "context_length",
    "vocab_size",
    "attn_mask",
)  # in OpenAI's files, no weights


@dataclass(frozen=True)
class Shape:
    """A shape that open_clip builds, and where OpenAI's weights for it are."""

    width: int  # of the space images and texts share
    vision: dict[str, Any]  # open_clip's settings of the towers
    text: dict[str, Any] = field(default_factory=lambda: {"width": 512, "heads": 8, "layers": 12})
    pretrained: str = ""  # open_clip's name of the weights, "" where there are none


TINY_TEXT = {"width": 32, "heads": 2, "layers": 2}

SHAPES = {
    "clip-vit-b16": Shape(
        512, {"layers": 12, "width": 768, "patch_size": 16}, pretrained="ViT-B-16"
    ),
    "clip-rn50": Shape(1024, {"layers": (3, 4, 6, 3), "width": 64}, pretrained="RN50"),
    "clip-tiny": Shape(
        16,
        {"layers": 2, "width": 32, "head_width": 16, "patch_size": 8, "image_size": 32},
        TINY_TEXT,
    ),
    "clip-tiny-rn": Shape(16, {"layers": (1, 1, 1, 1), "width": 8, "image_size": 64}, TINY_TEXT),
}


class ClipNetwork(Network):
    """An image tower under a linear head, or under prompts.

    Args:
        name: a key of SHAPES.
        channels: of the images: 1, 3, or a volume's slices, a multiple of 8.
        names: of the classes.
    """

    def __init__(self, name: str, channels: int, names: list[str], precision: str = "fp32"):
        shape = SHAPES[name]
        clip = _random_clip(name)
        super().__init__(ImageTower(clip.visual, channels), shape.width, len(names), precision)
        self.name = name
        self.text: TextTower | None = None  # the frozen text tower, once prompts are made
        # until then; empty where the starting weights have none. No submodule: a run without prompts keeps none
        self.spare: tuple[TextTower, ...] = (TextTower(clip, names),)

    @property
    def tokens(self) -> bool:
        """False: features() is the mean over an image's tokens, [B, D]; True: the tokens [B, S, M, D]."""
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
            what = f"{self.start} holds no text tower, which prompts need"
            raise FedcliError(what, "give a CLIP checkpoint that has both towers")
        return self.spare[0]


class ImageTower(nn.Module):
    """Images as transforms.to_input() makes them, [B, channels, H, W], to tokens [B, S, M, D].

    S slabs of a volume, 1 for an image; M positions; D the width of the space images and texts share.
    """

    def __init__(self, visual: Any, channels: int):
        super().__init__()
        if channels not in (1, 3) and channels % SLICES:
            what = f"CLIP takes images of 1 or 3 channels or volumes of a multiple of {SLICES} slices, not {channels}"
            raise UsageError(what, "prepare the volumes with another number of slices")
        self.visual: Any = visual  # open_clip's tower, its attention pool replaced
        self.slices: nn.Conv2d | None = (
            None  # the projection of a slab to three channels, None for images
        )
        self.tokens = self.pooled = (
            False  # no tokens: their mean over S and M, [B, D]; pooled: that token alone, M = 1
        )
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
        with torch.autocast(
            unit.device.type, enabled=False
        ):  # bf16 has 8 bits, as many as the images
            slabs = projection(slabs)
        low, high = slabs.amin((1, 2, 3), keepdim=True), slabs.amax((1, 2, 3), keepdim=True)
        return (slabs - low) / (high - low + 1e-5)  # an empty slab has no range


class TokenPool(nn.Module):
    """CLIP's attention pool over a map, giving the pooled token and every position; adapters can wrap its projections,
    which are modules."""

    def __init__(self, pool: Any):
        super().__init__()
        self.positional_embedding = pool.positional_embedding
        self.k_proj, self.q_proj, self.v_proj, self.c_proj = (
            pool.k_proj,
            pool.q_proj,
            pool.v_proj,
            pool.c_proj,
        )
        self.heads = pool.num_heads

    def forward(self, x: Tensor) -> Tensor:
        """[B, W, h, w] -> [B, 1 + M, D], the pooled token first."""
        x = x.flatten(2).transpose(1, 2)  # [B, M, W]
        x = torch.cat([x.mean(1, keepdim=True), x], 1)
        x = x + self.positional_embedding.to(x.dtype)
        q, k, v = (
            proj(x).unflatten(2, (self.heads, -1)).transpose(1, 2)
            for proj in (self.q_proj, self.k_proj, self.v_proj)
        )  # [B, heads, 1 + M, W / heads]
        return self.c_proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def _random_clip(name: str) -> Any:
    """open_clip's network with random weights and no vocabulary."""
    shape, package = SHAPES[name], open_clip()
    text = package.CLIPTextCfg(context_length=CONTEXT, vocab_size=1, **shape.text)
    clip = package.CLIP(shape.width, package.CLIPVisionCfg(**shape.vision), text, quick_gelu=True)
    for key, weight in clip.visual.named_parameters():
        if key.endswith("bn3.weight"):
            nn.init.ones_(
                weight
            )  # open_clip's zeros would shut the branches of a random tower that stays frozen
    return clip


def _parts(tower: ImageTower) -> dict[str, list[str]]:
    """Names of modules that adapters go into: "mlp" of a transformer; "conv" (1x1), "attention" (pool), "norms" of a
    ResNet."""

    def named(*endings: str) -> list[str]:
        return [name for name, _ in tower.named_modules() if name.endswith(endings)]

    return {
        "mlp": named("mlp.c_fc", "mlp.c_proj"),
        "conv": [
            name for name in named("conv1", "conv3") if ".layer" in name
        ],  # the stem's are 3x3
        "attention": named(*(f"attnpool.{x}_proj" for x in "qkvc")),
        "norms": [
            name for name, module in tower.named_modules() if isinstance(module, nn.BatchNorm2d)
        ],
    }


def load_clip(net: ClipNetwork, name: str, weights: str) -> None:
    """Put starting weights into both towers; the head keeps its seeded ones.

    weights: "openai", a .pt/.pth/.safetensors state dict, or a model of a fedcli run (.h5). One without a text tower
    leaves the network none, so that it can have no prompts. Raises FedcliError when it cannot be read or does not fit.
    """
    tensors = read(_openai(name) if weights == "openai" else _file(name, weights))
    tensors = {key.removeprefix("module."): tensor for key, tensor in tensors.items()}
    own = part(tensors, "backbone.")  # of a run
    if not (image := part(own or tensors, "visual.")):
        raise FedcliError(f"{weights} is no CLIP: it has no tensor visual.*", KINDS)
    what = f"{weights} does not fit {name}: tensor "
    fill(net.backbone.visual, image, f"{what}visual.", KINDS)
    slices = part(own, "slices.")
    if slices and net.backbone.slices is not None:
        fill(net.backbone.slices, slices, f"{what}slices.", KINDS)
    text = {
        k.removeprefix("text."): v
        for k, v in tensors.items()
        if not k.startswith(("visual.", *BESIDE))
    }
    if own or TABLE not in text:
        net.spare = ()
        return
    _fill_text(net.spare[0], text, what)


def _fill_text(tower: TextTower, tensors: Tensors, what: str) -> None:
    tensors = dict(tensors)
    table, shape = tensors.pop(TABLE), (VOCABULARY, len(tower.start))
    if table.shape != shape:
        raise FedcliError(f"{what}{TABLE} has shape {tuple(table.shape)}, not {shape}", KINDS)
    fill(tower, tensors, what, KINDS, elsewhere=("start", "words"))
    tower.embed(table)


def _file(name: str, weights: str) -> Path:
    if weights == "imagenet":
        raise UsageError(f"there are no ImageNet weights for {name}", 'give "openai" or a file')
    return regular(Path(weights), 'give "openai", or a weights file')


def _openai(name: str) -> Path:
    """OpenAI's weights by way of open_clip: from its cache, or downloaded."""
    if not SHAPES[name].pretrained:
        having = ", ".join(known for known, shape in SHAPES.items() if shape.pretrained)
        raise UsageError(
            f"there are no weights of OpenAI for {name}", f"models that have them: {having}"
        )
    pretrained = open_clip().pretrained
    source = pretrained.get_pretrained_cfg(SHAPES[name].pretrained, "openai")
    try:
        return Path(pretrained.download_pretrained(source))
    except (
        Exception
    ) as error:  # each way to download has its own errors; the user needs the one sentence
        raise FedcliError(
            f"OpenAI's weights of {name} are not on this machine and could not be downloaded ({type(error).__name__})",
            f"fetch open_clip_model.safetensors of https://huggingface.co/{source['hf_hub'].rstrip('/')} "
            "on a machine with a network and pass --weights FILE",
        ) from error
