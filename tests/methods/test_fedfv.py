import pytest
import torch
from conftest import ROSTER, client_updates, flat_layout, play, toy_shard
from tables_of_numbers import rows as number_rows
from torch.testing import assert_close

from fedcli.methods import fedfv, resolve

assert fedfv  # importing registers


def direct(theta, local, loss, *, alpha, weights, groups=(), released=False):
    """Algorithms 2 and 3 on the vectors themselves; groups: updates of absent clients, oldest round first."""
    g = (theta - local).double()
    k = len(g)
    order = loss.argsort().tolist()
    protected = order[-(-(k - 1) * round(100 - 100 * alpha) // 100) :] if alpha else []
    moved = g.clone()
    for i in range(k):
        for j in [] if i in protected else order:
            if j != i and moved[i] @ g[j] < 0:
                moved[i] -= (moved[i] @ g[j]) / (g[j] @ g[j]) * g[j]
    mean = weights @ moved
    for group in [*groups, *([list(g)] if released else [])]:
        against = [u.double() for u in group if u.double() @ mean < 0]
        if against and mean @ sum(against) < 0:
            mean = mean - (mean @ sum(against)) / (sum(against) @ sum(against)) * sum(against)
    return (theta.double() - mean / mean.norm() * (weights @ g).norm()).float()


def case(seed, k=5, size=6):
    generator = torch.Generator().manual_seed(seed)
    theta = torch.randn(size, generator=generator)
    local = torch.randn(k, size, generator=generator)
    return theta, theta + local, torch.rand(k, generator=generator)


def test_two_clients_by_hand():
    """g = (1, 0) with loss 1 and (-1, 1) with loss 2: they conflict, product -1. alpha 0 protects nobody.

    (1, 0) - (-1/2)(-1, 1) = (0.5, 0.5); (-1, 1) - (-1)(1, 0) = (0, 1). Mean (0.25, 0.75), of squared length
    0.625; the raw mean is (0, 0.5), of squared length 0.25: stretched by sqrt(0.4)."""
    rule = resolve("fedfv", {"protect": 0.0}).aggregator
    table = client_updates(number_rows("-1.0 0.0; 1.0 -1.0"), loss_before=[1.0, 2.0])
    theta, weights = rule.aggregate(torch.zeros(2), table, {})
    expected = -torch.tensor([0.25, 0.75]) * 0.4**0.5
    assert_close(theta, expected)
    assert weights.tolist() == [0.5, 0.5]


def test_the_largest_losses_are_protected():
    """The case above with alpha 0.5: the second client, ceil(1 * 0.5) = 1 on, keeps (-1, 1)."""
    rule = resolve("fedfv", {"protect": 0.5}).aggregator
    updates = client_updates(number_rows("-1.0 0.0; 1.0 -1.0"), loss_before=[1.0, 2.0])
    theta, _ = rule.aggregate(torch.zeros(2), updates, {})
    mean = torch.tensor([-0.25, 0.75])  # ((0.5, 0.5) + (-1, 1)) / 2
    expected = -mean / mean.norm() * 0.5
    assert_close(theta, expected)
    updates = client_updates(number_rows("-1.0 0.0; 1.0 -1.0"), loss_before=[2.0, 1.0])
    turned, _ = rule.aggregate(torch.zeros(2), updates, {})
    assert not torch.allclose(theta, turned)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.4, 1.0])
def test_coefficients_give_what_the_vectors_give(seed, alpha):
    theta, local, loss = case(seed)
    rule = resolve("fedfv", {"protect": alpha}).aggregator
    updates = client_updates(local, loss_before=loss, n=[5, 1, 2, 3, 4])
    after, _ = rule.aggregate(theta, updates, {})
    uniform = torch.full((5,), 0.2, dtype=torch.float64)
    expected = direct(theta, local, loss, alpha=alpha, weights=uniform)
    assert_close(after, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_the_mean_can_go_by_image_count(seed):
    theta, local, loss = case(seed)
    n = torch.tensor([5.0, 1.0, 2.0, 3.0, 4.0]).double()
    rule = resolve("fedfv", {"weights": "samples"}).aggregator
    updates = client_updates(local, loss_before=loss, n=n)
    after, weights = rule.aggregate(theta, updates, {})
    assert torch.equal(weights, n / 15)
    expected = direct(theta, local, loss, alpha=0.1, weights=n / 15)
    assert_close(after, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_the_external_step_looks_at_clients_absent_for_up_to_lookback_rounds(seed):
    """Six clients, two a round, tau 2: round 3 sees those of rounds 1 and 2, oldest first; round 4 not those of 1."""
    memory = {}
    size = 6
    sixth = torch.full((2,), 0.5, dtype=torch.float64)
    rule = resolve("fedfv", {"lookback": 2, "protect": 0.0}).aggregator
    past = {}
    for t, rows in ((1, [0, 1]), (2, [2, 3]), (3, [4, 5]), (4, [2, 0])):
        theta, local, loss = case(100 * seed + t, k=2, size=size)
        updates = client_updates(local, t=t, rows=rows, roster=6, loss_before=loss)
        after, _ = rule.aggregate(theta, updates, memory)
        groups = {1: [], 2: [], 3: number_rows("0 1; 2 3"), 4: [[3], [4, 5]]}[t]
        expected = direct(
            theta,
            local,
            loss,
            alpha=0,
            weights=sixth,
            groups=[[past[r] for r in g] for g in groups],
        )
        assert_close(after, expected, atol=1e-5, rtol=1e-5)
        past.update(zip(rows, theta - local, strict=True))
    result = sorted(k for k in memory if k != "seen")
    assert result == [
        "update_0",
        "update_2",
        "update_4",
        "update_5",
    ]


@pytest.mark.parametrize("seed", range(6))
def test_the_later_code_looks_at_the_participants_themselves(seed):
    rule = resolve("fedfv", {"rule": "released"}).aggregator
    uniform = torch.full((5,), 0.2, dtype=torch.float64)
    theta, local, loss = case(seed)
    for t in (1, 2):  # tau is 1: from the first round on
        updates = client_updates(local, t=t, loss_before=loss)
        after, _ = rule.aggregate(theta, updates, {})
        expected = direct(theta, local, loss, alpha=0.1, weights=uniform, released=True)
        assert_close(after, expected, atol=1e-5, rtol=1e-5)


def test_the_later_code_begins_in_round_tau():
    rule = resolve("fedfv", {"rule": "released", "lookback": 2}).aggregator
    uniform = torch.full((5,), 0.2).double()
    for t, external in ((1, False), (2, True)):
        theta, local, loss = case(3)
        updates = client_updates(local, t=t, loss_before=loss)
        after, _ = rule.aggregate(theta, updates, {})
        expected = direct(theta, local, loss, alpha=0.1, weights=uniform, released=external)
        assert_close(after, expected, atol=1e-5, rtol=1e-5)
        inside = direct(theta, local, loss, alpha=0.1, weights=uniform)
        assert torch.allclose(after, inside, atol=1e-5) is not external


def test_a_round_with_fewer_clients_looks_back_on_one_with_all():
    rule = resolve("fedfv", {"protect": 0.0}).aggregator
    memory = {}
    half = torch.full((2,), 0.5).double()
    before, everybody, losses = case(7, k=4)
    rule.aggregate(before, client_updates(everybody, loss_before=losses), memory)
    theta, local, loss = case(8, k=2)
    updates = client_updates(local, t=2, rows=[0, 2], roster=4, loss_before=loss)
    after, _ = rule.aggregate(theta, updates, memory)
    absent = [before - everybody[1], before - everybody[3]]
    expected = direct(theta, local, loss, alpha=0, weights=half, groups=[absent])
    assert_close(after, expected, atol=1e-5, rtol=1e-5)
    other = direct(theta, local, loss, alpha=0, weights=half)
    assert not torch.allclose(after, other, atol=1e-3)


def test_with_everybody_protected_and_nothing_external_it_is_fedavg():
    settings = {"protect": 1.0, "weights": "samples"}
    result = play("fedfv", settings).theta
    assert torch.equal(result, play("fedavg").theta)


def test_updates_that_agree_are_averaged():
    loss_before = [1.0, 2.0, 3.0]
    table = client_updates(
        number_rows("1.0 2.0; 2.0 1.0; 3.0 0.0"), n=[1, 1, 2], loss_before=loss_before
    )
    for weights, mean in (("uniform", [2.0, 1.0]), ("samples", [2.25, 0.75])):
        theta, _ = resolve("fedfv", {"weights": weights}).aggregator.aggregate(
            torch.zeros(2), table, {}
        )
        assert_close(theta, torch.tensor(mean))


def test_opposite_updates_leave_the_model_where_it_is():
    rule = resolve("fedfv", {"protect": 0.0}).aggregator
    table = client_updates(number_rows("1.0 2.0; -3.0 -6.0"), loss_before=[1.0, 2.0])
    theta, _ = rule.aggregate(torch.zeros(2), table, {})
    assert_close(theta, torch.zeros(2), atol=1e-6, rtol=0)
    updates = client_updates([[1.0, 1.0]] * 2, loss_before=[1.0, 2.0])
    still, _ = rule.aggregate(torch.ones(2), updates, {})
    assert still.tolist() == [1.0, 1.0]


def test_statistics_are_averaged_and_never_projected():
    layout = flat_layout(3)
    layout.trainable = 2
    table = client_updates(
        number_rows("-1.0 0.0 4.0; 1.0 -1.0 8.0"), layout=layout, n=[3, 1], loss_before=[1.0, 2.0]
    )
    theta, _ = resolve("fedfv").aggregator.aggregate(torch.zeros(3), table, {})
    assert theta[2].item() == 5.0


def test_nothing_is_kept_of_clients_that_no_later_round_looks_back_on():
    for settings in ({"lookback": 0}, {"rule": "released"}):
        state = play("fedfv", settings, participation=0.5)
        assert set(state.server) == {"seen"}
    result = len(play("fedfv", participation=0.5, rounds=4).server)
    assert result == 3  # seen, and two clients of the last round


def test_client_order_does_not_matter_even_with_equal_losses():
    theta, local, _ = case(3)
    loss = torch.tensor([0.5, 0.5, 0.2, 0.9, 0.5])
    rule = resolve("fedfv").aggregator
    straight, _ = rule.aggregate(theta, client_updates(local, loss_before=loss), {})
    order = torch.tensor([4, 2, 0, 3, 1])
    updates = client_updates(local[order], rows=order, loss_before=loss[order])
    turned, _ = rule.aggregate(theta, updates, {})
    assert_close(straight, turned)


def test_a_round_that_fails_leaves_the_old_memory_whole():
    state = play("fedfv", participation=0.5, rounds=4, until=2)
    before = {name: tensor.clone() for name, tensor in state.server.items()}
    play("fedfv", participation=0.5, rounds=4, state=state)
    assert state.server.keys() == before.keys()
    for k in before:
        assert torch.equal(state.server[k], before[k])


def test_absent_clients_change_the_step():
    """A client that knows one class only pulls against those that never see it."""
    shards = {c: toy_shard(c, absent=i % 3) for i, c in enumerate(ROSTER)}
    half = {"participation": 0.5, "rounds": 6, "shards": shards}
    assert not torch.equal(
        play("fedfv", **half).theta, play("fedfv", {"lookback": 0}, **half).theta
    )
