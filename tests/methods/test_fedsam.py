"""FedSAM and MoFedSAM, on a loss whose gradient is known."""

import pytest
import torch
from conftest import client_updates, play, toy_net, toy_shard
from quadratic import gradient_at
from tables_of_numbers import rows
from torch.testing import assert_close

from fedcli.federation.client import ClientTask, Training, run_client
from fedcli.methods import resolve
from fedcli.models.layout import Layout


def test_the_gradient_is_that_a_step_uphill():
    """At (3, 4) the gradient is (3, 4), of length 5: w~ = (3, 4) (1 + rho / 5)."""
    grad, loss, _ = gradient_at("fedsam", {"rho": 0.5}, [3.0, 4.0])
    assert grad == pytest.approx([3.3, 4.4])
    assert loss == 12.5
    result = gradient_at("fedsam", {"rho": 0.0}, [3.0, 4.0])[0]
    assert result == [3.0, 4.0]


def test_mofedsam_mixes_it_with_the_shared_direction():
    """0.25 (3.3, 4.4) + 0.75 (4, 0), which is also what it reports of its one step."""
    shared = {"direction": torch.tensor([4.0, 0.0])}
    settings = {"rho": 0.5, "beta": 0.25}
    grad, _, client = gradient_at("mofedsam", settings, [3.0, 4.0], shared=shared)
    assert grad == pytest.approx([3.825, 1.1])
    expected = pytest.approx([3.825, 1.1])
    assert client.report["direction"].tolist() == expected
    settings = {"rho": 0.0, "beta": 0.5}
    result = gradient_at("mofedsam", settings, [3.0, 4.0])[0]
    assert result == [
        1.5,
        2.0,
    ]  # the first round


def test_the_shared_direction_is_the_weighted_mean():
    shared = {}
    direction = rows("4.0 0.0; 0.0 8.0")
    theta = torch.zeros(2, 2)
    table = client_updates(theta, n=[3, 1], direction=direction)
    resolve("mofedsam").local.post_aggregate(torch.zeros(2), table, table.base, shared)
    assert shared["direction"].tolist() == [3.0, 2.0]


@pytest.mark.parametrize(
    ("spec", "settings", "same"),
    [
        ("fedsam", {"rho": 0.0}, "fedavg"),
        ("mofedsam", {"rho": 0.0, "beta": 1.0}, "fedavg"),
        ("mofedsam", {"beta": 1.0}, "fedsam"),
    ],
)
def test_limits(spec, settings, same):
    """Without dropout, which the second pass draws anew."""
    theta, plain = (
        play(*method, rounds=2, dropout=0.0).theta for method in ((spec, settings), (same,))
    )
    assert_close(theta, plain, atol=1e-6, rtol=1e-5)


def test_the_direction_is_the_mean_of_a_clients_steps():
    """Under plain SGD the way gone over K lr, as Algorithm 2 has it."""
    net = toy_net(dropout=0.0)
    training = Training(optimizer="sgd", lr=0.1, weight_decay=0.0, batch_size=8, epochs=2)
    layout = Layout(net)
    start = layout.read()
    t = layout.trainable
    task = ClientTask("north", 0, 1, 3, 0, start, {}, {})
    shard = toy_shard("north", 20)
    report = run_client(resolve("mofedsam"), net, layout, shard, task, training)
    assert report.steps == 6
    expected = (start - report.theta)[:t] / (6 * 0.1)
    assert_close(report.columns["direction"], expected, atol=1e-6, rtol=1e-3)
