"""HarmoFL: the common amplitude spectrum, once, and FedSAM's steps under it."""

import pytest
import torch
from conftest import ROSTER, play, toy_net, toy_shard, toy_shards
from torch import nn
from torch.testing import assert_close

from fedcli.data.shard import EVALUATION_BATCH
from fedcli.data.transforms import to_pixels
from fedcli.errors import UsageError
from fedcli.federation.client import Training
from fedcli.methods import resolve
from fedcli.methods.contract import ClientRound
from fedcli.methods.harmofl import STANDS, AmplitudeNorm
from fedcli.methods.spectra import amplitudes
from fedcli.models.layout import Layout
from fedcli.models.wrapped import Fed, Prepared


def network(**settings):
    extend = resolve("harmofl", settings).local.extend
    return toy_net(dropout=0.0, extend=extend)


def amplitude_of(theta, **settings):
    net = network(**settings)
    return theta[Layout(net).spans[STANDS]]


def images(client):
    return torch.cat([batch.x for batch in toy_shard(client).in_order()])


def test_an_image_gets_the_common_mean_colour_and_stays_as_it_is_until_there_is_one():
    layer = AmplitudeNorm(1, 8, 0.0)
    x = images("north")[:2]
    assert torch.equal(layer(x), x)
    layer.amplitude += 0.25
    result = to_pixels(layer(x)).mean((1, 2, 3))
    expected = torch.tensor([0.25, 0.25])
    assert_close(result, expected)
    result = (layer(x) - x).std((1, 2, 3))
    assert_close(result, torch.zeros(2), atol=1e-5, rtol=0)


@pytest.mark.parametrize("low", [0.0, 0.2])
def test_the_spectrum_is_the_mean_over_all_images_of_all_clients_and_is_shared_once(low):
    thetas = []
    play("harmofl", {"low": low}, rounds=3, each=lambda played: thetas.append(played.state.theta))
    everyone = torch.cat([images(client) for client in ROSTER])
    expected = amplitudes(everyone, low).mean(0).flatten()
    for theta in thetas:
        assert_close(amplitude_of(theta, low=low), expected, atol=1e-6, rtol=1e-5)


def test_a_clients_spectrum_is_the_mean_over_all_of_its_evaluation_batches():
    count = 2 * EVALUATION_BATCH + 3
    shard = toy_shard("north", count)
    net = network(low=0.2)
    shard.images[:EVALUATION_BATCH] //= 2
    layout = Layout(net)
    client = ClientRound("north", 0, 1, 3, 0.1, layout.read(), {}, layout, shard, None, {})
    resolve("harmofl", {"low": 0.2}).local.on_round_start(net, client)
    expected = amplitudes(torch.cat([batch.x for batch in shard.in_order()]), 0.2).mean(0).flatten()
    result = layout.flat[layout.spans[STANDS]]
    assert_close(result, expected, atol=1e-5, rtol=1e-4)


def test_all_clients_may_count_the_same():
    theta = play("harmofl", {"weights": "uniform"}, rounds=1).theta
    means = torch.stack([amplitudes(images(client), 0.0).mean() for client in ROSTER])
    assert_close(amplitude_of(theta), means.mean()[None])


def test_what_a_client_keeps_of_its_statistics_is_no_amplitude():
    training = Training(optimizer="sgd", lr=0.1, weight_decay=0.0, batch_size=8, bn="local")
    state = play("harmofl", rounds=2, training=training)
    statistics = state.clients["north"]["statistics"]
    layout = Layout(network())
    span = layout.spans[STANDS]
    in_statistics = statistics[slice(span.start - layout.trainable, span.stop - layout.trainable)]
    assert_close(in_statistics, state.theta[span])


def test_where_clients_have_one_spectrum_it_is_fedsam():
    """Every image has the mean 0.5, so the first round gives each its own amplitude back."""
    shards = toy_shards()
    for shard in shards.values():
        half = shard.images[:, :, ::2] // 2
        shard.images[:, :, ::2] = half
        shard.images[:, :, 1::2] = 255 - half
    ours, sam = (
        play(spec, shards=shards, rounds=2, dropout=0.0).theta for spec in ("harmofl", "fedsam")
    )
    assert_close(ours[:95], sam[:95], atol=1e-3, rtol=1e-3)


def test_hospitals_with_another_brightness_look_the_same_to_the_network():
    """Pictures that are darker in one hospital than in another have equal features."""
    net = network().eval()
    x = images("north")
    net.backbone[0].amplitude += 0.4
    darker = x - 0.3
    assert_close(net(x), net(darker), atol=1e-4, rtol=1e-3)
    result = toy_net(dropout=0.0).eval()(x)
    other = toy_net(dropout=0.0).eval()(darker)
    assert not torch.allclose(result, other, atol=1e-2)


def test_networks_that_do_not_see_the_images_are_refused():
    local = resolve("harmofl").local
    with pytest.raises(UsageError, match="prepares its images itself"):
        backbone = nn.Conv2d(1, 16, 4)
        local.extend(Prepared(backbone, 16, 3, "fp32", Fed(4)))
    net = toy_net()
    net.backbone.requires_grad_(False)
    with pytest.raises(UsageError, match="frozen backbone"):
        local.extend(net)
