"""DnC, Algorithm 2: who is left out, by which numbers of the model."""

import numpy as np
import pytest
import torch
from conftest import client_updates, play
from tables_of_numbers import rows
from torch.testing import assert_close

from fedcli.methods import resolve

LINE = rows("0.0 1.0; 1.0 1.2; 2.0 0.9; 3.0 1.1; 40.0 1.0")


def aggregate(models, round=1, **settings):
    updates = client_updates(models)
    object.__setattr__(updates, "round", round)
    theta = torch.zeros(len(models[0]))
    model, weights = resolve("dnc", settings).aggregator.aggregate(theta, updates, {})
    return model.tolist(), weights.tolist()


def test_the_farthest_along_the_first_singular_vector_is_left_out():
    """Almost all variation is along the first number, whose mean is 9.2: 40 is farthest, 0 next."""
    model, weights = aggregate(LINE)
    assert weights == [0.25, 0.25, 0.25, 0.25, 0.0]
    assert model == pytest.approx([1.5, 1.05])
    model, weights = aggregate(LINE, hostile=0.4)
    assert weights == pytest.approx([0, 1 / 3, 1 / 3, 1 / 3, 0])
    assert model == pytest.approx([2.0, 3.2 / 3])


def test_scores_are_the_squared_projections_of_the_paper():
    models = np.random.default_rng(3).normal(size=(7, 5))
    centred = models - models.mean(0)
    first = np.linalg.svd(centred)[2][0]
    scores = (centred @ first) ** 2
    _, weights = aggregate(models.tolist(), hostile=0.4)
    left_out = np.flatnonzero(np.array(weights) == 0)
    assert set(left_out) == set(scores.argsort()[-3:])


def test_without_hostile_clients_it_is_the_plain_mean():
    model, weights = aggregate(LINE, hostile=0.0)
    assert weights == [0.2] * 5
    assert model == pytest.approx(np.mean(LINE, 0).tolist())
    trained = play("dnc", {"hostile": 0.0}, rounds=2).theta
    assert_close(trained, play("trimmed-mean", {"hostile": 0.0}, rounds=2).theta)


def test_a_client_that_any_set_leaves_out_is_left_out():
    """Clients 3 and 4 are outliers in one number each. Sets of one number find either; many sets find both."""
    models = np.random.default_rng(0).normal(size=(6, 2))
    models[3, 0] = 50
    models[4, 1] = 50
    _, weights = aggregate(models.tolist(), hostile=0.1, numbers=1, iterations=20)
    assert weights == [0.25, 0.25, 0.25, 0.0, 0.0, 0.25]


def test_where_sets_leave_out_everyone_the_least_often_left_out_are_averaged():
    """Each of five numbers shows another outlier, and any set leaves one client out."""
    models = (50 * np.eye(5)).tolist()
    _, weights = aggregate(models, hostile=0.1, numbers=1, iterations=40)
    assert sum(weights) == pytest.approx(1)
    assert 0 < np.count_nonzero(weights) < 5


def test_sets_follow_from_the_round_and_not_from_a_global_stream():
    models = np.random.default_rng(1).normal(size=(9, 40)).tolist()
    drawn = [aggregate(models, round=t, numbers=2, hostile=0.4)[1] for t in (1, 1, 2, 3, 4)]
    assert drawn[0] == drawn[1]
    assert any(weights != drawn[0] for weights in drawn[2:])
