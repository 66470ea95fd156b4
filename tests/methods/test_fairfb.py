"""FedFB: weights of groups within classes that move toward parity."""

import math

import pytest
import torch
from conftest import client_updates, play, toy_net, toy_shard
from group_clients import client_of, of_group
from made_plans import planned
from tables_of_numbers import rows
from torch.testing import assert_close

from fedcli.errors import UsageError
from fedcli.federation.training import Training
from fedcli.methods import resolve
from fedcli.runs.rules import check_labels


def after(n, losses, shared=None, t=1, **settings):
    """The weights [G, 2] after a round with these images and summed losses, by client, group and class."""
    shared = {} if shared is None else dict(shared)
    n = torch.tensor(n).double()
    losses = torch.tensor(losses).double()
    theta = torch.zeros(len(n), 1)
    table = client_updates(theta, t=t, cell_counts=n, cell_losses=losses)
    resolve("fairfb", settings).local.post_aggregate(torch.zeros(1), table, table.base, shared)
    return shared["cell_weights"]


# two clients; in all 8 images of group 0, 6 of class 0, and 2 of group 1, one of each class
N = [rows("4.0 2.0; 0.0 1.0"), rows("2.0 0.0; 1.0 0.0")]
LOSSES = [rows("2.0 1.0; 0.0 0.4"), rows("1.0 0.0; 1.0 0.0")]


def test_demographic_parity_by_hand():
    """g_0 = (3 - 1 - 6) / 8 = -0.5, g_1 = (1 - 0.4 - 1) / 2 = -0.2: mu = (-0.3, 0.3), of norm 0.3 sqrt 2.

    lambda moves by 0.1 / sqrt 2 and n / n_a = 1.25 and 5.
    """
    step = 0.1 / math.sqrt(2)
    expected = [[1 - 1.25 * step, 1 + 1.25 * step], [1 + 5 * step, 1 - 5 * step]]
    result = after(N, LOSSES, alpha=0.1).tolist()
    expected = [pytest.approx(row) for row in expected]
    assert result == expected


def test_the_released_step_by_hand():
    """alpha / sqrt(4) mu = 0.05 * 0.3."""
    weights = after(N, LOSSES, alpha=0.1, t=4, rule="released")
    expected = pytest.approx([1 - 0.01875, 1 + 0.01875, 1.075, 0.925])
    assert weights.flatten().tolist() == expected


def test_opportunity_by_hand():
    """Mean losses of positive images are 0.5 in group 0 and 0.4 in group 1: lambda_1 falls from 0.1 to 0.05."""
    weights = after(N, LOSSES, alpha=0.05, parity="opportunity")
    expected = pytest.approx([1, (0.3 - 0.05) / 0.2, 1, 0.5])
    assert weights.flatten().tolist() == expected


def test_odds_by_hand():
    """mu is (1 - 0.5, 0.4 - 0.5) of the negative and the positive ones; its norm is sqrt(0.26)."""
    weights = after(N, LOSSES, alpha=0.01, parity="odds")
    low = 0.1 + 0.01 * 0.5 / math.sqrt(0.26)
    high = 0.1 - 0.01 * 0.1 / math.sqrt(0.26)
    expected = pytest.approx([low * 10, high * 10])
    assert weights[1].tolist() == expected
    expected = pytest.approx([(0.7 - low) / 0.6, (0.3 - high) / 0.2])
    assert weights[0].tolist() == expected


def test_of_errors_the_way_of_demographic_parity_is_the_gap_in_positive_decisions():
    """Wrong decisions in place of losses: group 1 says yes to 5 of 10, group 0 to 6 of 20, and the others follow."""
    n = [rows("14.0 6.0; 7.0 3.0; 8.0 2.0")]
    errors = [rows("2.0 2.0; 3.0 1.0; 1.0 1.0")]  # yes: 2 + 4 of 20, 3 + 2 of 10, 1 + 1 of 10
    weights = after(n, errors, alpha=0.1, t=1, rule="released")
    gaps = torch.tensor([-(0.5 - 0.3) - (0.2 - 0.3), 0.5 - 0.3, 0.2 - 0.3]).double()
    expected = 1 + 0.1 * gaps * 40 / torch.tensor([20.0, 10.0, 10.0])
    assert_close(weights[:, 0], expected)


@pytest.mark.parametrize("parity", ["demographic", "opportunity", "odds"])
def test_weights_stay_within_their_bounds_and_keep_the_weight_of_a_class(parity):
    shared = None
    n = torch.tensor(N).sum(0)
    for t in range(1, 30):
        w = after(N, LOSSES, shared, t=t, alpha=0.3, parity=parity)
        shared = {"cell_weights": w}
        assert w.min() >= 0
        assert w.isfinite().all()
        if parity == "demographic":
            expected = torch.full((2,), 2.0).double()
            assert_close(w.sum(1), expected)
        else:
            expected = n.sum(0).double()
            assert_close((n * w).sum(0), expected)
    assert (w == 0).any()  # losses that never change drive a group to its bound


def test_of_three_groups_lambdas_past_the_bound_shrink_in_proportion():
    """Losses 1, 2 and 4: lambda = 1/3 + (0, 1, 3) / sqrt(10), whose last two are divided by their sum of 1.93."""
    losses = [rows("0.0 10.0; 0.0 20.0; 0.0 40.0")]
    weights = after(
        [[[0.0, 10.0]] * 3],
        losses,
        alpha=1.0,
        parity="opportunity",
    )
    shares = [0.0, 1 / 3 + 1 / math.sqrt(10), 1 / 3 + 3 / math.sqrt(10)]
    expected = pytest.approx([3 * share / sum(shares) for share in shares])
    assert weights[:, 1].tolist() == expected


@pytest.mark.parametrize("parity", ["demographic", "opportunity", "odds"])
def test_equal_groups_a_lone_group_and_none_leave_the_weights_alone(parity):
    for n, losses in (
        ([rows("4.0 2.0; 2.0 1.0")], [rows("2.0 1.0; 1.0 0.5")]),
        ([rows("4.0 2.0; 0.0 0.0")], [rows("2.0 1.0; 0.0 0.0")]),
        ([rows("0.0 0.0; 0.0 0.0")], [rows("0.0 0.0; 0.0 0.0")]),
    ):
        result = after(n, losses, alpha=0.5, parity=parity)
        expected = torch.ones(2, 2).double()
        assert_close(result, expected)


def test_a_group_without_images_keeps_its_weights_and_the_next_takes_the_first_ones_place():
    old = torch.tensor(rows("0.5 1.5; 1.0 1.0; 1.0 1.0")).double()
    n = [rows("0.0 0.0; 2.0 2.0; 2.0 2.0")]
    losses = [rows("0.0 0.0; 1.0 1.0; 1.0 2.0")]
    for parity in ("demographic", "opportunity"):
        weights = after(n, losses, {"cell_weights": old}, alpha=0.01, parity=parity)
        assert torch.equal(weights[0], old[0])
        assert weights[1, 1] != 1
        expected = pytest.approx(1 - weights[2, 1].item())
        assert weights[1, 1] - 1 == expected


@pytest.mark.parametrize("parity", ["demographic", "odds"])
def test_without_a_step_it_is_fedavg(parity):
    settings = {"alpha": 0.0, "parity": parity}
    theta = play("fairfb", settings, rounds=2).theta
    assert_close(theta, play("fedavg", rounds=2).theta, atol=1e-5, rtol=1e-4)


def test_a_client_weighs_its_images_by_group_and_class_and_counts_them():
    net = toy_net()
    values = [0, 1, -1, 1, 0]
    shard = of_group(toy_shard("north", 5), values)
    shard.y[:] = torch.tensor([0, 1, 1, 0, 1])
    cell_weights = torch.tensor(rows("0.5 1.5; 0.25 1.75")).double()
    client = client_of(net, shard, {"cell_weights": cell_weights})
    resolve("fairfb").local.on_round_start(net, client)
    expected = [0.5, 1.75, 1.0, 0.25, 1.5]
    assert client.per_image["weights"].tolist() == expected
    expected = rows("1 1; 1 1")
    assert client.report["cell_counts"].tolist() == expected


def test_more_than_two_classes_and_a_step_that_no_code_has_are_refused():
    method = resolve("fairfb")
    plan = planned("fairfb", {}, Training(), 2)
    check_labels(plan, method, {"dataset": "eyes", "classes": ["no", "yes"]})
    with pytest.raises(UsageError, match=r"fairfb is for two classes .*, and skin has 7"):
        check_labels(plan, method, {"dataset": "skin", "classes": list("abcdefg")})
    with pytest.raises(UsageError, match="no parity=odds"):
        resolve("fairfb", {"rule": "released", "parity": "odds"}).local.extend(toy_net())
