import pytest
import torch
import torch.nn.functional as F
from conftest import client_updates, play, toy_net, toy_shard
from tables_of_numbers import rows
from torch.testing import assert_close

from fedcli.federation.client import ClientTask, Training, run_client
from fedcli.methods import fedprox, resolve  # noqa: F401 - importing registers
from fedcli.models.layout import Layout


def test_two_steps_are_equation_2_written_out():
    """Two full-batch steps on F(w) + mu/2 ||w - w_t||^2 by autograd, the square and all."""
    shard = toy_shard("north")
    net = toy_net(dropout=0.0)
    other = toy_net(dropout=0.0).train()
    layout = Layout(net)
    training = Training(optimizer="sgd", lr=0.1, weight_decay=0.0, batch_size=10_000, epochs=2)
    task = ClientTask("north", 0, 1, 1, 0, layout.read(), {}, {})
    method = resolve("fedprox", {"mu": 0.7})
    report = run_client(method, net, layout, shard, task, training)

    batch = next(shard.in_order())
    params = list(other.parameters())
    start = [p.detach().clone() for p in params]
    for _ in range(2):
        drift = sum((p - s).square().sum() for p, s in zip(params, start, strict=True))
        loss = F.cross_entropy(other(batch.x), batch.y) + 0.7 / 2 * drift
        with torch.no_grad():
            for p, g in zip(params, torch.autograd.grad(loss, params), strict=True):
                p -= 0.1 * g
    expected = torch.cat([p.detach().reshape(-1) for p in params])
    assert_close(report.theta[: layout.trainable], expected, atol=1e-6, rtol=1e-5)


def test_without_a_pull_it_is_fedavg():
    result = play("fedprox", {"mu": 0.0}).theta
    assert torch.equal(result, play("fedavg").theta)


def test_the_stronger_the_pull_the_less_a_model_moves():
    start = Layout(toy_net()).read()
    moved = [
        (play("fedprox", {"mu": mu}, rounds=1).theta - start)[:95].norm() for mu in (0.0, 0.5, 2.0)
    ]
    assert moved[0] > moved[1] > moved[2]


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_batch_norm_statistics_are_not_pulled(optimizer):
    """After one full-batch step the statistics are those of FedAvg, however strong the pull."""
    training = Training(optimizer=optimizer, lr=0.01, weight_decay=0.0, batch_size=10_000)
    proximal, plain = (
        play(spec, rounds=1, training=training).theta[95:] for spec in ("fedprox", "fedavg")
    )
    assert torch.equal(proximal, plain)


def test_a_doubled_client_counts_double_and_order_does_not_matter():
    rule = resolve("fedprox").aggregator
    theta = torch.zeros(2)
    updates = client_updates(rows("1.0 2.0; 4.0 -1.0"), n=[2, 1])
    heavy, _ = rule.aggregate(theta, updates, {})
    updates = client_updates(rows("4.0 -1.0; 1.0 2.0; 1.0 2.0"), n=[1, 1, 1])
    twice, _ = rule.aggregate(theta, updates, {})
    assert_close(heavy, twice)


def test_absent_clients_do_no_harm():
    assert play("fedprox", rounds=4, participation=0.5).theta.isfinite().all()
