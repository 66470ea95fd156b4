"""CLIP as a network whose images become tokens, under a linear head or under the prompts of
clip_text.

Source: Radford, Kim, Hallacy, Ramesh, Goh, Agarwal, Sastry, Askell, Mishkin, Clark, Krueger and
Sutskever, arXiv 2103.00020. Volumes are fed as in FairFedMed, arXiv 2508.00873.
The towers are open_clip's, with the quick GELU that OpenAI trained them with.

Images of another size than the tower's are resized to it, bilinear with antialiasing as FairFedMed
does; the tower's position embeddings are never resized. A volume is cut into slabs of 8 slices,
each projected to three channels. The pooled token (ViT: CLS) is left out, except where it alone is
asked for: a vision transformer gives its patches, a ResNet every position of its last map.

Starting weights are OpenAI's, a file in the names of OpenAI and open_clip, or a run's model.
Nothing in their tensors says which activation they were trained with: a file trained with the plain
GELU (LAION's, DataComp's) is accepted, and means something a little different here.
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
from .libraries import asked_once
from .network import Inputs, Network, in_pixels, normalised
from .teacher import CLIP_MEAN, CLIP_STD
from .weights import Tensors, fill, part, read_unwrapped

SLICES = 8  # of a volume in one slab
KINDS = (
    "give a state dict in the names of OpenAI's CLIP or open_clip, or a model of a run of the "
    "same network"
)
TABLE = "token_embedding.weight"
VOCABULARY = 49408
# in OpenAI's files, no weights
BESIDE = "input_resolution", "context_length", "vocab_size", "attn_mask"


def _openais_text() -> dict[str, int]:
    return {"width": 512, "heads": 8, "layers": 12}


@dataclass(frozen=True)
class Shape:
    """A shape that open_clip builds, and where OpenAI's weights for it are."""

    width: int  # of the space images and texts share
    vision: dict[str, Any]  # open_clip's settings of the towers
    text: dict[str, Any] = field(default_factory=_openais_text)
    pretrained: str = ""  # open_clip's name of the weights, "" where there are none


TINY_TEXT = {"width": 32, "heads": 2, "layers": 2}
TINY_VIT = {
    "layers": 2,
    "width": 32,
    "head_width": 16,
    "patch_size": 8,
    "image_size": 32,
}
SHAPES = {
    "clip-vit-b16": Shape(
        512, {"layers": 12, "width": 768, "patch_size": 16}, pretrained="ViT-B-16"
    ),
    "clip-rn50": Shape(1024, {"layers": (3, 4, 6, 3), "width": 64}, pretrained="RN50"),
    "clip-tiny": Shape(16, TINY_VIT, TINY_TEXT),
    "clip-tiny-rn": Shape(16, {"layers": (1, 1, 1, 1), "width": 8, "image_size": 64}, TINY_TEXT),
}


class ClipNetwork(Network):
    """An image tower under a linear head, or under prompts.

    Args:
        name: a key of SHAPES.
        channels: of the images: 1, 3, or a volume's slices, a multiple of 8.
        names: of the classes.
    """

    def __init__(
        self,
        name: str,
        channels: int,
        names: list[str],
        precision: str = "fp32",
    ):
        width = SHAPES[name].width
        clip = _random_clip(SHAPES[name])
        super().__init__(
            ImageTower(clip.visual, channels),
            width,
            len(names),
            precision,
        )
        self.name = name
        self.text: TextTower | None = None  # the frozen text tower, once prompts are made
        # until then; empty where the starting weights have none. No submodule: a run without
        # prompts keeps none
        self.spare: tuple[TextTower, ...] = (TextTower(clip, names),)

    @property
    def tokens(self) -> bool:
        """False: features() is the mean over an image's tokens, [B, D]; True: the tokens [B, S, M,
        D].
        """
        return getattr(self.backbone, "tokens", False)

    @tokens.setter
    def tokens(self, as_tokens: bool) -> None:
        self.backbone.tokens = as_tokens

    def make_prompts(self, count: int, length: int = 4) -> PromptHead:
        """A head of `count` prompts with `length` learned words each; it reads tokens.

        Raises FedcliError where the starting weights have no text tower, UsageError where the words
        are too many.
        """
        self.text = self.text_tower()
        return PromptHead(self.text, count, length)

    def text_tower(self) -> TextTower:
        """The text tower. Raises FedcliError where the starting weights have none."""
        if not self.spare:
            sentence = f"{self.start} holds no text tower, which prompts need"
            raise FedcliError(sentence, "give a CLIP checkpoint that has both towers")
        return self.spare[0]


def make(name: str, inputs: Inputs) -> ClipNetwork:
    """A network with random weights. Raises UsageError where CLIP cannot take so many channels."""
    names = list(inputs.names) or [f"class {k}" for k in range(inputs.classes)]
    return ClipNetwork(name, inputs.channels, names, inputs.precision)


class ImageTower(nn.Module):
    """Images as transforms.to_input() makes them, [B, channels, H, W], to tokens [B, S, M, D].

    S slabs of a volume, 1 for an image; M positions; D the width of the space images and texts
    share.
    """

    def __init__(self, visual: Any, channels: int):
        super().__init__()
        if channels not in (1, 3) and channels % SLICES:
            kinds = f"images of 1 or 3 channels or volumes of a multiple of {SLICES} slices"
            sentence = f"CLIP takes {kinds}, not {channels}"
            raise UsageError(sentence, "prepare the volumes with another number of slices")
        self.visual: Any = visual  # open_clip's tower, its attention pool replaced
        # the projection of a slab to three channels, None for images
        self.slices: nn.Conv2d | None = None
        self.tokens = False  # else their mean over S and M, [B, D]
        self.pooled = False  # the pooled token alone, M = 1
        size = visual.image_size
        self.side = size if isinstance(size, int) else size[0]
        self.convolves = hasattr(visual, "attnpool")
        if self.convolves:
            visual.attnpool = TokenPool(visual.attnpool)
        else:
            visual.output_tokens = True
        if channels > 3:
            self.slices = nn.Conv2d(SLICES, 3, 5, padding=2)  # 603 numbers
            nn.init.normal_(self.slices.weight, std=SLICES**-0.5)
            nn.init.zeros_(self.slices.get_parameter("bias"))
        self.parts = self._parts()

    def _parts(self) -> dict[str, list[str]]:
        """Names of modules that adapters go into.

        "mlp" of a transformer; "conv" (1x1), "attention" (pool), "norms" of a ResNet.
        """
        parts: dict[str, list[str]] = {
            "mlp": [],
            "conv": [],
            "attention": [],
            "norms": [],
        }
        for name, module in self.named_modules():
            if name.endswith(("mlp.c_fc", "mlp.c_proj")):
                parts["mlp"].append(name)
            if ".layer" in name and name.endswith(("conv1", "conv3")):  # the stem's are 3x3
                parts["conv"].append(name)
            if isinstance(module, nn.BatchNorm2d):
                parts["norms"].append(name)
        if self.convolves:
            parts["attention"] = [f"visual.attnpool.{letter}_proj" for letter in "kqvc"]
        return parts

    def forward(self, x: Tensor) -> Tensor:
        slabs = x.shape[1] // SLICES if self.slices is not None else 1  # S
        tokens = self._tokens(self._prepared(x))
        tokens = tokens.unflatten(0, (len(x), slabs))  # [B, S, M, D]
        return tokens if self.tokens else tokens.float().mean((1, 2))

    def _tokens(self, x: Tensor) -> Tensor:
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
            unit = F.interpolate(
                unit,
                (self.side, self.side),
                mode="bilinear",
                antialias=True,
            )
        if self.slices is not None:
            unit = _projected(unit, self.slices)
        return normalised(unit, CLIP_MEAN, CLIP_STD)


def _projected(unit: Tensor, projection: nn.Conv2d) -> Tensor:
    """Slabs of 8 slices to three channels in [0, 1]: [B, slices, H, W] -> [B*S, 3, H, W]."""
    slabs = unit.reshape(-1, SLICES, *unit.shape[2:])
    # bf16 has 8 bits, as many as the images
    with torch.autocast(unit.device.type, enabled=False):
        slabs = projection(slabs)
    low = slabs.amin((1, 2, 3), keepdim=True)
    high = slabs.amax((1, 2, 3), keepdim=True)
    return (slabs - low) / (high - low + 1e-5)  # an empty slab has no range


class TokenPool(nn.Module):
    """CLIP's attention pool over a map, giving the pooled token and every position.

    Adapters can wrap its projections, which are modules.
    """

    def __init__(self, pool: Any):
        super().__init__()
        self.positional_embedding = pool.positional_embedding
        self.k_proj = pool.k_proj
        self.q_proj = pool.q_proj
        self.v_proj = pool.v_proj
        self.c_proj = pool.c_proj
        self.heads = pool.num_heads

    def forward(self, x: Tensor) -> Tensor:
        """[B, W, h, w] -> [B, 1 + M, D], the pooled token first."""
        x = x.flatten(2).transpose(1, 2)  # [B, M, W]
        x = torch.cat([x.mean(1, keepdim=True), x], 1)
        x = x + self.positional_embedding.to(x.dtype)
        by_head = []  # q, k and v, each [B, heads, 1 + M, W / heads]
        for projection in (self.q_proj, self.k_proj, self.v_proj):
            by_head.append(projection(x).unflatten(2, (self.heads, -1)).transpose(1, 2))
        attended = F.scaled_dot_product_attention(*by_head)
        return self.c_proj(attended.transpose(1, 2).flatten(2))


def _random_clip(shape: Shape) -> Any:
    """open_clip's network with random weights and no vocabulary."""
    package = open_clip()
    vision = package.CLIPVisionCfg(**shape.vision)
    text = package.CLIPTextCfg(
        context_length=CONTEXT,
        vocab_size=1,
        **shape.text,
    )
    clip = package.CLIP(shape.width, vision, text, quick_gelu=True)
    for key, weight in clip.visual.named_parameters():
        if key.endswith("bn3.weight"):
            # open_clip's zeros would shut the branches of a random tower that stays frozen
            nn.init.ones_(weight)
    return clip


def load_clip(net: ClipNetwork, name: str, weights: str) -> None:
    """Put starting weights into both towers; the head keeps its seeded ones.

    weights: "openai", a .pt/.pth/.safetensors state dict, or a model of a fedcli run (.h5). One
    without a text tower leaves the network none, so that it can have no prompts. Raises FedcliError
    when it cannot be read or does not fit.
    """
    tensors = read_unwrapped(_openai(name) if weights == "openai" else _file(name, weights))
    of_run = part(tensors, "backbone.")
    image = part(of_run or tensors, "visual.")
    if not image:
        raise FedcliError(f"{weights} is no CLIP: it has no tensor visual.*", KINDS)
    misfit = f"{weights} does not fit {name}: tensor "
    fill(net.backbone.visual, image, f"{misfit}visual.", KINDS)
    slices = part(of_run, "slices.")
    if slices and net.backbone.slices is not None:
        fill(net.backbone.slices, slices, f"{misfit}slices.", KINDS)
    text = {}
    for key, tensor in tensors.items():
        if not key.startswith(("visual.", *BESIDE)):
            text[key.removeprefix("text.")] = tensor
    if of_run or TABLE not in text:
        net.spare = ()
    else:
        _fill_text(net.spare[0], text, misfit)


def _fill_text(tower: TextTower, tensors: Tensors, misfit: str) -> None:
    table = tensors.pop(TABLE)
    shape = VOCABULARY, len(tower.start)
    if table.shape != shape:
        raise FedcliError(f"{misfit}{TABLE} has shape {tuple(table.shape)}, not {shape}", KINDS)
    fill(tower, tensors, misfit, KINDS, elsewhere=("start", "words"))
    tower.embed(table)


def _file(name: str, weights: str) -> Path:
    if weights == "imagenet":
        raise UsageError(f"there are no ImageNet weights for {name}", 'give "openai" or a file')
    return regular(Path(weights), 'give "openai", or a weights file')


def _openai(name: str) -> Path:
    """OpenAI's weights by way of open_clip: from its cache, or downloaded. Raises FedcliError,
    UsageError.
    """
    if not SHAPES[name].pretrained:
        published = ", ".join(model for model, shape in SHAPES.items() if shape.pretrained)
        sentence = f"there are no weights of OpenAI for {name}"
        raise UsageError(sentence, f"models that have them: {published}")
    pretrained = open_clip().pretrained
    source = pretrained.get_pretrained_cfg(SHAPES[name].pretrained, "openai")
    try:
        with asked_once():
            return Path(pretrained.download_pretrained(source))
    except Exception as error:  # each way to download has its own errors; one sentence for all
        absent = f"OpenAI's weights of {name} are not on this machine"
        sentence = f"{absent} and could not be downloaded ({type(error).__name__})"
        address = f"https://huggingface.co/{source['hf_hub'].rstrip('/')}"
        fetch = f"fetch open_clip_model.safetensors of {address} on a machine with a network"
        raise FedcliError(sentence, f"{fetch} and pass --weights FILE") from error
