"""Counts in place of logits: the scores that they give, pooled and from parts."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from fedcli import metrics
from fedcli.metrics import probabilities
from fedcli.sites.tallies import (
    FINE,
    Tally,
    _calibrate,
    _hide_more,
    _safe,
    hidden_cells,
    tallied,
)


def answers(classes, count=600, seed=0, absent=()):
    """Logits [N, C] that know something, and labels [N]."""
    rng = np.random.default_rng(seed)
    y = rng.choice([c for c in range(classes) if c not in absent], count)
    return rng.normal(0, 1, (count, classes)) + 1.2 * np.eye(classes)[y], y


@pytest.mark.parametrize(("classes", "absent"), [(2, ()), (3, ()), (5, (2,)), (2, (0,))])
def test_scores_of_added_tallies_are_those_of_all_logits(classes, absent):
    logits, y = answers(classes, absent=absent)
    parts = np.array_split(np.arange(len(y)), 3)
    whole = Tally.nothing(classes)
    for part in parts:
        whole = whole + Tally.of(logits[part], y[part])
    counted = whole.score()
    pooled = metrics.score(logits, y)
    assert counted.keys() == pooled.keys()
    for name, value in pooled.items():
        assert counted[name] == (
            pytest.approx(value, abs=1 / FINE) if isinstance(value, float) else value
        ), name
    decisions = [m.name for m in metrics.registered(metrics.CLASSES) if m.sees != "probabilities"]
    assert all(
        counted[name] == pooled[name] for name in decisions
    )  # counts alone: to the last digit


def test_no_image_has_no_score():
    expected = metrics.score(np.zeros((0, 3)), np.zeros(0, int))
    assert Tally.nothing(3).score() == expected
    assert Tally.nothing(3).resolution() == 0


def test_how_far_an_area_may_be_off_is_known_where_scores_lie_close():
    logits, y = answers(2)
    close = Tally.of(logits / 1000, y)
    error = abs(close.score()["auc_binary"] - metrics.score(logits, y)["auc_binary"])
    assert 1 / FINE < error <= close.resolution()
    assert Tally.of(logits, y).resolution() < 2 / FINE


def test_a_threshold_gives_the_rates_that_it_promises():
    logits, y = answers(2)
    chance = metrics.probabilities(logits)[:, 1]
    threshold, false, true = Tally.of(logits, y).true_positives_at(0.1)
    assert (chance[y == 0] >= threshold).mean() == false <= 0.1
    assert (chance[y == 1] >= threshold).mean() == true
    result = (chance[y == 0] >= threshold - 1 / FINE).mean()
    assert result > 0.1
    outcome = Tally.of(logits[y == 0], y[y == 0]).true_positives_at(0.1)
    assert outcome is None
    assert Tally.of(logits, y).true_positives_at(false) == (
        threshold,
        false,
        true,
    )  # a rate that is met


@pytest.mark.parametrize("change", ["shape", "type", "sign", "sum", "name"])
def test_arrays_that_are_no_tally_are_not_taken_for_one(change):
    arrays = vars(Tally.of(*answers(3)))
    assert Tally.of_arrays(arrays, 3, 600).images == 600
    assert Tally.of_arrays(arrays, 4, 600) is None
    table = arrays["table"]
    changed = {"shape": table[:2], "type": table.astype(float), "sign": -table, "sum": table + 1}
    other = {**arrays, "table": changed[change]} if change in changed else {**arrays, "more": table}
    assert Tally.of_arrays(other, 3, 600) is None
    assert Tally.of_arrays(arrays, 3, 599) is None


# which cells may leave a site, by hand

NONE_HIDDEN = np.zeros(3, bool)


def test_a_cell_of_as_many_images_as_the_smallest_may_leave():
    assert not hidden_cells(np.array([[5, 9, 0], [9, 9, 9], [9, 9, 9]]), 5, NONE_HIDDEN).any()


def test_hidden_cells_of_a_class_hold_as_many_images_as_the_smallest_together():
    images = np.array([[1, 2, 9, 9], [9, 9, 9, 9], [9, 9, 9, 9]])
    secret = hidden_cells(images, 5, NONE_HIDDEN)
    assert secret[0].tolist() == [True, True, True, False]  # 1 and 2 alone would be 3 images
    expected = [[1, 1, 1, 0], [1, 1, 1, 0], [0, 0, 0, 0]]
    assert secret.astype(int).tolist() == expected


def test_of_a_hidden_class_nobody_knows_the_sum():
    secret = np.array([[1, 0], [1, 1], [1, 1]], bool)
    assert (_safe(secret, np.array([True, False, False])) == secret).all()
    expected = [[False] * 2, [True] * 2, [True] * 2]
    assert _safe(secret, NONE_HIDDEN).tolist() == expected


def test_cells_of_groups_that_lack_one_already_are_hidden_first():
    secret = np.array([True, False, False])
    _hide_more(
        np.array([1, 8, 7]), secret, np.zeros(3, bool), np.array([False, True, False]), smallest=5
    )
    assert secret.tolist() == [True, True, False]


def test_a_group_that_lacks_only_hidden_classes_is_not_hidden():
    y = np.repeat([0, 1, 2], [20, 3, 3])
    groups = {"sex": torch.zeros(26, dtype=torch.int64)}
    shard = SimpleNamespace(y=torch.from_numpy(y), groups=groups)
    tallies, hidden_groups = tallied(np.zeros((26, 3)), shard, {"sex": ["female"]}, 5)
    assert hidden_groups == []
    assert tallies["all"].images == 20
    assert tallies["sex/0"].images == 20


def test_a_chance_on_the_edge_of_a_bin_is_in_the_bin_below():
    bins = np.zeros((1, 15, 3), np.int64)
    _calibrate(bins, np.array([3 / 15]), np.array([True]), np.array([0]))
    result = np.flatnonzero(bins[0, :, 0]).tolist()
    assert result == [2]


def test_a_rebuilt_chance_is_the_middle_of_its_bin():
    tally = Tally.of(np.log([[0.7, 0.3]]), np.array([0]))
    logits, _ = tally.rebuilt()
    expected = pytest.approx((int(0.3 * FINE) + 0.5) / FINE)
    assert probabilities(logits)[0, 1] == expected
