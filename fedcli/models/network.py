"""A backbone and a linear head, with precision and batch norm on a single value handled once."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn


class Groups:
    """To which groups the images of the next forward pass belong, for parts of a network that differ by group.

    Set before a pass by methods.mixins.GroupViews.set_groups(); parts that read it hold this object, not the network.
    """

    def __init__(self) -> None:
        self.shares: Tensor | None = None  # [B, G], rows sum to 1; None: all groups the same


class Network(nn.Module):
    """logits = head(features(x)).

    Args:
        backbone: images [B, C, H, W] -> features [B, width].
        precision: fp32, or bf16 for autocast; weights and outputs stay float32.

    Attributes:
        channels, side: of the images it is built for, the side in pixels.
        start: what --weights named, None for random weights.
        class_names, attributes: of the dataset; attributes: name -> values.
        groups: read by parts that differ by group.
        teacher: a frozen network, images -> [B, teacher.width], that a method may learn from; never sent or scored.
    """

    start: str | None = None
    channels: int = 0
    side: int = 0
    tokens: bool = False  # True: features() gives what a head of tokens reads, not one vector per image
    backbone: Any  # modules, whose own attributes a method may read
    head: Any
    teacher: Any

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Parts that a method puts beside them in extend()."""

    def __init__(self, backbone: nn.Module, width: int, classes: int, precision: str = "fp32"):
        super().__init__()
        self.backbone, self.head = backbone, nn.Linear(width, classes)
        self.bf16 = precision == "bf16"
        self.teacher = None
        self.groups = Groups()
        self.class_names: list[str] = []
        self.attributes: dict[str, list[str]] = {}

    def features(self, x: Tensor) -> Tensor:
        """The vector before the classifier: float32 [B, width]."""
        if not self.bf16:
            return self.backbone(x)
        with torch.autocast(x.device.type, torch.bfloat16):
            return self.backbone(x).float()

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))


class LoneSafe(nn.modules.batchnorm._BatchNorm):
    """Batch norm that uses its running statistics when a batch is one single value per channel.

    PyTorch refuses to train on such a batch: the last batch of a client can be one image, and a
    deep net may shrink it to one pixel.
    """

    def forward(self, x: Tensor) -> Tensor:
        if self.training and x.numel() == x.shape[1]:
            return nn.functional.batch_norm(
                x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps
            )
        return super().forward(x)


class LoneSafeOther(LoneSafe):
    """Of a library's own kind, which may do more than normalise: its own forward pass, in eval mode for one value."""

    def forward(self, x: Tensor) -> Tensor:
        lone = self.training and x.numel() == x.shape[1]
        if lone:
            self.training = False
        try:
            return super(LoneSafe, self).forward(x)
        finally:
            self.training = self.training or lone


class LoneSafeBatchNorm1d(LoneSafe, nn.BatchNorm1d):
    """Of vectors."""


class LoneSafeBatchNorm2d(LoneSafe, nn.BatchNorm2d):
    """Of maps."""


def make_lone_safe(net: nn.Module) -> None:
    """Give every batch norm of a network that behaviour, torchvision's own included."""
    safe: dict[type[nn.Module], type[nn.Module]] = {
        nn.BatchNorm1d: LoneSafeBatchNorm1d,
        nn.BatchNorm2d: LoneSafeBatchNorm2d,
    }
    for module in net.modules():
        kind = type(module)
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and not isinstance(module, LoneSafe):
            module.__class__ = safe.get(kind) or type(f"LoneSafe{kind.__name__}", (LoneSafeOther, kind), {})


def has_batch_norm(net: nn.Module) -> bool:
    return any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in net.modules())


def frozen_parts(net: nn.Module) -> dict[str, nn.Module]:
    """The largest modules in which nothing trains, by name: they stay in eval mode and are never sent."""
    parts: dict[str, nn.Module] = {}
    for name, module in net.named_modules():
        parameters = list(module.parameters())
        inside = any(name.startswith(f"{outer}.") for outer in parts)
        if name and parameters and not inside and not any(p.requires_grad for p in parameters):
            parts[name] = module
    return parts
