import pytest
import torch
from conftest import play

from fedcli.methods.feddecorr import correlation


def test_correlations_by_hand():
    """Two features that rise together and one that is uncorrelated with both: 5 of 9 squares are 1."""
    a, b = torch.tensor([1.0, 1.0, -1.0, -1.0]), torch.tensor([1.0, -1.0, 1.0, -1.0])
    assert correlation(torch.stack([a, 2 * a + 5, b], 1)).item() == pytest.approx(5 / 9)


def test_it_knows_no_scale_and_no_sign():
    features = torch.randn(9, 4, generator=torch.Generator().manual_seed(1))
    scaled = features * torch.tensor([2.0, -3.0, 0.5, 1.0]) + 7
    torch.testing.assert_close(correlation(scaled), correlation(features))


def test_constant_features_and_a_single_image_have_no_correlation():
    features = torch.ones(4, 2, requires_grad=True)
    value = correlation(features)
    value.backward()
    assert value.item() == 0 and features.grad.isfinite().all()
    assert correlation(torch.randn(1, 3)).item() == 0


def test_without_strength_it_is_fedavg():
    torch.testing.assert_close(play("feddecorr", {"beta": 0.0}, rounds=2).theta, play("fedavg", rounds=2).theta)
