"""A backbone and a linear head, with precision and batch norm on a single value handled once."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..data.transforms import GREY_MEAN, GREY_STD, IMAGENET_MEAN, IMAGENET_STD, by_channel

COUNTER = "num_batches_tracked"  # of the batches that a batch norm was trained on
# bytes; kernels of cuDNN for channels_last read that many at once (pytorch issue 195186)
CUDNN_READS = 16
Make = Callable[["Inputs"], "Network"]  # builds a network with random weights


class Groups:
    """To which groups the images of the next forward pass belong, for parts of a network that
    differ by group.

    Set before a pass by methods.mixins.GroupViews.set_groups(); parts that read it hold this
    object, not the network.
    """

    def __init__(self) -> None:
        self.shares: Tensor | None = None  # [B, G], rows sum to 1; None: all groups the same


@dataclass(frozen=True)
class Inputs:
    """Facts that a network is built for."""

    channels: int  # what it is fed, see models.input_channels()
    classes: int  # their number
    size: int  # the images' shorter side in pixels
    names: Sequence[str] = ()  # of the dataset's classes, for networks and methods that read them
    attributes: dict[str, list[str]] = field(default_factory=dict)  # of the dataset: name -> values
    precision: str = "fp32"  # or bf16 for autocast

    @classmethod
    def of(cls, dataset: dict[str, Any], channels: int) -> "Inputs":
        """The facts in the body of a dataset's manifest, with so many channels."""
        classes = dataset["classes"]
        return cls(
            channels,
            len(classes),
            min(dataset["size"]),
            classes,
            dataset["attributes"],
        )


class Network(nn.Module):
    """logits = head(features(x)).

    Args:
        backbone: images [B, C, H, W] -> features [B, width].
        precision: fp32, or bf16 for autocast; weights and outputs stay float32.
    """

    start: str | None = None  # what --weights named, None for random weights
    channels: int = 0  # of the images it is built for
    side: int = 0  # theirs in pixels
    resized: int = 0  # the side to which features() resizes images, in pixels; 0 leaves theirs
    # True: features() gives what a head of tokens reads, not one vector per image
    tokens: bool = False
    backbone: Any  # modules, whose own attributes a method may read
    head: Any
    # frozen, images -> [B, teacher.width], that a method may learn from; never sent or scored
    teacher: Any

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Parts that a method puts beside them in extend()."""

    def __init__(
        self,
        backbone: nn.Module,
        width: int,
        classes: int,
        precision: str = "fp32",
    ):
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(width, classes)
        self.bf16 = precision == "bf16"
        self.teacher = None
        self.groups = Groups()  # read by parts that differ by group
        self.class_names: list[str] = []
        self.attributes: dict[str, list[str]] = {}  # of the dataset: name -> values

    def features(self, x: Tensor) -> Tensor:
        """The vector before the classifier: float32 [B, width]."""
        if not self.bf16:
            return self.backbone(_laid_out(x))
        with torch.autocast(x.device.type, torch.bfloat16):
            return self.backbone(x).float()

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))

    def take_features(self) -> None:
        """Drop the backbone: from now on the network is fed features [B, width] in place of
        images.
        """
        self.backbone = nn.Identity()
        self.features = _unchanged  # type: ignore[method-assign, assignment]


def _laid_out(x: Tensor) -> Tensor:
    """Images as convolutions without autocast are fastest.

    A GPU's tensor cores read channels_last, in which images come; its fp32 kernels were 7 % faster
    with channels first (ResNet-18 on an H100).
    """
    if x.is_cuda and not torch.backends.cudnn.allow_tf32:
        return x.contiguous()
    return x


def _unchanged(features: Tensor) -> Tensor:
    return features


class LoneSafe(nn.modules.batchnorm._BatchNorm):
    """Batch norm that uses its running statistics, as in eval mode, when a batch is one single
    value per channel, and whose vectors may begin anywhere in theta.

    PyTorch refuses to train on such a batch: the last batch of a client can be one image, and a
    deep net may shrink it to one pixel. It does not count batches, which nothing reads: on a GPU
    each count is an operation of its own.
    """

    def forward(self, x: Tensor) -> Tensor:
        uses_batch = self.training and x.numel() != x.shape[1]
        if x.is_cuda and self.momentum is not None and not self._fits_cudnn():
            return self._without_cudnn(x, uses_batch=uses_batch)
        if not self.training:
            return super().forward(x)
        count = self.num_batches_tracked
        if self.momentum is not None:  # without it, statistics are means over all batches
            self._buffers[COUNTER] = None
        self.training = uses_batch
        try:
            return super().forward(x)
        finally:
            self.training = True
            self._buffers[COUNTER] = count

    def _fits_cudnn(self) -> bool:
        """Tell whether cuDNN can read the vectors. As views of theta they begin where those before
        them end, which with seven classes is no multiple of 16 bytes: cuDNN ends the process then.
        """
        if torch.compiler.is_compiling():  # a compiler has no addresses
            return True
        vectors = (self.weight, self.bias, self.running_mean, self.running_var)
        return all(v is None or v.data_ptr() % CUDNN_READS == 0 for v in vectors)

    def _without_cudnn(self, x: Tensor, *, uses_batch: bool) -> Tensor:
        assert self.momentum is not None
        return torch.native_batch_norm(
            x,
            self.weight,
            self.bias,
            self.running_mean,
            self.running_var,
            uses_batch or self.running_mean is None,
            self.momentum,
            self.eps,
        )[0]


@cache
def _lone_safe(kind: Any) -> Any:
    return type(f"LoneSafe{kind.__name__}", (LoneSafe, kind), {})


def make_lone_safe(net: nn.Module) -> None:
    """Give every batch norm of a network that behaviour, torchvision's own included."""
    for module in net.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and not isinstance(module, LoneSafe):
            kind: Any = type(module)
            module.__class__ = _lone_safe(kind)


@contextmanager
def still(net: nn.Module) -> Iterator[None]:
    """Eval mode without gradients for a moment; each module then has its own mode again."""
    modes = {module: module.training for module in net.modules()}
    net.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in modes.items():
            module.training = training


@contextmanager
def slow_attention() -> Iterator[None]:
    """Attention in single steps, which exporters and torch.func know, in place of one fused
    operator.
    """
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def in_pixels(x: Tensor) -> Tensor:
    """Images as a network of fedcli's is fed them, [B, 1 or more, H, W], with numbers in [0, 1]
    again.
    """
    mean, std = (IMAGENET_MEAN, IMAGENET_STD) if x.shape[1] == 3 else (GREY_MEAN, GREY_STD)
    return x * by_channel(std, x.device) + by_channel(mean, x.device)


def normalised(
    unit: Tensor,
    mean: tuple[float, ...],
    std: tuple[float, ...],
) -> Tensor:
    """Numbers in [0, 1] as a network wants them that was trained with another normalisation."""
    return (unit - by_channel(mean, unit.device)) / by_channel(std, unit.device)


def exchange(net: nn.Module, name: str, layer: nn.Module) -> None:
    """Put a layer in the place of the one of this name."""
    parent, _, attribute = name.rpartition(".")
    setattr(net.get_submodule(parent), attribute, layer)


def has_batch_norm(net: nn.Module) -> bool:
    """Tell whether a network has batch norm."""
    return any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in net.modules())


def frozen_parts(net: nn.Module) -> dict[str, nn.Module]:
    """The largest modules in which nothing trains, by name: they stay in eval mode and are never
    sent.
    """
    parts: dict[str, nn.Module] = {}
    for name, module in net.named_modules():
        trains = [parameter.requires_grad for parameter in module.parameters()]
        inside = name.startswith(tuple(f"{outer}." for outer in parts))
        if name and trains and not inside and not any(trains):
            parts[name] = module
    return parts
