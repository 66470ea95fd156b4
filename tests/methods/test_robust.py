"""Robust rules, beside calculations by hand, and the property that all share."""

import numpy as np
import pytest
import torch
from conftest import client_updates, flat_layout, play
from scipy.optimize import minimize
from tables_of_numbers import rows
from torch.testing import assert_close

from fedcli.methods import resolve
from fedcli.methods.robust import number

RULES = (
    "median",
    "trimmed-mean",
    "krum",
    "multi-krum",
    "rfa",
    "norm-clipping",
    "dnc",
    "centred-clipping",
)
HONEST = rows("1.0 2.0; 2.0 1.0; 1.5 1.5; 1.0 1.0")


def aggregate(name, models, settings=None, theta=(0.0, 0.0), **columns):
    model, weights = resolve(name, settings).aggregator.aggregate(
        torch.tensor(theta), client_updates(models, **columns), {}
    )
    expected = pytest.approx(1, abs=1e-12)
    assert weights.sum().item() == expected
    assert weights.dtype == torch.float64
    return model.tolist(), weights.tolist()


def test_median_of_an_odd_and_an_even_number_of_clients():
    models = rows("1.0 9.0; 2.0 5.0; 900.0 7.0")
    result = aggregate("median", models)
    expected = (
        [2.0, 7.0],
        [0.0, 0.5, 0.5],
    )
    assert result == expected
    models = rows("1.0 1.0; 2.0 9.0; 4.0 5.0; 900.0 7.0")
    result = aggregate("median", models)[0]
    assert result == [3.0, 6.0]


def test_trimmed_mean_leaves_out_so_many_at_either_end():
    """A share of 0.2 of five clients is one: the mean of 2, 3 and 7. The weights are the shares of all numbers."""
    models = rows("1.0 0.0; 2.0 2.0; 3.0 4.0; 7.0 6.0; 99.0 -8.0")
    model, weights = aggregate("trimmed-mean", models, {"hostile": 0.2})
    assert model == [4.0, 2.0]
    expected = pytest.approx([1 / 6, 1 / 3, 1 / 3, 1 / 6, 0])
    assert weights == expected
    expected = pytest.approx(np.mean(models, 0).tolist())
    result = aggregate("trimmed-mean", models, {"hostile": 0.0})[0]
    assert result == expected
    result = aggregate("trimmed-mean", models, {"hostile": 0.49})[0]
    expected = aggregate("median", models)[0]
    assert result == expected


def test_krum_takes_the_client_with_the_nearest_neighbours():
    """K = 5, f = 1: two neighbours. Of places 0, 1, 3, 7, 50 the scores are 10, 5, 13, 52, 4058."""
    models = rows("0.0 0.0; 1.0 0.0; 3.0 0.0; 7.0 0.0; 50.0 0.0")
    expected = ([1.0, 0.0], [0.0, 1.0, 0.0, 0.0, 0.0])
    assert aggregate("krum", models) == expected
    expected = ([2.75, 0.0], [0.25, 0.25, 0.25, 0.25, 0.0])
    assert aggregate("multi-krum", models) == expected


def test_rfa_is_the_geometric_median():
    models = np.array(rows("0.0 0.0; 4.0 0.0; 0.0 3.0; 40.0 40.0"))
    n = np.array([3.0, 1.0, 2.0, 1.0])
    best = minimize(
        lambda z: n @ np.linalg.norm(models - z, axis=1), [1.0, 1.0], method="Nelder-Mead", tol=1e-9
    )
    model, _ = aggregate("rfa", models, {"iterations": 500}, n=n)
    expected = pytest.approx(best.x.tolist(), abs=1e-3)
    assert model == expected


def test_one_step_of_weiszfeld_by_hand():
    """From the mean 3 of 0, 0, 9 distances are 3, 3, 6: weights 2/5, 2/5, 1/5."""
    models = rows("0.0 0.0; 0.0 0.0; 9.0 0.0")
    model, weights = aggregate("rfa", models, {"iterations": 1})
    assert model == pytest.approx([1.8, 0.0])
    assert weights == pytest.approx([0.4, 0.4, 0.2])


def test_norm_clipping_cuts_long_updates():
    """From (1, 0): updates of length 1, 2 and 10; p = 1/2, 1/4, 1/4."""
    models = rows("2.0 0.0; 1.0 2.0; 1.0 -10.0")
    n = [2.0, 1.0, 1.0]
    cut, weights = aggregate("norm-clipping", models, {"norm": 2.0}, (1.0, 0.0), n=n)
    expected = pytest.approx([1.5, 0.5 - 0.5])
    assert cut == expected
    expected = pytest.approx([0.5 / 0.8, 0.25 / 0.8, 0.05 / 0.8])
    assert weights == expected
    result = aggregate("norm-clipping", models, None, (1.0, 0.0), n=n)
    assert result == (
        cut,
        weights,
    )  # 2 is the median length
    far = aggregate("norm-clipping", models, {"norm": 1e9}, (1.0, 0.0), n=n)[0]
    expected = pytest.approx(aggregate("fedavg", models, None, (1.0, 0.0), n=n)[0])
    assert far == expected


def bounds(lengths_by_round, follow):
    """The longest update [P] of each round after clipping."""
    memory = {}
    rule = resolve("norm-clipping", {"follow": follow}).aggregator
    lengths = []
    for row in lengths_by_round:
        updates = client_updates([[length, 0.0] for length in row])
        rule.aggregate(torch.zeros(2), updates, memory)
        lengths.append(memory["longest"].item())
    return lengths


def test_a_bound_that_follows_takes_the_step_of_its_source():
    """The lower median of 1, 2, 4, 9 is 2; half are no longer, so it stays. Then all are: exp(-0.2 / 2)."""
    result = bounds([[1.0, 2.0, 4.0, 9.0], [1.0, 1.0, 1.0, 1.0]], 0.2)
    assert result == pytest.approx([2.0, 2 * np.exp(-0.1)])


def test_a_bound_of_zero_is_replaced_by_the_next_median():
    """In the first round most clients have moved nowhere; a factor would leave the bound at 0 for ever."""
    result = bounds([[0.0, 0.0, 4.0], [2.0, 2.0, 4.0], [2.0, 2.0, 4.0]], 0.2)
    share = 2 / 3
    step = np.exp(-0.2 * (share - 0.5))
    assert result == pytest.approx([0.0, 2 * step, 2 * step * np.exp(0.1)])


def test_a_round_of_a_hostile_majority_hardly_moves_a_bound_that_follows():
    """Nor do rounds of a hostile minority for ever, while without `follow` the majority's length is the bound."""
    honest = [0.9, 1.0, 1.1, 1.0, 1.05]
    majority = [0.9, 1.0, 1e6, 1e6, 1e6]
    result = bounds([honest, majority], 0.2)
    assert result[1] <= result[0] * np.exp(0.1) + 1e-9
    minority = [0.9, 1.0, 1.1, 1e6, 1e6]
    late = bounds([honest, *[minority] * 100], 0.2)[-20:]
    assert all(0.9 * np.exp(-0.1) <= bound <= 1.1 * np.exp(0.1) for bound in late)
    model, _ = aggregate("norm-clipping", [[length, 0.0] for length in majority])
    assert model[0] > 1e5


def test_a_bound_that_does_not_follow_remembers_nothing():
    memory = {}
    updates = client_updates(HONEST)
    for settings in ({}, {"norm": 2.0, "follow": 0.2}):
        rule = resolve("norm-clipping", settings).aggregator
        rule.aggregate(torch.zeros(2), updates, memory)
    assert memory == {}


@pytest.mark.parametrize("name", RULES)
def test_one_of_five_clients_cannot_take_the_model_away(name):
    """However far it goes; FedAvg follows it. The model is as near to the honest clients as these are to each other."""
    centre = np.mean(HONEST, 0)
    for far in (1e2, 1e4):
        settings = {"iterations": 200} if name == "rfa" else {}
        models = [*HONEST, [-far, far]]
        model, _ = aggregate(name, models, settings, centre.tolist())
        assert np.linalg.norm(np.subtract(model, centre)) < 1.0
        models = [*HONEST, [-far, far]]
        result = np.linalg.norm(np.subtract(aggregate("fedavg", models)[0], centre))
        assert result > 10


@pytest.mark.parametrize("name", RULES)
def test_clients_that_agree_have_their_model_and_no_order_matters(name):
    for k in (1, 2, 4):
        expected = pytest.approx([3.0, -1.0])
        result = aggregate(name, [[3.0, -1.0]] * k)[0]
        assert result == expected
    models = rows("1.0 2.0; 4.0 -1.0; 0.5 1.5; 9.0 3.0; -2.0 1.0")
    expected = pytest.approx(aggregate(name, models)[0])
    result = aggregate(name, models[::-1])[0]
    assert result == expected


def test_statistics_of_batch_norm_stay_between_the_clients():
    layout = flat_layout(3)
    layout.trainable = 2
    theta = rows("1.0 2.0 4.0; 2.0 1.0 8.0; 50.0 50.0 6.0")
    table = client_updates(theta, layout=layout)
    for name in RULES:
        model, _ = resolve(name).aggregator.aggregate(torch.zeros(3), table, {})
        assert 4.0 <= model[2].item() <= 8.0


def test_a_large_table_is_sorted_in_pieces(monkeypatch):
    models = np.random.default_rng(0).normal(size=(5, 11)).tolist()
    theta = [0.0] * 11
    whole = aggregate("trimmed-mean", models, theta=theta)
    monkeypatch.setattr("fedcli.methods.robust.BLOCK", 10)
    theta = [0.0] * 11
    assert aggregate("trimmed-mean", models, theta=theta) == whole


def test_a_federation_whose_rule_leaves_nobody_out_trains_as_fedavg():
    theta = play("norm-clipping", {"norm": 1e9}, rounds=2).theta
    assert_close(theta, play("fedavg", rounds=2).theta)


@pytest.mark.parametrize(
    ("hostile", "clients", "expected"), [(0.2, 6, 2), (0.2, 15, 3), (0.1, 4, 1), (0.4, 3, 1)]
)
def test_a_share_of_hostile_clients_is_rounded_up_to_fewer_than_half(hostile, clients, expected):
    assert number(hostile, clients) == expected


def test_trimmed_mean_of_six_leaves_out_two_at_either_end():
    models = [[value, 0.0] for value in (-50.0, 0.0, 1.0, 3.0, 7.0, 99.0)]
    result = aggregate("trimmed-mean", models, {"hostile": 0.2})[0]
    assert result == [2.0, 0.0]


def test_rfa_starts_at_the_mean_by_images():
    """The mean of 0, 4 and 8 with 1, 1 and 2 images is 5: distances 5, 1, 3, weights 0.05, 0.25, 1/6 of their sum."""
    models = rows("0.0 0.0; 4.0 0.0; 8.0 0.0")
    n = np.array([1.0, 1.0, 2.0])
    model, weights = aggregate("rfa", models, {"iterations": 1}, n=n)
    expected = pytest.approx([3 / 28, 15 / 28, 10 / 28])
    assert weights == expected
    assert model == pytest.approx([5.0, 0.0])
