"""A network from outside the package behind features() and a linear head, fed as it was made to be."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..data.transforms import IMAGENET_MEAN, IMAGENET_STD
from ..errors import FedcliError, UsageError
from ..provenance import LONG
from .network import Inputs, Network, exchange, in_pixels, normalised, still


@dataclass(frozen=True)
class Fed:
    """The form in which a network wants its images."""

    side: int = 0  # the only one that it takes, in pixels; 0 takes any
    mean: tuple[float, ...] = ()  # of its own normalisation of colours; empty for fedcli's
    std: tuple[float, ...] = ()


class Prepared(Network):
    """Brings every image to the size and the normalisation that its backbone takes."""

    def __init__(self, backbone: nn.Module, width: int, classes: int, precision: str, fed: Fed):
        super().__init__(backbone, width, classes, precision)
        self.fed, self.resized = fed, fed.side

    def extra_repr(self) -> str:
        return repr(self.fed)

    def features(self, x: Tensor) -> Tensor:
        side = self.fed.side
        if side:
            x = F.interpolate(x, (side, side), mode="bilinear", align_corners=False)
        if self.fed.mean:
            x = normalised(in_pixels(x), self.fed.mean, self.fed.std)
        return super().features(x)


def behind(
    name: str, net: nn.Module, inputs: Inputs, fed: Fed = Fed(), *, whole: bool = True
) -> Network:  # noqa: B008
    """A network behind features() and a head. whole: its last layer is the classifier, which is taken off."""
    if whole:
        _behead(name, net, inputs, fed.side or inputs.size)
    width = _width(name, net, inputs.channels, fed.side or inputs.size)
    fed = _for_channels(fed, inputs.channels)
    if fed == Fed():
        return Network(net, width, inputs.classes, inputs.precision)
    return Prepared(net, width, inputs.classes, inputs.precision, fed)


def _for_channels(fed: Fed, channels: int) -> Fed:
    """The form for images of so many channels, without a normalisation that fedcli's own images have already."""
    if channels == 1 and fed.mean:
        grey = _mean(fed.mean), _mean(fed.std)
        usual = _mean(IMAGENET_MEAN), _mean(IMAGENET_STD)
        return Fed(fed.side) if grey == usual else Fed(fed.side, *grey)
    if channels != 3 or (fed.mean, fed.std) == (IMAGENET_MEAN, IMAGENET_STD):
        return Fed(fed.side)
    return fed


def _mean(of_colours: tuple[float, ...]) -> tuple[float]:
    return (sum(of_colours) / len(of_colours),)


def _behead(name: str, net: nn.Module, inputs: Inputs, size: int) -> None:
    """Put nothing in the place of the layer that runs last, which has an output for each class."""
    found = net.named_modules()
    layers: dict[nn.Module, str] = {
        layer: place for place, layer in found if isinstance(layer, nn.Linear | nn.Conv2d)
    }
    last = None
    if any(place and _outputs(layer) == inputs.classes for layer, place in layers.items()):
        last = _last_that_runs(name, net, list(layers), inputs, size)
    if last is None or not layers[last] or _outputs(last) != inputs.classes:
        hint = "return a backbone and the width of its features: (backbone, width)"
        raise UsageError(
            f"{name} has no last layer of {inputs.classes} outputs that could be the classifier",
            hint,
        )
    exchange(net, layers[last], nn.Identity())


def _last_that_runs(
    name: str, net: nn.Module, layers: list[nn.Module], inputs: Inputs, size: int
) -> nn.Module | None:
    """The last of the layers that an image goes through; None where the network's output is not [2, classes]."""
    ran: list[nn.Module] = []
    hooks = [layer.register_forward_hook(lambda layer, *_: ran.append(layer)) for layer in layers]
    made = _of_two_black_images(name, net, inputs.channels, size)
    for hook in hooks:
        hook.remove()
    return (
        ran[-1] if ran and isinstance(made, Tensor) and made.shape == (2, inputs.classes) else None
    )


def _outputs(module: nn.Module) -> int:
    if isinstance(module, nn.Linear):
        return module.out_features
    return (
        module.out_channels if isinstance(module, nn.Conv2d) and module.kernel_size == (1, 1) else 0
    )


def _width(name: str, backbone: nn.Module, channels: int, size: int) -> int:
    """The number of features a backbone makes of an image, by showing it two black ones."""
    features = _of_two_black_images(name, backbone, channels, size)
    if not isinstance(features, Tensor) or features.ndim != 2 or len(features) != 2:
        shape = list(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise UsageError(
            f"the backbone of {name} makes {shape} of two images",
            "it must make a tensor [2, width]",
        )
    return features.shape[1]


def _of_two_black_images(name: str, net: nn.Module, channels: int, size: int) -> Any:
    """Outputs of a network for them. Raises FedcliError where it cannot take such images."""
    try:
        with still(net):
            return net(torch.zeros(2, channels, size, size))
    except (RuntimeError, ValueError, AssertionError) as error:
        message = " ".join(str(error).split())[:LONG]
        hint = f"it said: {message}; prepare with a larger --size, or other channels"
        raise FedcliError(
            f"{name} cannot take images of {channels} x {size} x {size}", hint
        ) from error
