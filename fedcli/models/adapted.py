"""Adapters in a frozen network: low-rank ones beside its layers, or learned words before CLIP's
class names.

Source: Hu, Shen, Wallis, Allen-Zhu, Li, Wang, Wang and Chen, "LoRA: low-rank adaptation of large
language models", ICLR 2022, arXiv 2106.09685, section 4.1; singular values by group are Eq. 2 of
FairLoRA, see methods/fairlora.py.

    y = W0 x + s ((x A) * w) B    A [in, r] = 0, B [r, out] ~ N(0, 1), s = alpha / r

w is 1 (LoRA), S [r] (SVD-LoRA), or a mean of the rows of S [G, r] by an image's group shares
(FairLoRA). The factor that starts at 0 is A, on the side of the input, as in FairLoRA's text and
code. LoRA itself starts A at random and B at 0; with B of variance 1 the gradients of A are larger
here. With a second pair beside it, which stays at its client, y has two such terms: W0, a shared
and a local adapter.
Layers are named as timm, torchvision and open_clip name them, and chosen by the end of a name as in
peft's target_modules: `qkv` is blocks.0.attn.qkv and that of every other block.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import UsageError, nearest
from ..seeds import derive, seed_torch
from .clip_text import prompted
from .network import Groups, Network, exchange, still

DEFAULTS = {"mlp": (12, 2.0), "conv": (32, 8.0)}  # rank and alpha of FairFedMed's ViT and ResNet
KINDS = "lora", "svd-lora", "prompt"
MOST_RANK = 4096
# they use the tensors of layers they never call
READ_BY_OTHERS = nn.MultiheadAttention, nn.TransformerEncoderLayer
EXAMPLE = "write lora, lora:8, lora:8:16 (rank 8, alpha 16), svd-lora:8 or prompt:4"
Layer = nn.Linear | nn.Conv2d
Start = tuple[Tensor | None, Groups | None]  # singular values, and where group shares are read
ALL = "all"  # in place of a second pair: all adapters stay at their client
PAIR = "local_pair"  # in names of tensors: the second pair of a layer


class LowRank(nn.Module):
    """Two thin factors for what a layer sees, s ((x A) * w) B.

    In a convolution x is what the kernel sees of the image, so `in` is channels times the kernel's
    pixels: A is a convolution like the layer's own to r channels, and B a linear layer over them.
    """

    kernel: tuple[int, ...]  # (in,), or (channels, height, width) of a convolution
    steps: tuple[Any, ...] = ()  # stride, padding and dilation of a convolution

    def begin(
        self,
        outputs: int,
        rank: int,
        alpha: float,
        singular: Tensor | None,
        groups: Groups | None,
    ) -> None:
        """Make the factors. The arguments are as of Adapted."""
        self.A = nn.Parameter(torch.zeros(math.prod(self.kernel), rank))  # [in, r]
        self.B = nn.Parameter(torch.randn(rank, outputs))  # [r, out]
        self.S = None if singular is None else nn.Parameter(singular.clone())  # [r] or [G, r]
        self.scale = alpha / rank
        self.groups = groups

    def added(self, x: Tensor) -> Tensor:
        """The term of the layer's output."""
        if len(self.kernel) == 3:
            low = F.conv2d(
                x,
                self.A.T.unflatten(1, self.kernel),
                None,
                *self.steps,
            )  # [B, r, H, W]
            wide = F.conv2d(self.weighed(low, 1), self.B.T[:, :, None, None])
        else:
            wide = self.weighed(x @ self.A, -1) @ self.B
        return self.scale * wide

    def product(self) -> Tensor:
        """The term of the layer's weight [out, in]; not for singular values by group."""
        low = self.A if self.S is None else self.A * self.S  # [in, r]
        return self.scale * (low @ self.B).T

    def weighed(self, low: Tensor, dimension: int) -> Tensor:
        """x A times the singular values of each image, where `dimension` is that of the rank."""
        if self.S is None:
            return low
        w = self.singular(self.S, len(low))  # [B, r], or [1, r] for all
        shape = [len(w)] + [1] * (low.ndim - 1)
        shape[dimension] = w.shape[1]
        return low * w.view(shape)

    def singular(self, s: Tensor, images: int) -> Tensor:
        """The singular values s, of each of so many images [B, r], or the same for all [1, r].
        FairLoRA Eq. 2.

        A volume comes as several images, its slabs, one after another. Raises ValueError where the
        counts do not fit.
        """
        if self.groups is None:
            return s[None]
        if self.groups.shares is None:
            return s.mean(0, keepdim=True)
        w = self.groups.shares @ s  # [B, r]
        if images % len(w):
            raise ValueError(f"{images} images do not match {len(w)} group shares")
        return w.repeat_interleave(images // len(w), 0)


class Adapted(LowRank):
    """A frozen linear layer or convolution with an adapter beside it; the layer's tensors keep
    their names.

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
        if isinstance(base, nn.Conv2d):
            if (base.groups, base.padding_mode) != (1, "zeros"):
                raise TypeError(f"{base} is not a convolution of one group that pads with zeros")
            self.steps = base.stride, base.padding, base.dilation
        self.weight = base.weight
        self.bias = base.bias
        self.kernel = tuple(self.weight.shape[1:])
        for tensor in base.parameters():
            tensor.requires_grad_(False)
        self.begin(len(self.weight), rank, alpha, singular, groups)
        self.local_pair: LowRank | None = None

    def add_local(self, rank: int, alpha: float, singular: Tensor | None) -> None:
        """Put a second pair beside the layer, which stays at its client."""
        pair = LowRank()
        pair.kernel = self.kernel
        pair.steps = self.steps
        pair.begin(len(self.weight), rank, alpha, singular, None)
        self.local_pair = pair

    def forward(self, x: Tensor) -> Tensor:
        if len(self.kernel) == 3:
            base = F.conv2d(x, self.weight, self.bias, *self.steps)
        else:
            base = F.linear(x, self.weight, self.bias)
        shared = base + self.added(x)
        return shared if self.local_pair is None else shared + self.local_pair.added(x)

    @torch.no_grad()
    def merged(self) -> nn.Module:
        """A plain layer that computes the same, W = W0 + s (A diag(w) B)^T; not for singular values
        by group.
        """
        channels, *side = self.kernel
        outputs = len(self.weight)
        with torch.device("meta"):  # its own numbers are never drawn
            layer: Any = nn.Linear(channels, outputs)
            if side:
                layer = nn.Conv2d(
                    channels,
                    outputs,
                    cast(Any, side),
                    *self.steps,
                )
        weight = self.weight + self.product().reshape(self.weight.shape)
        if self.local_pair is not None:
            weight = weight + self.local_pair.product().reshape(weight.shape)
        layer.weight = nn.Parameter(weight)
        layer.bias = self.bias
        return layer.train(self.training)


def plain(rank: int) -> Start:
    """LoRA: no singular values."""
    return None, None


def falling(rank: int) -> Start:
    """SVD-LoRA: a singular value for each direction, the same for all groups."""
    return torch.linspace(1, 0.1, rank), None


def adaptable(net: Network) -> dict[str, list[str]]:
    """Names of modules in net.backbone: "mlp" linear layers, "conv" convolutions, "norms" batch
    norms.

    A layer counts if it is called, one row or more for each image; some libraries read a layer's
    tensors instead, which no adapter would notice. The convolution that sees the pixels stays as it
    is, as in CLIP's towers, and so do grouped convolutions, which have few numbers.
    """
    rows_of_one = _rows(net, 1)
    rows_of_two = _rows(net, 2)
    sees_pixels = next(iter(rows_of_one), "")
    kinds: dict[str, list[str]] = {
        "mlp": [],
        "conv": [],
        "attention": [],
        "norms": [],
    }
    for name, module in net.backbone.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            kinds["norms"].append(name)
        if not name or name not in rows_of_one or rows_of_two[name] != 2 * rows_of_one[name]:
            continue
        if not isinstance(module, nn.Conv2d):
            kinds["mlp"].append(name)
        elif name != sees_pixels or module.in_channels != net.channels:
            kinds["conv"].append(name)
    return kinds


def _rows(net: Network, images: int) -> dict[str, int]:
    """Layers in the order of their calls -> how many rows each got of so many black images."""
    rows: dict[str, int] = {}
    handles = []
    modules = dict(net.backbone.named_modules())
    read_by_others: list[str] = []
    for name, module in modules.items():
        if isinstance(module, READ_BY_OTHERS):
            read_by_others.append(f"{name}." if name else "")

    def note(name: str, _: nn.Module, inputs: tuple[Any, ...]) -> None:
        rows.setdefault(name, len(inputs[0]))

    for name, module in modules.items():
        if _fits(module) and not name.startswith(tuple(read_by_others)):
            handles.append(module.register_forward_pre_hook(partial(note, name)))
    like = next(net.parameters(), torch.empty(0))
    with still(net):
        net.features(like.new_zeros(images, net.channels, net.side, net.side))
    for handle in handles:
        handle.remove()
    return rows


def _fits(module: nn.Module) -> bool:
    """Tell whether a layer computes what its class says; a library's own kind may do more, such as
    padding.
    """
    if type(module) is nn.Conv2d:
        return module.groups == 1 and module.padding_mode == "zeros"
    return type(module) is nn.Linear


def beside_layers(
    net: Network,
    rank: int,
    alpha: float,
    singular: Callable[[int], Start],
    layers: str = "",
) -> None:
    """Freeze a network but for its head and batch norms, and put low-rank adapters beside its
    layers.

    rank, alpha: 0 is the default of a network whose layers are mostly linear, or mostly
    convolutions.
    singular: of a rank, the singular values to start with and where group shares are read; an
    attention pool has none.
    layers: ends of their names with commas between; "" takes all.
    Raises UsageError where the network has no such layer.
    """
    body = net.backbone
    clip = hasattr(net, "make_prompts")
    parts = body.parts if clip else adaptable(net)
    beside = parts["mlp"] + parts["conv"]
    if not beside:
        lacking = "no linear layer or convolution that an adapter could be added to"
        sentence = f"the network has {lacking}, but the one that sees the pixels"
        raise UsageError(sentence, "use another --model, or train fedavg")
    usual = DEFAULTS["conv" if len(parts["conv"]) > len(parts["mlp"]) else "mlp"]
    rank = rank or usual[0]
    alpha = alpha or usual[1]
    chosen = _chosen(beside + parts["attention"], layers)
    net.requires_grad_(False)
    net.head.requires_grad_(True)
    start = singular(rank)
    for name in chosen:
        values = start if name in beside else plain(rank)
        exchange(
            body,
            name,
            Adapted(body.get_submodule(name), rank, alpha, *values),
        )
    for name in parts["norms"]:
        body.get_submodule(name).requires_grad_(True)
    if clip and body.slices is not None:
        body.slices.requires_grad_(True)


def _chosen(names: list[str], layers: str) -> list[str]:
    """The layers whose names end as `layers` says. Raises UsageError for an end that no name
    has.
    """
    if not layers:
        return names
    ends = [f".{end.strip()}" for end in layers.split(",")]
    for end in ends:
        if not any(f".{name}".endswith(end) for name in names):
            sentence = f"no layer that takes an adapter is named {end[1:]!r}"
            raise UsageError(
                sentence, nearest(end[1:], {name.rpartition(".")[2] for name in names})
            )
    return [name for name in names if f".{name}".endswith(tuple(ends))]


@dataclass(frozen=True)
class Adapters:
    """The adapters that are asked for: what `--adapters` says."""

    kind: str  # one of KINDS
    # of low-rank ones, 0 for the network's default; of prompts the number of their learned words
    rank: int = 0
    alpha: float = 0.0  # 0 for the network's default
    layers: str = ""  # as of beside_layers()
    all_local: bool = False  # they stay at each client
    # low-rank ones beside these, which stay at each client; 0: of the rank or alpha of these
    local: "Adapters | None" = None

    @classmethod
    def of(
        cls,
        text: str,
        layers: str = "",
        local: str = "",
        flag: str = "--adapters",
    ) -> "Adapters":
        """KIND, KIND:RANK or KIND:RANK:ALPHA. Raises UsageError.

        local: of --local-adapters; "true" is how a run of fedcli 0.1.0 says ALL.
        """
        flag = f"{flag} {text!r:.60}"
        kind, *numbers = text.split(":")
        if kind not in KINDS:
            raise UsageError(f"{flag} is unknown", EXAMPLE)
        rank, alpha = 0, 0.0
        try:
            if numbers:
                rank = int(numbers[0])
            if numbers[1:]:
                alpha = float(numbers[1])
        except ValueError:
            raise UsageError(f"{flag} has no number where one belongs", EXAMPLE) from None
        limit = 1 if kind == "prompt" else 2
        if len(numbers) > limit or (numbers and not 1 <= rank <= MOST_RANK):
            raise UsageError(f"{flag} is not a rank from 1 to {MOST_RANK} and an alpha", EXAMPLE)
        if numbers[1:] and not 0 < alpha < math.inf:
            raise UsageError(f"{flag}: alpha is not above 0", EXAMPLE)
        if layers and kind == "prompt":
            raise UsageError("layers= of --adapters is for lora and svd-lora", "leave it out")
        if local in ("", ALL, "true"):
            return cls(kind, rank, alpha, layers, bool(local))
        pair = cls.of(local, flag="--local-adapters")
        if "prompt" in (kind, pair.kind):
            sentence = f"--local-adapters {local} needs low-rank adapters on both sides"
            raise UsageError(sentence, "write --adapters lora:8 --local-adapters lora:4")
        return cls(kind, rank, alpha, layers, local=pair)

    def put(self, net: Network) -> None:
        """Freeze a network and put them in. Raises UsageError where it has no place for them."""
        if self.kind == "prompt":
            prompted(net, self.rank or 4)
            return
        beside_layers(net, self.rank, self.alpha, self._singular, self.layers)
        if self.local:
            # random numbers of their own: all others are as without them
            with torch.random.fork_rng(devices=[]):
                seed_torch(derive("local adapters", torch.initial_seed()))
                self.local._put_beside(net)

    @property
    def _singular(self) -> Callable[[int], Start]:
        return falling if self.kind == "svd-lora" else plain

    def _put_beside(self, net: Network) -> None:
        """Put them beside the adapters of a network as their second pair."""
        for module in list(net.modules()):
            if isinstance(module, Adapted):
                shared_rank = module.A.shape[1]
                rank = self.rank or shared_rank
                alpha = self.alpha or module.scale * shared_rank
                values, _ = self._singular(rank)
                module.add_local(rank, alpha, values)

    def staying(self, net: Network) -> tuple[str, ...]:
        """Names of those numbers in a network that stay at a client."""
        if self.local:
            return tuple(name for name, _ in net.named_parameters() if f".{PAIR}." in name)
        if not self.all_local:
            return ()
        low_rank: set[str] = set()
        for name, module in net.named_modules():
            if isinstance(module, Adapted):
                low_rank |= {f"{name}.A", f"{name}.B", f"{name}.S"}
        names = []
        for name, parameter in net.named_parameters():
            if name in low_rank or (parameter.requires_grad and ".context." in name):
                names.append(name)
        return tuple(names)


def merged(net: Network) -> Network:
    """A copy of a network with each adapter in the weights of its layer; itself where it has none
    to merge.
    """
    layers = {}
    for name, module in net.named_modules():
        if isinstance(module, Adapted) and module.groups is None:
            layers[name] = module
    copied = copy.deepcopy(net) if layers else net
    for name, layer in layers.items():
        exchange(copied, name, layer.merged())
    return copied
