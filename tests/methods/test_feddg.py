"""FedDG: spectra that clients share, and a step that counts images in other clients' style."""

import pytest
import torch
import torch.nn.functional as F
from conftest import ROSTER, client_updates, play, toy_net, toy_shard
from group_clients import client_of
from torch.testing import assert_close

from fedcli.data.transforms import to_pixels
from fedcli.errors import UsageError
from fedcli.federation.client import ClientTask, Training, run_client
from fedcli.federation.steps import with_own
from fedcli.methods import resolve
from fedcli.methods.spectra import amplitudes, exchanged
from fedcli.models.layout import Layout

SGD = Training(optimizer="sgd", lr=0.1, weight_decay=0.0, batch_size=10_000)


def gradient_on(layout, net, x, y):
    """Gradient of the mean loss on these images [T]; batch norm uses their statistics."""
    net.train()
    layout.zero_grad()
    F.cross_entropy(net(x), y).backward()
    return layout.grad.clone()


@pytest.mark.parametrize("step", [0.0, 0.5])
def test_a_step_is_the_gradient_here_and_that_after_an_inner_step_on_exchanged_images(step):
    """One other client with one spectrum, so that only the mix is drawn."""
    shard = toy_shard("north", 6)
    net = toy_net(dropout=0.0)
    local = resolve("feddg", {"step": step, "low": 0.2}).local
    style = amplitudes(toy_shard("south", 1).batch(torch.tensor([0])).x, 0.2)  # [1, 1, 3, 3]
    shared = {"amplitudes": style[None], "amplitude_rows": torch.tensor([1])}
    client = client_of(net, shard, shared)
    layout = client.layout
    local.on_round_start(net, client)
    mix = client.per_image["mix"]
    result = len(set(mix.flatten().tolist()))
    assert result == 6
    assert mix.min() >= 0
    assert mix.max() <= 1
    batch = with_own(shard.batch(torch.arange(6)), client)
    net.train()
    layout.zero_grad()
    start = layout.read()
    local.gradient(net, batch, client)
    step_gradient = layout.grad.clone()
    after = layout.params.clone()
    assert torch.equal(after, start[: layout.trainable])
    assert step_gradient.norm() > 0.01
    g = gradient_on(layout, net, batch.x, batch.y)
    layout.params.sub_(step * g)
    after_inner_step = gradient_on(
        layout, net, exchanged(batch.x, style, 0.2, mix, cut=True), batch.y
    )
    assert_close(step_gradient, g + after_inner_step, atol=1e-5, rtol=1e-4)


def test_images_in_another_style_are_cut_to_what_pixels_can_be(monkeypatch):
    """A style twice as bright as white: what the network sees is white and nothing beyond."""
    shard = toy_shard("north", 4)
    net = toy_net(dropout=0.0)
    local = resolve("feddg", {"low": 0.0}).local
    shared = {"amplitudes": torch.full((1, 1, 1, 1, 1), 2.0), "amplitude_rows": torch.tensor([1])}
    client = client_of(net, shard, shared)
    local.on_round_start(net, client)
    client.per_image["mix"].fill_(1.0)
    pixels = []
    forward = net.forward
    monkeypatch.setattr(net, "forward", lambda x: pixels.append(to_pixels(x)) or forward(x))
    local.gradient(net, with_own(shard.batch(torch.arange(4)), client), client)
    assert pixels[1].min() > 0.99
    assert pixels[1].max() < 1.01


def test_what_leaves_a_client_are_the_amplitudes_of_some_of_its_own_images():
    shard = toy_shard("north", 6)
    net = toy_net()
    local = resolve("feddg", {"spectra": 3, "low": 0.2}).local
    client = client_of(net, shard)
    local.on_round_start(net, client)
    sent = client.report["amplitudes"]
    of_images = amplitudes(shard.batch(torch.arange(6)).x, 0.2)
    assert sent.shape == (3, 1, 3, 3)
    for spectrum in sent:
        assert any(torch.allclose(spectrum, image) for image in of_images)


def test_a_client_sees_the_spectra_of_others_alone_and_trains_plainly_without_any():
    local = resolve("feddg").local
    net = toy_net()
    spectra = torch.arange(3.0).view(3, 1, 1, 1, 1).expand(3, 2, 1, 1, 1)
    theta = torch.zeros(3, 1)
    rows = [2, 0, 3]
    updates = client_updates(theta, rows=rows, roster=4, amplitudes=spectra)
    shared = {}
    local.post_aggregate(torch.zeros(1), updates, updates.base, shared)
    client = client_of(net, toy_shard("north", 4), shared)  # of row 0
    local.on_round_start(net, client)
    result = client.scratch["others"].flatten().tolist()
    assert result == [0.0, 0.0, 2.0, 2.0]
    for nothing in ({}, {"amplitudes": spectra[:1], "amplitude_rows": torch.tensor([0])}):
        client = client_of(net, toy_shard("north", 4), nothing)
        local.on_round_start(net, client)
        assert not client.scratch


def test_the_first_round_is_fedavg_and_later_ones_are_not():
    expected = play("fedavg", rounds=1).theta
    assert torch.equal(play("feddg", rounds=1).theta, expected)
    other = play("fedavg", rounds=2).theta
    assert not torch.allclose(play("feddg", rounds=2).theta, other, atol=1e-3)


def test_with_its_own_amplitudes_and_no_inner_step_a_step_is_twice_as_long():
    """Style that is the image's own: g' = g."""
    shard = toy_shard("north", 1)
    net = toy_net(dropout=0.0)
    layout = Layout(net)
    spectrum = amplitudes(shard.batch(torch.tensor([0])).x, 0.0)
    shared = {"amplitudes": spectrum[None], "amplitude_rows": torch.tensor([1])}

    def moved(spec, settings, shared):
        theta = Layout(toy_net(dropout=0.0)).read()
        task = ClientTask("north", 0, 2, 3, 0, theta, shared, {})
        method = resolve(spec, settings)
        shard = toy_shard("north", 1)
        report = run_client(method, net, layout, shard, task, SGD)
        return (report.theta - task.theta)[: layout.trainable]

    net.eval()
    twice = moved("feddg", {"step": 0.0}, shared)
    once = moved("fedavg", {}, {})
    assert_close(twice, 2 * once, atol=1e-5, rtol=1e-4)


def test_a_frozen_backbone_is_refused():
    net = toy_net()
    net.backbone.requires_grad_(False)
    with pytest.raises(UsageError, match="frozen backbone"):
        resolve("feddg").local.extend(net)


def test_spectra_are_the_same_in_every_round_and_styles_are_drawn_anew():
    spectra = []
    play(
        "feddg",
        rounds=3,
        roster=ROSTER,
        each=lambda played: spectra.append(played.columns["amplitudes"]),
    )
    assert torch.equal(spectra[0], spectra[2])
    local = resolve("feddg").local
    net = toy_net()
    shared = {"amplitudes": spectra[0], "amplitude_rows": torch.arange(4)}
    clients = [client_of(net, toy_shard("north"), shared) for _ in range(2)]
    clients[1].round = 2
    for client in clients:
        local.on_round_start(net, client)
    assert not torch.equal(clients[0].per_image["mix"], clients[1].per_image["mix"])
