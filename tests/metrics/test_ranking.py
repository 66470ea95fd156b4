"""Weighted pairs of images of two classes."""

import numpy as np
import pytest

from fedcli.metrics.arithmetic import add_up, total
from fedcli.metrics.ranking import Ranking, mirrored


def test_a_pair_is_lost_where_the_other_class_ranks_higher_and_half_where_both_are_equal():
    score = np.array([0.2, 0.8, 0.5, 0.8, 0.1])
    members = np.array([0, 1])
    others = np.array([2, 3, 4])
    ranking = Ranking.of(score, members, {3: others})
    weights = np.array([[1, 2], [1, 1], [1, 1], [1, 4], [1, 0]])  # [N, b]
    # 0.2 loses to 0.5 and 0.8, and 0.8 is equal to 0.8: 1 + 1 + 1 / 2; then 2 * 1 + 2 * 4 + 1 * 4 / 2
    result = {c: lost.tolist() for c, lost in ranking.lost(weights).items()}
    assert result == {3: [2.5, 12]}


def test_a_class_without_others_or_without_images_loses_nothing():
    score = np.array([0.2, 0.8])
    weights = np.ones((2, 3), int)
    members = np.array([0, 1])
    result = Ranking.of(score, members, {}).lost(weights)
    assert result == {}
    none = np.zeros(0, int)
    one_image = np.array([1])
    without_images = Ranking.of(score, none, {1: one_image})
    assert without_images.lost(weights)[1].tolist() == [0, 0, 0]
    without_others = Ranking.of(score, one_image, {1: none})
    assert without_others.lost(weights)[1].tolist() == [0, 0, 0]


@pytest.mark.parametrize("rows", [0, 1, 15, 16, 32, 33, 64, 500, 4097])
def test_running_sums_are_those_of_numpy(rows):
    rng = np.random.default_rng(rows)
    numbers = rng.integers(0, 9, (rows, 3)).astype(np.int32)
    expected = np.cumsum(numbers, axis=0)
    add_up(numbers)
    assert np.array_equal(numbers, expected)
    assert numbers.dtype == np.int32


def test_a_total_is_the_sum_over_images():
    weights = np.array([[1, 2], [3, 4], [5, 6]])
    result = total(weights).tolist()
    assert result == [9, 12]


def test_two_scores_mirror_each_other_where_every_comparison_turns_round():
    score = np.array([0.1, 0.9, 0.5])
    mirror = np.array([0.9, 0.1, 0.5])
    assert mirrored(score, mirror)
    with_a_tie = np.array([0.9, 0.1, 0.1])
    assert not mirrored(score, with_a_tie)
    assert not mirrored(score, score)
