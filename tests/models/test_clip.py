"""CLIP networks against open_clip's own forward passes, on random weights.

open_clip takes seconds to import and only one worker needs it, so it is imported inside the tests."""

import copy
import itertools

import pytest
import torch
import torch.nn.functional as F
from conftest import play, toy_clip, toy_shard, toy_shards
from made_plans import planned
from tiny_clips import NAMES, SEED, fed, images, prompts, saved, theirs, tiny
from torch import nn
from torch.testing import assert_close

from fedcli.errors import UsageError
from fedcli.models import MODELS, clip, frozen_parts, input_channels
from fedcli.models.layout import Layout
from fedcli.models.teacher import CLIP_MEAN, CLIP_STD
from fedcli.runs.rules import check


def clip_input(unit):
    mean = torch.tensor(CLIP_MEAN).view(3, 1, 1)
    std = torch.tensor(CLIP_STD).view(3, 1, 1)
    return (unit - mean) / std


@torch.no_grad()
def test_the_transformer_gives_open_clips_patches(tmp_path):
    other = theirs("clip-tiny")
    net = tiny(weights=saved(other, tmp_path / "clip.pt"), extend=prompts)
    other.visual.output_tokens = True
    patches = other.visual(clip_input(images(32)))[1] @ other.visual.proj
    assert patches.shape == (3, 16, 16)
    result = net.features(fed(images(32)))
    assert_close(result, patches[:, None], atol=1e-5, rtol=0)


@torch.no_grad()
def test_the_resnet_gives_every_place_of_open_clips_pool(tmp_path):
    """Their pool gives the pooled place alone; the others come from the same torch function on their projections."""
    other = theirs("clip-tiny-rn")
    net = tiny("clip-tiny-rn", weights=saved(other, tmp_path / "clip.pt"), extend=prompts)
    x = clip_input(images(64))
    pool = other.visual.attnpool
    visual = other.visual
    maps = visual.layer2(visual.layer1(visual.stem(x)))
    maps = visual.layer4(visual.layer3(maps))
    every = net.backbone.visual.attnpool(maps)  # [B, 1 + M, D]
    assert_close(every[:, 0], other.visual(x), atol=1e-5, rtol=0)
    result = net.features(fed(images(64)))
    assert_close(result, every[:, None, 1:], atol=1e-5, rtol=0)
    places = maps.flatten(2).permute(2, 0, 1)
    places = torch.cat([places.mean(0, keepdim=True), places]) + pool.positional_embedding[:, None]
    bias = torch.cat([pool.q_proj.bias, pool.k_proj.bias, pool.v_proj.bias])
    expected, _ = F.multi_head_attention_forward(
        places,
        places,
        places,
        256,
        pool.num_heads,
        None,
        bias,
        None,
        None,
        False,
        0.0,
        pool.c_proj.weight,
        pool.c_proj.bias,
        training=False,
        use_separate_proj_weight=True,
        q_proj_weight=pool.q_proj.weight,
        k_proj_weight=pool.k_proj.weight,
        v_proj_weight=pool.v_proj.weight,
    )
    assert_close(every, expected.transpose(0, 1), atol=1e-5, rtol=0)


@torch.no_grad()
def test_learned_words_that_are_real_words_give_open_clips_texts(tmp_path):
    import open_clip

    other = theirs("clip-tiny")
    net = tiny(
        weights=saved(other, tmp_path / "clip.pt"),
        names=["NOT_Glaucoma", "Glaucoma"],
        extend=prompts,
    )
    tokens = open_clip.tokenize([f"a scan of my {name}." for name in NAMES])
    net.head.context[1].copy_(other.token_embedding(tokens[0, 1:5]))
    assert tokens.argmax(1).tolist() == [9, 8]
    result = [end + 1 + 4 for end in net.text.ends]
    assert result == [9, 8]
    expected = other.encode_text(tokens, normalize=True)
    assert_close(net.head.texts()[1], expected, atol=1e-5, rtol=0)
    assert_close(net.head.scale, other.logit_scale.exp())


def test_the_head_is_the_scaled_mean_cosine_over_slabs_places_and_prompts():
    net = tiny(extend=prompts, channels=16)
    tokens = torch.randn(2, 2, 16, 16, generator=SEED(1))
    by_class = []
    for c in range(2):
        texts = net.head.texts()[:, c]
        cosines_of_class = [F.cosine_similarity(tokens, text, dim=-1) for text in texts]
        by_class.append(torch.stack(cosines_of_class, -1))
    cosines = torch.stack(by_class, 2)
    assert cosines.shape == (2, 2, 2, 16, 2)  # [B, S, C, M, N]
    assert_close(net.head.similarity(tokens), cosines)
    expected = cosines.mean((1, 3, 4)) / 0.07
    assert_close(net.head(tokens), expected)
    result = net(fed(images(32, 16)))
    expected = net.head(net.features(fed(images(32, 16))))
    assert torch.equal(result, expected)


def test_a_learned_word_changes_every_class_through_the_text_tower():
    net = tiny(extend=prompts)
    net.head.texts()[1, 0].sum().backward()
    assert net.head.context[0].grad.abs().sum() == 0
    assert (net.head.context[1].grad.abs().sum(1) > 0).all()


def test_prompts_are_all_that_travels_and_the_text_tower_is_kept_once():
    net = tiny(extend=prompts)
    net.backbone.requires_grad_(False)
    expected = {"head.context.0": (4, 32), "head.context.1": (4, 32)}
    assert Layout(net).shapes == expected
    assert sorted(frozen_parts(net)) == ["backbone", "text"]
    for name in net.state_dict():
        assert "token_embedding" not in name
        assert "context" in name or not name.startswith("head.")


def test_without_prompts_there_is_one_vector_per_image_and_no_text_tower():
    net = tiny()
    x = fed(images(32))
    assert net.features(x).shape == (3, 16)
    assert net.head.in_features == 16
    assert not [k for k in net.state_dict() if k.startswith("text.")]
    means = net.features(x)
    assert_close(copy.deepcopy(net.backbone)(x), means)  # as a teacher sees it
    net.tokens = True
    assert_close(net.features(x).mean((1, 2)), means)


def test_one_channel_is_shown_as_three_and_any_normalisation_is_undone():
    grey = images(32, 1)
    of_one_channel = tiny(channels=1)
    of_three = tiny(channels=3)
    expected = of_three.features(fed(grey.expand(-1, 3, -1, -1)))
    assert_close(of_one_channel.features(fed(grey)), expected, atol=1e-5, rtol=0)
    result = of_one_channel.backbone._prepared(fed(grey))
    assert_close(result, clip_input(grey), atol=1e-5, rtol=0)


@pytest.mark.parametrize("side", [8, 50])
def test_images_of_another_size_are_resized_with_straight_lines(side):
    net = tiny()
    x = images(side)
    small = F.interpolate(x, (32, 32), mode="bilinear", antialias=True)
    expected = net.features(fed(small))
    assert_close(net.features(fed(x)), expected, atol=1e-5, rtol=0)


def test_a_volume_is_four_slabs_of_eight_slices_each_stretched_to_its_own_range():
    net = tiny(channels=32)
    x = images(32, 32)
    net.tokens = True
    result = net.features(fed(x)).shape
    assert result == (3, 4, 16, 16)
    result = sum(p.numel() for p in net.backbone.slices.parameters())
    assert result == 603
    third = net.backbone.slices(x[:, 16:24])  # [B, 3, H, W]
    low = third.amin((1, 2, 3), keepdim=True)
    high = third.amax((1, 2, 3), keepdim=True)
    plain = tiny()
    plain.tokens = True
    plain.backbone.visual = net.backbone.visual
    stretched = fed((third - low) / (high - low + 1e-5))
    result = net.features(fed(x))[:, 2]
    expected = plain.features(stretched)[:, 0]
    assert_close(result, expected, atol=1e-5, rtol=0)


def test_the_projection_of_slices_starts_small_trains_and_survives_an_empty_volume():
    net = tiny(channels=32)
    result = abs(net.backbone.slices.weight.std() - 8**-0.5)
    assert result < 0.03
    assert not net.backbone.slices.bias.any()
    net(fed(torch.zeros(2, 32, 32, 32))).sum().backward()
    assert net.backbone.slices.weight.grad.isfinite().all()
    net(fed(images(32, 32))).square().sum().backward()
    assert net.backbone.slices.weight.grad.abs().sum() > 0
    assert {"backbone.slices.weight", "backbone.slices.bias"} <= set(Layout(net).shapes)


@pytest.mark.parametrize("channels", [2, 4, 12])
def test_other_numbers_of_slices_are_refused(channels):
    with pytest.raises(UsageError, match=f"multiple of 8 slices, not {channels}"):
        tiny(channels=channels)


def test_a_volume_is_refused_by_a_network_of_three_channels_and_taken_by_clip():
    result = [input_channels("clip-tiny", c) for c in (1, 3, 32)]
    assert result == [1, 3, 32]
    result = [input_channels("resnet18", c) for c in (1, 3)]
    assert result == [3, 3]
    with pytest.raises(UsageError, match="resnet18 needs 3 channels, these images have 32"):
        input_channels("resnet18", 32)


def counts(net, part, rank=0):
    """Numbers of the modules of a part, or of factors [in, rank] and [rank, out] beside them."""
    modules = [net.backbone.get_submodule(name) for name in net.backbone.parts[part]]
    return sum(
        rank * sum(m.weight.shape[:2]) if rank else sum(p.numel() for p in m.parameters())
        for m in modules
    )


def test_the_towers_have_the_sizes_of_clip_and_adapters_those_of_fairfedmed():
    """149.6 million parameters with ViT-B/16, of which 25.3 million are a vocabulary that is not kept."""
    with torch.device("meta"):
        vit = clip.ClipNetwork("clip-vit-b16", 1, NAMES)
        resnet = clip.ClipNetwork("clip-rn50", 1, NAMES)
    for net, total in ((vit, 149_620_737), (resnet, 102_007_137)):
        towers = sum(
            p.numel() for module in (net.backbone, net.spare[0]) for p in module.parameters()
        )
        assert towers + 49_408 * 512 == total
    result = (len(vit.backbone.parts["mlp"]), counts(vit, "mlp", 12))
    assert result == (24, 1_105_920)
    result = (len(resnet.backbone.parts["conv"]), counts(resnet, "conv", 32))
    expected = (
        32,
        1_147_904 - 32 * 3 * 32,
    )
    assert result == expected
    assert counts(resnet, "attention", 32) == 491_520
    assert counts(resnet, "norms") == 53_248
    result = (vit.backbone.side, vit.backbone.visual.positional_embedding.shape)
    assert result == (224, (197, 768))


def test_the_tiny_networks_have_the_same_parts_as_the_large():
    for tiny_one, large in (("clip-tiny", "clip-vit-b16"), ("clip-tiny-rn", "clip-rn50")):
        with torch.device("meta"):
            parts = [clip.ClipNetwork(name, 1, NAMES).backbone.parts for name in (tiny_one, large)]
        for kind in parts[1]:
            result = set(parts[0][kind])
            assert result <= set(parts[1][kind])
        result = [bool(names) for names in parts[0].values()]
        expected = [bool(names) for names in parts[1].values()]
        assert result == expected


def test_a_wrapped_projection_of_the_pool_is_asked():
    net = tiny("clip-tiny-rn")
    before = net.features(fed(images(64)))
    pool = net.backbone.visual.attnpool
    pool.v_proj = nn.Sequential(pool.v_proj, nn.Linear(256, 256))
    result = net.features(fed(images(64)))
    assert not torch.allclose(result, before)


@pytest.mark.parametrize("name", ["clip-tiny", "clip-tiny-rn"])
def test_every_weight_that_is_read_has_a_gradient_even_from_one_image(name):
    """But for what only the pooled token goes through, which is left out."""
    net = tiny(name).train()
    net(fed(images(64, count=1)))[:, 0].sum().backward()
    for tensor_name, parameter in net.backbone.named_parameters():
        assert parameter.grad is not None, tensor_name
        assert parameter.grad.isfinite().all(), tensor_name
    module_name, *_ = itertools.chain(*net.backbone.parts.values())
    assert net.backbone.get_submodule(module_name).weight.grad.any()


def test_bf16_computes_the_image_tower_low_and_the_texts_exactly():
    low = tiny(precision="bf16", extend=prompts)
    exact = tiny(extend=prompts)
    x = fed(images(32))
    assert low.features(x).dtype == low(x).dtype == torch.float32
    assert_close(low.features(x), exact.features(x), atol=0.05, rtol=0.05)
    assert not torch.equal(low.features(x), exact.features(x))
    assert torch.equal(low.head.texts(), exact.head.texts())


@pytest.mark.parametrize("spec", ["fedavg", "fedproto", "fed-mas"])
def test_methods_that_know_nothing_of_clip_train_it(spec, monkeypatch):
    monkeypatch.setattr("fedcli.bench.toy.toy_net", lambda extend, **_: toy_clip(extend=extend))
    state = play(spec, rounds=1, shards=toy_shards(east=toy_shard("east", 1)))
    assert state.theta.isfinite().all()
    assert len(state.theta) >= 32_819


def test_a_class_name_longer_than_clip_can_read_is_refused():
    with pytest.raises(UsageError, match="exceed the 77 positions"):
        tiny(names=["short", "very " * 80 + "long"], extend=prompts)


def flat(module):
    """All parameters of a module as one vector."""
    return torch.cat([parameter.flatten() for parameter in module.parameters()])


def test_the_seed_decides_both_towers():
    net = tiny(seed=1, extend=prompts)
    torch.manual_seed(9)
    same = tiny(seed=1, extend=prompts)
    other_seed = tiny(seed=2, extend=prompts)
    for part in ("backbone", "text", "head"):
        numbers = flat(getattr(net, part))
        assert torch.equal(numbers, flat(getattr(same, part)))
        assert not torch.equal(numbers, flat(getattr(other_seed, part)))


def test_every_clip_is_listed_with_its_shape():
    result = [name for name in MODELS if name.startswith("clip")]
    assert result == list(clip.SHAPES)


def test_a_method_of_clip_on_another_network_is_refused_before_anything_is_loaded():
    from fedcli.federation.client import Training

    with pytest.raises(
        UsageError, match="promptfl fine-tunes a CLIP network, which cnn is not"
    ) as error:
        check(planned("promptfl", {}, Training(), 1))
    assert "clip-tiny" in error.value.hint
    with pytest.raises(UsageError, match="freezes its network itself"):
        check(planned("lora", {}, Training(), 1, model="clip-tiny", freeze_backbone=True))
