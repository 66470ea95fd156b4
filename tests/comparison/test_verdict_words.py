"""Numbers of a test as they are written, and the legend of a table."""

import pytest

from fedcli.comparison import verdict
from fedcli.comparison.verdict import (
    HIGHER,
    INCONCLUSIVE,
    LOWER,
    MODELS_ONLY,
    Difference,
    adjusted,
    interval_text,
    is_untested,
    p_text,
    sampled,
    signed,
    significant,
)

SEEDS = {"over": "seeds", "samples": 3}


TEXTS_OF_P = [
    (None, "-"),
    (0.0, "< 0.001"),
    (0.00099, "< 0.001"),
    (0.001, "0.001"),
    (0.25, "0.250"),
]


@pytest.mark.parametrize(("p", "text"), TEXTS_OF_P)
def test_a_p_has_three_digits_or_says_that_it_is_smaller(p, text):
    assert p_text(p) == text


TEXTS_OF_DIFFERENCES = [
    (None, 2, "-"),
    (0.0123, 2, "+1.23"),
    (-0.0123, 1, "-1.2"),
    (0.00001, 2, "0.00"),
    (0.0, 1, "0.0"),
]


@pytest.mark.parametrize(("share", "digits", "text"), TEXTS_OF_DIFFERENCES)
def test_a_difference_has_its_sign_unless_its_digits_are_zero(share, digits, text):
    assert signed(share, digits) == text


def test_a_small_loss_has_no_sign_either():
    assert signed(-0.00001) == "0.00"


TEXTS_OF_INTERVALS = [
    (Difference(low=-0.05, high=0.012), "-5.00 to +1.20"),
    (Difference(low=0.0, high=0.5), "0.00 to +50.00"),
    (Difference(), "-"),
]


@pytest.mark.parametrize(("row", "text"), TEXTS_OF_INTERVALS)
def test_both_bounds_of_an_interval_have_signs(row, text):
    assert interval_text(row) == text


OF_THESE_MODELS = [
    (HIGHER, 3, True),
    (LOWER, 3, True),
    (MODELS_ONLY, 2, True),
    (MODELS_ONLY, 3, False),
    (INCONCLUSIVE, 1, False),
    (None, None, False),
]


@pytest.mark.parametrize(("conclusion", "samples", "expected"), OF_THESE_MODELS)
def test_a_difference_of_these_models_counts_where_there_are_few_seeds(
    conclusion, samples, expected
):
    row = Difference(verdict=conclusion, samples=samples)
    assert significant(row) is expected


@pytest.mark.parametrize(
    ("conclusion", "p", "expected"),
    [(INCONCLUSIVE, None, True), (INCONCLUSIVE, 0.4, False), (None, None, False)],
)
def test_a_row_is_untested_where_there_is_no_p_over_patients(conclusion, p, expected):
    row = Difference(verdict=conclusion, p_holm=p)
    assert is_untested(row) is expected


def test_the_sample_of_a_table_is_that_of_the_rows_that_have_one():
    assert sampled([]) == "seeds"
    rows = [Difference(), Difference(over="folds")]
    assert sampled(rows) == "folds"


FEW_UNITS = [
    ("image", 1, "only 1 image differs, so p cannot be below 0.5"),
    ("image", 5, "only 5 images differ, so p cannot be below 0.5"),
    ("lesion", 1, "only 1 lesion differs, so p cannot be below 0.5"),
    ("lesion", 5, "only 5 lesions differ, so p cannot be below 0.5"),
    ("image", 6, ""),
    ("image", 0, ""),
]


@pytest.mark.parametrize(("unit", "differing", "reason"), FEW_UNITS)
def test_few_units_that_differ_are_counted_in_their_own_word(unit, differing, reason):
    row = Difference(difference=0.1, unit=unit, differing=differing, floor=0.5, **SEEDS)
    judged = adjusted(row, 0.6, 0.5)
    assert judged.verdict == INCONCLUSIVE
    assert judged.reason == reason


@pytest.mark.parametrize(
    ("over", "reason"),
    [
        ("folds", "the folds agree, but other test patients might reverse it"),
        ("splits", "the splits agree, but other test patients might reverse it"),
    ],
)
def test_folds_and_splits_take_the_place_of_seeds_in_a_reason(over, reason):
    row = Difference(difference=0.1, differing=20, over=over, samples=3)
    assert adjusted(row, 0.2, 0.01).reason == reason


def test_what_varies_is_named_in_the_singular():
    row = Difference(difference=0.1, differing=20, over="folds", samples=4)
    assert adjusted(row, 0.01, 0.3).reason == (
        "it varies too much from fold to fold to be attributed to the method"
    )


def test_p_of_exactly_5_percent_is_not_below_it():
    row = Difference(difference=0.1, differing=20, **SEEDS)
    assert adjusted(row, 0.05, 0.01).verdict == INCONCLUSIVE
    assert adjusted(row, 0.0499, 0.05).verdict == MODELS_ONLY
    assert adjusted(row, 0.0499, 0.0499).verdict == HIGHER


def test_an_adjusted_row_keeps_its_own_p_beside_the_adjusted_ones():
    row = Difference(difference=0.1, p=0.01, p_seeds=0.02, differing=20, **SEEDS)
    judged = adjusted(row, 0.03, 0.04)
    assert (judged.p, judged.p_holm) == (0.01, 0.03)
    assert (judged.p_seeds, judged.p_seeds_holm) == (0.02, 0.04)


def test_the_legend_of_one_seed_is_of_patients_alone():
    rows = [Difference(over="seeds", samples=1)]
    text = verdict.legend(rows, resamples=500)
    assert text.startswith("95 % interval and p over patients (images, if no ")
    assert "p over seeds:" not in text
    assert text.endswith(". Higher or lower: both p are below 0.05, with 3 seeds or more; " + REST)


REST = (
    "significant for these trained models, not across seeds: p over patients is below 0.05, but "
    "there are too few seeds, or they vary too much, to attribute the difference to the method; "
    "inconclusive: p over patients is not below 0.05, which does not show that they are equal."
)


def test_the_legend_of_several_seeds_names_the_paired_test():
    rows = [Difference(over="seeds", samples=2), Difference()]
    text = verdict.legend(rows)
    assert "p over seeds: paired t test, with the test images held fixed. " in text
    assert "2000 bootstrap resamples" in text


def test_the_legend_of_folds_has_the_variance_factor_of_the_most_folds():
    rows = [
        Difference(over="folds", samples=3, overlap=0.5),
        Difference(over="folds", samples=5, overlap=0.25),
    ]
    text = verdict.legend(rows)
    assert "p over folds: corrected resampled t test (Nadeau and Bengio" in text
    assert "1/J + n_test/n_train, here 1/5 + 0.25; each of the folds has" in text
    assert "both p are below 0.05, with 3 folds or more" in text


def test_a_legend_of_rows_without_a_test_explains_the_words_all_the_same():
    text = verdict.legend([])
    assert verdict.HOLM in text
    assert "with 3 seeds or more" in text
    assert "Nadeau" not in text
