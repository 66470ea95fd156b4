import torch
from conftest import ROSTER, play, toy_net
from torch import nn

from fedcli.federation.client import Training
from fedcli.methods import fedbn, resolve  # noqa: F401 - importing registers
from fedcli.models.layout import Layout

OWN = {"backbone.1.weight", "backbone.1.bias", "backbone.1.running_mean", "backbone.1.running_var"}


def test_batch_norm_layers_are_kept_by_type_whatever_their_name():
    net = nn.Sequential(
        nn.Linear(3, 3), nn.BatchNorm1d(3), nn.LayerNorm(3), nn.Sequential(nn.BatchNorm2d(2))
    )
    personal = set(resolve("fedbn").local.personal_tensors(net))
    names = {name for name, _ in (*net.named_parameters(), *net.named_buffers())}
    expected = {name for name in names if name.startswith(("1.", "3."))}
    assert personal == expected


def test_the_global_model_holds_no_batch_norm():
    net = toy_net()
    personal = resolve("fedbn").local.personal_tensors(net)
    layout = Layout(net, personal)
    assert not OWN & set(layout.shapes)
    assert set(layout.own_shapes) == OWN
    assert len(play("fedbn").theta) == layout.size == len(Layout(toy_net()).read()) - 16


def test_what_is_averaged_differs_from_fedavg_after_two_rounds():
    net = toy_net()
    personal = resolve("fedbn").local.personal_tensors(net)
    shared = Layout(net, personal)
    whole = Layout(toy_net())
    ours = shared.named(play("fedbn", until=2).theta)
    plain = whole.named(play("fedavg", until=2).theta)
    for name in shared.weights:
        assert not torch.equal(ours[name], plain[name])


def test_every_client_has_layers_of_its_own():
    state = play("fedbn")
    result = len({tuple(memory["own"].tolist()) for memory in state.clients.values()})
    assert result == len(ROSTER)


def test_a_lone_client_trains_as_under_fedavg():
    """With nobody to average with, it is no matter what stays at home."""
    net = toy_net()
    personal = resolve("fedbn").local.personal_tensors(net)
    layout = Layout(net, personal)
    whole = Layout(toy_net())
    ours = play("fedbn", roster=["north"])
    plain = play("fedavg", roster=["north"])
    tensors = layout.named(ours.theta, ours.clients["north"]["own"])
    for name, tensor in whole.named(plain.theta).items():
        assert torch.equal(tensors[name], tensor), name


def test_without_batch_norm_nothing_is_kept():
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(144, 3))
    assert resolve("fedbn").local.personal_tensors(net) == ()


def test_an_absent_client_keeps_its_layers():
    early = play("fedbn", rounds=4, until=1, participation=0.5)
    participants = []
    late = play(
        "fedbn",
        rounds=4,
        until=2,
        participation=0.5,
        state=early,
        each=lambda played: participants.extend(played.clients),
    )
    for client in early.clients:
        result = torch.equal(early.clients[client]["own"], late.clients[client]["own"])
        assert result == (client not in participants)


def test_adam_and_frozen_statistics_work():
    training = Training(optimizer="adam", lr=0.01, batch_size=16, bn="freeze")
    assert play("fedbn", training=training).theta.isfinite().all()


def test_a_first_visit_does_not_start_from_the_layers_of_the_client_before():
    forward = play("fedbn", rounds=1)
    roster = ROSTER[::-1]
    backward = play("fedbn", rounds=1, roster=roster)
    for client in ROSTER:
        expected = backward.clients[client]["own"]
        assert torch.equal(forward.clients[client]["own"], expected)
