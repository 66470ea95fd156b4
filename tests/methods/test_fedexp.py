import pytest
import torch
from conftest import client_updates, flat_layout, play
from tables_of_numbers import rows
from torch.testing import assert_close

from fedcli.methods import resolve


def model(updates, n=(3, 1), epsilon=1e-9):
    moved = torch.tensor(updates)
    squared_length = moved.square().sum(1).double()
    table = client_updates(moved + 1.0, n=n, squared_length=squared_length)
    memory = {}
    theta, weights = resolve("fedexp", {"epsilon": epsilon}).aggregator.aggregate(
        torch.ones(2), table, memory
    )
    expected = [n[0] / sum(n), n[1] / sum(n)]
    assert weights.tolist() == expected
    return (theta - 1).tolist(), float(memory["eta"])


def test_eta_by_hand():
    """Updates (2, 1) and (-2, 1) alike: mean (0, 1), squares 5, so eta = 5 / 2."""
    updates = rows("2.0 1.0; -2.0 1.0")
    result = model(updates, n=(1, 1))
    expected = (
        pytest.approx([0.0, 2.5]),
        pytest.approx(2.5),
    )
    assert result == expected


def test_weights_count_in_both_sums():
    """3/4 (2, 0) + 1/4 (-2, 0) = (1, 0); squares 4: eta 2. Epsilon 1 halves it to 1.

    3/4 (2, 0) + 1/4 (-4, 0) = (1/2, 0); squares 3/4 4 + 1/4 16 = 7: eta 14.
    """
    updates = rows("2.0 0.0; -2.0 0.0")
    result = model(updates)
    expected = (pytest.approx([2.0, 0.0]), pytest.approx(2.0))
    assert result == expected
    updates = rows("2.0 0.0; -4.0 0.0")
    result = model(updates)
    expected = (pytest.approx([7.0, 0.0]), pytest.approx(14.0))
    assert result == expected
    updates = rows("2.0 0.0; -2.0 0.0")
    result = model(updates, epsilon=1.0)
    expected = (pytest.approx([1.0, 0.0]), 1.0)
    assert result == expected


def test_updates_that_agree_are_averaged():
    updates = rows("2.0 1.0; 2.0 1.0")
    result = model(updates)
    expected = (pytest.approx([2.0, 1.0]), 1.0)
    assert result == expected
    theta = play("fedexp", {"epsilon": 1e9}, rounds=2).theta
    assert_close(theta, play("fedavg", rounds=2).theta)


def test_statistics_take_no_step():
    layout = flat_layout(3)
    layout.trainable = 2
    theta = rows("2.0 0.0 4.0; -2.0 1.0 8.0")
    table = client_updates(theta, layout=layout, n=(3, 1), squared_length=[4.0, 5.0])
    result = resolve("fedexp").aggregator.aggregate(torch.zeros(3), table, {})[0][2].item()
    assert result == 5.0
