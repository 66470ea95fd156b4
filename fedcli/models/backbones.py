"""Backbones: a small CNN, the CIFAR-style ResNet-10 of FedHEAL (specs section 2), and torchvision's networks.

Importing torchvision takes a second, so that is done only where it is used.
"""

import math
from collections.abc import Callable
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from .network import exchange

IMAGENET = "resnet18", "resnet50", "densenet121"
CLASSIFIERS = "fc", "classifier"


def small_cnn(channels: int) -> tuple[nn.Module, int]:
    """conv-norm-pool-relu three times, then the mean over the map."""
    widths = 16, 32, 64
    layers: list[nn.Module] = []
    for before, after in zip((channels, *widths), widths):
        layers += [
            nn.Conv2d(before, after, 3, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.MaxPool2d(
                2
            ),  # before the ReLU, which then has a quarter of the numbers: the same output and gradients
            nn.ReLU(inplace=True),
        ]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()), widths[-1]


def grouped(
    backbone: Callable[[int], tuple[nn.Module, int]],
) -> Callable[[int], tuple[nn.Module, int]]:
    """The same network with GroupNorm, groups of at least 4 channels, where it has batch norm.

    Source: Wu and He, "Group normalization", ECCV 2018, arXiv 1803.08494; for clients, Hsieh et al., ICML 2020,
    arXiv 1910.00189, section 5. No statistics travel, and no image changes what the network makes of another.
    """

    def make(channels: int) -> tuple[nn.Module, int]:
        net, width = backbone(channels)
        for name, norm in [*net.named_modules()]:
            if isinstance(norm, nn.BatchNorm2d):
                count = norm.num_features
                exchange(net, name, nn.GroupNorm(math.gcd(32, max(count // 4, 1)), count))
        return net, width

    return make


class Block(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    def __init__(self, before: int, after: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        same = stride == 1 and before == after
        self.shortcut = (
            nn.Identity()
            if same
            else nn.Sequential(
                nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
            )
        )

    def forward(self, x: Tensor) -> Tensor:
        out = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(out + self.shortcut(x))


def resnet10(channels: int) -> tuple[nn.Module, int]:
    """A 3x3 stem without pooling and four stages of one block."""
    widths = 64, 128, 256, 512
    stages = [
        Block(before, after, 1 if before == after else 2)
        for before, after in zip((64, *widths), widths)
    ]
    stem = nn.Sequential(
        nn.Conv2d(channels, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)
    )
    return nn.Sequential(stem, *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten()), widths[-1]


def imagenet(name: str) -> Any:
    """torchvision's entry of the ImageNet weights of a model in IMAGENET: its url, and how to get it.

    V1, what pretrained=True meant when FedISM+ was run.
    """
    import torchvision.models as zoo

    return zoo.get_model_weights(name).IMAGENET1K_V1


def headless(name: str) -> Callable[[int], tuple[nn.Module, int]]:
    """A function that makes a network of torchvision for images of three channels, and the width of its features."""

    def make(channels: int) -> tuple[nn.Module, int]:
        import torchvision.models as zoo

        net = getattr(zoo, name)()
        classifier = next(place for place in CLASSIFIERS if hasattr(net, place))
        width = getattr(net, classifier).in_features
        setattr(net, classifier, nn.Identity())
        return net, width

    return make
