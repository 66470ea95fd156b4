"""Backbones: a small CNN, the CIFAR-style ResNet-10 of FedHEAL (specs section 2), and torchvision's
networks.

A backbone maps images [B, channels, H, W] to features [B, width]. Importing torchvision takes a
second, so that is done only where it is used.
"""

import math
from collections.abc import Callable
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from .network import exchange

IMAGENET = "resnet18", "resnet50", "densenet121"
Backbone = Callable[[int], tuple[nn.Module, int]]  # channels -> the network, and its width


def _convolution(before: int, after: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(before, after, 3, stride, 1, bias=False)


def small_cnn(channels: int) -> tuple[nn.Module, int]:
    """conv-norm-pool-relu three times, then the mean over the map; and its width."""
    layers: list[nn.Module] = []
    before = channels
    for after in (16, 32, 64):
        layers.append(_convolution(before, after))
        layers.append(nn.BatchNorm2d(after))
        # before the ReLU, which then has a quarter of the numbers: the same output and gradients
        layers.append(nn.MaxPool2d(2))
        layers.append(nn.ReLU(inplace=True))
        before = after
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()), before


def grouped(backbone: Backbone) -> Backbone:
    """A backbone with GroupNorm, groups of at least 4 channels, where the given one has batch norm.

    Source: Wu and He, "Group normalization", ECCV 2018, arXiv 1803.08494; for clients, Hsieh et
    al., ICML 2020, arXiv 1910.00189, section 5. No statistics travel, and no image changes what the
    network makes of another.
    """

    def make(channels: int) -> tuple[nn.Module, int]:
        net, width = backbone(channels)
        for name, norm in list(net.named_modules()):
            if isinstance(norm, nn.BatchNorm2d):
                groups = math.gcd(32, max(norm.num_features // 4, 1))
                exchange(net, name, nn.GroupNorm(groups, norm.num_features))
        return net, width

    return make


class Block(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    def __init__(self, before: int, after: int, stride: int):
        super().__init__()
        self.conv1 = _convolution(before, after, stride)
        self.norm1 = nn.BatchNorm2d(after)
        self.conv2 = _convolution(after, after)
        self.norm2 = nn.BatchNorm2d(after)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            narrow = nn.Conv2d(before, after, 1, stride, bias=False)
            self.shortcut = nn.Sequential(narrow, nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.norm1(self.conv1(x)))
        out = self.norm2(self.conv2(out))
        return F.relu(out + self.shortcut(x))


def resnet10(channels: int) -> tuple[nn.Module, int]:
    """A 3x3 stem without pooling and four stages of one block; and the width of its features."""
    stages = []
    before = 64
    for after in (64, 128, 256, 512):
        stages.append(Block(before, after, 1 if before == after else 2))
        before = after
    stem = _convolution(channels, 64), nn.BatchNorm2d(64), nn.ReLU(inplace=True)
    pool = nn.AdaptiveAvgPool2d(1)
    return nn.Sequential(nn.Sequential(*stem), *stages, pool, nn.Flatten()), before


def imagenet(name: str) -> Any:
    """torchvision's entry of the ImageNet weights of a model in IMAGENET: its url, and how to get
    it.

    V1, what pretrained=True meant when FedISM+ was run.
    """
    import torchvision.models as zoo

    return zoo.get_model_weights(name).IMAGENET1K_V1


def headless(name: str) -> Backbone:
    """A function that makes a network of torchvision for images of three channels, without its
    classifier.
    """

    def make(channels: int) -> tuple[nn.Module, int]:
        import torchvision.models as zoo

        net = getattr(zoo, name)()
        classifier = "fc" if hasattr(net, "fc") else "classifier"
        width = getattr(net, classifier).in_features
        setattr(net, classifier, nn.Identity())
        return net, width

    return make
