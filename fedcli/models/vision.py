"""torchvision's networks without their classifier; importing torchvision takes a second, so only where it is used."""

from collections.abc import Callable
from typing import Any

from torch import nn

IMAGENET = "resnet18", "resnet50", "densenet121"
CLASSIFIERS = "fc", "classifier"


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
