import math

import pytest
import torch
from conftest import play
from torch.testing import assert_close

from fedcli.federation.client import Training
from fedcli.methods import resolve


def transformed(loss, **settings):
    x = torch.tensor(loss, requires_grad=True)
    value = resolve("propfair", settings).local.transformed(x)
    value.backward()
    return value.item(), x.grad.item()


def test_below_the_bound_it_is_a_logarithm():
    """M = 5, l = 3: -log 2, and a slope of 1 / 2."""
    expected = pytest.approx((-math.log(2), 0.5))
    assert transformed(3.0) == expected


def test_near_and_above_the_bound_it_is_a_straight_line():
    """Epsilon 0.5: slope 2 from l = 4.5 on; at 6, -log 0.5 + 1.5 / 0.5."""
    expected = pytest.approx((-math.log(0.5) + 3.0, 2.0))
    assert transformed(6.0, epsilon=0.5) == expected
    before = transformed(4.4999, epsilon=0.5)
    after = transformed(4.5001, epsilon=0.5)
    assert before == pytest.approx(after, abs=1e-3)
    assert math.isfinite(transformed(5.0)[0])


def test_steps_grow_with_the_loss():
    slopes = [transformed(loss)[1] for loss in (0.0, 1.0, 3.0, 4.7, 9.0)]
    assert slopes == sorted(slopes)
    assert slopes[0] == pytest.approx(0.2)


def test_far_below_the_bound_it_is_fedavg_at_another_learning_rate():
    def sgd(lr):
        return Training(optimizer="sgd", lr=lr, momentum=0.0, weight_decay=0.0, batch_size=8)

    theta = play("propfair", {"bound": 1e4}, training=sgd(1e3), rounds=2).theta
    expected = play("fedavg", training=sgd(0.1), rounds=2).theta
    assert_close(theta, expected, atol=1e-3, rtol=1e-2)
