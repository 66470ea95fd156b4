import copy
import os
import pickle
import re
import shlex
from argparse import Namespace
from datetime import date

import pytest
import torch
from pretend import pretended
from torch import nn
from torch.testing import assert_close

from fedcli import models
from fedcli.data import transforms
from fedcli.errors import FedcliError, UsageError
from fedcli.models import load_teacher
from fedcli.models.backbones import small_cnn
from fedcli.models.layout import Layout
from fedcli.models.network import make_lone_safe
from fedcli.models.weights import read

SIZES = {
    "cnn": 24_346,
    "resnet10": 4_903_242,
    "resnet18": 11_181_642,
    "resnet50": 23_528_522,
    "densenet121": 6_964_106,
}


def build(name, **rest):
    inputs = {"channels": 3, "classes": 10, "size": 32}
    inputs |= {key: rest.pop(key) for key in list(rest) if key in ("names", "attributes", *inputs)}
    return models.build(name, models.Inputs(**inputs), **{"seed": 0} | rest)


@pytest.mark.parametrize("name", SIZES)
def test_size_and_shapes(name):
    net = build(name)
    result = sum(p.numel() for p in net.parameters())
    assert result == SIZES[name]
    x = torch.randn(2, 3, 32, 32)
    assert net(x).shape == (2, 10)
    result = net.head(net.features(x))
    assert_close(result, net(x), atol=1e-3, rtol=1e-3)


def test_resnet10_has_the_buffers_of_fedheal():
    layout = Layout(build("resnet10"))
    result = (layout.trainable, layout.size - layout.trainable)
    assert result == (4_903_242, 5_760)


def test_resnet18_for_eight_classes_has_the_size_the_paper_trains():
    result = sum(p.numel() for p in build("resnet18", classes=8).parameters())
    assert result == 11_180_616


def test_the_small_network_pools_before_the_relu_to_the_same_bits():
    """The largest of four numbers is the largest after the ReLU too, and only its gradient differs from 0."""
    quick, _ = small_cnn(3)
    layers = [*quick]
    usual = torch.nn.Sequential(
        *(
            layers[k + {2: 1, 3: -1}.get(k % 4, 0)] if k < 12 else layers[k]
            for k in range(len(layers))
        )
    )
    result = [type(layer).__name__ for layer in usual[:4]]
    assert result == [
        "Conv2d",
        "BatchNorm2d",
        "ReLU",
        "MaxPool2d",
    ]
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(8, 3, 32, 32, generator=generator)
    gradients = []
    for net in (quick, usual):
        net.zero_grad()
        (net(x) ** 2).sum().backward()
        gradients.append([parameter.grad.clone() for parameter in net.parameters()])
    assert len(gradients[0]) == 9
    assert all(map(torch.equal, *gradients))


def test_the_seed_decides_the_weights_and_nothing_else_does():
    net = build("cnn", seed=3)
    torch.manual_seed(55)
    two = build("cnn", seed=3)
    three = build("cnn", seed=4)
    assert torch.equal(net.head.weight, two.head.weight)
    assert not torch.equal(net.head.weight, three.head.weight)


@pytest.mark.parametrize("name", ["resnet18", "densenet121"])
def test_one_image_that_shrinks_to_one_pixel_trains(name):
    net = build(name).train()
    net(torch.randn(1, 3, 32, 32)).sum().backward()
    for parameter in net.parameters():
        if parameter.grad is not None:
            assert parameter.grad.isfinite().all()


def test_training_counts_no_batches_and_keeps_the_counters():
    net = build("cnn")
    before = net.state_dict().keys()
    statistics = [buffer.clone() for buffer in net.buffers()]
    net.train()(torch.randn(4, 3, 32, 32))
    for buffer, value in zip(net.buffers(), statistics, strict=True):
        assert torch.equal(buffer, value) != buffer.is_floating_point()
    assert net.state_dict().keys() == before


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("classes", [7, 8])
def test_cudnn_is_given_no_vector_that_begins_between_its_reads(classes, training, monkeypatch):
    """Statistics lie behind the classifier in theta, where seven classes end between two reads."""
    cudnn_or_not = torch.batch_norm
    calls = []

    def noted(x, *rest):
        calls.append([vector.data_ptr() % 16 for vector in rest[:4]])
        return cudnn_or_not(x, *rest)

    with pretended():
        net = build("cnn", classes=classes).to("cuda").train(training)
        x = torch.randn(4, 3, 32, 32, device="cuda")
        before = copy.deepcopy(net)(x)
        Layout(net)
        monkeypatch.setattr(torch, "batch_norm", noted)
        after = net(x)
    assert len(calls) == (0 if classes == 7 else 3)
    assert not any(map(any, calls))
    assert_close(after, before)


@pytest.mark.parametrize(
    ("device", "precision", "layout"),
    [
        ("cuda", "fp32", torch.contiguous_format),
        ("cuda", "tf32", torch.channels_last),
        ("cuda", "bf16", torch.channels_last),
        ("cpu", "fp32", torch.channels_last),
    ],
)
def test_images_have_channels_first_where_a_gpu_computes_in_fp32(
    device, precision, layout, monkeypatch
):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", precision == "tf32")
    inputs = []
    with pretended():
        net = build("cnn", precision=precision).to(device)
        net.backbone.register_forward_pre_hook(lambda _, images: inputs.extend(images))
        images = torch.zeros(4, 3, 32, 32, dtype=torch.uint8, device=device)
        net(transforms.to_input(images, channels=3))
    assert inputs[0].is_contiguous(memory_format=layout)


def test_a_batch_norm_whose_statistics_are_means_counts_its_batches():
    net = nn.Sequential(nn.BatchNorm1d(2, momentum=None))
    make_lone_safe(net)
    batches = torch.randn(3, 8, 2)
    for batch in batches:
        net(batch)
    assert_close(net[0].running_mean, batches.mean((0, 1)))


def test_bf16_computes_low_and_answers_in_float32():
    net = build("cnn", precision="bf16")
    exact = build("cnn")
    x = torch.randn(4, 3, 32, 32)
    assert net(x).dtype == torch.float32
    assert_close(net(x), exact(x), atol=0.05, rtol=0.05)
    assert not torch.equal(net(x), exact(x))


@pytest.mark.parametrize("name", ["resnet18", "densenet121"])
def test_a_torchvision_file_fills_the_backbone_and_not_the_head(name, tmp_path):
    import torchvision

    torch.manual_seed(8)
    source = getattr(torchvision.models, name)()
    torch.save(source.state_dict(), tmp_path / "w.pth")
    net = build(name, weights=str(tmp_path / "w.pth"))
    tensor = next(iter(source.state_dict().values()))
    assert torch.equal(next(net.backbone.parameters()), tensor)
    assert torch.equal(net.head.weight, build(name).head.weight)


def test_old_densenet_names_are_understood(tmp_path):
    import torchvision

    state = torchvision.models.densenet121().state_dict()
    old = {}
    for name, tensor in state.items():
        if "denselayer" in name:
            name = re.sub(r"(norm|conv)([12])\.", r"\1.\2.", name)
        old[name] = tensor
    torch.save(old, tmp_path / "old.pth")
    net = build("densenet121", weights=str(tmp_path / "old.pth"))
    key = "features.denseblock1.denselayer1.norm1.weight"
    assert torch.equal(net.backbone.state_dict()[key], state[key])


@pytest.mark.parametrize(
    ("tensor", "word"),
    [
        (torch.zeros(2, dtype=torch.complex64), "complex64"),
        (torch.zeros(2, device="meta"), "on meta"),
        (torch.zeros(1).expand(2**40), "larger than the numbers that the file holds"),
        (
            torch.ones(2).to(torch.float8_e4m3fn),
            "float8_e4m3fn of layout torch.strided on cpu, not a plain tensor",
        ),
        (torch.tensor([0.0, torch.nan]), "NaN"),
    ],
)
def test_tensors_that_cannot_start_a_network_are_refused_by_name(tmp_path, tensor, word):
    torch.save({"fc.weight": tensor}, tmp_path / "w.pth")
    with pytest.raises(FedcliError, match=rf"w\.pth: fc\.weight is .*{word}"):
        read(tmp_path / "w.pth")


class Evil:
    def __reduce__(self):
        return print, ("this pickle ran",)


@pytest.mark.parametrize("content", [Evil(), [1, 2], {"a": 3}])
def test_a_file_that_is_no_state_dict_is_refused_and_never_run(tmp_path, content, capsys):
    torch.save(content, tmp_path / "w.pth")
    with pytest.raises(FedcliError, match=r"w\.pth"):
        build("resnet18", weights=str(tmp_path / "w.pth"))
    assert "this pickle ran" not in capsys.readouterr().out


def test_a_checkpoint_with_python_objects_is_refused_with_the_command_that_keeps_its_tensors(
    tmp_path, monkeypatch
):
    path = tmp_path / "a 'file'.pth"
    torch.save({"state_dict": {"w": torch.ones(2)}, "when": date(2025, 1, 1)}, path)
    with pytest.raises(FedcliError) as error:
        build("resnet18", weights=str(path))
    with pytest.raises(FedcliError) as as_teacher:
        load_teacher(str(path))
    expected = (
        error.value.sentence,
        error.value.hint,
    )
    assert (as_teacher.value.sentence, as_teacher.value.hint) == expected
    assert error.value.sentence == f"{path} contains Python objects in addition to tensors"
    assert "\x1b" not in error.value.hint
    assert "\n" not in error.value.hint
    python, option, code = shlex.split(error.value.hint.partition(": ")[2])
    assert (python, option) == ("python", "-c")
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    result = read(tmp_path / "clean.pth")["w"]
    assert torch.equal(result, torch.ones(2))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("w.pth", b"these are words\n", "is not a PyTorch file"),
        ("w.pth", b"", "is not a PyTorch file"),
        ("w.pth", pickle.dumps(Namespace(lr=1)), "is not a PyTorch file"),
        ("w.pth", b"PK\3\4" + b"\0" * 99, "is a damaged PyTorch file"),
        ("w.h5", b"these are words\n", "is not a readable HDF5 file"),
        ("w.safetensors", b"these are words\n", "is not a safetensors file, or is damaged"),
    ],
)
def test_any_other_file_is_refused_in_one_sentence_of_ours(tmp_path, name, content, message):
    if name.endswith("safetensors"):
        pytest.importorskip("safetensors")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FedcliError) as error:
        read(tmp_path / name)
    assert error.value.sentence.startswith(f"{tmp_path / name} {message}")


@pytest.mark.parametrize("load", [lambda path: build("resnet18", weights=path), load_teacher])
def test_a_folder_is_no_weights_file(tmp_path, load):
    with pytest.raises(FedcliError, match="is a folder, not a weights file"):
        load(str(tmp_path))


def test_files_of_torch_save_in_both_of_its_formats_are_read(tmp_path):
    for old in (False, True):
        torch.save({"w": torch.ones(2)}, tmp_path / "w.pth", _use_new_zipfile_serialization=not old)
        result = read(tmp_path / "w.pth")["w"]
        assert torch.equal(result, torch.ones(2))


def test_weights_of_another_network_are_refused_by_name(tmp_path):
    import torchvision

    torch.save(torchvision.models.resnet18().state_dict(), tmp_path / "w.pth")
    with pytest.raises(FedcliError, match="does not fit resnet50"):
        build("resnet50", weights=str(tmp_path / "w.pth"))
    with pytest.raises(FedcliError, match=r"no such file: .*absent.pth"):
        build("resnet50", weights=str(tmp_path / "absent.pth"))


@pytest.mark.parametrize("name", ["cnn", "clip-tiny"])
def test_weights_on_a_pipe_are_no_regular_file(tmp_path, name):
    os.mkfifo(tmp_path / "w.pth")
    with pytest.raises(FedcliError, match=r"w.pth is not a regular file"):
        build(name, weights=str(tmp_path / "w.pth"))


def test_imagenet_without_a_network_says_what_to_fetch(monkeypatch):
    from urllib.error import URLError

    def offline(*_, **__):
        raise URLError("no route to host")

    monkeypatch.setattr("torch.hub.load_state_dict_from_url", offline)
    monkeypatch.setattr("torchvision.models._api.load_state_dict_from_url", offline)
    with pytest.raises(FedcliError, match="could not be downloaded") as error:
        build("resnet18", weights="imagenet")
    assert "https://" in error.value.hint
    assert "--weights" in error.value.hint


def test_names_and_sizes_that_cannot_work_are_refused():
    with pytest.raises(UsageError, match="resnet81"):
        build("resnet81")
    with pytest.raises(UsageError, match="no imagenet weights for cnn"):
        build("cnn", weights="imagenet")
    with pytest.raises(FedcliError, match="at least 32 pixels"):
        build("resnet18", size=16)
