"""Batches of images on their way into a network."""

import pytest
import torch

from fedcli.data import transforms

CPU = torch.device("cpu")


@pytest.mark.parametrize("channels", [1, 3])
def test_constants_that_scoring_made_first_can_be_part_of_a_training_step(channels):
    transforms.by_channel.cache_clear()
    transforms._normal.cache_clear()
    pixels = torch.zeros(2, 1, 4, 4, dtype=torch.uint8)
    with torch.inference_mode():
        transforms.to_input(pixels, channels=channels)
    mean = transforms.by_channel(transforms.GREY_MEAN, CPU)
    trained = torch.ones(2, 1, 4, 4, requires_grad=True)
    (trained * mean).sum().backward()
    transforms.to_input(trained, channels=channels).sum().backward()
    assert torch.isfinite(trained.grad).all()


@pytest.mark.parametrize("kind", transforms.AUGMENTS)
def test_a_batch_without_images_stays_one(kind):
    none = torch.zeros(0, 3, 4, 6, dtype=torch.uint8)
    chance = torch.zeros(0, 4)
    changed = transforms.augment(none, kind, chance)
    assert changed.shape == none.shape
    result = transforms.to_input(changed, channels=3).shape
    assert result == none.shape
