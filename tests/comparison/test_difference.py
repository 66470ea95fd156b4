"""The numbers of a comparison, against resamples written out and against scipy."""

import itertools
import re
from dataclasses import fields

import numpy as np
import pytest
import scipy.stats
from nested_scores import body_of
from scored_runs import PATIENTS_OF, SEX, N, Y, drawn, heal, model, ordered, row, scored

from fedcli.comparison.difference import DEPENDENT
from fedcli.comparison.systems import read
from fedcli.comparison.tested import compare
from fedcli.comparison.verdict import INCONCLUSIVE, ONE_PATIENT, Difference
from fedcli.errors import UsageError
from fedcli.metrics import score
from fedcli.reporting.comparison import legend, notes, sentences, table


def auc(logits, images):
    return score(logits[images], Y[images])["auc_ovo_macro"]


def mean_of(path):
    """Mean balanced accuracy of clean images over the last five rounds, as scores.json has it."""
    return body_of(path)["versions"]["clean"]["balanced_accuracy"]["mean_last5"]


def test_two_equal_systems_have_no_difference_and_p_is_one(tmp_path):
    logits = model(1, 0)
    a = [scored(tmp_path / "a", logits)]
    b = [heal(tmp_path / "b", logits)]
    comparison = compare(a, b, resamples=200)
    for difference in (
        comparison.rows + comparison.groups["sex"].gaps + comparison.groups["sex"].each
    ):
        result = (
            difference.difference,
            difference.low,
            difference.high,
            difference.p,
            difference.verdict,
        )
        expected = (
            0,
            0,
            0,
            1,
            INCONCLUSIVE,
        )
        assert result == expected
    c = [scored(tmp_path / "c", logits, units=None)]
    d = [heal(tmp_path / "d", logits, units=None)]
    apart = compare(c, d, resamples=200)
    result = apart.images[0]["versions"]["clean"]
    expected = {
        "mcnemar": {"only_a": 0, "only_b": 0, "p": 1},
    }
    assert result == expected
    result = comparison.images[0]["versions"]["clean"]
    assert result == {"mcnemar": None, "reason": DEPENDENT}
    every = "balanced accuracy, AUC, gap by sex in balanced accuracy or gap by sex in AUC"
    assert sentences(comparison)[0] == (
        f"FedHEAL: no significant difference from FedAvg in {every} on clean images."
    )


def test_the_interval_is_that_of_images_written_out_resample_by_resample(tmp_path):
    """Two seeds, two rounds, clean and corrupted: the mean of the differences under one draw of patients."""
    runs = {(s, k): (model(1 + s / 2, k), model(s, 10 + k)) for s in (0, 1) for k in (0, 1)}
    paths = {
        (s, k): (heal if s else scored)(tmp_path / f"{s}{k}", clean, corrupted=corrupted, seed=k)
        for (s, k), (clean, corrupted) in runs.items()
    }
    comparison = compare([paths[0, 0], paths[0, 1]], [paths[1, 0], paths[1, 1]], resamples=20)
    differences = []
    for weights in drawn(20):
        resample = np.repeat(np.arange(N), weights)
        means = []
        for s in (0, 1):
            rounds = [*itertools.chain(*runs[s, 0], *runs[s, 1])]
            means.append(np.mean([auc(logits, resample) for logits in rounds]))
        differences.append(means[1] - means[0])
    difference = row(comparison, "average", "auc_ovo_macro")
    expected = pytest.approx(tuple(np.quantile(differences, [0.025, 0.975])))
    assert (difference.low, difference.high) == expected
    result = (comparison.sample.unit, comparison.sample.units, comparison.sample.test_images)
    expected = (
        "patient",
        N // 2,
        N,
    )
    assert result == expected


def test_the_interval_of_a_gap_is_that_of_images_written_out(tmp_path):
    runs = model(1, 0), model(1, 1)
    a = [scored(tmp_path / "a", runs[0])]
    b = [heal(tmp_path / "b", runs[1])]
    comparison = compare(a, b, resamples=20)
    differences = []
    for weights in drawn(20):
        parts = [np.repeat(np.arange(N), weights * (SEX == g)) for g in (0, 1)]
        gaps = []
        for rounds in runs:
            of_women = np.mean([auc(logits, parts[0]) for logits in rounds])
            of_men = np.mean([auc(logits, parts[1]) for logits in rounds])
            gaps.append(abs(of_women - of_men))
        differences.append(gaps[1] - gaps[0])
    gap = next(g for g in comparison.groups["sex"].gaps if g.metric == "auc_ovo_macro")
    expected = pytest.approx(tuple(np.quantile(differences, [0.025, 0.975])))
    assert (gap.low, gap.high) == expected


def test_means_spreads_and_tests_over_seeds(tmp_path):
    a = [scored(tmp_path / f"a{k}", model(0.5, k), seed=k) for k in range(3)]
    b = [heal(tmp_path / f"b{k}", model(2, 5 + k), seed=k) for k in range(3)]
    comparison = compare(a, b[::-1], resamples=200)
    difference = row(comparison, "clean", "balanced_accuracy")
    means = [[mean_of(path) for path in a], [mean_of(path) for path in b]]
    expected = pytest.approx(np.mean(means[1]) - np.mean(means[0]))
    assert difference.difference == expected
    expected = pytest.approx(scipy.stats.ttest_rel(*means).pvalue)
    assert difference.over_seeds["paired_t"]["p"] == expected
    assert (
        difference.over_seeds["wilcoxon"]["p"] == difference.over_seeds["wilcoxon"]["floor"] == 0.25
    )
    expected = (
        difference.p,
        difference.over_seeds["paired_t"]["p"],
    )
    assert (difference.p_holm, difference.p_seeds_holm) == expected
    expected = pytest.approx(np.std(means[0], ddof=1))
    assert difference.a.std_runs == expected
    assert comparison.systems["b"]["seeds"] == [0, 1, 2]


def test_patients_that_both_answer_alike_do_not_count_as_differing(tmp_path):
    """A right answer turned wrong in two images of one patient; another's wrong one turned into another wrong one."""
    a, b = (np.eye(3)[Y] * 4 for _ in range(2))
    a[2] = np.eye(3)[(Y[2] + 1) % 3]
    b[2] = np.eye(3)[(Y[2] + 2) % 3]
    b[0] = -b[0]
    b[1] = -b[1]
    paths = scored(tmp_path / "a", [a] * 2), heal(tmp_path / "b", [b] * 2)
    comparison = compare(
        [paths[0]], [paths[1]], metrics=["accuracy", "f1_macro", "auc_ovo_macro"], resamples=50
    )
    assert [row.differing for row in comparison.rows] == [1, 2, 2]
    differing = {(row.metric, row.group): row.differing for row in comparison.groups["sex"].each}
    result = (
        differing["accuracy", "f"],
        differing["accuracy", "m"],
        differing["auc_ovo_macro", "m"],
    )
    assert result == (1, 0, 1)


@pytest.mark.parametrize("seed", range(4))
def test_a_printed_gap_is_the_distance_of_the_groups_scores_as_they_are_printed(tmp_path, seed):
    paths = scored(tmp_path / "a", model(5, seed)), heal(tmp_path / "b", model(4, seed))
    comparison = compare([paths[0]], [paths[1]], resamples=100)
    cells_by_name = {}
    for line in table(comparison).rows:
        cells_by_name[line[0].text] = [cell.text for cell in line[1:4]]
    cells = cells_by_name["gap by sex, AUC"]
    in_groups = [row for row in comparison.groups["sex"].each if row.metric == "auc_ovo_macro"]
    for cell, side in zip(cells[:2], "ab", strict=True):
        scores = [round(100 * getattr(row, side).mean, 1) for row in in_groups]
        assert cell == f"{max(scores) - min(scores):.1f}"
    assert float(cells[2]) == pytest.approx(float(cells[1]) - float(cells[0]))


def test_gaps_between_groups_and_a_small_group(tmp_path):
    uneven = [
        np.where((SEX == 1)[:, None], single, np.random.default_rng(3).normal(size=single.shape))
        for single in model(5, 0)
    ]
    paths = scored(tmp_path / "a", model(5, 0)), heal(tmp_path / "b", uneven)
    comparison = compare([paths[0]], [paths[1]], resamples=300)
    gaps = {g.metric: g for g in comparison.groups["sex"].gaps}
    for metric in ("balanced_accuracy", "auc_ovo_macro"):
        expected = [
            run.scores.part().lies("sex", "clean", metric, "gap").mean for run in read(paths)
        ]
        expected = pytest.approx(expected[1] - expected[0])
        assert gaps[metric].difference == expected
        assert gaps[metric].low > 0
    assert any(
        re.match(r"FedHEAL: gap by sex in AUC \d+\.\d points larger than FedAvg", sentence)
        for sentence in sentences(comparison)
    )
    in_groups = {(r.metric, r.group): r for r in comparison.groups["sex"].each}
    assert in_groups["balanced_accuracy", "m"].difference == 0
    assert in_groups["balanced_accuracy", "f"].high < 0
    result = (in_groups["auc_ovo_macro", "m"].low, in_groups["auc_ovo_macro", "m"].high)
    assert result == (0, 0)
    few = [
        scored(tmp_path / f"{k}", model(1, k, y=Y[:12]), y=Y[:12], units=None, rule=str(k))
        for k in (0, 1)
    ]
    comparison = compare(few[:1], few[1:], resamples=100)
    assert "sex f: 6 images, fewer than 30, so its score is unreliable" in notes(comparison)
    assert "12 images in the test set, fewer than 30: the intervals may be too narrow" in notes(
        comparison
    )
    for line in table(comparison).rows:
        is_gap = line[0].text.startswith("gap by sex")
        assert [cell.plain.endswith("†") for cell in line[1:3]] == [is_gap, is_gap]
    assert "†: decided by a group with too few images" in legend(comparison)


def test_gaps_of_large_groups_are_not_marked_as_unreliable(tmp_path):
    a = scored(tmp_path / "a", model(1, 0))
    b = heal(tmp_path / "b", model(1, 1))
    comparison = compare([a], [b], resamples=100)
    assert "†" not in legend(comparison)
    for line in table(comparison).rows:
        assert "†" not in "".join(cell.plain for cell in line)


def test_one_patient_of_a_class_leaves_no_interval_and_no_p(tmp_path):
    y = np.array([0] * 59 + [1])
    sex = np.arange(60) % 2
    a = scored(tmp_path / "a", model(0.5, 0, 2, y), y=y, units=None, sex=sex)
    b = heal(tmp_path / "b", model(2, 0, 2, y), y=y, units=None, sex=sex)
    comparison = compare([a], [b], metrics=["balanced_accuracy", "accuracy"], resamples=100)
    balanced, accuracy = comparison.rows[:2]
    assert balanced.difference != 0
    assert (balanced.low, balanced.p, balanced.reason) == (None, None, ONE_PATIENT)
    assert accuracy.low is not None
    gaps = {gap.metric: gap for gap in comparison.groups["sex"].gaps}
    assert gaps["balanced_accuracy"].low is None
    assert gaps["accuracy"].low is not None
    assert notes(comparison)[0] == (
        "1 image of b in the test set: intervals may be too narrow, and p too small"
    )


def test_two_classes_have_delongs_test_and_auc_binary(tmp_path):
    y = np.arange(N) % 2
    a = scored(tmp_path / "a", model(0.2, 0, 2, y), y=y, units=None)
    b = heal(tmp_path / "b", model(1.5, 0, 2, y), y=y, units=None)
    comparison = compare([a], [b], metrics=["auc_binary"], resamples=100)
    last = comparison.images[0]["versions"]["clean"]["delong"]
    expected = body_of(b)["versions"]["clean"]["auc_binary"]["last"]
    assert last["auc_b"] == expected
    assert 0 < last["p"] < 1
    with pytest.raises(UsageError, match="no interval can be made of 'auc_binary'"):
        compare(
            [scored(tmp_path / "c", model(1, 0))],
            [heal(tmp_path / "d", model(1, 1))],
            metrics=["auc_binary"],
        )


def test_where_clients_answer_for_themselves_the_mean_over_them_is_compared(tmp_path):
    a = scored(tmp_path / "a", model(1, 0), lone=True)
    b = heal(tmp_path / "b", model(1, 0), groups=False, by=())
    comparison = compare([a], [b], resamples=50)
    expected = pytest.approx([0, 0])
    assert [r.difference for r in comparison.rows] == expected
    result = (comparison.rows[0].low, comparison.rows[0].high)
    expected = pytest.approx((0, 0))
    assert result == expected
    assert comparison.images[0]["versions"] == {}


def test_the_order_of_the_test_images_does_not_matter(tmp_path):
    turn = np.random.default_rng(0).permutation(N)
    ids = np.array([f"image-{i}" for i in range(N)])
    a = scored(tmp_path / "a", model(1, 0), by=())
    logits = model(2, 1)
    b = heal(tmp_path / "b", logits, by=())
    turned = heal(
        tmp_path / "c",
        [comparison[turn] for comparison in logits],
        y=Y[turn],
        ids=ids[turn],
        units=PATIENTS_OF[turn],
        by=(),
    )
    comparison = compare([a], [b], resamples=50)
    comparison_turned = compare([a], [turned], resamples=50)
    result = [(r.low, r.high, r.p) for r in comparison.rows]
    expected = [(r.low, r.high, r.p) for r in comparison_turned.rows]
    assert result == expected
    assert comparison.images == comparison_turned.images


def test_one_class_for_every_image_and_unknown_groups_are_told(tmp_path):
    stuck = [np.tile([1.0, 0, 0], (N, 1))] * 2
    sex = np.where(np.arange(N) < 4, -1, SEX)
    a = [scored(tmp_path / f"a{k}", stuck, seed=k, corrupted=model(1, 0), sex=sex) for k in (0, 1)]
    b = [heal(tmp_path / "b0", model(1, 0), corrupted=model(1, 0), sex=sex)]
    b += [heal(tmp_path / "b1", stuck, seed=1, corrupted=model(1, 0), sex=sex)]
    comparison = compare(a, b, resamples=50)
    assert "FedAvg predicts one class for every clean image" in notes(comparison)
    assert "FedHEAL predicts one class for every clean image (seed 1)" in notes(comparison)
    assert comparison.groups["sex"].unknown == 4
    assert (
        "sex is unknown for 4 of 60 test images: they are in no group, but in the other scores"
        in notes(comparison)
    )
    rows = ordered({"a": a, "b": b}, "a", "accuracy", "clean", resamples=50)
    assert rows[0].note == "the reference; predicts one class for every clean image"
    assert rows[1].note.endswith("predicts one class for every clean image (seed 1)")
    assert (
        "one class"
        not in ordered({"a": a, "b": b}, "a", "accuracy", "corrupted", resamples=50)[0].note
    )


def test_two_systems_have_the_same_p_in_compare_and_in_order(tmp_path):
    a = [scored(tmp_path / f"a{k}", model(1, k), seed=k, by=()) for k in range(3)]
    b = [heal(tmp_path / f"b{k}", model(1.3, 5 + k), seed=k, by=()) for k in range(3)]
    difference = row(compare(a, b, resamples=100), "clean", "auc_ovo_macro")
    two = ordered({"a": a, "b": b}, "a", "auc_ovo_macro", "clean", resamples=100)[1]
    result = [getattr(difference, field.name) for field in fields(Difference)]
    expected = [getattr(two, field.name) for field in fields(Difference)]
    assert result == expected
