"""FLTrust, Algorithm 2."""

import pytest
import torch
from conftest import client_updates

from fedcli.errors import FedcliError
from fedcli.methods import resolve


def aggregate(models, **settings):
    return resolve("fltrust", settings).aggregator.aggregate(
        torch.zeros(2), client_updates(models), {}
    )


def test_scores_and_lengths_by_hand():
    """g_0 = (3, 4). The second has cosine 3/5 and is scaled from 10 to 5; the third points away."""
    model, weights = aggregate([[3.0, 4.0], [10.0, 0.0], [-9.0, -12.0]])
    expected = pytest.approx([1 / 1.6, 0.6 / 1.6, 0.0])
    assert weights.tolist() == expected
    expected = pytest.approx([(3 + 0.6 * 5) / 1.6, 4 / 1.6])
    assert model.tolist() == expected


def test_alone_the_trusted_hospital_has_its_own_model():
    model, weights = aggregate([[-3.0, -4.0], [3.0, 4.0]], trusted=2)
    assert model.tolist() == pytest.approx([3.0, 4.0])
    assert weights.tolist() == [0.0, 1.0]
    result = aggregate([[0.0, 0.0], [3.0, 4.0]])[0].tolist()
    assert result == [0.0, 0.0]  # one that did not move


def test_no_client_moves_the_model_farther_than_the_trusted_one():
    for far in (1.0, 1e4):
        model, _ = aggregate([[1.0, 0.0], [0.9, 0.1], [far, far]])
        assert model.norm() <= 1 + 1e-6


def test_a_place_that_nobody_has_is_an_error():
    with pytest.raises(FedcliError, match="client 7 of the roster is trusted, but 2 took part"):
        aggregate([[1.0, 0.0], [0.0, 1.0]], trusted=7)
