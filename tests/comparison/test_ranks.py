"""Friedman's and Nemenyi's tests, against Demsar's own example and scipy."""

import numpy as np
import pytest
from scipy.stats import friedmanchisquare

from fedcli.comparison.ranks import friedman

EXAMPLE = """4 3 2 1|1 2 3 4|4 1 2 3|4 1 3 2|4 2 3 1|1 2.5 4 2.5|3 2 4 1|2.5 2.5 4 1|4 3 2 1|2.5 2.5 2.5 2.5
4 2.5 1 2.5|3 2 4 1|4 1 2 3|3 1 4 2"""  # ranks of four classifiers on 14 datasets: Demsar 2006, Table 6
NAMES = "C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"


def test_the_example_of_the_paper():
    """Mean ranks 3.143, 2.000, 2.893, 1.964; chi2 9.28, F 3.69 with 3 and 39 degrees; critical difference 1.25."""
    table = np.array([line.split() for line in EXAMPLE.replace("\n", "|").split("|")], float)
    result = friedman("auc", dict(zip(NAMES, table.T.tolist(), strict=True)), lower=True)
    assert [round(result.ranks[name], 3) for name in NAMES] == [3.143, 2.0, 2.893, 1.964]
    assert round(result.chi2, 2) == 9.28
    assert round(result.f, 2) == 3.69
    assert result.degrees == (3, 39)
    assert round(result.critical_difference, 2) == 1.25
    assert result.differ == []
    assert result.caution == ""
    assert result.p == pytest.approx(0.02, abs=0.002)  # below 0.05: F(3, 39) is 2.85 there


def test_chi2_is_scipy_s_and_the_order_of_scores_or_their_scale_does_not_matter():
    scores = dict(zip("abcde", np.random.default_rng(1).random((5, 12)).tolist(), strict=True))
    result = friedman("auc", scores)
    expected = pytest.approx(friedmanchisquare(*scores.values()).statistic)
    assert result.chi2 == expected
    cubes = {name: (np.array(scores[name]) ** 3).tolist() for name in reversed(scores)}
    other = friedman("auc", cubes)
    expected = (result.ranks, pytest.approx(result.p))
    assert (other.ranks, other.p) == expected


def test_equal_scores_say_nothing_and_full_agreement_has_its_exact_chance():
    none = friedman("auc", {name: [0.5] * 3 for name in "abc"})
    assert none.chi2 == 0
    assert none.p == 1
    assert set(none.ranks.values()) == {2}
    full = friedman("auc", {"a": [0.1] * 3, "b": [0.9] * 3, "c": [0.5] * 3})
    assert full.f is None
    assert full.p == pytest.approx(1 / 36)
    assert full.differ == [("b", "a")]
    assert "b is better than a" in full.said
    two = friedman("auc", {"a": [0.1] * 2, "b": [0.9] * 2, "c": [0.5] * 2})
    assert two.enough == 3
    assert two.differ == []
    assert "on fewer than 3" in two.caution
