"""FedMAS and KD: the teacher, its projector and the views it is shown."""

import pytest
import torch
from conftest import CLASSES, ROSTER, play, toy_net, toy_shard
from torch import nn
from torch.testing import assert_close

import fedcli.methods.fedmas as fedmas  # importing registers
from fedcli.methods import resolve
from fedcli.models.layout import Layout


def extended():
    return toy_net(extend=resolve("fed-mas").local.extend)


class Watched(nn.Module):
    """A teacher that counts how often it is asked, and in which mode."""

    def __init__(self, body):
        super().__init__()
        self.body = body
        self.width = 16
        self.asked = []

    def forward(self, x):
        self.asked.append((len(x), self.training or self.body.training, x.requires_grad))
        return self.body(x)


def watch(monkeypatch):
    """Give every network of a play() the same kind of teacher from outside; return all of them."""
    teachers = []
    extend = fedmas.Distilled.extend

    def watched(self, net):
        teachers.append(Watched(toy_net(9).backbone))
        net.teacher = teachers[-1]
        extend(self, net)

    monkeypatch.setattr(fedmas.Distilled, "extend", watched)
    return teachers


@pytest.mark.parametrize("view", ["same", "clean"])
def test_the_teacher_never_moves_is_always_still_and_is_never_sent(view, monkeypatch):
    teachers = watch(monkeypatch)
    flipped = {c: toy_shard(c, kind="flip") for c in ROSTER}
    state = play("fed-mas", {"teacher_view": view}, shards=flipped)
    fresh = Watched(toy_net(9).backbone).state_dict()
    for name, tensor in teachers[0].state_dict().items():
        assert torch.equal(tensor, fresh[name])
    assert teachers[0].asked
    for _, training, _ in teachers[0].asked:
        assert not training
    layout = Layout(extended())
    assert len(state.theta) == layout.size
    for name in layout.shapes:
        assert not name.startswith("teacher")


@pytest.mark.parametrize(
    ("kind", "view", "cached"),
    [
        ("none", "same", True),
        ("none", "clean", True),
        ("flip", "clean", True),
        ("flip", "same", False),
    ],
)
@pytest.mark.parametrize("spec", ["fed-mas", "kd"])
def test_a_fixed_view_is_shown_to_the_teacher_once_in_a_run(spec, kind, view, cached, monkeypatch):
    teachers = watch(monkeypatch)
    shards = {c: toy_shard(c, 20, kind=kind) for c in ROSTER}
    play(spec, {"teacher_view": view}, shards=shards, rounds=3)
    images = sum(count for count, _, _ in teachers[0].asked)
    once = 4 * 20
    every_step = 3 * 4 * 20
    expected = once
    if not cached:
        expected = every_step + (once if spec == "fed-mas" else 0)
    assert images == expected


def test_a_cached_view_belongs_to_its_teacher():
    shard = toy_shard("north")
    net = toy_net(extend=resolve("kd").local.extend)
    extend = resolve("kd").local.extend
    other_net = toy_net(3, extend=extend)
    view = fedmas.fixed_view(net.eval(), shard)
    assert fedmas.fixed_view(net, shard) is view
    assert not torch.equal(fedmas.fixed_view(other_net.eval(), shard), view)


def test_without_a_file_the_teacher_is_the_backbone_as_it_starts():
    net = extended()
    start = toy_net().backbone.state_dict()
    assert net.teacher.width == 16
    for k, v in net.teacher.state_dict().items():
        assert torch.equal(v, start[k])
    for p in net.teacher.parameters():
        assert not p.requires_grad
    for p in net.backbone.parameters():
        assert p.requires_grad


def test_the_projector_is_two_layers_with_batch_norm_between_them():
    kinds = (nn.Linear, nn.BatchNorm1d, nn.ReLU, nn.Linear)
    projector = extended().projector
    assert len(projector) == 4
    for part, kind in zip(projector, kinds, strict=True):
        assert isinstance(part, kind)


def test_the_projector_ends_at_the_teachers_width():
    method = resolve("kd", {"rule": "released"})
    net = toy_net()
    net.teacher = Watched(nn.Linear(1, 1))
    net.teacher.width = 40
    method.local.extend(net)
    result = [tuple(p.shape) for p in net.projector.parameters() if p.ndim == 2]
    assert result == [
        (16, 16),
        (40, 16),
    ]
    assert net.auxiliary.weight.shape == (CLASSES, 40)


def test_the_teacher_computes_low_where_the_model_does():
    net = extended().eval()
    x = next(toy_shard("north").in_order()).x
    exact = fedmas.teacher_features(net, x)
    net.bf16 = True
    low = fedmas.teacher_features(net, x)
    assert low.dtype == torch.float32
    assert not torch.equal(low, exact)
    assert_close(low, exact, atol=0.05, rtol=0.05)
