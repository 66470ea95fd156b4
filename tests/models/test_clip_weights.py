"""Weights of CLIP networks from files: what is taken, what is refused and with which sentence."""

import sys

import h5py
import pytest
import torch
from tiny_clips import fed, images, prompts, saved, theirs, tiny

from fedcli.errors import FedcliError, UsageError
from fedcli.models import clip


@pytest.mark.parametrize("prefix", ["", "module."])
def test_weights_in_half_precision_and_under_a_prefix_are_taken(prefix, tmp_path):
    other = theirs("clip-tiny").half()
    state = {prefix + name: tensor for name, tensor in other.state_dict().items()}
    torch.save({"state_dict": state}, tmp_path / "clip.pt")
    net = tiny(weights=str(tmp_path / "clip.pt"), extend=prompts)
    assert torch.equal(net.backbone.visual.proj, other.visual.proj.float())
    result = net.text.words[1, net.text.ends[1]]
    expected = other.token_embedding.weight[49_407].float()
    assert torch.equal(result, expected)


def test_open_clips_other_names_of_the_text_tower_are_taken(tmp_path):
    """Networks of open_clip whose text tower is a module of its own have them."""
    inner = lambda k: k if k.startswith(("visual.", "logit_scale")) else f"text.{k}"  # noqa: E731
    tensors = {inner(k): v for k, v in theirs("clip-tiny").state_dict().items()}
    torch.save(tensors, tmp_path / "clip.pt")
    net = tiny(weights=str(tmp_path / "clip.pt"), extend=prompts)
    assert torch.equal(net.text.text_projection, tensors["text.text_projection"])


def test_what_openais_files_hold_beside_weights_is_left_out(tmp_path):
    extra = {k: torch.tensor(7) for k in ("input_resolution", "context_length", "vocab_size")}
    path = saved(theirs("clip-tiny"), tmp_path / "clip.pt", lambda tensors: tensors.update(extra))
    assert tiny(weights=path, extend=prompts).start == path


def test_the_model_of_a_run_fills_the_image_tower_and_its_projection_of_slices(tmp_path):
    source = tiny(channels=16, seed=4)
    with h5py.File(tmp_path / "00002.h5", "w") as file:
        for k, v in source.state_dict().items():
            file[f"model/{k}"] = v.numpy()
    net = tiny(channels=16, weights=str(tmp_path / "00002.h5"))
    for tensor, expected in zip(
        net.backbone.state_dict().values(), source.backbone.state_dict().values(), strict=True
    ):
        assert torch.equal(tensor, expected)
    with pytest.raises(FedcliError, match="holds no text tower, which prompts need"):
        tiny(channels=16, weights=str(tmp_path / "00002.h5"), extend=prompts)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda t: [t.pop(k) for k in list(t) if k.startswith("visual.")],
            "is no CLIP: it has no tensor visual",
        ),
        (lambda t: t.pop("visual.proj"), "tensor visual.proj is missing"),
        (
            lambda t: t.pop("ln_final.bias"),
            "does not fit clip-tiny: tensor ln_final.bias is missing",
        ),
        (
            lambda t: t.update({"decoder.bias": t["ln_final.bias"]}),
            "tensor decoder.bias is unknown",
        ),
        (lambda t: t.update({"visual.head": t["ln_final.bias"]}), "tensor visual.head is unknown"),
        (
            lambda t: t.update({"visual.positional_embedding": torch.ones(50, 32)}),
            r"visual.positional_embedding has shape \(50, 32\), not \(17, 32\)",
        ),
        (
            lambda t: t.update({"token_embedding.weight": torch.ones(9, 32)}),
            r"\(9, 32\), not \(49408, 32\)",
        ),
    ],
)
def test_files_that_do_not_fit_are_refused_by_their_first_wrong_tensor(change, message, tmp_path):
    path = saved(theirs("clip-tiny"), tmp_path / "clip.pt", change)
    with pytest.raises(FedcliError, match=message):
        tiny(weights=path, extend=prompts)


def test_weights_without_a_text_tower_make_a_network_without_prompts(tmp_path):
    drop = lambda t: [t.pop(k) for k in list(t) if not k.startswith("visual.")]  # noqa: E731
    path = saved(theirs("clip-tiny"), tmp_path / "image.pt", drop)
    result = tiny(weights=path)(fed(images(32))).shape
    assert result == (3, 2)
    with pytest.raises(FedcliError, match=r"image.pt holds no text tower") as error:
        tiny(weights=path, extend=prompts)
    assert "both towers" in error.value.hint


def test_openais_weights_come_through_open_clip_or_a_sentence_says_where_to_find_them(
    tmp_path, monkeypatch
):
    import huggingface_hub
    import open_clip

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    sources = []
    path = saved(theirs("clip-tiny"), tmp_path / "clip.pt")
    monkeypatch.setitem(
        clip.SHAPES,
        "clip-tiny",
        clip.Shape(**vars(clip.SHAPES["clip-tiny"]) | {"pretrained": "RN50"}),
    )
    monkeypatch.setattr(
        open_clip.pretrained, "download_pretrained", lambda source: sources.append(source) or path
    )
    result = tiny(weights="openai").backbone.visual.proj
    assert torch.equal(result, theirs("clip-tiny").visual.proj)
    assert sources[0]["hf_hub"] == "timm/resnet50_clip.openai/"

    def offline(source):
        raise OSError("no route to host")

    monkeypatch.setattr(open_clip.pretrained, "download_pretrained", offline)
    with pytest.raises(FedcliError, match=r"could not be downloaded \(OSError\)$") as error:
        tiny(weights="openai")
    assert "https://huggingface.co/timm/resnet50_clip.openai on" in error.value.hint
    assert "--weights FILE" in error.value.hint


@pytest.mark.parametrize("weights", ["openai", "imagenet"])
def test_weights_that_do_not_exist_for_a_tiny_clip_are_refused(weights):
    with pytest.raises(
        UsageError, match=r"no (weights of OpenAI|ImageNet weights) for clip-tiny"
    ) as error:
        tiny(weights=weights)
    assert error.value.hint


def test_without_open_clip_the_sentence_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "open_clip", None)
    with pytest.raises(FedcliError, match="need the package open_clip_torch") as error:
        tiny()
    assert error.value.hint == "pip install 'fedcli[clip]'"
