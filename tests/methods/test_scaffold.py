from dataclasses import dataclass, replace

import pytest
import torch
import torch.nn.functional as F
from bowls import optimum, settled
from conftest import ROSTER, client_updates, play, toy_net, toy_shard
from tables_of_numbers import rows
from torch import nn
from torch.testing import assert_close

from fedcli.federation.client import ClientTask, Training, run_client
from fedcli.methods import resolve, scaffold
from fedcli.models.layout import Layout


@dataclass(frozen=True)
class Slope(scaffold.Controlled):
    """SCAFFOLD on a loss whose gradient is 3 everywhere."""

    def loss(self, net, batch, client):
        return 3 * net.w.sum()


def lone(start):
    net = nn.Module()
    net.attributes = {}
    net.register_parameter("w", nn.Parameter(torch.tensor([start])))
    return net, Layout(net)


def slope_turn(training, **settings):
    """c_i of a client after one visit on the slope, its distance x - y and its number of steps."""
    net, layout = lone(0.0)
    local = Slope(**settings)
    method = replace(resolve("scaffold"), local=local)
    task = ClientTask("north", 0, 1, 1, 0, layout.read(), {}, {})
    shard = toy_shard("north", 8)
    report = run_client(method, net, layout, shard, task, training)
    return report.memory["control"].item(), -report.theta.item(), report.steps


@pytest.mark.parametrize("control", ["weighted", "uniform"])
def test_two_steps_are_algorithm_1_written_out(control):
    """Line 10 twice by autograd; line 12 (ii) from the distance, as the paper has it for plain SGD; line 13."""
    net = toy_net(dropout=0.0)
    other = toy_net(dropout=0.0).train()
    layout = Layout(net)
    start = layout.read()
    draw = torch.Generator().manual_seed(2)
    c, mine = (0.3 * torch.randn(layout.trainable, generator=draw) for _ in range(2))
    training = Training(optimizer="sgd", lr=0.1, weight_decay=0.0, batch_size=10_000, epochs=2)
    task = ClientTask("north", 0, 2, 3, 0, start, {"control": c}, {"control": mine})
    method = resolve("scaffold", {"control": control})
    report = run_client(method, net, layout, toy_shard("north"), task, training)

    batch = next(toy_shard("north").in_order())
    params = list(other.parameters())
    y = start[: layout.trainable].clone()
    for _ in range(2):
        g = torch.autograd.grad(F.cross_entropy(other(batch.x), batch.y), params)
        y = y - 0.1 * (torch.cat([t.reshape(-1) for t in g]) + c - mine)  # line 10
        with torch.no_grad():
            torch.nn.utils.vector_to_parameters(y, params)
    fresh = mine - c + (start[: layout.trainable] - y) / (2 * 0.1)  # line 12 (ii)
    close = {"atol": 1e-5, "rtol": 1e-4}
    assert_close(report.theta[: layout.trainable], y, **close)
    assert_close(report.memory["control"], fresh, **close)
    expected = fresh - (mine if control == "uniform" else c)
    assert_close(report.columns["control_change"], expected, **close)


def test_the_server_moves_c_over_the_roster():
    """Line 17: 1/N of each change when all count alike; K/N of the weighted mean otherwise."""
    p = torch.tensor([0.25, 0.75], dtype=torch.float64)
    control_change = rows("1.0 0.0; 3.0 -2.0")
    table = client_updates(torch.zeros(2, 2), control_change=control_change, rows=[0, 6], roster=8)
    for control, step in (("uniform", [4 / 8, -2 / 8]), ("weighted", [2.5 * 2 / 8, -1.5 * 2 / 8])):
        local = resolve("scaffold", {"control": control}).local
        theta = torch.zeros(2)
        old = torch.tensor([1.0, 1.0])
        shared = {"control": old}
        assert local.post_aggregate(theta, table, p, shared) is theta
        assert_close(shared["control"], old + torch.tensor(step))
        assert old.tolist() == [1.0, 1.0]  # replaced, not written into
        local.post_aggregate(theta, table, p, shared := {})
        assert_close(shared["control"], torch.tensor(step))


@pytest.mark.parametrize(
    "training",
    [
        Training(optimizer="sgd", lr=0.1, momentum=0.0, weight_decay=0.0, batch_size=1, epochs=3),
        Training(optimizer="sgd", lr=0.1, momentum=0.9, weight_decay=0.0, batch_size=1, epochs=3),
        Training(optimizer="adam", lr=0.1, weight_decay=0.0, batch_size=1, epochs=3),
    ],
)
def test_a_variate_is_the_gradient_under_every_optimizer(training):
    control, _, steps = slope_turn(training)
    assert steps == 24
    assert control == pytest.approx(3.0, rel=1e-6)


def test_under_momentum_it_is_the_distance_over_the_effective_steps_and_the_released_rule_is_not():
    """Effective steps of K = 24 at momentum 0.9: (K - 0.9 (1 - 0.9^K) / 0.1) / 0.1."""
    training = Training(
        optimizer="sgd", lr=0.1, momentum=0.9, weight_decay=0.0, batch_size=1, epochs=3
    )
    effective = (24 - 0.9 * (1 - 0.9**24) / 0.1) / 0.1
    control, distance, _ = slope_turn(training)
    expected = pytest.approx(distance / (0.1 * effective), rel=1e-5)
    assert control == expected
    released, distance, steps = slope_turn(training, rule="released")
    expected = pytest.approx(distance / (0.1 * steps), rel=1e-5)
    assert released == expected
    assert released > 6 * control


def test_under_plain_sgd_both_rules_agree():
    state = {rule: play("scaffold", {"rule": rule}) for rule in ("original", "released")}
    assert_close(state["original"].theta, state["released"].theta, atol=1e-5, rtol=1e-4)
    close = {"atol": 1e-5, "rtol": 1e-3}
    expected = state["released"].shared["control"]
    assert_close(state["original"].shared["control"], expected, **close)


def test_the_first_round_has_no_correction_and_is_fedavg():
    expected = play("fedavg", until=1).theta
    assert torch.equal(play("scaffold", until=1).theta, expected)


def test_weighted_c_is_the_sum_of_variates_with_this_rounds_weights_even_as_they_change():
    rounds_played = []
    state = play("scaffold+saga", each=lambda played: rounds_played.append(played))
    expected = sum(
        w * state.clients[c]["control"]
        for w, c in zip(rounds_played[-1].weights.tolist(), ROSTER, strict=True)
    )
    assert_close(state.shared["control"], expected, atol=1e-6, rtol=1e-4)
    assert not torch.allclose(rounds_played[-1].weights, rounds_played[0].weights)


def test_uniform_c_is_the_mean_of_variates_absent_clients_included():
    state = play("scaffold", {"control": "uniform"}, rounds=6, participation=0.5)
    mean = sum(memory["control"] for memory in state.clients.values()) / len(ROSTER)
    assert_close(state.shared["control"], mean, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize(("weights", "p"), [("samples", (0.25, 0.75)), ("uniform", (0.5, 0.5))])
def test_it_settles_at_the_optimum_of_its_weights_where_fedavg_does_not(weights, p):
    """Ten steps a round on parabolas of steepness 1 and 4: FedAvg stops short of sum p a c / sum p a."""
    expected = pytest.approx(optimum(*p), abs=1e-3)
    assert settled("scaffold", {"weights": weights}) == expected

    def uncorrected(self, net, client):
        scaffold.Controlled.on_round_start(self, net, client)
        client.scratch["correction"].zero_()

    result = abs(
        settled("scaffold", {"weights": weights}, on_round_start=uncorrected) - optimum(*p)
    )
    assert result > 0.01


def test_uniform_weights_are_the_papers_mean_of_models_and_variates():
    rounds_played = []
    state = play("scaffold", {"weights": "uniform"}, each=rounds_played.append)
    result = rounds_played[-1].weights.tolist()
    assert result == [0.25] * 4
    mean = sum(memory["control"] for memory in state.clients.values()) / len(ROSTER)
    assert_close(state.shared["control"], mean, atol=1e-6, rtol=1e-4)


def test_client_order_does_not_matter():
    theta, theta_of_turned = (
        play("scaffold", roster=order, dropout=0.0).theta for order in (ROSTER, ROSTER[::-1])
    )
    assert_close(theta, theta_of_turned, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("rule", ["original", "released"])
def test_finite_under_adam(rule):
    training = Training(optimizer="adam", lr=0.01, weight_decay=5e-4, epochs=2, batch_size=16)
    assert (
        play("scaffold", {"rule": rule}, training=training, participation=0.5)
        .theta.isfinite()
        .all()
    )
