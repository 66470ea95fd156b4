"""Permutation tests of gaps, subgroups in which a model fails, and what a test set of a size can show."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import NormalIndPower
from statsmodels.stats.proportion import proportion_confint

from fedcli.scores.statistics import permutation, power

N = 240
SEX = np.arange(N) // 2 % 2
AGE = np.arange(N) // 4 % 3
UNITS = np.array([f"patient {i // 2}" for i in range(N)])
GROUPS = {"sex": (SEX, ["f", "m"]), "age": (AGE, ["a", "b", "c"])}


def answered(right):
    """Labels and logits of two classes that are right where this says so."""
    y = np.arange(N) % 2
    return y, np.eye(2)[np.where(right, y, 1 - y)]


def test_p_of_a_gap_agrees_with_scipys_permutation_test():
    right = np.random.default_rng(0).random(N) < np.where(SEX == 1, 0.65, 0.85)
    y, logits = answered(right)
    units = np.arange(N)
    test = permutation.gaps(logits, y, units, GROUPS["sex"], ["accuracy"])["accuracy"]
    expected = pytest.approx(abs(right[SEX == 0].mean() - right[SEX == 1].mean()))
    assert test["gap"] == expected
    other = stats.permutation_test(
        (right[SEX == 0].astype(float), right[SEX == 1].astype(float)),
        lambda a, b, axis: a.mean(axis) - b.mean(axis),
        vectorized=True,
        n_resamples=4999,
        rng=np.random.default_rng(1),
    )
    expected = pytest.approx(other.pvalue, abs=0.01)
    assert test["p"] == expected
    assert test["p"] < 0.05


def test_patients_stay_together_and_unknown_groups_stay_unknown():
    group_of = np.where(np.arange(N) < 20, -1, SEX)
    (dealt, *_) = permutation._deals(group_of, UNITS)
    assert (dealt[:20] == -1).all()
    assert (dealt[20:] >= 0).all()
    assert (dealt[0::2] == dealt[1::2]).all()  # two images of each patient
    assert ((dealt == 1).sum(0) == (group_of == 1).sum()).all()


def test_groups_that_vary_within_patients_are_dealt_whole_and_then_among_a_patients_images():
    unit = np.repeat(np.arange(60), [2] * 30 + [3] * 30)
    group_of = np.random.default_rng(2).integers(-1, 2, len(unit))
    (dealt, *_) = permutation._deals(group_of, unit)
    assert (dealt[group_of < 0] == -1).all()
    assert (dealt[group_of >= 0] >= 0).all()
    assert ((dealt == 1).sum(0) == (group_of == 1).sum()).all()
    counts = np.bincount(unit, group_of >= 0)
    ones = np.stack([np.bincount(unit, column == 1) for column in dealt.T[:50]])  # [b, U]
    for n in (
        1,
        2,
        3,
    ):  # what a patient's images have goes together to one with as many of known group
        expected = np.sort(np.bincount(unit, group_of == 1)[counts == n])
        assert (np.sort(ones[:, counts == n]) == expected).all()


def test_a_patient_whose_first_image_is_unknown_takes_part_with_the_others():
    group_of = np.where(np.arange(N) % 2 == 0, -1, SEX)
    (dealt, *_) = permutation._deals(group_of, UNITS)
    assert (dealt[0::2] == -1).all()
    assert ((dealt[1::2] == 1).sum(0) == (group_of == 1).sum()).all()


def test_a_gap_of_groups_that_vary_within_patients_has_the_p_of_its_own_deals():
    side = np.arange(N) % 2  # two images of each patient, one of each side
    right = (np.arange(N) // 2 % 3 > 0) | (
        side == 1
    )  # a third of the patients fail on the first side alone
    y = np.zeros(N, int)
    logits = np.eye(2)[np.where(right, 0, 1)]
    grouping = (side, ["l", "r"])
    test = permutation.gaps(logits, y, UNITS, grouping, ["accuracy"])["accuracy"]
    expected = pytest.approx(1 / 3)
    assert test["gap"] == expected
    assert test["p"] == pytest.approx(0.001)
    fails = np.repeat(
        np.arange(N // 2) % 3 == 0, 2
    )  # both images of a third fail: no deal changes the gap of none
    grouping = (side, ["l", "r"])
    same = permutation.gaps(np.eye(2)[fails.astype(int)], y, UNITS, grouping, ["accuracy"])[
        "accuracy"
    ]
    assert same["gap"] == 0
    assert same["p"] == 1


def test_a_crossed_subgroup_that_fails_is_the_first_and_significant_after_holm():
    right = ~((SEX == 1) & (AGE == 2)) | (np.arange(N) % 5 == 0)
    units = np.arange(N)
    lines = permutation.subgroups(right, units, GROUPS)
    result = (lines[0]["attribute"], lines[0]["group"])
    assert result == ("age*sex", "c x m")
    assert lines[0]["p_holm"] < 0.05
    expected = pytest.approx(lines[0]["accuracy"] - right[~((SEX == 1) & (AGE == 2))].mean())
    assert lines[0]["difference"] == expected
    for line in lines:
        assert line["images"] >= 30
    for line in lines:
        assert line["p"] <= line["p_holm"]


def test_a_subgroup_of_many_images_of_few_patients_is_not_tested():
    """The crossed groups have 40 images each, of 20 patients."""
    right = np.arange(N) % 5 > 0
    lines = permutation.subgroups(right, UNITS, GROUPS)
    tested = {line["attribute"]: line["images"] for line in lines}
    expected = {"sex": N // 2, "age": N // 3}
    assert tested == expected


def test_without_a_difference_no_subgroup_is_named_significant():
    right = np.arange(N) // 12 % 4 > 0
    lines = permutation.subgroups(right, UNITS, GROUPS)
    result = min(line["p_holm"] for line in lines)
    assert result > 0.05


def test_the_smallest_gap_is_found_with_a_power_of_80_percent():
    gap = power.smallest_gap(200, 120, 0.8)
    effect = gap / np.sqrt(0.8 * 0.2)
    ratio = 120 / 200
    result = NormalIndPower().power(effect, 200, 0.05, ratio=ratio)
    assert result == pytest.approx(0.8, abs=1e-3)
    assert power.smallest_gap(2, 2, 0.8) is None
    assert power.smallest_gap(0, 5, 0.8) is None


def test_half_widths_are_wilsons_and_hanley_and_mcneils():
    low, high = proportion_confint(40, 50, method="wilson")
    expected = pytest.approx((high - low) / 2)
    assert power.half_width(50, 0.8) == expected
    expected = pytest.approx(1.96 * 0.0314, abs=1e-3)
    assert power.half_area(100, 100, 0.8) == expected  # their table: about 0.031
    assert power.half_area(0, 5, 0.8) is None
