"""A gap of several runs and rounds is that of the groups' means, as a table prints them."""

import pytest

from fedcli.scores import views
from fedcli.scores.statistics.over_runs import mean_of, over_runs
from fedcli.scores.table import Score

FIRST = {"f": Score([0.5, 0.9], [1, 2]), "m": Score([0.8, 0.7], [1, 2])}
SECOND = {"f": Score([0.6, 0.6], [1, 2]), "m": Score([0.9, 0.9], [1, 2])}


def test_worst_and_gap_are_of_the_means_over_rounds():
    lies = views.between(FIRST, low=False)
    assert lies["gap"].mean == pytest.approx(0.05)
    assert lies["worst group"].mean == 0.7
    assert lies["gap"].last == pytest.approx(0.2)
    assert lies["worst group"].last == 0.7
    expected = pytest.approx((0.3 + 0.2) / 2)
    assert lies["gap in each round"].mean == expected
    expected = pytest.approx((0.5 + 0.7) / 2)
    assert lies["worst group in each round"].mean == expected
    assert lies["gap"].std == pytest.approx(0.05)  # of the rounds
    result = lies["gap"].alone().mean
    assert result == lies["gap"].last


def test_where_low_is_good_the_worst_is_the_highest():
    lies = views.between(FIRST, low=True)
    assert lies["worst group"].mean == 0.75
    assert lies["gap"].mean == pytest.approx(0.05)


def test_over_runs_each_group_is_averaged_first():
    lies = [views.between(column, low=False) for column in (FIRST, SECOND)]
    gap = over_runs([column_views["gap"] for column_views in lies])
    expected = pytest.approx((0.75 + 0.9) / 2 - (0.7 + 0.6) / 2)
    assert gap.mean == expected
    expected = pytest.approx((0.3 - 0.05) / 2**0.5)
    assert gap.std_runs == expected
    result = mean_of([column_views["worst group"] for column_views in lies])
    assert result == pytest.approx(0.65)
    outcome = mean_of([lies[0]["gap"], None])
    assert outcome is None


def test_a_group_that_some_run_lacks_takes_no_part():
    column = {**SECOND, "x": Score([0.1, 0.1], [1, 2])}
    alone = views.between(column, low=False)
    both = [views.between(FIRST, low=False)["gap"], alone["gap"]]
    expected = pytest.approx((0.75 + 0.9) / 2 - (0.7 + 0.6) / 2)
    assert mean_of(both) == expected
    column = {"f": FIRST["f"]}
    result = mean_of([views.between(column, low=False)["gap"]])
    assert result is None
