"""FedSNR: weights by the signal-to-noise ratio of clients' images."""

import pytest
import torch
from conftest import client_updates, play, toy_net, toy_shard, toy_shards
from group_clients import client_of
from torch.testing import assert_close

from fedcli.data.shard import with_images
from fedcli.methods import resolve


def ratio(images, snr="released"):
    """The ratio that a client with these images [N, C, H, W] reports."""
    shard = toy_shard("north", len(images))
    client = client_of(
        toy_net(), with_images(shard, torch.as_tensor(images, dtype=torch.uint8), "cpu")
    )
    resolve("fedsnr", {"snr": snr}).aggregator.measure_global(toy_net(), client)
    return client.report["snr"].item()


def test_weights_by_hand():
    snr = torch.tensor([1.0, 4.0])
    table = client_updates(torch.eye(2), n=(3, 1), snr=snr)
    theta, weights = resolve("fedsnr").aggregator.aggregate(torch.zeros(2), table, {})
    expected = pytest.approx([0.2, 0.8])
    assert weights.tolist() == expected
    expected = pytest.approx([0.2, 0.8])
    assert theta.tolist() == expected
    rule = resolve("fedsnr", {"weights": "samples"}).aggregator
    result = rule.aggregate(torch.zeros(2), table, {})[1].tolist()
    expected = pytest.approx([3 / 7, 4 / 7])
    assert result == expected


def test_ratios_by_hand():
    """Half of the pixels 10 and half 30: mean 20 over 10; and 10 and 50: 30 over 10; the client's is their mean."""
    halves = torch.tensor([10, 30]).repeat_interleave(32).reshape(1, 8, 8)
    result = ratio(torch.stack([halves]))
    assert result == pytest.approx(2)
    images = torch.stack([halves, torch.where(halves == 30, 50, 10)])
    result = ratio(images)
    assert result == pytest.approx(2.5)
    images = torch.full((1, 1, 8, 8), 7)
    result = ratio(images)
    assert result == 1  # flat
    images = torch.where(halves == 30, 30, 0)[None]
    result = ratio(images)
    expected = pytest.approx(15 * 12**0.5)
    assert result == expected  # black ground


@pytest.mark.parametrize(
    ("background", "clean", "noisy"),
    [(0, 43, 5.8), (5, 3.5, 4.8), (20, 1.6, 3.4), (200, 1.06, 1.19)],
)
def test_noise_lowers_the_released_ratio_on_a_black_background_and_raises_it_on_others(
    background, clean, noisy
):
    """The numbers of the docstring: a square 50 grey levels above its background, and noise of 40 grey levels."""
    image = torch.full((16, 1, 64, 64), float(background))
    image[:, :, :32, :32] += 50
    generator = torch.Generator().manual_seed(0)
    noise = 40 * torch.randn(image.shape, generator=generator)
    assert ratio(image.clamp(0, 255)) == pytest.approx(clean, rel=0.02)
    assert ratio((image + noise).clamp(0, 255).round()) == pytest.approx(noisy, rel=0.08)


def test_noise_lowers_immerkaers_ratio_whatever_the_picture():
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(4, 1, 8, 8, generator=generator)
    ratios = [
        ratio((120 + sigma * noise).clamp(0, 255).round(), "immerkaer") for sigma in (2, 8, 32)
    ]
    assert ratios[0] > 3 * ratios[1] > 9 * ratios[2] > 9


def test_clients_with_the_same_images_count_alike_and_as_in_fedavg_by_samples():
    shard = toy_shard("north", 8)
    alike = toy_shards(**dict.fromkeys(("north", "south", "east", "west"), shard))
    plain = play("fedavg", rounds=2, shards=alike).theta
    for settings in ({}, {"weights": "samples"}, {"snr": "immerkaer"}):
        assert_close(play("fedsnr", settings, rounds=2, shards=alike).theta, plain)
