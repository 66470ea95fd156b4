"""Centred clipping, Eq. 3: steps from the last update, and how far anyone can pull them."""

import numpy as np
import pytest
import torch
from conftest import client_updates, flat_layout, play
from tables_of_numbers import rows
from torch.testing import assert_close

from fedcli.methods import resolve


def aggregate(models, memory=None, theta=(0.0, 0.0), **settings):
    rule = resolve("centred-clipping", settings).aggregator
    memory = {} if memory is None else memory
    model, weights = rule.aggregate(torch.tensor(theta), client_updates(models), memory)
    assert weights.sum().item() == pytest.approx(1)
    return model.tolist(), weights.tolist()


def test_two_rounds_by_hand():
    """From 0 with tau = 5: (3, 4) stays, (0, 20) becomes (0, 5), so v = (1.5, 4.5). In the second round updates are (1.5, 4.5)
    from the new model, which is v itself, and (1.5, 14.5), which is 10 away and cut to 5: v = (1.5, 7)."""
    memory = {}
    models = rows("3.0 4.0; 0.0 20.0")
    model, weights = aggregate(models, memory, radius=5.0)
    assert model == pytest.approx([1.5, 4.5])
    assert weights == pytest.approx([1 / 1.25, 0.25 / 1.25])
    assert memory["update"].tolist() == pytest.approx([1.5, 4.5])
    models = rows("3.0 9.0; 3.0 19.0")
    model, weights = aggregate(models, memory, (1.5, 4.5), radius=5.0)
    assert model == pytest.approx([3.0, 11.5])
    assert weights == pytest.approx([2 / 3, 1 / 3])


def test_more_iterations_continue_from_the_last_one():
    """Tau = 5, from 0: 4 and 20 give (4 + 5) / 2 = 4.5, then 4.5 + (-0.5 + 5) / 2 = 6.75."""
    models = rows("4.0 0.0; 20.0 0.0")
    model, _ = aggregate(models, radius=5.0, iterations=2)
    assert model == pytest.approx([6.75, 0.0])


def test_the_median_distance_is_the_default_and_the_lower_one_of_two():
    models = rows("1.0 0.0; 2.0 0.0; 0.0 -4.0; 0.0 900.0")
    assert aggregate(models) == aggregate(models, radius=2.0)


def test_with_room_for_all_it_is_the_plain_mean():
    trained = play("centred-clipping", {"radius": 1e9}, rounds=2).theta
    assert_close(trained, play("trimmed-mean", {"hostile": 0.0}, rounds=2).theta)


@pytest.mark.parametrize("far", [1e2, 1e6])
def test_a_hostile_client_moves_a_round_by_its_share_of_the_radius(far):
    """Whatever it sends; and in the opposite direction every round takes as much back."""
    honest = rows("1.0 0.0; 1.2 0.1; 0.8 -0.1; 1.0 0.1")
    memory = {"update": torch.tensor([1.0, 0.0])}
    pulled, _ = aggregate([*honest, [0.0, far]], dict(memory), radius=0.5)
    without, _ = aggregate([*honest, [1.0, 0.0]], dict(memory), radius=0.5)
    assert np.linalg.norm(np.subtract(pulled, without)) <= 0.5 / 5 + 1e-6


def test_statistics_of_batch_norm_are_averaged_with_the_same_weights():
    layout = flat_layout(3)
    layout.trainable = 2
    theta = rows("3.0 4.0 2.0; 0.0 20.0 8.0")
    rule = resolve("centred-clipping", {"radius": 5.0}).aggregator
    updates = client_updates(theta, layout=layout)
    model, _ = rule.aggregate(torch.zeros(3), updates, {})
    assert model.tolist() == pytest.approx([1.5, 4.5, 0.8 * 2 + 0.2 * 8])
