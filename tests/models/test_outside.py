"""Networks from outside: torchvision's zoo, timm, and a function in a file."""

import pytest
import torch
from own_files import written
from torch import nn
from torch.testing import assert_close

from fedcli import models
from fedcli.errors import FedcliError, UsageError
from fedcli.models import network, outside
from fedcli.models.layout import Layout
from fedcli.models.wrapped import Fed, Prepared

NET = '''
"""A small network of my own."""

from torch import nn


def build(channels, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64 * channels, 5), nn.ReLU(), nn.Linear(5, classes))


def split(channels, classes, size):
    return nn.Sequential(nn.Conv2d(channels, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()), 4


def wrong(channels, classes):
    return nn.Linear(7, 3)


class Bottleneck(nn.Module):
    """Its classifier stands first and runs last; a layer inside is as wide as there are classes."""

    def __init__(self, channels, classes, out):
        super().__init__()
        self.classifier = nn.Linear(6, out)
        self.inner = nn.Sequential(nn.Flatten(), nn.Linear(64 * channels, classes), nn.Linear(classes, 6))

    def forward(self, x):
        return self.classifier(self.inner(x))


def bottleneck(channels, classes):
    return Bottleneck(channels, classes, classes)


def features(channels, classes):
    return Bottleneck(channels, classes, 7)


def maps(channels, classes):
    return nn.Conv2d(channels, 4, 3), 4


def number(channels, classes):
    return 3


def broken(channels, classes):
    return channels.width
'''


def build(name, size=8, channels=3, classes=10, **rest):
    inputs = models.Inputs(channels, classes, size)
    return models.build(str(name), inputs, **{"seed": 0} | rest)


def holds(net, size=8, channels=3):
    """Two images' logits come from features() and a linear head."""
    x = torch.randn(2, channels, size, size)
    net.eval()
    assert net(x).shape == (2, 10)
    assert isinstance(net.head, nn.Linear)
    assert_close(net.head(net.features(x)), net(x))


# one of each way in which torchvision ends its classifiers, without numbers: shapes alone are worked out
@pytest.mark.parametrize(
    ("name", "width", "size"),
    [
        ("squeezenet1_1", 512, 32),
        ("mobilenet_v3_small", 1024, 32),
        ("shufflenet_v2_x0_5", 1024, 32),
        ("convnext_tiny", 768, 32),
        ("swin_t", 768, 32),
        ("vit_b_16", 768, 32),
        ("googlenet", 1024, 32),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_torchvisions_classifiers_lose_their_last_layer(name, width, size, monkeypatch):
    monkeypatch.setitem(
        outside.NO_AUXILIARY, name, {"init_weights": False} if name in outside.NO_AUXILIARY else {}
    )
    with torch.device("meta"):
        inputs = models.Inputs(3, 7, size)
        net = outside.make_of(f"torchvision:{name}")(inputs)
        assert net.head.in_features == width
        result = net(torch.zeros(2, 3, size, size)).shape
        assert result == (2, 7)
        result = net.train()(torch.zeros(2, 3, size, size)).shape
        assert result == (2, 7)


def test_a_network_of_torchvision_trains_and_is_seeded():
    net, again = (build("torchvision:mobilenet_v3_small", size=32) for _ in range(2))
    holds(net, size=32)
    assert torch.equal(Layout(net).flat, Layout(again).flat)
    net.train()(
        torch.randn(1, 3, 32, 32)
    ).sum().backward()  # one value per channel in its deep layers


def test_networks_of_one_size_get_images_in_it():
    net = Prepared(nn.Sequential(nn.Flatten(), nn.Linear(3 * 16, 5)), 5, 10, "fp32", Fed(4))
    holds(net, size=9)


def test_timm_by_name():
    pytest.importorskip("timm")
    net = build("timm:test_resnet", size=32, channels=2)
    holds(net, size=32, channels=2)
    net.train()(torch.randn(1, 2, 32, 32)).sum().backward()
    vit = build("timm:test_vit", size=16)  # made for 160 pixels
    holds(vit, size=16)
    name, code = outside.code_of("timm:test_vit")
    assert name == "timm:test_vit"
    assert code.recorded.keys() == {"package", "version"}


def test_a_library_that_is_not_there_is_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(UsageError, match="needs the package timm"):
        build("timm:resnet18")


def test_a_function_of_a_file_makes_a_network(tmp_path):
    path = written(tmp_path, NET, "net.py")
    net = build(path)
    holds(net)
    assert net.head.in_features == 5
    assert outside.titled(f"{path}") == "net.py:build"
    holds(build(f"{path}:split", channels=1), channels=1)
    net = build(f"{path}:bottleneck")
    holds(net)
    assert net.head.in_features == 6
    assert isinstance(net.backbone.classifier, nn.Identity)


@pytest.mark.parametrize(
    "head",
    [
        "channels, classes",
        "classes, channels=3, **_",
        "classes, *, size, channels",
        "c, n, /",
        "c, n, **_",
    ],
)
def test_a_function_is_given_its_arguments_by_name(tmp_path, head):
    parameters = "c, n" if head.startswith("c,") else "channels, classes"
    text = f"""
from torch import nn
def build({head}):
    inside, outside = {parameters}
    return nn.Sequential(nn.Conv2d(inside, 6, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, outside))
"""
    holds(build(written(tmp_path, text, "net.py")))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (":wrong", "has no last layer of 10 outputs that could be the classifier"),
        (":features", "has no last layer of 10 outputs that could be the classifier"),
        (":maps", r"makes \[2, 4, 6, 6\] of two images"),
        (":number", "returns a int, not a network"),
        (":bulid", "has no function 'bulid' that makes a network"),
    ],
)
def test_what_is_no_network_is_refused(name, sentence, tmp_path):
    with pytest.raises(UsageError, match=sentence):
        build(f"{written(tmp_path, NET, 'net.py')}{name}")


def test_images_that_a_network_cannot_take_are_refused():
    with pytest.raises(FedcliError, match="torchvision:alexnet cannot take images of 3 x 16 x 16"):
        build("torchvision:alexnet", size=16)
    with pytest.raises(UsageError, match="needs 3 channels, these images have 5"):
        models.input_channels("torchvision:resnet34", 5)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("torchvision:resnet19", "torchvision has no classifier 'resnet19'"),
        ("resnet19", "unknown model 'resnet19'"),
        ("none.py:build", "no such file"),
    ],
)
def test_an_unknown_name_is_refused_with_a_near_one(name, sentence):
    with pytest.raises(FedcliError, match=sentence) as caught:
        models.describe(name)
    assert caught.value.hint


def test_batch_norm_of_another_kind_takes_one_value_too():
    class WithRelu(nn.BatchNorm2d):
        def forward(self, x):
            return super().forward(x).relu()

    net = nn.Sequential(WithRelu(2))
    network.make_lone_safe(net)
    network.make_lone_safe(net)  # twice is once
    x = torch.tensor([-1.0, 1.0]).view(1, 2, 1, 1)
    result = net.train()(x).flatten().tolist()
    expected = pytest.approx([0.0, 1.0], abs=1e-4)
    assert result == expected
    assert net[0].training
