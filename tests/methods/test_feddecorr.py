import pytest
import torch
import torch.nn.functional as F
from conftest import play, toy_net, toy_shard
from group_clients import client_of
from torch.testing import assert_close

from fedcli.methods import resolve
from fedcli.methods.feddecorr import correlation, released


def test_correlations_by_hand():
    """Two features that rise together and one that is uncorrelated with both: 5 of 9 squares are 1."""
    a = torch.tensor([1.0, 1.0, -1.0, -1.0])
    b = torch.tensor([1.0, -1.0, 1.0, -1.0])
    features = torch.stack([a, 2 * a + 5, b], 1)
    result = correlation(features).item()
    assert result == pytest.approx(5 / 9)


def test_the_released_penalty_by_hand():
    """Four images: 2 of 6 squares outside the diagonal are 1, times 3 * 3 / 4."""
    a = torch.tensor([1.0, 1.0, -1.0, -1.0])
    b = torch.tensor([1.0, -1.0, 1.0, -1.0])
    features = torch.stack([a, 2 * a + 5, b], 1)
    result = released(features).item()
    expected = pytest.approx(2 / 6 * 9 / 4)
    assert result == expected
    assert released(torch.randn(1, 3)).item() == released(torch.randn(4, 1)).item() == 0


def test_both_rules_push_the_same_way():
    gradients = []
    for penalty in (correlation, released):
        generator = torch.Generator().manual_seed(1)
        features = torch.randn(9, 4, generator=generator).requires_grad_()
        penalty(features).backward()
        gradients.append(features.grad)
    images, width = 9, 4
    ratio = (images - 1) ** 2 / images * width / (width - 1)
    expected = ratio * gradients[0]
    assert_close(gradients[1], expected, atol=1e-6, rtol=1e-4)


def test_it_knows_no_scale_and_no_sign():
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(9, 4, generator=generator)
    scaled = features * torch.tensor([2.0, -3.0, 0.5, 1.0]) + 7
    assert_close(correlation(scaled), correlation(features))


def test_constant_features_and_a_single_image_have_no_correlation():
    features = torch.ones(4, 2, requires_grad=True)
    value = correlation(features)
    value.backward()
    assert value.item() == 0
    assert features.grad.isfinite().all()
    result = correlation(torch.randn(1, 3)).item()
    assert result == 0


@pytest.mark.parametrize(("rule", "penalty"), [("paper", correlation), ("released", released)])
def test_the_gradient_is_that_of_the_loss_and_the_penalty_together(rule, penalty):
    net = toy_net(dropout=0.0)
    shard = toy_shard("north", 8)
    client = client_of(net, shard)
    batch = next(shard.in_order())
    features = net.features(batch.x)
    loss = F.cross_entropy(net.head(features), batch.y)
    parameters = [p for p in net.parameters() if p.requires_grad]
    expected = torch.autograd.grad(loss + 0.5 * penalty(features), parameters)
    returned = resolve("feddecorr", {"beta": 0.5, "rule": rule}).local.gradient(net, batch, client)
    for parameter, gradient in zip(parameters, expected, strict=True):
        assert_close(parameter.grad, gradient, atol=1e-6, rtol=1e-4)
    assert_close(returned, loss.detach())


def test_without_strength_it_is_fedavg():
    result = play("feddecorr", {"beta": 0.0}, rounds=2).theta
    expected = play("fedavg", rounds=2).theta
    assert_close(result, expected)
