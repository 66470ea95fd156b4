"""Networks from outside the package, each behind features() and a linear head.

    torchvision:NAME    any classifier of torchvision, such as torchvision:convnext_tiny
    timm:NAME           any network of timm, which is installed with fedcli[timm]
    ./net.py:build      a function build(channels, classes), or build(channels, classes, size), of a file

Such a function returns a backbone and the width of its features, or a whole classifier: its last layer of `classes`
outputs is then taken off and a linear head put in its place, as it is for the other two.
"""

import inspect
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .. import extensions
from ..errors import FedcliError, UsageError, nearest
from ..extensions import Code
from .network import Network

TORCHVISION, TIMM = "torchvision:", "timm:"
FIXED = {"vit_": 224, "maxvit": 224}  # beginnings of torchvision's names -> the only side that these networks take
NO_AUXILIARY = {"googlenet": {"init_weights": True}, "inception_v3": {"init_weights": True}}  # heads used in training
Make = Callable[[int, int, int, str], Network]  # channels, classes, size, precision


class Resizing(Network):
    """Enlarges or shrinks every image to the one size that its backbone takes."""

    def __init__(self, backbone: nn.Module, width: int, classes: int, precision: str, side: int):
        super().__init__(backbone, width, classes, precision)
        self.needed = side

    def features(self, x: Tensor) -> Tensor:
        return super().features(F.interpolate(x, (self.needed, self.needed), mode="bilinear", align_corners=False))


def is_outside(name: str) -> bool:
    return name.startswith((TORCHVISION, TIMM)) or extensions.is_file(name) or name in extensions.installed("models")


def channels(name: str) -> int:
    """What a network must be fed; 0 takes the images' own."""
    return 3 if name.startswith(TORCHVISION) else 0


def make_of(name: str) -> Make:
    """How to build a network by its name. Raises FedcliError, UsageError."""
    if name.startswith(TORCHVISION):
        return _torchvision(name.removeprefix(TORCHVISION))
    if name.startswith(TIMM):
        return _timm(name.removeprefix(TIMM))
    if extensions.is_file(name):
        return _by(name, extensions.function(name, "models", "build")[0])
    return _by(name, extensions.installed("models")[name][0])


def code_of(name: str) -> tuple[str, Code] | None:
    """A network's name without its place, and where its code comes from; None for fedcli's own and torchvision's."""
    if name.startswith(TIMM):
        return name, Code("timm", version=timm().__version__)
    if extensions.is_file(name):
        function, code = extensions.function(name, "models", "build")
        return f"{code.name}:{function.__name__}", code
    return (name, extensions.installed("models")[name][1]) if is_outside(name) and ":" not in name else None


def titled(name: str) -> str:
    """A network's name as records say it, without the place of a file."""
    own = code_of(name) if is_outside(name) else None
    return own[0] if own else name


def timm() -> Any:
    """The library, which an extra brings. Raises UsageError where it is not installed."""
    try:
        import timm as library
    except ImportError:
        raise UsageError("--model timm:NAME needs the package timm", "pip install 'fedcli[timm]'") from None
    return library


def pretrained(name: str) -> dict[str, Tensor] | None:
    """Published weights of a network by tensor name; None where nobody publishes any that fedcli knows of.

    Raises OSError where they cannot be downloaded.
    """
    if name.startswith(TORCHVISION):
        import torchvision.models as zoo

        known = list(zoo.get_model_weights(name.removeprefix(TORCHVISION)))
        first = next((weights for weights in known if weights.name == "IMAGENET1K_V1"), next(iter(known), None))
        return first.get_state_dict(progress=False, check_hash=True) if first else None
    if name.startswith(TIMM):
        return timm().create_model(name.removeprefix(TIMM), pretrained=True, num_classes=0).state_dict()
    return None


def _torchvision(name: str) -> Make:
    import torchvision.models as zoo

    if name not in (known := zoo.list_models(zoo)):
        raise UsageError(f"torchvision has no classifier {name!r}", nearest(name, known, known[:8]))

    def make(channels: int, classes: int, size: int, precision: str) -> Network:
        more: dict[str, Any] = NO_AUXILIARY.get(name, {})
        net = zoo.get_model(name, weights=None, num_classes=classes, **more)
        if hasattr(net, "aux_logits"):
            net.aux_logits = False
            net.AuxLogits = net.aux1 = net.aux2 = None
        side = next((side for begin, side in FIXED.items() if name.startswith(begin)), 0)
        return _behind(f"{TORCHVISION}{name}", net, (channels, classes, size, precision), side)

    return make


def _timm(name: str) -> Make:
    library = timm()
    if not name.startswith(("hf-hub:", "hf_hub:")) and not library.is_model(name.partition(".")[0]):
        raise UsageError(
            f"timm has no network {name!r}", nearest(name, library.list_models(), ("see timm.list_models()",))
        )

    def make(channels: int, classes: int, size: int, precision: str) -> Network:
        net = library.create_model(name, num_classes=0, in_chans=channels)
        side = net.default_cfg["input_size"][-1] if net.default_cfg.get("fixed_input_size") else 0
        return _behind(f"{TIMM}{name}", net, (channels, classes, size, precision), side, whole=False)

    return make


def _by(name: str, build: Callable[..., Any]) -> Make:
    """Of somebody's function."""

    def make(channels: int, classes: int, size: int, precision: str) -> Network:
        sized = {"size": size} if "size" in inspect.signature(build).parameters else {}
        made = build(channels, classes, **sized)
        if isinstance(made, Network):
            return made
        if isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], nn.Module):
            return _behind(name, made[0], (channels, classes, size, precision), 0, whole=False)
        if isinstance(made, nn.Module):
            return _behind(name, made, (channels, classes, size, precision), 0)
        what = type(made).__name__
        raise UsageError(f"{name} returns a {what}, not a network", "return an nn.Module, or a backbone and its width")

    return make


def _behind(name: str, net: nn.Module, asked: tuple[int, int, int, str], side: int, *, whole: bool = True) -> Network:
    """A network behind features() and a head. whole: its last layer is the classifier, which is taken off."""
    channels, classes, size, precision = asked
    if whole:
        _behead(name, net, classes)
    width = _width(name, net, channels, side or size)
    return Resizing(net, width, classes, precision, side) if side else Network(net, width, classes, precision)


def _behead(name: str, net: nn.Module, classes: int) -> None:
    """Put nothing in the place of the last layer that has an output for each class."""
    layers = [place for place, module in net.named_modules() if _outputs(module) == classes]
    if not layers or layers[-1] == "":
        hint = "return a backbone and the width of its features: (backbone, width)"
        raise UsageError(f"{name} has no last layer of {classes} outputs that could be the classifier", hint)
    above, _, own = layers[-1].rpartition(".")
    setattr(net.get_submodule(above), own, nn.Identity())


def _outputs(module: nn.Module) -> int:
    if isinstance(module, nn.Linear):
        return module.out_features
    return module.out_channels if isinstance(module, nn.Conv2d) and module.kernel_size == (1, 1) else 0


@torch.no_grad()
def _width(name: str, backbone: nn.Module, channels: int, size: int) -> int:
    """How many features a backbone makes of an image, by showing it two black ones."""
    modes = {module: module.training for module in backbone.modules()}
    try:
        features = backbone.eval()(torch.zeros(2, channels, size, size))
    except (RuntimeError, ValueError, AssertionError) as error:
        said = " ".join(str(error).split())[: extensions.LONG]
        hint = f"it said: {said}; prepare with a larger --size, or other channels"
        raise FedcliError(f"{name} cannot take images of {channels} x {size} x {size}", hint) from error
    for module, training in modes.items():
        module.training = training
    if not isinstance(features, Tensor) or features.ndim != 2 or len(features) != 2:
        shape = list(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise UsageError(f"the backbone of {name} makes {shape} of two images", "it must make a tensor [2, width]")
    return features.shape[1]
