"""FedMGDA+, Algorithm 1: worked by hand, its two ends, and what a min-norm combination must satisfy."""

import numpy as np
import pytest
import torch
from conftest import client_updates, toy_net
from tables_of_numbers import rows as number_rows

from fedcli.errors import UsageError
from fedcli.methods import resolve
from fedcli.methods.fedmgda import min_norm
from fedcli.models.layout import Layout


def aggregated(updates, theta=None, **settings):
    theta = torch.zeros(updates.theta.shape[1]) if theta is None else theta
    return resolve("fedmgda-plus", settings).aggregator.aggregate(theta, updates, {})


def close(tensor, numbers):
    expected = pytest.approx(numbers, abs=1e-6)
    assert tensor.tolist() == expected


def two_clients():
    """Updates at right angles, of lengths 3 and 4; lambda0 = (3/4, 1/4)."""
    theta = number_rows("3.0 0.0; 0.0 4.0")
    return client_updates(theta, n=[30.0, 10.0])


def test_golden_vector():
    # ||l u_1 + (1 - l) u_2||^2 = l^2 + (1 - l)^2 falls until l = 1/2; epsilon = 0.1 stops it at l = 0.75 - 0.1
    # eta = 0.75 * 3 + 0.25 * 4 = 3.25; theta = 3.25 * (0.65, 0.35)
    theta, weights = aggregated(two_clients(), epsilon=0.1)
    close(weights, [0.65, 0.35])
    close(theta, [2.1125, 1.1375])


def test_golden_vector_of_three_clients():
    # u = (1, 0), (0, 1), (0.6, 0.8), lambda0 = 1/3 each. All of the third's weight is worth more elsewhere:
    # u_3 (u_1 + u_2) / 2 = 0.7 > 0.5, so epsilon = 1 gives (1/2, 1/2, 0); epsilon = 0.2 leaves it 1/3 - 0.2 = 2/15.
    # With l_3 = 2/15 and l_1 = l, l_2 = 13/15 - l: (l + 0.08)^2 + (13/15 - l + 8/75)^2 is least where both are equal,
    # l + 6/75 = 73/75 - l, l = 67/150 and l_2 = 63/150, both below 1/3 + 0.2 = 80/150.
    updates = client_updates(number_rows("2.0 0.0; 0.0 2.0; 1.2 1.6"))
    tensor = aggregated(updates, epsilon=1.0)[1]
    close(tensor, [0.5, 0.5, 0.0])
    theta, weights = aggregated(updates, epsilon=0.2)
    numbers = [67 / 150, 63 / 150, 20 / 150]
    close(weights, numbers)
    numbers = [2 * 79 / 150, 2 * 79 / 150]
    close(theta, numbers)  # 67/150 + 0.08 = 79/150, times eta = 2


def test_the_paper_s_own_step():
    theta, _ = aggregated(two_clients(), epsilon=0.1, length="unit", step=0.5)
    close(theta, [0.325, 0.175])


def test_epsilon_0_of_equal_lengths_is_fedavg():
    updates = client_updates(number_rows("3.0 4.0; 0.0 -5.0"), n=[1.0, 3.0])
    theta, weights = aggregated(updates, epsilon=0.0)
    expected, base = resolve("fedavg").aggregator.aggregate(torch.zeros(2), updates, {})
    close(theta, expected.tolist())
    close(weights, base.tolist())


def test_one_client_alone_gets_its_own_model():
    updates = client_updates([[3.0, -4.0]])
    theta, weights = aggregated(updates, theta=torch.ones(2), epsilon=1.0)
    close(theta, [3.0, -4.0])
    assert weights.tolist() == [1.0]


def test_a_client_that_did_not_move_weighs_as_much_as_epsilon_allows():
    # u_1 = 0, so l_1 = 1/2 + 0.25; eta = (0 + 2) / 2; theta = 1 * 0.25 * (1, 0)
    updates = client_updates(number_rows("0.0 0.0; 2.0 0.0"))
    theta, weights = aggregated(updates, epsilon=0.25)
    close(weights, [0.75, 0.25])
    close(theta, [0.25, 0.0])


@pytest.mark.parametrize("length", ["kept", "unit"])
def test_where_nobody_moved_nothing_moves(length):
    updates = client_updates([[1.0, 2.0]] * 3)
    theta, weights = aggregated(updates, theta=torch.tensor([1.0, 2.0]), length=length)
    assert theta.tolist() == [1.0, 2.0]
    numbers = [1 / 3] * 3
    close(weights, numbers)


def test_clients_that_want_the_opposite_stop_mgda():
    updates = client_updates(number_rows("1.0 0.0; -9.0 0.0"))
    theta, _ = aggregated(updates, epsilon=1.0)
    close(theta, [0.0, 0.0])


def test_an_inflated_update_changes_nothing_but_the_step():
    g = torch.Generator().manual_seed(1)
    models = torch.randn(4, 6, generator=g)
    inflated = models * torch.tensor(number_rows("1.0; 1000.0; 1.0; 1.0"))
    usual, with_inflated = (
        aggregated(client_updates(m), epsilon=0.2, length="unit") for m in (models, inflated)
    )
    numbers = with_inflated[0].tolist()
    close(usual[0], numbers)
    numbers = with_inflated[1].tolist()
    close(usual[1], numbers)


def test_buffers_are_averaged_with_the_weights():
    layout = Layout(toy_net())
    size = layout.size
    trainable = layout.trainable
    assert trainable < size
    theta = torch.zeros(size)
    rows = torch.zeros(2, size)
    rows[0, 0], rows[1, 1] = 3.0, 4.0
    rows[0, trainable:], rows[1, trainable:] = 1.0, 2.0
    updates = client_updates(rows, layout=layout, n=[30.0, 10.0])
    out, _weights = aggregated(updates, theta, epsilon=0.1)
    close(out[:2], [2.1125, 1.1375])
    numbers = [0.65 * 1 + 0.35 * 2] * (size - trainable)
    close(out[trainable:], numbers)


@pytest.mark.parametrize("seed", range(5))
def test_mgda_s_direction_descends_for_every_client(seed):
    rng = np.random.default_rng(seed)
    u = rng.standard_normal((12, 40)) + 0.3
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    prior = np.full(12, 1 / 12)
    products = u @ u.T
    d = min_norm(products, prior, 1.0) @ u
    assert (u @ d >= d @ d - 1e-9).all()
    assert d @ d > 0


@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.1, 1.0])
def test_no_other_weights_that_are_allowed_are_shorter(epsilon):
    """<gradient, other - weights> >= 0 for the best other weights: as much as can be where the slope is least."""
    rng = np.random.default_rng(7)
    u = rng.standard_normal((30, 8))  # more clients than numbers: a singular table
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    prior = rng.dirichlet(np.ones(30))
    products = u @ u.T
    weights = min_norm(products, prior, epsilon)
    low = np.maximum(prior - epsilon, 0)
    high = np.minimum(prior + epsilon, 1)
    assert weights.sum() == pytest.approx(1)
    assert (weights >= low - 1e-12).all()
    assert (weights <= high + 1e-12).all()
    slope = u @ (weights @ u)
    best = low.copy()
    for k in np.argsort(slope):
        best[k] += min(high[k] - low[k], 1 - best.sum())
    assert slope @ (best - weights) >= -1e-9


@pytest.mark.parametrize("epsilon", [-0.1, 1.1])
def test_epsilon_is_a_share(epsilon):
    with pytest.raises(UsageError, match="epsilon"):
        resolve("fedmgda-plus", {"epsilon": epsilon})
