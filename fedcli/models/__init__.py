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
from . import clip, lite, outside
from .backbones import Backbone, grouped, headless, resnet10, small_cnn
from .network import Inputs, Make, Network, make_lone_safe
from .network import frozen_parts as frozen_parts
from .teacher import AbsentTeacher as AbsentTeacher
from .teacher import load_teacher as load_teacher
from .weights import load_weights

DOWNLOADED = "--weights imagenet is downloaded"
INSTALLED = "--weights imagenet comes with fedcli[imagenet]"
OPENAI = "--weights openai is downloaded"
WITH_GROUP_NORM = "the same with GroupNorm instead of batch norm"


@dataclass(frozen=True)
class Model:
    """Instructions to build a network."""

    make: Make  # with random weights
    about: str = ""  # one line for people
    channels: int = 0  # what it must be fed; 0 takes the images' own
    smallest: int = 8  # side of the smallest image it can take, in pixels
    # CPU threads it trains best on, 0: torch's choice. Short steps lose more by waiting than two
    # threads gain
    threads: int = 0
    published: str = ""  # a sentence on --weights WORD where weights are published with it
    # puts in starting weights, by names of network and weights
    load: Callable[[Any, str, str], None] = load_weights
    # for methods: "clip" for an image and a text tower, "" for a backbone under a linear head
    kind: str = ""


def _plain(backbone: Backbone, inputs: Inputs) -> Network:
    return Network(*backbone(inputs.channels), inputs.classes, inputs.precision)


MODELS: dict[str, Model] = {}


def _add(name: str, backbone: Backbone, summary: str, **facts: Any) -> None:
    MODELS[name] = Model(partial(_plain, backbone), summary, **facts)


def _add_torchvisions(name: str, summary: str) -> None:
    _add(
        name,
        headless(name),
        summary,
        channels=3,
        smallest=32,
        published=DOWNLOADED,
    )


def _add_lite(name: str, summary: str) -> None:
    MODELS[name] = Model(
        partial(lite.make, name),
        summary,
        3,
        32,
        published=INSTALLED,
    )


def _add_clip(name: str, summary: str, **facts: Any) -> None:
    MODELS[name] = Model(
        partial(clip.make, name),
        summary,
        load=clip.load_clip,
        kind="clip",
        **facts,
    )


_add(
    "cnn",
    small_cnn,
    "three convolutions, 24 thousand parameters: for laptops and tests",
    threads=1,
)
_add("cnn-gn", grouped(small_cnn), WITH_GROUP_NORM, threads=1)
_add(
    "resnet10",
    resnet10,
    "ResNet-10 with a CIFAR stem, 4.9 million parameters: FedHEAL",
    channels=3,
)
_add("resnet10-gn", grouped(resnet10), WITH_GROUP_NORM, channels=3)
_add_torchvisions("resnet18", "torchvision's ResNet-18, 11.2 million parameters: FedISM+")
_add(
    "resnet18-gn",
    grouped(headless("resnet18")),
    WITH_GROUP_NORM,
    channels=3,
    smallest=32,
)
_add_torchvisions("resnet50", "torchvision's ResNet-50, 23.5 million parameters")
_add_torchvisions("densenet121", "torchvision's DenseNet-121, 7 million parameters")
_add_lite("efficientnet-lite0", "timm's EfficientNet-Lite 0, 3.4 million parameters")
_add_lite("efficientnet-lite1", "timm's EfficientNet-Lite 1, 4.1 million parameters")
_add_lite("efficientnet-lite2", "timm's EfficientNet-Lite 2, 4.8 million parameters")
_add_clip(
    "clip-vit-b16",
    "CLIP's ViT-B/16, 86.2 million parameters and a text tower: FairLoRA",
    published=OPENAI,
)
_add_clip(
    "clip-rn50",
    "CLIP's ResNet-50, 38.3 million parameters and a text tower: FairLoRA",
    published=OPENAI,
)
_add_clip(
    "clip-tiny",
    "the same transformer, tiny and random: for laptops and tests",
    threads=1,
)
_add_clip(
    "clip-tiny-rn",
    "the same ResNet, tiny and random: for laptops and tests",
    threads=1,
)


def describe(name: str) -> Model:
    """Instructions to build a network: one of MODELS, or of outside.py. Raises UsageError."""
    if name in MODELS:
        return MODELS[name]
    make = outside.make_of(name)
    if make:
        return Model(make, channels=outside.channels(name))
    hint = nearest(name, [*MODELS, *extensions.packages("models")])
    others = "torchvision:NAME, timm:NAME, open_clip:NAME, ./net.py:build"
    raise UsageError(f"unknown model {name!r}", f"{hint}; or {others}")


def input_channels(name: str, channels: int) -> int:
    """The number of channels a model is fed when the images have this many.

    Raises UsageError where they do not fit.
    """
    fixed = describe(name).channels
    if fixed and channels not in (1, fixed):
        sentence = f"{name} needs {fixed} channels, these images have {channels}"
        raise UsageError(sentence, "use --model cnn, or a CLIP model")
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
    """A network with seeded weights, or with a backbone from `weights`.

    weights: None, "imagenet" or a file, see load_weights().
    teacher: a frozen network beside it, see load_teacher().
    freeze: train the head alone.
    extend: what a method adds, see methods.contract.Local.extend().
    Raises FedcliError where the images are too small or the weights cannot be used, UsageError.
    """
    model = describe(name)
    if inputs.size < model.smallest:
        smallest = f"{name} needs images of at least {model.smallest} pixels"
        sentence = f"{smallest}, these have {inputs.size}"
        raise FedcliError(sentence, "prepare with a larger --size, or use --model cnn")
    with torch.random.fork_rng(devices=[]):
        seed_torch(derive("init", seed))
        net = model.make(replace(inputs, precision=precision))
    net.channels = inputs.channels
    net.side = inputs.size
    net.class_names = list(inputs.names)
    net.attributes = inputs.attributes
    if weights:
        model.load(net, name, weights)
    net.start = weights
    net.teacher = teacher
    if freeze:
        net.backbone.requires_grad_(False)
    with torch.random.fork_rng(devices=[]):
        seed_torch(derive("extend", seed))
        extend(net)
    make_lone_safe(net)
    return net
