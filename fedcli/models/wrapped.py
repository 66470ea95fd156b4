"""A network from outside the package behind features() and a linear head, fed as it was made to
be.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..data.transforms import IMAGENET_MEAN, IMAGENET_STD
from ..errors import FedcliError, UsageError
from ..provenance import words_of
from .network import Inputs, Network, exchange, in_pixels, normalised, still


@dataclass(frozen=True)
class Fed:
    """The form in which a network wants its images."""

    side: int = 0  # the only one that it takes, in pixels; 0 takes any
    mean: tuple[float, ...] = ()  # of its own normalisation of colours; empty for fedcli's
    std: tuple[float, ...] = ()


class Prepared(Network):
    """Brings every image to the size and the normalisation that its backbone takes."""

    def __init__(
        self,
        backbone: nn.Module,
        width: int,
        classes: int,
        precision: str,
        fed: Fed,
    ):
        super().__init__(backbone, width, classes, precision)
        self.fed = fed
        self.resized = fed.side

    def extra_repr(self) -> str:
        return repr(self.fed)

    def features(self, x: Tensor) -> Tensor:
        side = self.fed.side
        if side:
            x = F.interpolate(
                x,
                (side, side),
                mode="bilinear",
                align_corners=False,
            )
        if self.fed.mean:
            x = normalised(in_pixels(x), self.fed.mean, self.fed.std)
        return super().features(x)


ANY = Fed()


def behind(
    name: str,
    net: nn.Module,
    inputs: Inputs,
    fed: Fed = ANY,
    *,
    whole: bool = True,
) -> Network:
    """A network behind features() and a head. whole: its last layer is the classifier, which is
    taken off.

    Raises UsageError where it has no such layer or no features [B, width], FedcliError where it
    cannot take the images.
    """
    black = torch.zeros(2, inputs.channels, *[fed.side or inputs.size] * 2)
    if whole:
        _behead(name, net, inputs.classes, black)
    width = _width(name, net, black)
    fed = _for_channels(fed, inputs.channels)
    if fed == ANY:
        return Network(net, width, inputs.classes, inputs.precision)
    return Prepared(net, width, inputs.classes, inputs.precision, fed)


def _for_channels(fed: Fed, channels: int) -> Fed:
    """The form for images of so many channels, without a normalisation that fedcli's own images
    have already.
    """
    if channels == 1 and fed.mean:
        grey = Fed(fed.side, _mean(fed.mean), _mean(fed.std))
        usual = Fed(fed.side, _mean(IMAGENET_MEAN), _mean(IMAGENET_STD))
        return Fed(fed.side) if grey == usual else grey
    if channels == 3 and (fed.mean, fed.std) != (IMAGENET_MEAN, IMAGENET_STD):
        return fed
    return Fed(fed.side)


def _mean(of_colours: tuple[float, ...]) -> tuple[float]:
    return (sum(of_colours) / len(of_colours),)


def _behead(name: str, net: nn.Module, classes: int, black: Tensor) -> None:
    """Put nothing in the place of the layer that runs last, which has an output for each class."""
    layers: dict[nn.Module, str] = {}
    for path, layer in net.named_modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            layers[layer] = path
    last = None
    if any(path and _outputs(layer) == classes for layer, path in layers.items()):
        last = _last_that_runs(name, net, list(layers), classes, black)
    if last is None or not layers[last] or _outputs(last) != classes:
        sentence = f"{name} has no last layer of {classes} outputs that could be the classifier"
        hint = "return a backbone and the width of its features: (backbone, width)"
        raise UsageError(sentence, hint)
    exchange(net, layers[last], nn.Identity())


def _last_that_runs(
    name: str,
    net: nn.Module,
    layers: list[nn.Module],
    classes: int,
    black: Tensor,
) -> nn.Module | None:
    """The last of the layers that an image goes through; None where the network's output is not [2,
    classes].
    """
    ran: list[nn.Module] = []
    hooks = [layer.register_forward_hook(lambda layer, *_: ran.append(layer)) for layer in layers]
    output = _output(name, net, black)
    for hook in hooks:
        hook.remove()
    if ran and isinstance(output, Tensor) and output.shape == (2, classes):
        return ran[-1]
    return None


def _outputs(module: nn.Module) -> int:
    if isinstance(module, nn.Linear):
        return module.out_features
    if isinstance(module, nn.Conv2d) and module.kernel_size == (1, 1):
        return module.out_channels
    return 0


def _width(name: str, backbone: nn.Module, black: Tensor) -> int:
    """The number of features that a backbone makes of an image."""
    features = _output(name, backbone, black)
    if isinstance(features, Tensor) and features.ndim == 2 and len(features) == 2:
        return features.shape[1]
    shape = list(features.shape) if isinstance(features, Tensor) else type(features).__name__
    sentence = f"the backbone of {name} makes {shape} of two images"
    raise UsageError(sentence, "it must make a tensor [2, width]")


def _output(name: str, net: nn.Module, black: Tensor) -> Any:
    """The output of a network for black images. Raises FedcliError where it cannot take such
    images.
    """
    try:
        with still(net):
            return net(black)
    except (RuntimeError, ValueError, AssertionError) as error:
        size = " x ".join(map(str, black.shape[1:]))
        hint = f"it said: {words_of(error)}; prepare with a larger --size, or other channels"
        raise FedcliError(f"{name} cannot take images of {size}", hint) from error
