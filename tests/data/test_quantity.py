"""Quantity skew: sizes from a Dirichlet draw, images at random."""

import numpy as np
import pytest

from fedcli.data.partition import resolve
from fedcli.data.partition.scheme import Images
from fedcli.errors import FedcliError, UsageError

Y = np.repeat([0, 1], [3000, 1000])


def divided(y=Y, seed=0, **settings):
    method = resolve("quantity", settings)
    return method.assign(Images(y, seed=seed))


def test_every_image_goes_to_one_client():
    parts = divided(clients=8, beta=0.5)
    expected = [f"client-{k:02d}" for k in range(8)]
    assert list(parts) == expected
    result = sorted(np.concatenate(list(parts.values())))
    assert result == list(range(len(Y)))
    for part in parts.values():
        assert (np.diff(part) > 0).all()


def test_sizes_are_the_shares_drawn_first_up_to_one_image():
    q = Images(Y, seed=3).rng.dirichlet([0.5] * 8)
    sizes = np.array([len(part) for part in divided(seed=3, clients=8, beta=0.5).values()])
    assert (np.abs(sizes - q * len(Y)) < 1).all()


def test_a_large_beta_is_nearly_even():
    sizes = [len(part) for part in divided(clients=8, beta=1e6).values()]
    result = max(sizes) - min(sizes)
    assert result < 0.02 * len(Y) / 8


def test_variance_of_shares_is_that_of_the_dirichlet():
    """Var q_j = (1/K)(1 - 1/K) / (K beta + 1): 0.0417 for K = 4, beta = 0.875."""
    shares = []
    for seed in range(400):
        parts = divided(seed=seed, clients=4, beta=0.875)
        shares.append([len(part) / len(Y) for part in parts.values()])
    expected = pytest.approx(0.25 * 0.75 / 4.5, rel=0.1)
    assert np.var(shares) == expected


def test_labels_are_those_of_the_whole():
    """A share of class 1 among n images at random has a standard deviation below sqrt(0.1875 / n)."""
    for part in divided(clients=5, beta=2.0).values():
        result = abs(Y[part].mean() - 0.25)
        assert result < 5 * np.sqrt(0.1875 / len(part))


def test_the_seed_decides():
    rows, repeated, other = (divided(seed=s, clients=4)["client-00"].tolist() for s in (1, 1, 2))
    assert rows == repeated != other


def test_what_it_refuses():
    with pytest.raises(UsageError, match="beta=0"):
        resolve("quantity", {"beta": 0})
    with pytest.raises(FedcliError, match="divided among 9 clients"):
        divided(y=np.zeros(8, int), clients=9)
