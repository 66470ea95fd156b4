"""Attacks that see the honest updates, beside calculations by hand and what each paper promises."""

import math

import pytest
import torch
from torch.testing import assert_close

from fedcli.data.corruption import joint
from fedcli.data.corruption.attack import KINDS

KINDS_OF_ALL = [name for name, kind in KINDS.items() if kind.joint]


def updates(*rows):
    return torch.tensor(rows, dtype=torch.float64)


def draws(clients=6, numbers=50, seed=0):
    stream = torch.Generator().manual_seed(seed)
    return 1 + torch.randn(clients, numbers, generator=stream, dtype=torch.float64)


def test_alie_is_so_many_deviations_below_the_mean():
    """Numbers 0, 4 have mean 2 and deviation 2; 1, 1 have none."""
    honest = updates([0.0, 1.0], [4.0, 1.0])
    assert joint.alie(honest, 1.5).tolist() == [2 - 1.5 * 2, 1.0]


def test_ipm_is_the_reversed_mean():
    honest = updates([1.0, 4.0], [3.0, 0.0])
    assert joint.ipm(honest, 0.5).tolist() == [-1.0, -1.0]


def test_min_max_goes_as_far_as_two_honest_clients_are_apart():
    """(3, 1) and (3, -1) are 2 apart, their mean is (3, 0). Against it, (3 - g, 0) is 2 from either where g^2 + 1 = 4."""
    honest = updates([3.0, 1.0], [3.0, -1.0])
    assert_close(joint.min_max(honest, 1.0).tolist(), [3 - math.sqrt(3), 0.0])
    assert_close(joint.min_max(honest, 2.0).tolist(), [3 - 2 * math.sqrt(3), 0.0])


@pytest.mark.parametrize("seed", range(5))
def test_min_max_is_no_outlier_and_could_go_no_farther(seed):
    honest = draws(seed=seed)
    farthest = torch.cdist(honest, honest).max()
    for strength, holds in ((1.0, True), (1.001, False)):
        sent = joint.min_max(honest, strength)
        distance = (sent - honest).norm(dim=1).max()
        assert (distance <= farthest * (1 + 1e-9)) == holds


@pytest.mark.parametrize("seed", range(5))
def test_alie_is_as_far_from_the_mean_as_honest_clients_are(seed):
    """In the root of the mean square over them, at a strength of 1."""
    honest = draws(seed=seed)
    mean = honest.mean(0)
    distances = (honest - mean).norm(dim=1)
    assert_close((joint.alie(honest, 1.0) - mean).norm(), distances.square().mean().sqrt())


@pytest.mark.parametrize("kind", KINDS_OF_ALL)
def test_honest_clients_that_agree_leave_no_room(kind):
    honest = updates([3.0, -1.0], [3.0, -1.0], [3.0, -1.0])
    sent = KINDS[kind].joint(honest, 0.5)
    expected = [-1.5, 0.5] if kind == "ipm" else [3.0, -1.0]
    assert_close(sent.tolist(), expected)
    assert_close(KINDS[kind].joint(honest[:1], 0.5), sent)  # and so does one alone
    assert KINDS[kind].joint(0 * honest, 0.5).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("kind", KINDS_OF_ALL)
def test_the_order_of_clients_does_not_matter(kind):
    honest = draws()
    assert_close(KINDS[kind].joint(honest.flip(0), 0.5), KINDS[kind].joint(honest, 0.5))
