"""FedDG: spectra that clients share, and a step that counts images in other clients' style."""

import pytest
import torch
import torch.nn.functional as F
from conftest import ROSTER, client_updates, play, toy_net, toy_shard
from group_clients import client_of

from fedcli.data.transforms import to_pixels
from fedcli.errors import UsageError
from fedcli.federation.client import Task, Training, run_client
from fedcli.federation.steps import with_own
from fedcli.methods import resolve
from fedcli.methods.spectra import amplitudes, exchanged
from fedcli.models.layout import Layout

SGD = Training(optimizer="sgd", lr=0.1, weight_decay=0.0, batch_size=10_000)


def gradient_on(layout, net, x, y):
    """Of the mean loss on these images [T]; batch norm uses their statistics."""
    net.train()
    layout.zero_grad()
    F.cross_entropy(net(x), y).backward()
    return layout.grad.clone()


@pytest.mark.parametrize("step", [0.0, 0.5])
def test_a_step_is_the_gradient_here_and_that_after_an_inner_step_on_exchanged_images(step):
    """One other client with one spectrum, so that only the mix is drawn."""
    shard, net, local = (
        toy_shard("north", 6),
        toy_net(dropout=0.0),
        resolve("feddg", {"step": step, "low": 0.2}).local,
    )
    style = amplitudes(toy_shard("south", 1).batch(torch.tensor([0])).x, 0.2)  # [1, 1, 3, 3]
    shared = {"amplitudes": style[None], "amplitude_rows": torch.tensor([1])}
    client = client_of(net, shard, shared)
    layout = client.layout
    local.on_round_start(net, client)
    mix = client.per_image["mix"]
    assert len(set(mix.flatten().tolist())) == 6
    assert mix.min() >= 0
    assert mix.max() <= 1
    batch = with_own(shard.batch(torch.arange(6)), client)
    net.train()
    layout.zero_grad()
    start = layout.read()
    local.gradient(net, batch, client)
    made, after = layout.grad.clone(), layout.params.clone()
    assert torch.equal(after, start[: layout.trainable])
    assert made.norm() > 0.01
    g = gradient_on(layout, net, batch.x, batch.y)
    layout.params.sub_(step * g)
    there = gradient_on(layout, net, exchanged(batch.x, style, 0.2, mix, cut=True), batch.y)
    torch.testing.assert_close(made, g + there, atol=1e-5, rtol=1e-4)


def test_images_in_another_style_are_cut_to_what_pixels_can_be(monkeypatch):
    """A style twice as bright as white: what the network sees is white and nothing beyond."""
    shard, net, local = (
        toy_shard("north", 4),
        toy_net(dropout=0.0),
        resolve("feddg", {"low": 0.0}).local,
    )
    shared = {"amplitudes": torch.full((1, 1, 1, 1, 1), 2.0), "amplitude_rows": torch.tensor([1])}
    client = client_of(net, shard, shared)
    local.on_round_start(net, client)
    client.per_image["mix"].fill_(1.0)
    seen, forward = [], net.forward
    monkeypatch.setattr(net, "forward", lambda x: seen.append(to_pixels(x)) or forward(x))
    local.gradient(net, with_own(shard.batch(torch.arange(4)), client), client)
    assert seen[1].min() > 0.99
    assert seen[1].max() < 1.01


def test_what_leaves_a_client_are_the_amplitudes_of_some_of_its_own_images():
    shard, net, local = (
        toy_shard("north", 6),
        toy_net(),
        resolve("feddg", {"spectra": 3, "low": 0.2}).local,
    )
    client = client_of(net, shard)
    local.on_round_start(net, client)
    sent, own = client.report["amplitudes"], amplitudes(shard.batch(torch.arange(6)).x, 0.2)
    assert sent.shape == (3, 1, 3, 3)
    assert all(any(torch.allclose(each, image) for image in own) for each in sent)


def test_a_client_sees_the_spectra_of_others_alone_and_trains_plainly_without_any():
    local, net = resolve("feddg").local, toy_net()
    spectra = torch.arange(3.0).view(3, 1, 1, 1, 1).expand(3, 2, 1, 1, 1)
    updates = client_updates(torch.zeros(3, 1), rows=[2, 0, 3], roster=4, amplitudes=spectra)
    shared = {}
    local.post_aggregate(torch.zeros(1), updates, updates.base, shared)
    client = client_of(net, toy_shard("north", 4), shared)  # of row 0
    local.on_round_start(net, client)
    assert client.scratch["others"].flatten().tolist() == [0.0, 0.0, 2.0, 2.0]
    for nothing in ({}, {"amplitudes": spectra[:1], "amplitude_rows": torch.tensor([0])}):
        client = client_of(net, toy_shard("north", 4), nothing)
        local.on_round_start(net, client)
        assert not client.scratch


def test_the_first_round_is_fedavg_and_later_ones_are_not():
    assert torch.equal(play("feddg", rounds=1).theta, play("fedavg", rounds=1).theta)
    assert not torch.allclose(
        play("feddg", rounds=2).theta, play("fedavg", rounds=2).theta, atol=1e-3
    )


def test_with_its_own_amplitudes_and_no_inner_step_a_step_is_twice_as_long():
    """Style that is the image's own: g' = g."""
    shard, net = toy_shard("north", 1), toy_net(dropout=0.0)
    layout = Layout(net)
    own = amplitudes(shard.batch(torch.tensor([0])).x, 0.0)
    shared = {"amplitudes": own[None], "amplitude_rows": torch.tensor([1])}

    def moved(spec, settings, shared):
        task = Task("north", 0, 2, 3, 0, Layout(toy_net(dropout=0.0)).read(), shared, {})
        report = run_client(resolve(spec, settings), net, layout, toy_shard("north", 1), task, SGD)
        return (report.theta - task.theta)[: layout.trainable]

    net.eval()
    twice, once = moved("feddg", {"step": 0.0}, shared), moved("fedavg", {}, {})
    torch.testing.assert_close(twice, 2 * once, atol=1e-5, rtol=1e-4)


def test_a_frozen_backbone_is_refused():
    net = toy_net()
    net.backbone.requires_grad_(False)
    with pytest.raises(UsageError, match="frozen backbone"):
        resolve("feddg").local.extend(net)


def test_spectra_are_the_same_in_every_round_and_styles_are_drawn_anew():
    seen = []
    play(
        "feddg",
        rounds=3,
        roster=ROSTER,
        each=lambda played: seen.append(played.columns["amplitudes"]),
    )
    assert torch.equal(seen[0], seen[2])
    local, net = resolve("feddg").local, toy_net()
    shared = {"amplitudes": seen[0], "amplitude_rows": torch.arange(4)}
    clients = [client_of(net, toy_shard("north"), shared) for _ in range(2)]
    clients[1].round = 2
    for client in clients:
        local.on_round_start(net, client)
    assert not torch.equal(clients[0].per_image["mix"], clients[1].per_image["mix"])
