import pytest
import torch
from conftest import client_updates, play
from torch.testing import assert_close

from fedcli.methods import resolve


def weights(settings, losses=(1.0, 2.0), n=(3, 1)):
    table = client_updates(torch.eye(2), n=n, loss_before=losses)
    theta, w = resolve("term", settings).aggregator.aggregate(torch.zeros(2), table, {})
    expected = pytest.approx(w.tolist())
    assert theta.tolist() == expected
    return w.tolist()


def test_weights_by_hand():
    """3 exp(0.5) and 1 exp(1), over their sum: 1 and exp(0.5) / 3."""
    ratio = 2.718281828**0.5 / 3
    expected = pytest.approx([1 / (1 + ratio), ratio / (1 + ratio)])
    assert weights({"t": 0.5}) == expected


def test_without_a_tilt_it_is_fedavg():
    assert weights({"t": 0.0}) == [0.75, 0.25]
    result = play("term", {"t": 0.0}, rounds=2).theta
    expected = play("fedavg", rounds=2).theta
    assert_close(result, expected)


def test_a_large_tilt_follows_the_worst_client_and_a_large_one_below_0_the_best():
    assert weights({"t": 1e4}) == [0.0, 1.0]
    result = weights({"t": -1e4})
    assert result == [1.0, 0.0]
    result = weights({"t": 1.0}, losses=(900.0, 901.0), n=(1, 1))
    assert result == pytest.approx([0.26894142, 0.73105858])


def test_equal_losses_change_nothing_and_the_tilt_is_monotonous():
    result = weights({"t": 5.0}, losses=(2.0, 2.0))
    assert result == [0.75, 0.25]
    shares = [weights({"t": t})[1] for t in (-1.0, 0.0, 1.0, 2.0)]
    assert shares == sorted(shares)
