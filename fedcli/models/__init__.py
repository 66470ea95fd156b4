"""The networks, each behind features() and a linear head."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import nn

from .. import extensions
from ..errors import FedcliError, UsageError, nearest
from ..seeds import derive, seed_torch
from . import lite, outside
from .backbones import grouped, headless, resnet10, small_cnn
from .clip import ClipNetwork, load_clip
from .network import Inputs, Network, make_lone_safe
from .network import frozen_parts as frozen_parts
from .teacher import Absent as Absent
from .teacher import load_teacher as load_teacher
from .weights import load_weights


@dataclass(frozen=True)
class Model:
    """Instructions to build a network."""

    make: Callable[[Inputs], Network]  # with random weights
    channels: int = 0  # what it must be fed; 0 takes the images' own
    smallest: int = 8  # side of the smallest image it can take, in pixels
    about: str = ""  # one line for people
    # CPU threads it trains best on, 0: torch's choice. Short steps lose more by waiting than two threads gain
    threads: int = 0
    load: Callable[[Any, str, str], None] = (
        load_weights  # starting weights, by names of network and weights
    )
    published: str = ""  # a sentence on --weights WORD where weights are published with it
    kind: str = ""  # for methods: "clip" for an image and a text tower, "" for a backbone under a linear head


def _plain(
    backbone: Callable[[int], tuple[nn.Module, int]],
    channels: int,
    smallest: int,
    about: str,
    threads: int = 0,
    published: str = "",
) -> Model:
    def make(inputs: Inputs) -> Network:
        return Network(*backbone(inputs.channels), inputs.classes, inputs.precision)

    return Model(make, channels, smallest, about, threads, published=published)


def _lite(name: str, about: str) -> Model:
    return Model(partial(lite.make, name), 3, 32, about, published=INSTALLED)


def _clip(name: str, about: str, threads: int = 0, published: str = "") -> Model:
    def make(inputs: Inputs) -> Network:
        names = list(inputs.names) or [f"class {k}" for k in range(inputs.classes)]
        return ClipNetwork(name, inputs.channels, names, inputs.precision)

    return Model(make, 0, 8, about, threads, load_clip, published, "clip")


DOWNLOADED = "--weights imagenet is downloaded"
INSTALLED = "--weights imagenet comes with fedcli[imagenet]"
OPENAI = "--weights openai is downloaded"
MODELS = {
    "cnn": _plain(
        small_cnn,
        0,
        8,
        "three convolutions, 24 thousand parameters: for laptops and tests",
        threads=1,
    ),
    "cnn-gn": _plain(
        grouped(small_cnn), 0, 8, "the same with GroupNorm in place of batch norm", threads=1
    ),
    "resnet10": _plain(
        resnet10, 3, 8, "ResNet-10 with a CIFAR stem, 4.9 million parameters: FedHEAL"
    ),
    "resnet10-gn": _plain(
        grouped(resnet10), 3, 8, "the same with GroupNorm in place of batch norm"
    ),
    "resnet18": _plain(
        headless("resnet18"),
        3,
        32,
        "torchvision's ResNet-18, 11.2 million parameters: FedISM+",
        published=DOWNLOADED,
    ),
    "resnet18-gn": _plain(
        grouped(headless("resnet18")), 3, 32, "the same with GroupNorm in place of batch norm"
    ),
    "resnet50": _plain(
        headless("resnet50"),
        3,
        32,
        "torchvision's ResNet-50, 23.5 million parameters",
        published=DOWNLOADED,
    ),
    "densenet121": _plain(
        headless("densenet121"),
        3,
        32,
        "torchvision's DenseNet-121, 7 million parameters",
        published=DOWNLOADED,
    ),
    "efficientnet-lite0": _lite(
        "efficientnet-lite0", "timm's EfficientNet-Lite 0, 3.4 million parameters"
    ),
    "efficientnet-lite1": _lite(
        "efficientnet-lite1", "timm's EfficientNet-Lite 1, 4.1 million parameters"
    ),
    "efficientnet-lite2": _lite(
        "efficientnet-lite2", "timm's EfficientNet-Lite 2, 4.8 million parameters"
    ),
    "clip-vit-b16": _clip(
        "clip-vit-b16",
        "CLIP's ViT-B/16, 86.2 million parameters and a text tower: FairLoRA",
        published=OPENAI,
    ),
    "clip-rn50": _clip(
        "clip-rn50",
        "CLIP's ResNet-50, 38.3 million parameters and a text tower: FairLoRA",
        published=OPENAI,
    ),
    "clip-tiny": _clip(
        "clip-tiny", "the same transformer, tiny and random: for laptops and tests", threads=1
    ),
    "clip-tiny-rn": _clip(
        "clip-tiny-rn", "the same ResNet, tiny and random: for laptops and tests", threads=1
    ),
}


def describe(name: str) -> Model:
    """Instructions to build a network: one of MODELS, or of outside.py. Raises UsageError."""
    if name in MODELS:
        return MODELS[name]
    if make := outside.make_of(name):
        return Model(make, outside.channels(name))
    hint = nearest(name, [*MODELS, *extensions.packages("models")])
    what = f"unknown model {name!r}"
    raise UsageError(
        what, f"{hint}; or torchvision:NAME, timm:NAME, open_clip:NAME, ./net.py:build"
    )


def input_channels(name: str, channels: int) -> int:
    """The number of channels a model is fed when the images have this many. Raises UsageError where they do not fit."""
    fixed = describe(name).channels
    if fixed and channels not in (1, fixed):
        what = f"{name} needs {fixed} channels, these images have {channels}"
        raise UsageError(what, "use --model cnn, or a CLIP model")
    return fixed or channels


def build(
    name: str,
    inputs: Inputs,
    *,
    seed: int,
    weights: str | None = None,
    precision: str = "fp32",
    teacher: nn.Module | None = None,
    freeze: bool = False,
    extend: Callable[[Network], None] = lambda net: None,
) -> Network:
    """Build a network with seeded weights, or with a backbone from `weights`.

    weights: None, "imagenet" or a file, see load_weights().
    teacher: a frozen network beside it, see load_teacher().
    freeze: train the head alone.
    extend: what a method adds, see methods.contract.Local.extend().
    """
    model = describe(name)
    if inputs.size < model.smallest:
        what = f"{name} needs images of at least {model.smallest} pixels, these have {inputs.size}"
        raise FedcliError(what, "prepare with a larger --size, or use --model cnn")
    with torch.random.fork_rng(devices=[]):
        seed_torch(derive("init", seed))
        net = model.make(replace(inputs, precision=precision))
    net.channels, net.side = inputs.channels, inputs.size
    net.class_names, net.attributes = list(inputs.names), inputs.attributes
    if weights:
        model.load(net, name, weights)
    net.start, net.teacher = weights, teacher
    if freeze:
        net.backbone.requires_grad_(False)
    with torch.random.fork_rng(devices=[]):
        seed_torch(derive("extend", seed))
        extend(net)
    make_lone_safe(net)
    return net
