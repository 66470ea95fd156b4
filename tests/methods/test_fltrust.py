"""FLTrust, Algorithm 2."""

import pytest
import torch
from conftest import client_updates
from tables_of_numbers import rows

from fedcli.errors import FedcliError
from fedcli.methods import resolve


def aggregate(models, **settings):
    return resolve("fltrust", settings).aggregator.aggregate(
        torch.zeros(2), client_updates(models), {}
    )


def test_scores_and_lengths_by_hand():
    """g_0 = (3, 4). The second has cosine 3/5 and is scaled from 10 to 5; the third points away."""
    models = rows("3.0 4.0; 10.0 0.0; -9.0 -12.0")
    model, weights = aggregate(models)
    expected = pytest.approx([1 / 1.6, 0.6 / 1.6, 0.0])
    assert weights.tolist() == expected
    expected = pytest.approx([(3 + 0.6 * 5) / 1.6, 4 / 1.6])
    assert model.tolist() == expected


def test_alone_the_trusted_hospital_has_its_own_model():
    models = rows("-3.0 -4.0; 3.0 4.0")
    model, weights = aggregate(models, trusted=2)
    expected = pytest.approx([3.0, 4.0])
    assert model.tolist() == expected
    assert weights.tolist() == [0.0, 1.0]
    models = rows("0.0 0.0; 3.0 4.0")
    result = aggregate(models)[0].tolist()
    assert result == [0.0, 0.0]  # one that did not move


def test_no_client_moves_the_model_farther_than_the_trusted_one():
    for far in (1.0, 1e4):
        models = [[1.0, 0.0], [0.9, 0.1], [far, far]]
        model, _ = aggregate(models)
        assert model.norm() <= 1 + 1e-6


def test_a_place_that_nobody_has_is_an_error():
    with pytest.raises(FedcliError, match="client 7 of the roster is trusted, but 2 took part"):
        models = rows("1.0 0.0; 0.0 1.0")
        aggregate(models, trusted=7)
