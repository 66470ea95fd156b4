"""Weights in the layouts of others: timm, open_clip, RETFound, DINOv2, PubMedCLIP, and what lies on the hub."""

import json
from argparse import Namespace
from datetime import date
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from fedcli import extensions, models
from fedcli.errors import FedcliError, UsageError
from fedcli.methods import resolve
from fedcli.models import libraries, outside
from fedcli.models.weights import of_backbone
from fedcli.runs import own_code

timm = pytest.importorskip("timm")
VIT = "timm:test_vit@32"


def build(name=VIT, weights=None, size=32, **rest):
    inputs = models.Inputs(3, 2, size)
    return models.build(name, inputs, seed=0, weights=weights and str(weights), **rest)


def trained(name=VIT):
    """The tensors of a backbone whose numbers are not those of seed 0."""
    state = tensors(build(name))
    for key, tensor in state.items():
        if tensor.is_floating_point():
            state[key] = torch.full_like(tensor, 0.25)
    return state


def tensors(net):
    return net.backbone.state_dict()


def holds(net, expected):
    for name, tensor in tensors(net).items():
        assert torch.equal(tensor, expected[name])


def under(prefix, state):
    return {f"{prefix}{name}": tensor for name, tensor in state.items()}


LAYOUTS = {  # how others keep a vision transformer
    "timm": lambda state: (
        state | {"head.weight": torch.ones(1000, 64), "head.bias": torch.ones(1000)}
    ),
    "several GPUs": lambda state: {"state_dict": under("module.", state), "epoch": 3},
    "BiomedCLIP": lambda state: (
        under("visual.trunk.", state)
        | {"visual.head.proj.weight": torch.ones(8, 64), "logit_scale": torch.ones(())}
        | {"text.transformer.embeddings.word_embeddings.weight": torch.ones(4, 2)}
    ),
    "RETFound, a masked autoencoder": lambda state: {
        "model": state
        | {"mask_token": torch.ones(1, 1, 8), "decoder_blocks.0.norm1.weight": torch.ones(8)},
        "optimizer": {"state": {}, "param_groups": [{"lr": 0.1, "params": [0]}]},
        "epoch": 799,
        "scaler": {},
        "args": Namespace(model="mae_vit_large_patch16", lr=1e-3),
    },
    "RETFound, by DINOv2": lambda state: {
        "teacher": under("backbone.", state) | {"dino_head.mlp.0.weight": torch.ones(4, 4)},
        "iteration": 9,
    },
    "DINOv2": lambda state: state | {"mask_token": torch.ones(1, 64)},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_vision_transformer_is_read_as_others_keep_it(layout, tmp_path):
    state = trained()
    torch.save(LAYOUTS[layout](dict(state)), tmp_path / "checkpoint.pth")
    net = build(weights=tmp_path / "checkpoint.pth")
    plain = build()
    holds(net, state)
    assert torch.equal(net.head.weight, plain.head.weight)


def test_a_checkpoint_with_other_objects_than_its_arguments_is_refused(tmp_path):
    torch.save({"model": trained(), "when": date(2025, 1, 1)}, tmp_path / "w.pth")
    with pytest.raises(
        FedcliError, match="contains Python objects in addition to tensors"
    ) as error:
        build(weights=tmp_path / "w.pth")
    assert "clean.pth" in error.value.hint


def test_position_embeddings_are_resized_to_the_side_that_is_asked_for(tmp_path):
    torch.save(trained("timm:test_vit@64"), tmp_path / "w.pth")
    net = build(weights=tmp_path / "w.pth")
    assert_close(net.backbone.pos_embed, torch.full_like(net.backbone.pos_embed, 0.25))
    result = net(torch.zeros(1, 3, 20, 20)).shape
    assert result == (1, 2)  # enlarged to 32


def test_openais_names_are_read_by_timms_network_and_by_open_clips(tmp_path):
    """PubMedCLIP is such a file: a state_dict in OpenAI's names."""
    clip = pytest.importorskip("open_clip").CLIP(
        16,
        {"layers": 1, "width": 64, "head_width": 32, "patch_size": 16, "image_size": 32},
        {"context_length": 4, "vocab_size": 8, "width": 8, "heads": 1, "layers": 1},
        quick_gelu=True,
    )
    torch.save({"epoch": 1, "state_dict": clip.state_dict()}, tmp_path / "clip.pth")
    make = timm.models.vision_transformer.VisionTransformer
    backbone = make(
        img_size=32,
        embed_dim=64,
        depth=1,
        num_heads=2,
        num_classes=0,
        pre_norm=True,
        norm_layer=nn.LayerNorm,
        act_layer=timm.layers.get_act_layer("quick_gelu"),
        fc_norm=False,
    )
    state = torch.load(tmp_path / "clip.pth", weights_only=True)["state_dict"]
    generator = torch.Generator().manual_seed(0)
    image = torch.randn(2, 3, 32, 32, generator=generator)
    net = models.Network(backbone, 64, 2)
    models.load_weights(net, "timm:vit", str(tmp_path / "clip.pth"))
    clip.visual.proj = None
    expected = clip.visual.eval()(image)
    assert_close(net.eval().features(image), expected, atol=1e-4, rtol=1e-4)
    tower = models.Network(clip.visual, 64, 2)
    read = of_backbone(tower.backbone, state, "clip.pth")
    expected = tower.backbone.state_dict().keys()
    assert read.keys() - {"proj"} == expected


def test_a_file_of_two_networks_is_refused(tmp_path):
    state = trained()
    torch.save(under("encoder_q.", state) | under("encoder_k.", state), tmp_path / "w.pth")
    with pytest.raises(
        FedcliError, match=r"holds several networks, such as encoder_q\. and encoder_k\."
    ):
        build(weights=tmp_path / "w.pth")


def test_another_network_is_refused_with_what_differs(tmp_path):
    torch.save(trained("timm:test_vit2@32"), tmp_path / "w.pth")
    with pytest.raises(FedcliError, match=r"does not fit timm:test_vit@32: .* tensors missing"):
        build(weights=tmp_path / "w.pth")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("timm:test_vit@0", "@0 is no side in pixels"),
        ("timm:test_vit@33333333", "is no side in pixels"),
        ("timm:test_resnet@32", "test_resnet takes images of any side"),
        ("timm:local-dir:model", "timm:local-dir:model is a folder"),
        ("open_clip:ViT-B-31", "open_clip has no network 'ViT-B-31'"),
    ],
)
def test_names_that_mean_no_network_are_refused(name, sentence):
    with pytest.raises(UsageError, match=sentence) as error:
        build(name)
    assert error.value.hint


def test_images_are_normalised_as_the_network_was_trained(tmp_path):
    net = build()
    assert net.fed.mean == (0.5, 0.5, 0.5)
    inputs_of_net = []
    net.backbone.register_forward_pre_hook(lambda _, inputs: inputs_of_net.append(inputs[0]))
    white = (1 - torch.tensor([0.485, 0.456, 0.406])) / torch.tensor([0.229, 0.224, 0.225])
    net(white.view(1, 3, 1, 1).expand(1, 3, 32, 32))
    assert_close(inputs_of_net[0], torch.ones(1, 3, 32, 32))


# the hub


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub's cache as its library keeps it, and no network."""
    constants = pytest.importorskip("huggingface_hub").constants
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))

    def put(owner, name, branch="main", revision="0" * 40):
        folder = tmp_path / f"models--{owner}--{name}"
        (folder / "refs").mkdir(parents=True, exist_ok=True)
        (folder / "refs" / branch).write_text(revision)
        snapshot = folder / "snapshots" / revision
        snapshot.mkdir(parents=True)
        return snapshot

    names = ["clinic/eyes", "clinic/clip", "clinic/absent", "a b//c"]
    with extensions.allowed(
        f"{library}:hf-hub:{name}" for name in names for library in ("timm", "open_clip")
    ):
        yield put


def test_a_network_of_the_hub_is_built_from_its_cache_with_its_weights(hub):
    from safetensors.torch import save_file

    folder = hub("clinic", "eyes")
    state = trained("timm:test_vit")
    config = {
        "architecture": "test_vit",
        "num_classes": 0,
        "pretrained_cfg": {"num_classes": 0, "input_size": [3, 160, 160], "fixed_input_size": True},
    }
    (folder / "config.json").write_text(json.dumps(config))
    save_file(state, folder / "model.safetensors")
    name = "timm:hf-hub:clinic/eyes"
    assert outside.titled(name) == name
    assert build(name).head.in_features == 64
    holds(build(name, "pretrained"), state)


def test_the_tower_of_an_open_clip_network_of_the_hub(hub):
    """In the layout of BiomedCLIP: timm's tower, a text tower that is not needed, both in one file."""
    pytest.importorskip("open_clip")
    folder = hub("clinic", "clip")
    vision = {
        "timm_model_name": "test_vit",
        "timm_model_pretrained": True,
        "timm_pool": "",
        "timm_proj": "linear",
    }
    text = {
        "hf_model_name": "no/such-model",
        "hf_tokenizer_name": "no/such-model",
        "context_length": 256,
    }
    config = {"embed_dim": 16, "vision_cfg": {**vision, "image_size": 160}, "text_cfg": text}
    (folder / "open_clip_config.json").write_text(
        json.dumps({"model_cfg": config, "preprocess_cfg": {}})
    )
    name = "open_clip:hf-hub:clinic/clip"
    net = build(name)
    assert net.head.in_features == 16
    assert net.fed.side == 160
    state = {k: torch.full_like(v, 0.25) for k, v in tensors(net).items()}
    torch.save(
        under("visual.", state) | {"text.proj.weight": torch.ones(2)},
        folder / "open_clip_pytorch_model.bin",
    )
    holds(build(name, "pretrained"), state)


@pytest.mark.parametrize(
    ("library", "file", "config"),
    [
        (
            "timm",
            "config.json",
            lambda depth: {
                "architecture": "test_vit",
                "num_classes": 0,
                "model_args": {"depth": depth},
                "pretrained_cfg": {
                    "num_classes": 0,
                    "input_size": [3, 160, 160],
                    "fixed_input_size": True,
                },
            },
        ),
        (
            "open_clip",
            "open_clip_config.json",
            lambda dim: {
                "model_cfg": {
                    "embed_dim": dim,
                    "vision_cfg": {
                        "layers": 1,
                        "width": 8,
                        "head_width": 4,
                        "patch_size": 8,
                        "image_size": 16,
                    },
                }
            },
        ),
    ],
)
def test_a_revision_is_the_one_that_is_named_and_its_commit_is_recorded(library, file, config, hub):
    pytest.importorskip(library)
    for branch, digit, dim in (("main", "0", 2), ("stable", "1", 3)):
        (hub("clinic", "eyes", branch, digit * 40) / file).write_text(json.dumps(config(dim)))
    name = f"{library}:hf-hub:clinic/eyes"
    commit = f"@{'1' * 40}"
    built = {}
    for end in ("", "@stable", commit):
        parameters = build(name + end).parameters()
        built[end] = sum(p.numel() for p in parameters)
    assert built["@stable"] == built[commit] > built[""]
    code = {end: own_code.recorded(resolve("fedavg"), name + end)[name + end] for end in built}
    result = {end: record["revision"][0] for end, record in code.items()}
    expected = {
        "": "0",
        "@stable": "1",
        f"@{'1' * 40}": "1",
    }
    assert result == expected
    run = SimpleNamespace(body={"model": {"name": name}}, options={"code": {name: code[""]}})
    expected = f"{name}@{'0' * 40}"
    assert own_code.model_of(run) == expected
    with pytest.raises(FedcliError, match="is not in the hub's cache"):
        build(f"{name}@absent")


@pytest.mark.parametrize(
    "name", ["timm:hf-hub:clinic/absent", "open_clip:hf-hub:clinic/absent", "timm:hf-hub:a b//c"]
)
def test_without_a_network_what_is_not_in_the_cache_is_named(hub, name):
    with pytest.raises(
        FedcliError, match="is not in the hub's cache on this machine and cannot be fetched"
    ) as error:
        build(name)
    assert len(str(error.value)) < 400
    assert "--weights FILE" in error.value.hint


def test_a_network_of_open_clip_by_name():
    pytest.importorskip("open_clip")
    libraries.check("open_clip:ViT-B-32")
    with pytest.raises(UsageError, match="needs 3 channels"):
        models.input_channels("open_clip:ViT-B-32", 5)


def test_a_hub_that_does_not_answer_is_asked_once_for_published_weights(tmp_path, monkeypatch):
    """Its library would ask six times for each file, and wait in between."""
    pytest.importorskip("timm")
    constants = pytest.importorskip("huggingface_hub").constants
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")

    def no_wait(seconds):
        raise AssertionError(f"waited {seconds} s")

    monkeypatch.setattr("time.sleep", no_wait)
    with pytest.raises(FedcliError, match=r"could not be downloaded: http://127.0.0.1:9 does not"):
        build("timm:test_vit", "pretrained")
    assert constants.HF_HUB_OFFLINE is False
