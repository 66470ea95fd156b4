import pytest
import torch
import torch.nn.functional as F
from conftest import ROSTER, play, toy_clip, toy_net, toy_shard, toy_shards
from torch.testing import assert_close

from fedcli.data.shard import Shards
from fedcli.errors import UsageError
from fedcli.federation import state as states
from fedcli.methods import promptfl, resolve  # noqa: F401 - importing registers
from fedcli.models.clip import ClipNetwork
from fedcli.models.layout import Layout
from fedcli.runs import assembly
from fedcli.runs.finished import logits

CONTEXT = "head.prompts.context.0"


def volumes(**settings):
    """A network for volumes of 16 slices: two slabs."""
    net = ClipNetwork("clip-tiny", 16, ["a", "b", "c"])
    resolve("promptfl", settings).local.extend(net)
    return net.eval()


def test_a_logit_is_the_mean_cosine_of_patches_and_text_over_slabs():
    net = volumes()
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, 16, 32, 32, generator=generator)
    tokens = net.backbone.tower(x)
    texts = net.head.prompts.texts()  # [B, S, M, D], [1, C, D]
    assert tokens.shape[:3] == (2, 2, 16)
    got = net(x)
    scale = net.head.prompts.scale
    for b in range(2):
        for c in range(3):
            cosines = [
                F.cosine_similarity(patch, texts[0, c], dim=0)
                for slab in tokens[b]
                for patch in slab
            ]
            expected = scale * sum(cosines) / 32
            assert_close(got[b, c], expected, atol=1e-4, rtol=1e-4)


def test_only_the_context_travels_and_for_volumes_the_slice_projection():
    result = play("promptfl", until=0).theta.numel()
    assert result == 4 * 32
    result = play("promptfl", {"length": 16}, until=0).theta.numel()
    assert result == 16 * 32
    trained = Layout(volumes())
    expected = {
        CONTEXT: (4, 32),
        "backbone.tower.slices.weight": (3, 8, 5, 5),
        "backbone.tower.slices.bias": (3,),
    }
    assert trained.shapes == expected
    expected = 4 * 32 + 603
    assert trained.size == expected
    net = volumes(rule="released")
    result = list(Layout(net).shapes)
    assert result == [CONTEXT]


def test_learned_words_lower_the_loss_of_data_they_are_learned_from():
    net = toy_clip(extend=resolve("promptfl").local.extend)
    layout = Layout(net)
    shards = toy_shards()

    def loss(theta):
        layout.load(theta)
        return sum(
            F.cross_entropy(torch.from_numpy(logits(net, s, resolve("promptfl").local)), s.y)
            for s in shards.values()
        )

    result = loss(play("promptfl", rounds=4).theta)
    assert result < loss(play("promptfl", until=0).theta)


def test_the_tower_is_asked_once_where_nothing_in_it_trains():
    local = resolve("promptfl").local
    net = toy_clip(extend=local.extend)
    layout = Layout(net)
    theta = play("promptfl", until=1).theta
    layout.load(theta)
    shard = toy_shard("north")
    before = logits(net, shard, local)
    assert assembly.is_frozen(net)
    classes = ["a", "b", "c"]
    data = Shards(classes, {}, ["north"], {"north": shard}, {}, {}, {}, [], {})
    table = assembly.with_features(net, data)
    result = table.train["north"].images.shape
    assert result == (len(shard), 16)
    classes = table.train["north"]
    result = torch.from_numpy(logits(net, classes, local))
    assert_close(result, torch.from_numpy(before))


def test_a_tower_that_projects_slices_is_not_frozen_unless_released():
    assert not assembly.is_frozen(volumes())
    assert assembly.is_frozen(volumes(rule="released"))


def test_it_resumes_to_the_same_bits_from_disk(tmp_path):
    states.save(tmp_path, play("promptfl", until=1), ROSTER)
    path = states.saved(tmp_path)[-1]
    state = states.restore(path, ROSTER, "cpu")
    again = play("promptfl", state=state)
    assert torch.equal(again.theta, play("promptfl").theta)


def test_another_network_is_refused():
    with pytest.raises(UsageError, match="CLIP") as error:
        toy_net(extend=resolve("promptfl").local.extend)
    assert "--model clip-vit-b16" in error.value.hint
