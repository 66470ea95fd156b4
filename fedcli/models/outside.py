"""Networks from outside the package, each behind features() and a linear head.

    torchvision:NAME    any classifier of torchvision, such as torchvision:convnext_tiny
    timm:NAME           any network of timm, which is installed with fedcli[timm], see libraries.py
    open_clip:NAME      the image tower of any CLIP of open_clip, which is installed with fedcli[clip]
    ./net.py:build      a function build(channels, classes), or build(channels, classes, size), of a file; it is given
                        them by these names, or, where its own differ, in this order

Such a function returns a backbone and the width of its features, or a whole classifier: its last layer of `classes`
outputs is then taken off and a linear head put in its place, as it is for torchvision's.
"""

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from .. import extensions
from ..errors import UsageError, nearest
from ..provenance import Code, version_of
from . import libraries
from .libraries import revision as revision
from .network import Inputs, Network
from .wrapped import Fed, behind

TORCHVISION = "torchvision:"
FIXED = {
    "vit_": 224,
    "maxvit": 224,
}  # beginnings of torchvision's names -> the only side that these networks take
LIBRARIES = {
    libraries.TIMM: "timm",
    libraries.OPEN_CLIP: "open_clip_torch",
}  # beginning of a name -> package
NO_AUXILIARY = {
    "googlenet": {"init_weights": True},
    "inception_v3": {"init_weights": True},
}  # heads used in training
Make = Callable[[Inputs], Network]


def channels(name: str) -> int:
    """Channels that a network must be fed; 0 takes the images' own."""
    return 3 if name.startswith((TORCHVISION, libraries.OPEN_CLIP)) else 0


def make_of(name: str) -> Make | None:
    """A function that builds a network of this name; None for one that is not from outside.

    Raises FedcliError, UsageError.
    """
    if name.startswith(TORCHVISION):
        return _torchvision(name.removeprefix(TORCHVISION))
    if name.startswith(tuple(LIBRARIES)):
        libraries.check(name)
        return partial(libraries.make, name)
    if extensions.is_file(name):
        return _by(name, extensions.function(name, "models", "build")[0])
    offered = extensions.offered("models", name)
    return _by(name, offered[0]) if offered else None


def code_of(name: str) -> tuple[str, Code] | None:
    """A network's name without its place, and where its code comes from; None for fedcli's own and torchvision's."""
    if package := next((LIBRARIES[begin] for begin in LIBRARIES if name.startswith(begin)), ""):
        libraries.check(name)
        return name, Code(package, version=version_of(package))
    if extensions.is_file(name):
        function, code = extensions.function(name, "models", "build")
        return f"{code.name}:{function.__name__}", code
    offered = extensions.offered("models", name) if ":" not in name else None
    return (name, offered[1]) if offered else None


def titled(name: str) -> str:
    """A network's name as records say it, without the place of a file."""
    own = code_of(name)
    return own[0] if own else name


def pinned(name: str, revision: str) -> str:
    """The name of a network of the hub with its commit; any other as it is."""
    return f"{name.partition('@')[0]}@{revision}" if revision else name


def published(name: str) -> dict[str, Tensor] | Path | None:
    """Published weights of a network by tensor name, or a file of them; None where nobody publishes any that fedcli
    knows of.

    Raises OSError where they cannot be downloaded.
    """
    if name.startswith(TORCHVISION):
        import torchvision.models as zoo

        known = list(zoo.get_model_weights(name.removeprefix(TORCHVISION)))
        first = next(
            (weights for weights in known if weights.name == "IMAGENET1K_V1"),
            next(iter(known), None),
        )
        return first.get_state_dict(progress=False, check_hash=True) if first else None
    return libraries.published(name) if name.startswith(tuple(LIBRARIES)) else None


def _torchvision(name: str) -> Make:
    import torchvision.models as zoo

    if name not in (known := zoo.list_models(zoo)):
        raise UsageError(f"torchvision has no classifier {name!r}", nearest(name, known, known[:8]))

    def make(inputs: Inputs) -> Network:
        more: dict[str, Any] = NO_AUXILIARY.get(name, {})
        net = zoo.get_model(name, weights=None, num_classes=inputs.classes, **more)
        if hasattr(net, "aux_logits"):
            net.aux_logits = False
            net.AuxLogits = net.aux1 = net.aux2 = None
        side = next((side for begin, side in FIXED.items() if name.startswith(begin)), 0)
        return behind(f"{TORCHVISION}{name}", net, inputs, Fed(side))

    return make


def _by(name: str, build: Callable[..., Any]) -> Make:
    """Of somebody's function."""

    def make(inputs: Inputs) -> Network:
        named = {
            n
            for n, p in inspect.signature(build).parameters.items()
            if p.kind is not p.POSITIONAL_ONLY
        }
        given = {
            name: getattr(inputs, name) for name in ("channels", "classes", "size") if name in named
        }
        plain = () if {"channels", "classes"} <= given.keys() else (inputs.channels, inputs.classes)
        made = build(
            *plain, **{name: value for name, value in given.items() if name == "size" or not plain}
        )
        if isinstance(made, Network):
            return made
        if isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], nn.Module):
            return behind(name, made[0], inputs, whole=False)
        if isinstance(made, nn.Module):
            return behind(name, made, inputs)
        what = type(made).__name__
        raise UsageError(
            f"{name} returns a {what}, not a network",
            "return an nn.Module, or a backbone and its width",
        )

    return make
