"""FedALA: what a client starts a round from."""

from dataclasses import replace

import torch
import torch.nn.functional as F
from conftest import play, toy_net, toy_shard
from group_clients import client_of
from torch.testing import assert_close

from fedcli.methods import resolve
from fedcli.methods.contract import Local
from fedcli.methods.fedala import place, upper_layers
from fedcli.models.layout import Layout


def started(settings, memory):
    """A client at its first step, and the network that it starts from."""
    net = toy_net(dropout=0.0)
    shard = toy_shard("north", 12)
    local = resolve("fedala", settings).local
    client = replace(client_of(net, shard), memory=memory)
    local.on_round_start(net, client)
    assert torch.equal(
        client.layout.read(), client.theta
    )  # a server rule measures the global model
    return client


def other_model():
    return Layout(toy_net(seed=4)).read()


def test_the_last_layers_are_those_with_trained_numbers():
    layout = Layout(toy_net())
    names = {}
    for count in (1, 2, 9):
        upper = upper_layers(layout.spans, layout.weights, count)
        names[count] = [name for name, span in layout.spans.items() if span in upper]
    assert names[1] == ["head.weight", "head.bias"]
    expected = ["backbone.1.weight", "backbone.1.bias", *names[1]]
    assert names[2] == expected
    assert names[9] == list(layout.weights)


def test_values_are_placed_in_order():
    params = torch.zeros(6)
    place(params, [slice(1, 3), slice(4, 6)], torch.tensor([1.0, 2.0, 3.0, 4.0]))
    expected = [0, 1, 2, 0, 3, 4]
    assert params.tolist() == expected


def test_one_step_on_the_weights_by_hand():
    """Later rounds: one pass, here of one batch with all images. W <- clip(W - eta g (theta - l))."""
    last = other_model()
    layout = Layout(toy_net())
    spans = [layout.spans["head.weight"], layout.spans["head.bias"]]
    before = torch.full((51,), 0.5)
    settings = {"share": 1.0, "eta": 2.0}
    client = started(settings, {"model": last, "ala_weights": before})

    net = toy_net(dropout=0.0).eval()
    shard = toy_shard("north", 12)
    theirs = Layout(net)
    g = torch.cat([theirs.read()[span] for span in spans])
    mine = torch.cat([last[span] for span in spans])
    place(theirs.params, spans, mine + 0.5 * (g - mine))
    F.cross_entropy(net(next(shard.in_order()).x), shard.y).backward()
    w = (0.5 - 2.0 * torch.cat([theirs.grad[span] for span in spans]) * (g - mine)).clamp(0, 1)
    assert_close(client.memory["ala_weights"], w)
    place(theirs.params, spans, mine + w * (g - mine))
    assert_close(client.scratch["start"], theirs.params)  # features are the global ones
    assert torch.equal(before, torch.full((51,), 0.5))


def test_weights_are_learned_longer_the_first_time():
    """At least eleven passes, or as many as there may be; a client that has no model yet learns none."""
    last = other_model()
    once = started({"most_passes": 1}, {"model": last}).memory["ala_weights"]
    longer = started({}, {"model": last}).memory["ala_weights"]
    assert not torch.equal(once, longer)
    assert 0 <= longer.min()
    assert longer.max() <= 1
    assert "start" not in started({}, {}).scratch


def test_every_round_draws_images_of_its_own():
    net = toy_net()
    local = resolve("fedala", {"share": 0.5}).local
    client = client_of(net, toy_shard("north", 12))
    images = []
    for t in (1, 1, 2):
        batches = local._batches(replace(client, round=t))
        images.append(torch.cat([batch.at for batch in batches]).tolist())
    assert images[0] == images[1] != images[2]
    assert len(images[0]) == 6


def test_without_a_step_on_the_weights_it_is_fedavg():
    """W stays 1: l + (theta - l) is theta, but for rounding."""
    settings = {"eta": 0.0, "most_passes": 1}
    ours = play("fedala", settings, rounds=3).theta
    assert_close(ours, play("fedavg", rounds=3).theta)


def test_the_first_learning_ends_where_the_last_ten_losses_have_settled(monkeypatch):
    """Without a step on the weights every pass has the same loss: the eleventh is the last."""
    passes = []
    gradient = Local.gradient

    def counted(self, net, batch, client):
        passes.append(len(batch.y))
        return gradient(self, net, batch, client)

    monkeypatch.setattr(Local, "gradient", counted)
    settings = {"eta": 0.0, "share": 1.0}
    started(settings, {"model": other_model()})
    assert passes == [12] * 11
