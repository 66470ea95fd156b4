"""Numbers of runs beside published ones."""

import pytest

from fedcli.reproduce import results
from fedcli.reproduce.recipe import Column


@pytest.mark.parametrize(
    ("difference", "ours", "published", "verdict"),
    [(0.5, 1.0, 0.6, "within both"), (-0.5, 1.0, 0.4, "overlap"), (1.3, 1.0, 0.4, "overlap"), (1.5, 1.0, 0.4, "outside"), (0.5, 1.0, None, "overlap"), (0.5, None, None, "outside")],
)  # fmt: skip
def test_a_difference_is_judged_by_both_spreads(difference, ours, published, verdict):
    cell = {"mean": 70 + difference, "std": ours, "runs": 1, "per_run": []}
    beside = results._beside(cell, {"mean": 70.0} | ({"std": published} if published else {}), "paper")
    assert beside["difference"] == pytest.approx(difference)
    assert beside["verdict"] == verdict
    assert results._beside(cell, {"mean": 70.0, "std": published}, "small")["verdict"] == "-"


BODY = {
    "versions": {"clean": {"accuracy": {"last": 0.5, "per_round": [0.3, 0.5]}, "auc": {"last": None, "per_round": [None]}}},
    "among_clients": {"accuracy": {"std": 0.02}},
    "groups": {"age": {"65/70": 0.25}},
    "bytes": {"up": 2_000_000.0},
    "best_on_validation": {"versions": {"clean": {"accuracy": 0.45}}},
}  # fmt: skip


@pytest.mark.parametrize(
    ("score", "unit", "at", "rounds"),
    [
        ("versions/clean/accuracy", "percent", "last5", [30.0, 50.0]),
        ("versions/clean/accuracy", "none", "last", [0.5]),
        ("versions/clean/accuracy", "percent", "best", [45.0]),
        ("versions/clean/auc", "percent", "last5", []),
        ("among_clients/accuracy/std", "points", "last5", [2.0]),
        ("groups/age/65/70", "percent", "last5", [25.0]),
        ("bytes/up", "MB", "last5", [2.0]),
    ],
)
def test_a_column_is_a_place_in_the_scores(score, unit, at, rounds):
    assert results._rounds(BODY, Column("c", "d", score, unit), at) == pytest.approx(rounds)


def test_the_spread_is_the_papers():
    runs = [[70.0, 72.0], [74.0, 76.0]]
    assert results._summary(runs, "pooled")["std"] == pytest.approx(5**0.5)  # ddof 0 over the four rounds
    assert results._summary(runs, "runs")["std"] == pytest.approx(8**0.5)  # ddof 1 of 71 and 75
    assert results._summary([[70.0]], "pooled")["std"] is None
