import pytest
import torch
import torch.nn.functional as F
from bowls import optimum, settled
from conftest import ROSTER, client_updates, play, toy_net, toy_shard
from tables_of_numbers import rows
from torch.testing import assert_close

from fedcli.federation.client import ClientTask, Training, run_client
from fedcli.methods import resolve
from fedcli.models.layout import Layout


def test_two_steps_are_the_papers_loss_written_out():
    """CE - <h_i, w> + alpha/2 ||w - w_t||^2 with h_i = -alpha l_i, by autograd; then l_i gains the move."""
    net = toy_net(dropout=0.0)
    other = toy_net(dropout=0.0).train()
    layout = Layout(net)
    generator = torch.Generator().manual_seed(1)
    moved = 0.2 * torch.randn(layout.trainable, generator=generator)  # l_i
    training = Training(optimizer="sgd", lr=0.1, weight_decay=0.0, batch_size=10_000, epochs=2)
    task = ClientTask("north", 0, 2, 3, 0, layout.read(), {}, {"moved": moved})
    method = resolve("feddyn", {"alpha": 0.8})
    report = run_client(method, net, layout, toy_shard("north"), task, training)

    batch = next(toy_shard("north").in_order())
    params = list(other.parameters())
    flat = lambda: torch.cat([p.reshape(-1) for p in params])  # noqa: E731
    start = flat().detach().clone()
    h = -0.8 * moved
    for _ in range(2):
        loss = (
            F.cross_entropy(other(batch.x), batch.y)
            - h @ flat()
            + 0.8 / 2 * (flat() - start).square().sum()
        )
        with torch.no_grad():
            for p, g in zip(params, torch.autograd.grad(loss, params), strict=True):
                p -= 0.1 * g
    end = flat().detach()
    assert_close(report.theta[: layout.trainable], end, atol=1e-6, rtol=1e-5)
    assert_close(report.columns["moved"], end - start, atol=1e-6, rtol=1e-5)
    result = -0.8 * report.memory["moved"]
    expected = h - 0.8 * (end - start)
    assert_close(result, expected, atol=1e-6, rtol=1e-5)


def test_the_server_adds_the_mean_of_all_moves_as_in_algorithm_1():
    """h <- h - alpha sum p D and theta - h/alpha, by hand, on two trainable numbers and one buffer."""
    local = resolve("feddyn", {"alpha": 0.1}).local
    shared = {}
    theta = torch.tensor([1.0, 1.0, 7.0])
    p = torch.tensor([0.25, 0.75], dtype=torch.float64)
    moved = rows("1.0 0.0; 3.0 -2.0")
    table = client_updates(torch.zeros(2, 3), moved=moved)
    model = local.post_aggregate(theta, table, p, shared)
    # sum p D = (0.25 + 2.25, -1.5) = (2.5, -1.5); h = (-0.25, 0.15); -h / 0.1 = (2.5, -1.5)
    assert_close(model, torch.tensor([3.5, -0.5, 7.0]))
    next_model = local.post_aggregate(theta, table, p.flip(0), shared)
    # sum p D = (0.75 + 0.75, -0.5) = (1.5, -0.5); h = (-0.4, 0.2); -h / 0.1 = (4, -2)
    assert_close(next_model, torch.tensor([5.0, -1.0, 7.0]))
    assert theta.tolist() == [1.0, 1.0, 7.0]  # not written into


def test_with_absent_clients_the_moves_are_a_mean_over_the_roster():
    """Two of eight took part: 1/8 of each move when all count alike, 2/8 of the weighted mean otherwise."""
    p = torch.tensor([0.25, 0.75], dtype=torch.float64)
    moved = [[1.0], [3.0]]
    theta = torch.zeros(2, 1)
    table = client_updates(theta, moved=moved, rows=[1, 5], roster=8)
    for control, expected in (("uniform", 4 / 8), ("weighted", 2.5 * 2 / 8)):
        local = resolve("feddyn", {"control": control}).local
        result = local.post_aggregate(torch.zeros(1), table, p, {})
        assert_close(result, torch.tensor([expected]))


@pytest.mark.parametrize(
    ("settings", "p"),
    [
        ({}, (0.25, 0.75)),
        ({"control": "uniform"}, (0.5, 0.5)),
        ({"weights": "uniform"}, (0.5, 0.5)),
    ],
)
def test_it_settles_at_the_optimum_of_its_weights_where_fedavg_does_not(settings, p):
    expected = pytest.approx(optimum(*p), abs=1e-3)
    assert settled("feddyn", {"alpha": 1.0, **settings}) == expected
    result = abs(settled("feddyn", {"alpha": 1.0, "rule": "released", **settings}) - optimum(*p))
    assert result > 0.01


def test_released_rule_is_fedavg_bit_for_bit():
    result = play("feddyn", {"rule": "released"}).theta
    assert torch.equal(result, play("fedavg").theta)


def test_without_a_penalty_clients_train_as_in_fedavg():
    """The server still adds the mean move, so the first round goes twice as far."""
    start = Layout(toy_net()).read()[:95]
    plain = play("fedavg", rounds=1).theta
    settings = {"alpha": 0.0, "clip": 1e9}
    twice = play("feddyn", settings, rounds=1).theta
    result = twice[:95] - start
    expected = 2 * (plain[:95] - start)
    assert_close(result, expected, atol=1e-6, rtol=1e-5)
    assert torch.equal(twice[95:], plain[95:])


def test_gradients_are_cut_at_the_norm_of_clip():
    net = toy_net()
    layout = Layout(net)
    start = layout.read()
    training = Training(optimizer="sgd", lr=0.1, weight_decay=0.0, batch_size=10_000)
    task = ClientTask("north", 0, 1, 3, 0, start, {}, {})
    method = resolve("feddyn", {"clip": 0.01})
    report = run_client(method, net, layout, toy_shard("north"), task, training)
    result = (report.theta - start)[: layout.trainable].norm().item()
    expected = pytest.approx(0.1 * 0.01, rel=1e-3)
    assert result == expected


def test_the_mean_of_all_moves_is_that_of_the_clients_memories():
    """control=uniform keeps l = 1/N sum l_i to the end, absent clients included."""
    state = play("feddyn", {"control": "uniform"}, rounds=6, participation=0.5)
    mean = sum(memory["moved"] for memory in state.clients.values()) / len(ROSTER)
    assert_close(state.shared["moved"], mean, atol=1e-5, rtol=1e-4)


def test_order_does_not_matter_and_moves_are_not_masked_by_the_server_rule():
    table = {
        order: play("feddyn", roster=list(order), dropout=0.0).theta
        for order in (tuple(ROSTER), tuple(ROSTER[::-1]))
    }
    assert_close(*table.values(), atol=1e-5, rtol=1e-4)
    rounds_played = []
    state = play("feddyn+fedheal", rounds=1, each=lambda played: rounds_played.append(played))
    expected = rounds_played[0].weights.float() @ rounds_played[0].columns["moved"]
    assert_close(state.shared["moved"], expected)
