"""Verdicts on a difference, and their reasons."""

from dataclasses import replace

import numpy as np
import pytest
from scored_runs import heal, model, ordered, scored

from fedcli.comparison import verdict
from fedcli.comparison.tested import compare
from fedcli.comparison.verdict import (
    HIGHER,
    INCONCLUSIVE,
    LOWER,
    MODELS_ONLY,
    ONE_PATIENT,
    Difference,
    adjusted,
)
from fedcli.errors import UsageError
from fedcli.reporting import comparison
from fedcli.reporting.comparison import heading, legend, remarks, sentences, table


def test_better_in_patients_and_seeds_is_said_and_one_seed_is_told_from_several(tmp_path):
    a = [scored(tmp_path / f"a{k}", model(0.3, k), seed=k, by=()) for k in range(3)]
    b = [heal(tmp_path / f"b{k}", model(2, k), seed=k, by=()) for k in range(3)]
    several = compare(a, b, resamples=300)
    single = compare(a[:1], b[:1], resamples=300)
    scores = "balanced accuracy, clean", "AUC, clean"
    expected = []
    for row, metric in zip(several.rows, ("balanced accuracy", "AUC"), strict=True):
        gain = round(100 * row.b.mean, 1) - round(100 * row.a.mean, 1)
        bounds = f"{100 * row.low:.1f} to {100 * row.high:.1f}"
        size = f"{gain:.1f} points higher than FedAvg on clean images ({bounds})"
        expected.append(f"FedHEAL: {metric} {size}.")
    assert sentences(several)[:-1] == expected
    assert sentences(several)[-1].endswith(", and over seeds.")
    assert sentences(single)[-1].endswith("With 1 training of each, other trainings may differ.")
    assert remarks(several) == ["(a) a difference between the methods: both p are below 0.05."]
    assert remarks(single) == [
        "(a) true of these trained models; 1 seed is too few to attribute the difference to the method."
    ]
    assert [len(table(result).columns) for result in (several, single)] == [8, 7]
    assert [line[-1].text for line in table(single).rows] == ["(a)"] * 2
    assert [line[0].text for line in table(single).rows] == list(scores)
    assert [column.name for column in table(several).columns[1:4]] == [
        "FedAvg",
        "FedHEAL",
        "change",
    ]
    assert (
        heading(several) == "FedHEAL against FedAvg, 3 seeds each; they differ only in the method."
    )
    assert "p seeds: paired t test" in legend(several)
    assert "p seeds" not in legend(single)


def test_a_difference_that_no_seed_changes_has_no_test_over_seeds(tmp_path):
    a = [scored(tmp_path / f"a{k}", model(0, 0), seed=k, by=()) for k in range(3)]
    b = [heal(tmp_path / f"b{k}", model(5, 0), seed=k, by=()) for k in range(3)]
    comparison = compare(a, b, metrics=["accuracy"], resamples=300)
    result = (comparison.rows[0].p_seeds_holm, comparison.rows[0].verdict)
    assert result == (None, HIGHER)
    result = table(comparison).rows[0][-2].text
    assert result == "-"


CONCLUSIONS = [
    (0.01, 0.01, 3, LOWER, ""),
    (0.01, None, 3, LOWER, ""),
    (
        0.01,
        0.01,
        2,
        MODELS_ONLY,
        "2 seeds are too few to attribute the difference to the method",
    ),
    (0.01, None, 1, MODELS_ONLY, "1 seed is too few to attribute the difference to the method"),
    (
        0.01,
        0.2,
        3,
        MODELS_ONLY,
        "it varies too much from seed to seed to be attributed to the method",
    ),
    (0.2, 0.01, 3, INCONCLUSIVE, "the seeds agree, but other test patients might reverse it"),
    (0.2, 0.01, 2, INCONCLUSIVE, ""),
    (None, 0.2, 3, INCONCLUSIVE, ONE_PATIENT),
]


@pytest.mark.parametrize(("p", "over", "seeds", "expected", "why"), CONCLUSIONS)
def test_what_two_sources_of_chance_leave_to_say(p, over, seeds, expected, why):
    difference = Difference(difference=-0.1, samples=seeds, over="seeds", differing=20)
    result = (adjusted(difference, p, over).verdict, adjusted(difference, p, over).reason)
    assert result == (
        expected,
        why,
    )
    if expected == LOWER:
        assert adjusted(replace(difference, difference=0.1), p, over).verdict == HIGHER


def test_folds_whose_mean_has_the_other_sign_are_not_attributed_to_the_method():
    tests = {"corrected_t": {"difference": 0.1}, "wilcoxon": {"difference": 0.1}}
    row = Difference(difference=-0.1, samples=3, over="folds", differing=20, over_seeds=tests)
    assert adjusted(row, 0.01, 0.01).verdict == MODELS_ONLY
    assert adjusted(replace(row, difference=0.1), 0.01, 0.01).verdict == HIGHER


def test_few_patients_that_differ_can_show_nothing(tmp_path):
    """Without a floor, resamples of one patient or of two are all alike and give the smallest p there is."""
    for count, p in ((1, 1), (2, 0.5), (5, 0.0625)):
        y = np.arange(3 * count) % 3
        units = np.repeat(np.arange(count).astype(str), 3)
        fields = {"y": y, "units": units, "by": ()}
        a = scored(tmp_path / f"a{count}", [np.eye(3)[2 - y] * 4] * 2, **fields)
        b = heal(tmp_path / f"b{count}", [np.eye(3)[y] * 4] * 2, **fields)
        comparison = compare([a], [b], metrics=["accuracy"], resamples=400).rows[0]
        result = (comparison.differing, comparison.p, comparison.floor, comparison.verdict)
        assert result == (
            count,
            p,
            p,
            INCONCLUSIVE,
        )
        assert (comparison.low is None) == (count == 1)
    ranked = ordered({"a": [a], "b": [b]}, "a", "accuracy", "clean", resamples=200)[1]
    assert ranked.note == "only 5 patients differ, so p cannot be below 0.0625"
    few = compare([a], [b], metrics=["accuracy"], resamples=200)
    assert remarks(few) == [f"(a) no significant difference: {ranked.note}."]


def test_what_has_no_p_was_not_tested(tmp_path):
    """The first class is shown by one patient alone: every resample without that patient lacks it."""
    y = np.array([0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2])
    units = np.array([*"aabbccddeeffgg"])
    fields = {"y": y, "units": units, "by": ()}
    a = scored(tmp_path / "a", [np.eye(3)[2 - y] * 4] * 2, **fields)
    b = heal(tmp_path / "b", [np.eye(3)[y] * 4] * 2, **fields)
    compared = compare([a], [b], metrics=["balanced_accuracy"], resamples=200)
    assert compared.rows[0].p is None
    assert remarks(compared) == [f"(a) not tested: {ONE_PATIENT}."]
    assert sentences(compared)[0] == (
        f"FedHEAL: balanced accuracy not tested against FedAvg on clean images ({ONE_PATIENT})."
    )
    rows = ordered({"a": [a], "b": [b]}, "a", "balanced_accuracy", "clean", resamples=200)
    texts, tables = comparison.tests_against([("balanced accuracy", "a", rows)])
    assert texts[0] == f"b: balanced accuracy not tested against a ({ONE_PATIENT})."
    assert tables[0].rows[1][-1].text == "not tested"


def test_order_against_a_reference_with_holm(tmp_path):
    rows = {
        "same": [scored(tmp_path / "a", model(1, 0))],
        "reference": [scored(tmp_path / "r", model(1, 0))],
        "better": [heal(tmp_path / "b", model(5, 0))],
        "alone": [heal(tmp_path / f"c{k}", model(5, 0), seed=k) for k in (7, 8)],
    }
    by_name = {
        system.name: system
        for system in ordered(rows, "reference", "accuracy", "clean", resamples=200)
    }
    assert list(by_name) == ["reference", "same", "better", "alone"]
    assert by_name["reference"].note == "the reference"
    assert by_name["reference"].p is None
    result = (by_name["same"].verdict, by_name["better"].verdict, by_name["alone"].verdict)
    assert result == (
        INCONCLUSIVE,
        MODELS_ONLY,
        None,
    )
    expected = pytest.approx(2 * by_name["better"].p)
    assert by_name["better"].p_holm == expected
    assert "has the same seeds" in by_name["alone"].note
    assert by_name["alone"].mean > 0.9
    direct = compare(rows["reference"], rows["better"], metrics=["accuracy"], resamples=200).rows[0]
    result = (by_name["better"].low, by_name["better"].high)
    assert result == (direct.low, direct.high)
    few = "1 seed is too few to attribute the difference to the method"
    assert by_name["better"].note == by_name["better"].reason == few
    low, high, points = (
        f"{100 * share:.1f}" for share in (direct.low, direct.high, direct.difference)
    )
    both = [
        ("clean accuracy", "reference", [by_name["reference"], by_name["same"], by_name["better"]]),
        ("noisy accuracy", "reference", [by_name["reference"], by_name["same"]]),
    ]
    texts, _ = comparison.tests_against(both)
    assert (
        texts[0]
        == f"better: clean accuracy {points} points higher than reference ({low} to {high})."
    )
    assert texts[1] == (
        "same: no significant difference from reference in clean accuracy or noisy accuracy."
    )
    assert texts[2] == verdict.NOT_EQUAL
    assert "Holm) over the systems of a table, not over scores" in verdict.legend(
        list(by_name.values())
    )
    result = ordered(rows, "reference", "accuracy", "corrupted", resamples=50)[1].note
    assert result == "the two have no such score in common"
    noisy = {
        "a": [scored(tmp_path / "n0", model(1, 0), corrupted=model(0, 0))],
        "b": [heal(tmp_path / "n1", model(1, 0), corrupted=model(5, 0))],
    }
    result = ordered(noisy, "a", "accuracy", "corrupted", resamples=200)[1]
    assert result.verdict == MODELS_ONLY
    with pytest.raises(UsageError, match="no system is named 'refrence'"):
        ordered(rows, "refrence", "accuracy", "clean")


def test_many_systems_get_the_resamples_that_their_adjusted_p_needs():
    assert verdict.enough(1) == verdict.enough(24) == verdict.RESAMPLES == 2000
    for comparisons in (25, 74, 300):
        resamples = verdict.enough(comparisons)
        result = 2 / (resamples + 1) * comparisons
        assert result <= verdict.SIGNIFICANT / 2


def test_one_of_many_systems_can_be_shown_to_differ(tmp_path):
    """Holm's adjustment over 60 systems leaves nothing of a p from 2,000 resamples."""
    runs = {f"alike-{k}": [scored(tmp_path / f"alike-{k}", model(1, 0))] for k in range(60)}
    runs |= {
        "reference": [scored(tmp_path / "r", model(1, 0))],
        "better": [heal(tmp_path / "b", model(5, 0))],
    }
    by_name = {row.name: row for row in ordered(runs, "reference", "accuracy", "clean")}
    assert 0 < by_name["better"].p_holm < 0.05
    assert by_name["alike-0"].verdict == INCONCLUSIVE
    assert by_name["better"].verdict == MODELS_ONLY
