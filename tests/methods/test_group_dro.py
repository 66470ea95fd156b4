"""Group DRO, Algorithm 1."""

import pytest
import torch
from group_clients import moved
from tables_of_numbers import rows


def test_group_dro_by_hand():
    """Mean losses 6 / 6 = 1 and 4 / 2 = 2: q = softmax of 0.5 and 1; w = q over shares 3/4 and 1/4."""
    device = rows("4.0 1.0; 2.0 1.0")
    non_blocking = rows("5.0 1.0; 1.0 3.0")
    shared = moved("group-dro", device, non_blocking, eta=0.5)
    q = torch.softmax(torch.tensor([0.5, 1.0]).double(), 0)
    expected = pytest.approx(q.tolist())
    assert shared["group_shares"] == expected
    expected = pytest.approx([q[0].item() / 0.75, q[1].item() / 0.25])
    assert shared["group_weights"] == expected


def test_group_dro_adjusts_for_the_size_of_a_group():
    """Equal losses, sizes 4 and 1: Eq. 5 adds C / 2 and C."""
    device = [[4.0, 1.0]]
    non_blocking = [[4.0, 1.0]]
    shared = moved("group-dro", device, non_blocking, eta=1.0, adjustment=2.0)
    expected = pytest.approx(torch.softmax(torch.tensor([2.0, 3.0]).double(), 0).tolist())
    assert shared["group_shares"] == expected


def test_group_dro_without_a_step_makes_groups_count_the_same():
    device = [[6.0, 2.0]]
    non_blocking = [[1.0, 9.0]]
    shared = moved("group-dro", device, non_blocking, eta=0.0)
    assert shared["group_shares"] == [0.5, 0.5]
    expected = pytest.approx([0.5 / 0.75, 2.0])
    assert shared["group_weights"] == expected
