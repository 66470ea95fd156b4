import pytest
import torch
from bowls import optimum, settled
from conftest import ROSTER, client_updates, flat_layout, play, toy_net, toy_shard
from tables_of_numbers import rows
from torch import nn
from torch.testing import assert_close

from fedcli.federation.client import ClientTask, Training, run_client
from fedcli.methods import fednova, resolve
from fedcli.methods.contract import ClientRound
from fedcli.models.layout import Layout

assert fednova  # importing registers


def effective(steps, *, mu=0.0, momentum=0.0, lr=0.1):
    layout = flat_layout(1)
    theta = torch.zeros(1)
    client = ClientRound(
        "a", 0, 1, 1, lr, theta, {}, layout, None, None, {}, steps=steps, momentum=momentum
    )
    client.scratch["mu"] = mu
    resolve("fednova").aggregator.measure_local(nn.Module(), client)
    return client.report["local_steps_effective"].item()


def test_two_clients_by_hand():
    """Sizes 3 and 1, one step of (2, 0) and four steps to (0, 4): per step (2, 0) and (0, 1).

    Direction 0.75 (2, 0) + 0.25 (0, 1) = (1.5, 0.25); tau_eff = 0.75 * 1 + 0.25 * 4 = 1.75."""
    table = client_updates(
        rows("2.0 0.0; 0.0 4.0"),
        n=[3, 1],
        steps=[1, 4],
        local_steps_effective=[1.0, 4.0],
        mu=[0.0] * 2,
    )
    theta, weights = resolve("fednova").aggregator.aggregate(torch.zeros(2), table, {})
    assert_close(theta, torch.tensor([1.5, 0.25]) * 1.75)
    assert weights.tolist() == [0.75, 0.25]  # p, which the objective has
    moved, _ = resolve("fednova").aggregator.aggregate(torch.tensor([1.0, 1.0]), table, {})
    # deltas (1, -1) and (-1, 3) / 4: direction (0.75 - 0.0625, -0.75 + 0.1875)
    expected = torch.tensor([1 + 1.75 * 0.6875, 1 - 1.75 * 0.5625])
    assert_close(moved, expected)


def test_with_a_proximal_term_tau_counts_steps():
    table = client_updates(
        rows("2.0 0.0; 0.0 4.0"),
        n=[1, 1],
        steps=[3, 5],
        local_steps_effective=[2.0, 4.0],
        mu=[0.1, 0.1],
    )
    theta, _ = resolve("fednova").aggregator.aggregate(torch.zeros(2), table, {})
    assert_close(theta, torch.tensor([0.5, 0.5]) * 4)  # tau_eff 4, not the mean of a, 3


def test_what_local_steps_add_up_to():
    assert effective(7) == 7
    expected = pytest.approx(1 + 1.5 + 1.75)
    assert effective(3, momentum=0.5) == expected  # c
    expected = pytest.approx((0.8 + 1) * 0.8 + 1)
    assert effective(3, mu=2.0) == expected
    expected = pytest.approx((0.8 * 1 + 1.5) * 0.8 + 1.75)
    assert effective(3, mu=2.0, momentum=0.5) == expected


@pytest.mark.parametrize(
    ("base", "mu", "momentum", "nesterov"),
    [
        ("fedavg", 0.0, 0.0, False),
        ("fedavg", 0.0, 0.9, False),
        ("fedavg", 0.0, 0.9, True),
        ("fedprox", 3.0, 0.0, False),
    ],
)
def test_it_is_the_distance_gone_under_a_constant_gradient(
    base, mu, momentum, nesterov, monkeypatch
):
    """The real loop with gradient 1 everywhere ends at theta - lr * a."""
    pytest.importorskip("fedcli.methods.fedprox")
    from fedcli.methods.contract import Local
    from fedcli.methods.fedavg import Plain

    def ones(self, net, batch, client):
        client.layout.grad.fill_(1.0)
        return torch.zeros(())

    monkeypatch.setattr(Local, "gradient", ones)
    assert Plain.gradient is ones
    net = toy_net()
    layout = Layout(net)
    theta = layout.read()
    t = layout.trainable
    training = Training(
        optimizer="sgd",
        lr=0.01,
        momentum=momentum,
        nesterov=nesterov,
        weight_decay=0.0,
        batch_size=8,
    )
    method = resolve(f"{base}+fednova", {"mu": mu} if mu else {})
    task = ClientTask("north", 0, 1, 1, 1, theta, {}, {})
    report = run_client(method, net, layout, toy_shard("north"), task, training)
    gone = theta[:t] - 0.01 * report.columns["local_steps_effective"].float()
    assert_close(report.theta[:t], gone, atol=1e-5, rtol=1e-4)


def test_a_fedprox_client_says_how_strongly_it_was_pulled():
    mus = []
    play(
        "fedprox+fednova",
        {"mu": 0.3},
        rounds=1,
        each=lambda played: mus.append(played.columns["mu"].tolist()),
    )
    assert mus == [[0.3] * 4]


def test_momentum_of_another_optimizer_does_not_count():
    columns = []
    training = Training(optimizer="adam", lr=0.01, momentum=0.9, batch_size=8)
    state = play(
        "fednova", training=training, rounds=1, each=lambda played: columns.append(played.columns)
    )
    counts = [-(-len(toy_shard(c)) // 8) for c in ROSTER]
    assert columns[0]["local_steps_effective"].tolist() == counts
    assert state.theta.isfinite().all()


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_equal_steps_make_it_fedavg(momentum):
    shards = {c: toy_shard(c, 20 + i) for i, c in enumerate(ROSTER)}  # three batches of 8 each
    training = Training(optimizer="sgd", lr=0.05, momentum=momentum, weight_decay=0.0, batch_size=8)
    nova, plain = (
        play(name, shards=shards, training=training).theta for name in ("fednova", "fedavg")
    )
    assert_close(nova, plain, atol=1e-6, rtol=1e-6)


def test_unequal_steps_make_it_something_else():
    assert not torch.allclose(play("fednova").theta, play("fedavg").theta, atol=1e-4)


@pytest.mark.parametrize(("base", "settings"), [("scaffold", {}), ("feddyn", {"alpha": 1.0})])
def test_a_base_that_corrects_drift_settles_at_the_same_objective_under_it(base, settings):
    """Three steps a round for one client and nine for the other: p / a as weights would end elsewhere."""
    spec = f"{base}+fednova"
    result = settled(spec, settings, batch_size=10, epochs=3)
    expected = pytest.approx(optimum(0.25, 0.75), abs=1e-3)
    assert result == expected
    result = abs(settled("fednova", batch_size=10, epochs=3) - optimum(0.25, 0.75))
    assert result > 0.01


def test_statistics_are_averaged_by_size():
    layout = flat_layout(2)
    layout.trainable = 1
    theta = rows("2.0 4.0; 4.0 8.0")
    table = client_updates(
        theta,
        layout=layout,
        n=[3, 1],
        steps=[1, 4],
        local_steps_effective=[1.0, 4.0],
        mu=[0.0] * 2,
    )
    result = resolve("fednova").aggregator.aggregate(torch.zeros(2), table, {})[0][1].item()
    assert result == 5.0


def test_a_doubled_client_counts_double_and_order_does_not_matter():
    rule = resolve("fednova").aggregator
    theta = torch.zeros(1)
    steps = [1, 3, 3]
    local_steps_effective = [1.0, 3.0, 3.0]
    twice = client_updates(
        [[1.0], [5.0], [5.0]],
        n=[3, 2, 2],
        steps=steps,
        local_steps_effective=local_steps_effective,
        mu=[0.0] * 3,
    )
    once = client_updates(
        [[5.0], [1.0]],
        n=[4, 3],
        rows=[1, 0],
        steps=[3, 1],
        local_steps_effective=[3.0, 1.0],
        mu=[0.0] * 2,
    )
    result = rule.aggregate(theta, twice, {})[0]
    expected = rule.aggregate(theta, once, {})[0]
    assert_close(result, expected)
