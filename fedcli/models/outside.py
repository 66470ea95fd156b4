"""Networks from outside the package, each behind features() and a linear head.

    torchvision:NAME    any classifier of torchvision, such as torchvision:convnext_tiny
    timm:NAME           any network of timm, which is installed with fedcli[timm], see libraries.py
    open_clip:NAME      the image tower of any CLIP of open_clip, which is installed with
                        fedcli[clip]
    ./net.py:build      a function build(channels, classes), or build(channels, classes, size), of
                        a file; it is given them by these names, or, where its own differ, in this
                        order

Such a function returns a backbone and the width of its features, or a whole classifier: its last
layer of `classes` outputs is then taken off and a linear head put in its place, as it is for
torchvision's.
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
from .network import Inputs, Make, Network
from .wrapped import Fed, behind

TORCHVISION = "torchvision:"
# beginnings of torchvision's names -> the only side that these networks take, in pixels
FIXED = {"vit_": 224, "maxvit": 224}
# beginning of a name -> package
LIBRARIES = {libraries.TIMM: "timm", libraries.OPEN_CLIP: "open_clip_torch"}
# networks with heads that are used in training alone
NO_AUXILIARY = {"googlenet": {"init_weights": True}, "inception_v3": {"init_weights": True}}


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
    function = _function(name)
    return partial(_by, name, function[0]) if function else None


def _function(name: str) -> tuple[Callable[..., Any], Code] | None:
    """Somebody's function for a network, and where it comes from. Raises FedcliError,
    UsageError.
    """
    if extensions.is_file(name):
        return extensions.function(name, "models", "build")
    return extensions.offered("models", name)


def code_of(name: str) -> tuple[str, Code] | None:
    """A network's name without its place, and where its code comes from; None for fedcli's own and
    torchvision's.

    Raises FedcliError, UsageError.
    """
    if name.startswith(tuple(LIBRARIES)):
        libraries.check(name)
        package = LIBRARIES[libraries.library_of(name)]
        return name, Code(package, version=version_of(package))
    is_file = extensions.is_file(name)
    function = _function(name) if is_file or ":" not in name else None
    if function is None:
        return None
    build, code = function
    return f"{code.name}:{build.__name__}" if is_file else name, code


def titled(name: str) -> str:
    """A network's name as records say it, without the place of a file."""
    source = code_of(name)
    return source[0] if source else name


def pinned(name: str, revision: str) -> str:
    """The name of a network of the hub with its commit; any other as it is."""
    return f"{name.partition('@')[0]}@{revision}" if revision else name


def published(name: str) -> dict[str, Tensor] | Path | None:
    """Published weights of a network by tensor name, or a file of them; None where fedcli knows of
    none.

    Raises OSError where they cannot be downloaded.
    """
    if name.startswith(tuple(LIBRARIES)):
        return libraries.published(name)
    if not name.startswith(TORCHVISION):
        return None
    import torchvision.models as zoo

    versions = list(zoo.get_model_weights(name.removeprefix(TORCHVISION)))
    if not versions:
        return None
    names = [entry.name for entry in versions]
    version = names.index("IMAGENET1K_V1") if "IMAGENET1K_V1" in names else 0
    return versions[version].get_state_dict(progress=False, check_hash=True)


def _torchvision(name: str) -> Make:
    import torchvision.models as zoo

    names = zoo.list_models(zoo)
    if name not in names:
        raise UsageError(f"torchvision has no classifier {name!r}", nearest(name, names, names[:8]))

    def make(inputs: Inputs) -> Network:
        training_heads: dict[str, Any] = NO_AUXILIARY.get(name, {})
        net = zoo.get_model(
            name,
            weights=None,
            num_classes=inputs.classes,
            **training_heads,
        )
        if hasattr(net, "aux_logits"):
            net.aux_logits = False
            net.AuxLogits = net.aux1 = net.aux2 = None
        side = 0
        for beginning, only_side in FIXED.items():
            if name.startswith(beginning):
                side = only_side
        return behind(f"{TORCHVISION}{name}", net, inputs, Fed(side))

    return make


def _by(name: str, build: Callable[..., Any], inputs: Inputs) -> Network:
    """The network of somebody's function. Raises UsageError for what is none."""
    net = _called(build, inputs)
    if isinstance(net, Network):
        return net
    if isinstance(net, nn.Module):
        return behind(name, net, inputs)
    if isinstance(net, tuple) and len(net) == 2 and isinstance(net[0], nn.Module):
        return behind(name, net[0], inputs, whole=False)
    sentence = f"{name} returns a {type(net).__name__}, not a network"
    raise UsageError(sentence, "return an nn.Module, or a backbone and its width")


def _called(build: Callable[..., Any], inputs: Inputs) -> Any:
    """The result of somebody's function, which gets channels and classes by name, or else in this
    order.
    """
    names = set()
    for parameter in inspect.signature(build).parameters.values():
        if parameter.kind is not parameter.POSITIONAL_ONLY:
            names.add(parameter.name)
    size = {"size": inputs.size} if "size" in names else {}
    if {"channels", "classes"} <= names:
        return build(channels=inputs.channels, classes=inputs.classes, **size)
    return build(inputs.channels, inputs.classes, **size)
