"""Teachers from files. No real checkpoint is at hand: each is a small or random network, saved in that one's layout."""

import sys
import zipfile

import h5py
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from fedcli.data import transforms
from fedcli.errors import FedcliError
from fedcli.models import Inputs, build, load_teacher, weights

IMAGES = torch.rand(
    3, 3, 48, 48, generator=torch.Generator().manual_seed(5)
)  # [B, C, H, W] in [0, 1]
FED = transforms.to_input(IMAGES, channels=3)


def network(name, **rest):
    """A torchvision network with random weights and random batch-norm statistics, in eval mode."""
    import torchvision

    with torch.random.fork_rng():
        torch.manual_seed(3)
        net = getattr(torchvision.models, name)(**rest)
        for norm in (m for m in net.modules() if isinstance(m, nn.BatchNorm2d)):
            nn.init.uniform_(norm.running_mean, -0.5, 0.5)
            nn.init.uniform_(norm.running_var, 0.5, 2)
    return net.eval()


def features(net, x=FED):
    net.fc = nn.Identity()
    with torch.no_grad():
        return net(x)


def under(prefix, state):
    return {prefix + name: tensor for name, tensor in state.items()}


def moco(net, width):
    """A file of MoCo-v2: two encoders with projection heads in place of fc, a queue and an optimizer."""
    names = {k: v for k, v in net.state_dict().items() if not k.startswith("fc.")}
    head = {"0.weight": torch.ones(width, width), "0.bias": torch.ones(width)}
    head |= {"2.weight": torch.ones(128, width), "2.bias": torch.ones(128)}
    encoder = names | under("fc.", head)
    key_encoder = {name: tensor.flatten()[:1] + 1 for name, tensor in encoder.items()}
    state = under("module.encoder_q.", encoder)
    state |= under("module.encoder_k.", key_encoder)
    state |= {
        "module.queue": torch.rand(128, 16),
        "module.queue_ptr": torch.zeros(1, dtype=torch.long),
    }
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(2))], lr=0.03, momentum=0.9)
    return {
        "epoch": 800,
        "arch": "resnet50",
        "state_dict": state,
        "optimizer": optimizer.state_dict(),
    }


@pytest.mark.parametrize(("name", "width"), [("resnet18", 512), ("resnet50", 2048)])
def test_the_query_encoder_of_moco_gives_its_features_to_the_bit(name, width, tmp_path):
    net = network(name)
    torch.save(moco(net, width), tmp_path / "moco_v2.pth.tar")
    teacher = load_teacher(str(tmp_path / "moco_v2.pth.tar"))
    assert teacher.width == width
    assert torch.equal(teacher(FED), features(net))


@pytest.mark.parametrize("prefix", ["", "module.", "backbone.", "module.backbone."])
def test_a_torchvision_state_dict_is_taken_without_its_classifier(prefix, tmp_path):
    net = network("resnet18")
    torch.save(under(prefix, net.state_dict()), tmp_path / "net.pth")
    result = load_teacher(str(tmp_path / "net.pth"))(FED)
    assert torch.equal(result, features(net))


def test_the_model_of_a_run_is_taken_without_what_trained_beside_it(tmp_path):
    """It can be a teacher, and starting weights."""
    net = network("resnet18")
    del net.fc
    tensors = under("backbone.", net.state_dict())
    tensors["head.weight"] = torch.ones(8, 512)
    tensors["projector.0.weight"] = torch.ones(2, 2)
    with h5py.File(tmp_path / "00002.h5", "w") as file:
        for name, tensor in tensors.items():
            if tensor.is_floating_point():
                file[f"model/{name}"] = tensor.numpy()
    path = str(tmp_path / "00002.h5")
    begun = build("resnet18", Inputs(3, 2, 32), seed=0, weights=path)
    assert torch.equal(load_teacher(path)(FED), features(net))
    assert torch.equal(begun.backbone.conv1.weight, net.conv1.weight)


@pytest.fixture
def plain(tmp_path):
    torch.save(network("resnet18").state_dict(), tmp_path / "net.pth")
    return str(tmp_path / "net.pth")


def test_it_is_frozen_and_still_and_leaves_the_global_random_stream_alone(plain):
    before = torch.random.get_rng_state()
    teacher = load_teacher(plain)
    assert torch.equal(torch.random.get_rng_state(), before)
    for p in teacher.parameters():
        assert not p.requires_grad
    for m in teacher.modules():
        assert not m.training


def test_a_resnet_sees_images_at_their_own_size_and_says_what_it_was_trained_at(plain):
    teacher = load_teacher(plain)
    assert teacher.trained_at == 224
    assert teacher.fed.side == 0
    assert torch.equal(teacher(FED), teacher.body(FED))


def test_a_grey_image_is_shown_as_the_same_image_in_colour(plain):
    grey = IMAGES[:, :1]
    features = load_teacher(plain)(transforms.to_input(grey, channels=1))
    expected = load_teacher(plain)(transforms.to_input(grey, channels=3))
    assert_close(features, expected, atol=1e-4, rtol=1e-4)


def saved(tmp_path, tensors):
    torch.save(tensors, tmp_path / "bad.pth")
    return str(tmp_path / "bad.pth")


def test_a_file_that_lacks_a_tensor_is_refused_by_the_first_one(tmp_path):
    state = network("resnet18").state_dict()
    del state["layer2.0.bn1.running_var"], state["layer4.1.conv1.weight"]
    with pytest.raises(
        FedcliError, match=r"not a ResNet-18: tensor layer2\.0\.bn1\.running_var is missing"
    ):
        load_teacher(saved(tmp_path, state))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"layer1.2.conv1.weight": torch.ones(64, 64, 3, 3)},
            r"tensor layer1\.2\.conv1\.weight is unknown",
        ),
        (
            {"conv1.weight": torch.ones(64, 1, 7, 7)},
            r"conv1\.weight has shape \(64, 1, 7, 7\), not \(64, 3, 7, 7\)",
        ),
    ],
)
def test_a_file_of_another_network_is_refused_by_the_tensor(change, message, tmp_path):
    with pytest.raises(FedcliError, match=message):
        load_teacher(saved(tmp_path, network("resnet18").state_dict() | change))


def test_a_file_that_fits_nothing_is_refused_with_what_would(tmp_path):
    with pytest.raises(
        FedcliError, match=r"no network that can be a teacher .*features.0.weight"
    ) as error:
        load_teacher(saved(tmp_path, {"features.0.weight": torch.ones(2)}))
    assert "MoCo-v2" in error.value.hint
    assert "CLIP" in error.value.hint
    with pytest.raises(FedcliError, match="no such teacher file"):
        load_teacher(str(tmp_path / "absent.pth"))


class Trap:
    def __reduce__(self):
        return (exec, ("raise SystemExit('a file was run')",))


def test_a_pickle_is_never_run(tmp_path):
    with pytest.raises(FedcliError, match="contains Python objects in addition to tensors"):
        load_teacher(saved(tmp_path, {"conv1.weight": Trap()}))


@pytest.mark.filterwarnings("ignore:.torch.jit:FutureWarning")  # CLIP's own files were made by it
def test_the_tensors_of_a_torchscript_archive_are_read_and_its_code_is_not(tmp_path):
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).half()
    net.register_buffer("input_resolution", torch.tensor(224))
    path = tmp_path / "ViT-B-32.pt"
    torch.jit.script(net).save(str(path))
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(
        path, "w"
    ) as archive:  # the same archive with code that no compiler would take
        for name, data in entries.items():
            archive.writestr(name, b"this is no code" if name.endswith(".py") else data)
    tensors = weights.read(path)
    expected = net.state_dict()
    assert list(tensors) == [
        "input_resolution",
        *[name for name in expected if name != "input_resolution"],
    ]
    for name, tensor in expected.items():
        assert torch.equal(tensors[name], tensor)
    assert tensors["0.weight"].dtype == torch.float16


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (b"cposix\nsystem\n(S'false'\ntR.", "holds a table that calls posix.system"),
        (
            b"ctorch._utils\n_rebuild_tensor_v2\n((S'storage'\nctorch\nFloatStorage\nS'0'\nS'cpu'\nI1\ntQI0\n"
            b"(I9\nt(I0\nttR.",
            "a tensor is larger than what is stored of it",
        ),
        (b"\x80\x02", "is truncated or damaged"),
        (b"(dp99999999\n.", "counts 99999999 values"),
    ],
)
def test_a_torchscript_archive_that_holds_something_else_is_refused(tmp_path, table, message):
    with zipfile.ZipFile(tmp_path / "odd.pt", "w") as archive:
        for name, data in {
            "odd/data.pkl": table,
            "odd/constants.pkl": b"",
            "odd/data/0": b"1234",
        }.items():
            archive.writestr(name, data)
    with pytest.raises(FedcliError) as error:
        weights.read(tmp_path / "odd.pt")
    assert message in error.value.sentence
    assert len(error.value.sentence) < 400


def test_a_storage_that_many_tensors_name_takes_its_memory_once(tmp_path):
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n((S'storage'\nctorch\nFloatStorage\nS'0'\nS'cpu'\nI1\ntQI0\n(I1\nt(I1\nttR"
    table = (
        b"c__torch__\nNet\n)\x81}"
        + b"".join(b"S'%d'\n%bs" % (k, tensor) for k in range(50))
        + b"b."
    )
    with zipfile.ZipFile(tmp_path / "odd.pt", "w") as archive:
        for name, data in {
            "odd/data.pkl": table,
            "odd/constants.pkl": b"",
            "odd/data/0": b"\0\0\x80?",
        }.items():
            archive.writestr(name, data)
    tensors = weights.read(tmp_path / "odd.pt")
    assert len(tensors) == 50
    for value in tensors.values():
        assert float(value) == 1
    result = len({value.data_ptr() for value in tensors.values()})
    assert result == 1


def test_clip_without_its_package_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "open_clip", None)  # importing it raises ImportError
    with pytest.raises(FedcliError, match="open_clip_torch") as error:
        load_teacher(saved(tmp_path, {"visual.proj": torch.ones(2, 2)}))
    assert error.value.hint == "pip install 'fedcli[clip]'"


def clip(quick=False, **vision):
    """A tiny CLIP with random weights."""
    open_clip = pytest.importorskip("open_clip")
    with torch.random.fork_rng():
        torch.manual_seed(4)
        text = open_clip.CLIPTextCfg(context_length=4, vocab_size=10, width=64, heads=1, layers=1)
        net = open_clip.CLIP(
            24, open_clip.CLIPVisionCfg(image_size=32, **vision), text, quick_gelu=quick
        )
        for parameter in net.visual.parameters():  # a fresh one has zeros in places
            nn.init.normal_(parameter, std=0.2)
    return net.eval()


def seen(net, unit):
    """Its image features of unit-range images [B, 3, 32, 32], by CLIP's own normalisation."""
    import torchvision

    mean = [0.48145466, 0.4578275, 0.40821073]
    std = [0.26862954, 0.26130258, 0.27577711]
    with torch.no_grad():
        return net.visual(torchvision.transforms.functional.normalize(unit, mean, std))


TRANSFORMER = {"layers": 2, "width": 128, "patch_size": 8, "mlp_ratio": 3.0}
HUGE = {
    "layers": 1,
    "width": 1280,
    "head_width": 80,
    "patch_size": 16,
    "mlp_ratio": 0.05,
}  # the heads of ViT-H
RESNET = {"layers": (1, 2, 1, 1), "width": 16}


@pytest.mark.parametrize("shape", [TRANSFORMER, HUGE, RESNET])
@pytest.mark.parametrize("prefix", ["", "module."])
def test_the_image_tower_of_clip_sees_images_at_its_own_size_and_scale(shape, prefix, tmp_path):
    net = clip(**shape)
    state = under(prefix, net.state_dict())
    torch.save({"epoch": 3, "state_dict": state}, tmp_path / "clip.pt")
    teacher = load_teacher(str(tmp_path / "clip.pt"))
    small = (IMAGES[:, :, :20, :20] > 0.5).float()  # enlarging it overshoots black and white
    unit = F.interpolate(small, (32, 32), mode="bicubic", antialias=True)
    assert unit.min() < 0
    assert unit.max() > 1
    unit = unit.clamp(0, 1)
    assert teacher.width == 24
    for p in teacher.parameters():
        assert not p.requires_grad
    result = teacher(transforms.to_input(small, channels=3))
    assert_close(result, seen(net, unit), atol=2e-4, rtol=1e-4)
    grey = unit[:, :1]
    features = teacher(transforms.to_input(grey, channels=1))
    expected = seen(net, grey.expand(-1, 3, -1, -1))
    assert_close(features, expected, atol=2e-4, rtol=1e-4)


def test_openai_files_get_the_activation_they_were_trained_with(tmp_path):
    net = clip(quick=True, **TRANSFORMER)
    openai = net.state_dict() | {"input_resolution": torch.tensor(32)}
    torch.save(openai, tmp_path / "openai.pt")
    torch.save(net.state_dict(), tmp_path / "other.pt")
    quick = load_teacher(str(tmp_path / "openai.pt"))
    other = load_teacher(str(tmp_path / "other.pt"))
    small = transforms.to_input(IMAGES[:, :, :32, :32], channels=3)
    expected = seen(net, IMAGES[:, :, :32, :32])
    assert_close(quick(small), expected, atol=2e-4, rtol=1e-4)
    assert not torch.allclose(other(small), quick(small), atol=2e-3)


def test_a_clip_file_that_lacks_a_tensor_is_refused_by_it(tmp_path):
    state = clip(**TRANSFORMER).state_dict()
    for name, message in (
        ("visual.ln_post.bias", "tensor ln_post.bias is missing"),
        ("visual.conv1.weight", "visual.conv1"),
    ):
        with pytest.raises(FedcliError, match=message):
            load_teacher(saved(tmp_path, {k: v for k, v in state.items() if k != name}))
