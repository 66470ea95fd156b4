"""Gaps between groups at the same distribution of quality."""

import numpy as np
import pytest

from fedcli.metrics import plan, resampled
from fedcli.scores.statistics.stratified import explained, standard_weights, strata


def answers(right: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Logits [N, 2] that are right where they should be."""
    return np.eye(2)[np.where(right, y, 1 - y)]


def test_weights_and_the_standardised_gap_by_hand():
    """Accuracy is 0.8 in stratum 0 and 0.4 in 1, in both groups; one has 3/4 of its images in 0, the other 1/4.

    So the gap of 0.7 - 0.5 is one of the strata alone, and at equal shares none is left.
    """
    group_of = np.repeat([0, 0, 1, 1], [60, 20, 20, 60])
    stratum = np.repeat([0, 1, 0, 1], [60, 20, 20, 60])
    right = np.concatenate(
        [np.arange(n) < share * n for n, share in ((60, 0.8), (20, 0.4), (20, 0.8), (60, 0.4))]
    )
    y = np.arange(160) % 2
    counts = np.ones((160, 1))
    weights = standard_weights(group_of, stratum, counts)[:, 0]
    result = [weights[group_of == g].sum() for g in (0, 1)]
    assert result == pytest.approx([80, 80])
    result = np.unique(weights.round(9)).tolist()
    expected = pytest.approx([40 / 60, 2])
    assert result == expected
    grouping = (group_of, ["a", "b"])
    units = np.arange(160)
    gap = explained([answers(right, y)], y, units, grouping, stratum, "accuracy", 1)
    result = (gap.better, gap.worse, gap.left_out)
    assert result == ("a", "b", 0)
    result = (gap.gap[0], gap.standardised[0], gap.explained[0])
    assert result == pytest.approx((0.2, 0, 0.2))
    assert gap.explained[1] > 0
    assert gap.standardised[1] < 0 < gap.standardised[2]


def test_what_is_alike_in_both_groups_explains_nothing_and_a_lone_stratum_is_left_out():
    rng = np.random.default_rng(0)
    group_of = np.repeat([0, 1], 100)
    y = np.arange(200) % 2
    right = np.where(group_of == 0, rng.random(200) < 0.9, rng.random(200) < 0.6)
    grouping = (group_of, ["a", "b"])
    stratum = np.zeros(200, int)
    units = np.arange(200)
    same_stratum = explained(
        [answers(right, y)],
        y,
        units,
        grouping,
        stratum,
        "accuracy",
        1,
    )
    expected = pytest.approx((0, 0, 0))
    assert same_stratum.explained == expected
    assert same_stratum.gap == pytest.approx(same_stratum.standardised)
    alone = np.where((group_of == 0) & (np.arange(200) < 30), 1, 0)
    grouping = (group_of, ["a", "b"])
    units = np.arange(200)
    without_stratum = explained([answers(right, y)], y, units, grouping, alone, "accuracy", 1)
    assert without_stratum.left_out == 30
    few = np.where(np.arange(200) < 20, 1, 0)
    grouping = (few, ["a", "b"])
    units = np.arange(200)
    assert (
        explained([answers(right, y)], y, units, grouping, few, "accuracy", 1) is None
    )  # too small
    pairs = np.arange(200) // 2  # two images of each patient, so that a group of 40 has 20 patients
    few = np.where(np.arange(200) < 40, 1, 0)
    groups = (few, ["a", "b"])
    same = np.zeros(200, int)
    units = np.arange(200)
    assert explained([answers(right, y)], y, units, groups, same, "accuracy", 1)
    result = explained([answers(right, y)], y, pairs, groups, same, "accuracy", 1)
    assert result is None
    grouping = (group_of, ["a", "b"])
    units = np.arange(200)
    assert explained([answers(right, y)], y, units, grouping, group_of, "accuracy", 1) is None


def test_weights_that_are_no_whole_numbers_score_as_copies_do():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(40, 3))
    y = np.arange(40) % 3
    times = rng.integers(1, 4, 40)
    copies = np.repeat(np.arange(40), times)
    weights = np.ones((len(copies), 1), int)
    images = plan(logits[copies], y[copies])
    whole = resampled(images, weights)
    weights = times[:, None] / 2
    parts = resampled(plan(logits, y), weights)
    for metric in ("accuracy", "balanced_accuracy", "auc_ovo_macro", "f1_macro"):
        assert parts[metric] == pytest.approx(whole[metric]), metric


def test_quarters_are_as_large_as_ties_allow():
    expected = [0, 0, 1, 1, 2, 2, 3, 3]
    result = strata(np.arange(8.0)).tolist()
    assert result == expected
    result = strata(np.ones(5)).tolist()
    assert result == [0] * 5


def test_standard_weights_have_the_strata_of_all_groups_that_are_known():
    """Strata 0 and 1 have 7 and 5 images: 2 and 2 of the one group, 1 and 3 of the other, 4 and 0 of a third. Images
    of no group do not count."""
    group_of = np.repeat([0, 0, 1, 1, 2, -1], [2, 2, 1, 3, 4, 5])
    stratum = np.repeat([0, 1, 0, 1, 0, 1], [2, 2, 1, 3, 4, 5])
    counts = np.ones((17, 1))
    weights = standard_weights(group_of, stratum, counts)[:, 0]
    expected = np.repeat([7 / 6, 5 / 6, 7 / 3, 5 / 9, 0, 0], [2, 2, 1, 3, 4, 5])
    assert weights == pytest.approx(expected)
