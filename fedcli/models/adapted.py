"""Adapters in a frozen network: low-rank ones beside its layers, or learned words before CLIP's class names.

Source: Hu, Shen, Wallis, Allen-Zhu, Li, Wang, Wang and Chen, "LoRA: low-rank adaptation of large language models", ICLR
2022, arXiv 2106.09685, section 4.1; singular values by group are Eq. 2 of FairLoRA, see methods/fairlora.py.

    y = W0 x + s ((x A) * w) B    A [in, r] = 0, B [r, out] ~ N(0, 1), s = alpha / r

w is 1 (LoRA), S [r] (SVD-LoRA), or a mean of the rows of S [G, r] by an image's group shares (FairLoRA).
The factor that starts at 0 is A, on the side of the input, as in FairLoRA's text and code. LoRA itself starts A at
random and B at 0; with B of variance 1 the gradients of A are larger here.
Layers are named as timm, torchvision and open_clip name them, and chosen by the end of a name as in peft's
target_modules: `qkv` is blocks.0.attn.qkv and that of every other block.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import UsageError, nearest
from .clip_text import prompted
from .network import Groups, Network, exchange, still

DEFAULTS = {"mlp": (12, 2.0), "conv": (32, 8.0)}  # rank and alpha of FairFedMed's ViT and ResNet
KINDS = "lora", "svd-lora", "prompt"
MOST_RANK = 4096
READ_BY_OTHERS = (
    nn.MultiheadAttention,
    nn.TransformerEncoderLayer,
)  # they use the tensors of layers they never call
EXAMPLE = "write lora, lora:8, lora:8:16 (rank 8, alpha 16), svd-lora:8 or prompt:4"
Layer = nn.Linear | nn.Conv2d
Singular = Callable[[int], tuple[Tensor | None, Groups | None]]


class Adapted(nn.Module):
    """A frozen linear layer or convolution with an adapter beside it; the layer's tensors keep their names.

    In a convolution x is what the kernel sees of the image, so `in` is channels times the kernel's pixels: A is a
    convolution like the layer's own to r channels, and B a linear layer over them.

    Args:
        base: nn.Linear, or an nn.Conv2d of one group that pads with zeros.
        singular: what S starts with: None for no S, [r], or [G, r].
        groups: which holds the group shares of a forward pass; with S [G, r] only.
    """

    def __init__(
        self,
        base: Layer,
        rank: int,
        alpha: float,
        singular: Tensor | None = None,
        groups: Groups | None = None,
    ):
        super().__init__()
        if isinstance(base, nn.Conv2d) and (base.groups, base.padding_mode) != (1, "zeros"):
            raise TypeError(f"{base} is not a convolution of one group that pads with zeros")
        self.kernel = tuple(
            base.weight.shape[1:]
        )  # (in,), or (channels, height, width) of a convolution
        outputs, inputs = len(base.weight), math.prod(self.kernel)
        if isinstance(base, nn.Conv2d):
            self.steps: tuple[Any, ...] = base.stride, base.padding, base.dilation
        self.weight, self.bias = base.weight, base.bias
        self.weight.requires_grad_(False)
        if self.bias is not None:
            self.bias.requires_grad_(False)
        self.A = nn.Parameter(torch.zeros(inputs, rank))  # [in, r]
        self.B = nn.Parameter(torch.randn(rank, outputs))  # [r, out]
        self.S = None if singular is None else nn.Parameter(singular.clone())  # [r] or [G, r]
        self.scale, self.groups = alpha / rank, groups

    def forward(self, x: Tensor) -> Tensor:
        if len(self.kernel) == 3:
            low = F.conv2d(x, self.A.T.unflatten(1, self.kernel), None, *self.steps)  # [B, r, H, W]
            added = F.conv2d(self.weighed(low, 1), self.B.T[:, :, None, None])
            return F.conv2d(x, self.weight, self.bias, *self.steps) + self.scale * added
        added = self.weighed(x @ self.A, -1) @ self.B
        return F.linear(x, self.weight, self.bias) + self.scale * added

    @torch.no_grad()
    def merged(self) -> nn.Module:
        """A plain layer that computes the same, W = W0 + s (A diag(w) B)^T; not for singular values by group."""
        low = self.A if self.S is None else self.A * self.S  # [in, r]
        channels, *side = self.kernel
        outputs, convolution, linear = len(self.weight), cast(Any, nn.Conv2d), cast(Any, nn.Linear)
        with torch.device("meta"):  # its own numbers are never drawn
            layer = (
                convolution(channels, outputs, side, *self.steps)
                if side
                else linear(channels, outputs)
            )
        layer.weight = nn.Parameter(
            self.weight + self.scale * (low @ self.B).T.reshape(self.weight.shape)
        )
        layer.bias = self.bias
        return layer.train(self.training)

    def weighed(self, low: Tensor, dimension: int) -> Tensor:
        """x A times the singular values of each image, where `dimension` is that of the rank."""
        if self.S is None:
            return low
        w = self.singular(self.S, len(low))  # [B, r], or [1, r] for all
        shape = [len(w)] + [1] * (low.ndim - 1)
        shape[dimension] = w.shape[1]
        return low * w.view(shape)

    def singular(self, s: Tensor, images: int) -> Tensor:
        """The singular values s, of each of so many images [B, r], or the same for all [1, r]. FairLoRA Eq. 2.

        A volume comes as several images, its slabs, one after another. Raises ValueError where the counts do not fit.
        """
        if self.groups is None:
            return s[None]
        if self.groups.shares is None:
            return s.mean(0, keepdim=True)
        w = self.groups.shares @ s  # [B, r]
        if images % len(w):
            raise ValueError(f"{images} images cannot be those of {len(w)} group shares")
        return w.repeat_interleave(images // len(w), 0)


def plain(rank: int) -> tuple[Tensor | None, Groups | None]:
    """LoRA: no singular values."""
    return None, None


def falling(rank: int) -> tuple[Tensor | None, Groups | None]:
    """SVD-LoRA: a singular value for each direction, the same for all groups."""
    return torch.linspace(1, 0.1, rank), None


def adaptable(net: Network) -> dict[str, list[str]]:
    """Names of modules in net.backbone: "mlp" linear layers, "conv" convolutions, "norms" batch norms.

    A layer counts if it is called, one row or more for each image; some libraries read a layer's tensors instead, which
    no adapter would notice. The convolution that sees the pixels stays as it is, as in CLIP's towers, and so do
    grouped convolutions, which have few numbers.
    """
    rows_of_one, rows_of_two = (_rows(net, images) for images in (1, 2))
    kinds: dict[str, list[str]] = {"mlp": [], "conv": [], "attention": [], "norms": []}
    for name, module in net.backbone.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            kinds["norms"].append(name)
        if name and name in rows_of_one and rows_of_two[name] == 2 * rows_of_one[name]:
            kinds["conv" if isinstance(module, nn.Conv2d) else "mlp"].append(name)
    first = next(iter(rows_of_one), "")
    if first in kinds["conv"] and net.backbone.get_submodule(first).in_channels == net.channels:
        kinds["conv"].remove(first)
    return kinds


def _rows(net: Network, images: int) -> dict[str, int]:
    """Layers in the order of their calls -> how many rows each got of so many black images."""
    rows: dict[str, int] = {}
    handles = []
    modules = dict(net.backbone.named_modules())
    readers = tuple(
        f"{name}." if name else ""
        for name, module in modules.items()
        if isinstance(module, READ_BY_OTHERS)
    )
    for name, module in modules.items():
        if _fits(module) and not name.startswith(readers):

            def note(_: nn.Module, inputs: tuple[Any, ...], name: str = name) -> None:
                rows.setdefault(name, len(inputs[0]))

            handles.append(module.register_forward_pre_hook(note))
    x = next((p for p in net.parameters()), torch.empty(0)).new_zeros(
        images, net.channels, net.side, net.side
    )
    with still(net):
        net.features(x)
    for handle in handles:
        handle.remove()
    return rows


def _fits(module: nn.Module) -> bool:
    """Tell whether a layer computes what its class says; a library's own kind may do more, such as padding."""
    if type(module) is nn.Conv2d:
        return module.groups == 1 and module.padding_mode == "zeros"
    return type(module) is nn.Linear


def beside_layers(
    net: Network, rank: int, alpha: float, singular: Singular, layers: str = ""
) -> None:
    """Freeze a network but for its head and batch norms, and put low-rank adapters beside its layers.

    rank, alpha: 0 is the default of a network whose layers are mostly linear, or mostly convolutions.
    singular: of a rank, the singular values to start with and where group shares are read; an attention pool has none.
    layers: ends of their names with commas between; "" takes all. Raises UsageError.
    """
    body = net.backbone
    clip = hasattr(net, "make_prompts")
    parts = body.parts if clip else adaptable(net)
    if not parts["mlp"] + parts["conv"]:
        what = "the network has no linear layer or convolution that an adapter could stand beside"
        raise UsageError(
            f"{what}, but the one that sees the pixels", "use another --model, or train fedavg"
        )
    kind = "conv" if len(parts["conv"]) > len(parts["mlp"]) else "mlp"
    rank, alpha = rank or DEFAULTS[kind][0], alpha or DEFAULTS[kind][1]
    beside, pool = _chosen(parts["mlp"] + parts["conv"], parts["attention"], layers)
    net.requires_grad_(False)
    net.head.requires_grad_(True)
    starts = dict.fromkeys(pool, plain(rank)) | dict.fromkeys(beside, singular(rank))
    for name in beside + pool:
        exchange(body, name, Adapted(body.get_submodule(name), rank, alpha, *starts[name]))
    for name in parts["norms"] + (["slices"] if clip and body.slices is not None else []):
        body.get_submodule(name).requires_grad_(True)


def _chosen(beside: list[str], pool: list[str], layers: str) -> list[list[str]]:
    """Of each list the layers whose names end so. Raises UsageError for an end that no name has."""
    ends = [end.strip() for end in layers.split(",")] if layers else []
    for end in ends:
        if not any(f".{name}".endswith(f".{end}") for name in beside + pool):
            usual = sorted({name.rpartition(".")[2] for name in beside + pool})
            raise UsageError(
                f"no layer that takes an adapter is named {end!r}", nearest(end, usual)
            )
    return [
        [n for n in names if not ends or f".{n}".endswith(tuple(f".{e}" for e in ends))]
        for names in (beside, pool)
    ]


@dataclass(frozen=True)
class Adapters:
    """The adapters that are asked for: what `--adapters` says."""

    kind: str  # one of KINDS
    rank: int = 0  # of low-rank ones, 0 for the network's default; of prompts the number of their learned words
    alpha: float = 0.0  # 0 for the network's default
    layers: str = ""  # as of beside_layers()
    local: bool = False  # they stay at each client

    @classmethod
    def of(cls, text: str, layers: str = "", local: bool = False) -> "Adapters":
        """KIND, KIND:RANK or KIND:RANK:ALPHA. Raises UsageError."""
        kind, *numbers = text.split(":")
        if kind not in KINDS:
            raise UsageError(f"--adapters {text!r:.60} is unknown", EXAMPLE)
        try:
            rank, alpha = (
                int(numbers[0]) if numbers else 0,
                float(numbers[1]) if numbers[1:] else 0.0,
            )
        except ValueError:
            raise UsageError(
                f"--adapters {text!r:.60} has no number where one belongs", EXAMPLE
            ) from None
        if len(numbers) > (1 if kind == "prompt" else 2) or numbers and not 1 <= rank <= MOST_RANK:
            raise UsageError(
                f"--adapters {text!r:.60} is not a rank from 1 to {MOST_RANK} and an alpha", EXAMPLE
            )
        if numbers[1:] and not 0 < alpha < math.inf:
            raise UsageError(f"--adapters {text!r:.60}: alpha is not above 0", EXAMPLE)
        if layers and kind == "prompt":
            raise UsageError("--adapter-layers belongs to lora and svd-lora", "leave it out")
        return cls(kind, rank, alpha, layers, local)

    def put(self, net: Network) -> None:
        """Freeze a network and put them in. Raises UsageError where it has no place for them."""
        if self.kind == "prompt":
            prompted(net, self.rank or 4)
        else:
            beside_layers(
                net,
                self.rank,
                self.alpha,
                falling if self.kind == "svd-lora" else plain,
                self.layers,
            )

    def names(self, net: Network) -> tuple[str, ...]:
        """Names of their numbers in a network that has them."""
        low = {
            f"{name}.{factor}"
            for name, m in net.named_modules()
            if isinstance(m, Adapted)
            for factor in "ABS"
        }
        return tuple(
            name
            for name, p in net.named_parameters()
            if name in low or p.requires_grad and ".context." in name
        )


def merged(net: Network) -> Network:
    """The same network with each adapter in the weights of its layer; the network itself where it has none to merge."""
    layers = {
        name: m for name, m in net.named_modules() if isinstance(m, Adapted) and m.groups is None
    }
    copied = copy.deepcopy(net) if layers else net
    for name, layer in layers.items():
        exchange(copied, name, layer.merged())
    return copied
