"""Ties: scores that are equal but for rounding are equal, wherever two are compared."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from score_json import spread

from fedcli.metrics import apart, score
from fedcli.runs.scoring import Scoring
from fedcli.scores.choice import Candidate, chosen
from fedcli.scores.clinical.binary import threshold_of
from fedcli.scores.statistics.bootstrap import bca_interval, bootstrap_p
from fedcli.scores.statistics.permutation import _p
from fedcli.scores.statistics.significance import paired_t, wilcoxon
from fedcli.scores.table import Score, Where
from fedcli.sites.evaluation import _add_interval
from fedcli.sites.tallies import Tally

TINY = 1e-17
THIRDS = 0.1 + 0.7, 0.3 + 0.5  # 0.8 by two ways of adding, which differ in the last bit
assert THIRDS[0] < THIRDS[1]


def test_differences_by_rounding_are_none():
    assert apart(*THIRDS) == 0
    assert apart(0.8, 0.7) == pytest.approx(0.1)
    assert apart(0.7, 0.8) < 0
    result = apart(np.array([TINY, 1e-9, -1e-9]), 0.0).tolist()
    assert result == [0.0, 1e-9, -1e-9]


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_resampled_difference_of_rounding_lies_on_both_sides_of_zero(sign):
    rest = -np.ones(40), np.ones(1900)
    differences = np.r_[np.zeros(60), *rest]
    exact = bootstrap_p(differences, 50)
    assert bootstrap_p(np.r_[np.full(60, sign * TINY), *rest], 50) == exact == 2 * 101 / 2001


def test_ties_of_bca_are_half_on_either_side_whatever_their_last_bit():
    low, high = THIRDS
    values = np.r_[np.full(50, low), np.linspace(0, 1, 50)]
    without_one = np.array([0.1, 0.3, 0.9])
    exact = bca_interval(high, np.r_[np.full(50, high), np.linspace(0, 1, 50)], without_one)
    assert bca_interval(high, values, without_one) == pytest.approx(exact)
    without = np.array([*THIRDS, *THIRDS, low])
    result = bca_interval(low, np.linspace(0, 1, 99), without)
    without = np.full(5, low)
    expected = bca_interval(low, np.linspace(0, 1, 99), without)
    assert result == expected  # no acceleration by rounding


def test_a_gap_that_a_deal_makes_again_counts():
    differences = np.array([THIRDS[0], 0.1])
    result = _p(differences, THIRDS[1])
    assert result == 2 / 3


def test_equal_differences_over_seeds_have_no_t_and_tied_ranks():
    a = [0.0, 0.1, 0.3]
    b = [1e-12 / 2, 0.1 + 1e-12 / 2, 0.3]
    assert paired_t(a, b).p == 1.0
    assert wilcoxon(a, b).p == 1.0
    steps = [2.5e-12 * (1 - 1e-5), 2.5e-12 * (1 + 1e-5), 2.5e-12]  # on both sides of a digit's end
    assert paired_t([0.0] * 3, steps).p is None
    result = wilcoxon([0.0] * 3, [-steps[0], steps[1], steps[2]]).statistic
    assert result == 4.0  # of ranks 2, 2 and 2


def brute_force(rule, value, scores, labels):
    """The threshold by exact fractions, of equals the highest."""
    exact = Fraction(str(value or 0))
    ill = labels.count(1)
    well = labels.count(0)
    worth = {}
    for threshold in sorted(set(scores), reverse=True):
        hits = sum(label for score, label in zip(scores, labels, strict=True) if score >= threshold)
        alarms = sum(score >= threshold for score in scores) - hits
        if rule == "youden":
            worth[threshold] = Fraction(hits, ill) + Fraction(well - alarms, well)
        else:
            worth[threshold] = (
                Fraction(hits, ill) >= exact
                if rule == "sensitivity"
                else -exact * (ill - hits) - alarms
            )
    return max(worth, key=worth.get)  # the first of equals


def test_thresholds_are_those_of_exact_fractions():
    scores = np.array([0.46, 0.44, 0.11, 0.32, 0.61, 0.53])
    labels = np.array([1, 0, 0, 1, 1, 0])
    assert threshold_of("youden", None, scores, labels) == 0.61
    draw = np.random.default_rng(0)
    for _ in range(1000):
        n = int(draw.integers(4, 9))
        scores = (draw.permutation(12)[:n] / 12).tolist()
        labels = [0, 1, *draw.integers(0, 2, n - 2).tolist()]
        for rule, value in (("youden", None), ("cost", 0.1), ("cost", 0.3), ("sensitivity", 0.6)):
            exact = brute_force(rule, value, scores, labels)
            label = np.array(labels)
            result = threshold_of(rule, value, np.array(scores), label)
            assert result == exact, (
                rule,
                scores,
                labels,
            )


def test_a_specificity_that_is_reached_to_the_digit_is_reached():
    scores = np.r_[np.arange(10), 20.0]
    label = np.r_[np.zeros(10, int), 1]
    for tenths in range(1, 10):
        result = threshold_of("specificity", tenths / 10, scores, label)
        assert result == tenths


def candidate(round, worst, score=0.8):
    groups = {"sex": {"f": worst, "m": 0.9}}
    return Candidate(round, score, groups)


@pytest.mark.parametrize("rule", ["worst-group", "dto"])
def test_of_equal_rounds_the_one_with_the_larger_score_then_the_earlier_one_is_taken(rule):
    low, high = THIRDS
    result = chosen([candidate(1, low, 0.9), candidate(2, high, 0.8)], rule)
    assert result == 0
    result = chosen([candidate(1, low, low), candidate(2, high, high)], rule)
    assert result == 0
    result = chosen([candidate(1, low, 0.8), candidate(2, 0.85, 0.7)], rule)
    assert result == 1


def test_only_a_better_round_takes_the_place_of_an_earlier_one():
    low, high = THIRDS
    before = SimpleNamespace(score=low)
    scoring = SimpleNamespace(metric="it")
    scores = {"validation": {"it": high}}
    best = Scoring.best(scoring, before, None, scores)
    assert best is before


def test_groups_that_are_level_but_for_rounding_have_no_gap():
    low, high = THIRDS
    scores = {"f": high, "m": low}
    between = spread(scores)
    assert between["worst"]["score"] == between["best"]["score"]
    assert between["gap"] == 0.0


def decided_half(n, of_class_0):
    """Images at exactly one half, which are decided for class 0."""
    y = np.repeat([0, 1], [of_class_0, n - of_class_0])
    logits = np.zeros((n, 2))
    return Tally.of(logits, y)


def test_images_at_exactly_one_half_keep_their_decisions():
    tally = decided_half(10, 7)
    logits, y = tally.rebuilt()
    assert score(logits, y)["accuracy"] == tally.score()["accuracy"] == 0.7
    table = {}
    for name, value in decided_half(100, 70).score().items():
        table[Where(metric=name)] = Score([value], [1])
    _add_interval(table, Where(), decided_half(100, 70))
    interval = table[Where(metric="accuracy")]
    assert interval.low < 0.70 < interval.high


def test_images_near_one_half_keep_decisions_and_area():
    draw = np.random.default_rng(3)
    logits = draw.integers(-1, 2, (300, 2)) * 1e-4
    y = draw.integers(0, 2, 300)  # all in the bins about one half
    tally = Tally.of(logits, y)
    rebuilt = score(
        *(array.astype(kind) for array, kind in zip(tally.rebuilt(), (np.float32, np.int64)))
    )
    scores = tally.score()
    for metric in ("accuracy", "balanced_accuracy", "f1_macro", "auc_binary"):
        assert rebuilt[metric] == pytest.approx(scores[metric]), metric
