"""GIFAIR: weights that follow the rank of the losses."""

import pytest
import torch
from conftest import client_updates, play
from group_clients import moved
from tables_of_numbers import rows
from torch.testing import assert_close

from fedcli.methods import resolve
from fedcli.methods.gifair import spread_weights


def test_ranks_by_hand():
    """Three groups: ranks 2, -2 and 0; lambda = 1/2 of the largest, which is 0.2 / 2."""
    share = torch.tensor([0.5, 0.3, 0.2])
    loss = torch.tensor([9.0, 1.0, 2.0])
    expected = pytest.approx([0.5 + 0.1, 0.3 - 0.1, 0.2])
    assert spread_weights(share, loss, 0.5).tolist() == expected
    assert spread_weights(share, loss, 1.0).min() >= 0
    result = spread_weights(share, loss, 1.0).sum()
    assert result == pytest.approx(1)


def test_rounding_leaves_no_weight_below_zero():
    """The smallest share minus seven times its seventh part is -1.7e-18 here."""
    share = torch.tensor([3, 8, 23, 26, 27, 31, 46, 50]).double()
    share = share / share.sum()
    loss = torch.arange(8).double()
    assert spread_weights(share, loss, 1.0).min() == 0


def test_equal_losses_and_one_group_change_nothing():
    share = torch.tensor([0.75, 0.25])
    loss = torch.tensor([2.0, 2.0])
    result = spread_weights(share, loss, 1.0)
    assert torch.equal(result, share)
    loss = torch.tensor([2.0])
    result = spread_weights(torch.tensor([3.0]), loss, 1.0).tolist()
    assert result == [1.0]


def test_groups_of_patients_by_hand():
    """rho = (3/4, 1/4), mean losses 1 and 2: mu = (3/4 - 1/8, 1/4 + 1/8)."""
    device = rows("4.0 1.0; 2.0 1.0")
    non_blocking = rows("5.0 1.0; 1.0 3.0")
    shared = moved("gifair", device, non_blocking, strength=0.5)
    expected = pytest.approx([0.625, 0.375])
    assert shared["group_shares"] == expected
    expected = pytest.approx([0.625 / 0.75, 0.375 / 0.25])
    assert shared["group_weights"] == expected


def test_an_absent_group_keeps_its_weight_and_the_others_share_the_rest():
    """Groups have (8, 2, 6) images in all; the two that are here have 4/7 and 3/7: mu = 3/4 (4/7 - 3/14, 3/7 + 3/14)."""
    group_shares = torch.tensor([0.5, 0.25, 0.25]).double()
    group_images = torch.tensor([4.0, 2.0, 2.0])
    before = {
        "group_shares": group_shares,
        "group_images": group_images,
    }
    device = [[4.0, 0.0, 4.0]]
    non_blocking = [[4.0, 0.0, 8.0]]
    shared = moved("gifair", device, non_blocking, before, strength=0.5)
    expected = pytest.approx([0.75 * 5 / 14, 0.25, 0.75 * 9 / 14])
    assert shared["group_shares"] == expected


def test_clients_by_hand():
    table = client_updates(torch.eye(2), n=(3, 1), loss_before=(1.0, 2.0))
    theta, weights = resolve("gifair-clients", {"strength": 0.5}).aggregator.aggregate(
        torch.zeros(2), table, {}
    )
    expected = pytest.approx([0.625, 0.375])
    assert weights.tolist() == expected
    expected = pytest.approx([0.625, 0.375])
    assert theta.tolist() == expected


@pytest.mark.parametrize("spec", ["gifair", "gifair-clients"])
def test_without_strength_it_is_fedavg(spec):
    theta = play(spec, {"strength": 0.0}, rounds=2).theta
    assert_close(theta, play("fedavg", rounds=2).theta, atol=1e-5, rtol=1e-4)
