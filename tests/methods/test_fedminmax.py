"""FedMinMax, Algorithm 1."""

import pytest
from conftest import play
from group_clients import moved
from tables_of_numbers import rows
from torch.testing import assert_close


def test_fedminmax_by_hand():
    """mu = rho = (3/4, 1/4), plus 0.1 (1, 2), on the simplex: (0.85 - 0.15, 0.45 - 0.15)."""
    device = rows("4.0 1.0; 2.0 1.0")
    non_blocking = rows("5.0 1.0; 1.0 3.0")
    shared = moved("fedminmax", device, non_blocking, eta=0.1)
    expected = pytest.approx([0.7, 0.3])
    assert shared["group_shares"] == expected
    expected = pytest.approx([0.7 / 0.75, 0.3 / 0.25])
    assert shared["group_weights"] == expected


def test_fedminmax_without_a_step_is_fedavg():
    device = [[6.0, 2.0]]
    non_blocking = [[1.0, 9.0]]
    result = moved("fedminmax", device, non_blocking, eta=0.0)["group_weights"]
    assert result == [1.0, 1.0]
    theta = play("fedminmax", {"eta": 0.0}, rounds=2).theta
    assert_close(theta, play("fedavg", rounds=2).theta, atol=1e-5, rtol=1e-4)
