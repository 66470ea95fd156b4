"""FedLESAM, on a loss whose gradient is known."""

from dataclasses import replace

import pytest
import torch
from conftest import ROSTER, play, toy_federation, toy_shards
from quadratic import gradient_at
from torch.testing import assert_close

from fedcli.methods import resolve


def test_fedlesam_looks_back_along_the_global_way():
    """From (0, 8) to (3, 4): back is (-3, 4) / 5."""
    old = {"global": torch.tensor([0.0, 8.0])}
    grad, _, client = gradient_at("fedlesam", {"rho": 0.5}, [3.0, 4.0], memory=old)
    assert grad == pytest.approx([2.7, 4.4])
    result = client.memory["global"].tolist()
    assert result == [3.0, 4.0]
    assert old["global"].tolist() == [0.0, 8.0]


@pytest.mark.parametrize("memory", [{}, {"global": torch.tensor([3.0, 4.0])}])
def test_fedlesam_without_a_way_takes_plain_steps(memory):
    result = gradient_at("fedlesam", {"rho": 0.5}, [3.0, 4.0], memory=memory)[0]
    assert result == [3.0, 4.0]


def test_clients_that_a_rule_does_not_keep_train_too_since_they_remember_the_model():
    models = []
    for fewest in (0, 4):
        federation = toy_federation(
            resolve("fedlesam+power-of-choice"), shards=toy_shards(), rounds=3, seed=1
        )
        federation = replace(federation, min_clients=fewest)
        state = federation.first()
        while state.round < 3:
            state = federation.play(state, ROSTER).state
        models.append(state.theta)
    assert torch.equal(*models)


def test_without_a_radius_it_is_fedavg():
    theta = play("fedlesam", {"rho": 0.0}, rounds=2).theta
    plain = play("fedavg", rounds=2).theta
    assert_close(theta, plain, atol=1e-6, rtol=1e-5)
