"""Intervals of a difference, and of a mean over runs whose test sets differ: folds, and splits drawn anew."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scored_runs import PATIENTS_OF, SEX, N, Y, fold, heal, model, scored

from fedcli.comparison import resampling
from fedcli.comparison.resampling import (
    Resamples,
    bounds_of_mean,
    left_difference,
    left_of_mean,
)
from fedcli.comparison.systems import read
from fedcli.comparison.tested import compare
from fedcli.reporting.comparison import body, legend
from fedcli.scores.statistics import intervals
from fedcli.scores.statistics.bootstrap import bca_interval, draw
from fedcli.scores.statistics.resampled import RESAMPLES
from fedcli.scores.table import Score, Where
from fedcli.scores.views import GAP
from fedcli.system import processes

METRIC = "balanced_accuracy"
SCORE = Where("clean", metric="accuracy")
SIZES = 60, 48


def balanced(logits, keep):
    right = logits.argmax(1) == Y
    return np.mean([right[keep & (Y == c)].mean() for c in range(3)])


def by_hand(rounds, within_images=None):
    """The mean over rounds without each patient, of images [N] or all."""
    images = np.full(N, True) if within_images is None else within_images
    keeps = [images & (PATIENTS_OF != patient) for patient in np.unique(PATIENTS_OF)]
    means = []
    for keep in keeps:
        means.append(np.mean([balanced(logits, keep) for logits in rounds]))
    return np.array(means)


def test_scores_of_all_images_and_of_groups_without_each_patient(tmp_path):
    logits = model(1, 0)
    (run,) = read([scored(tmp_path / "a", logits)])
    resamples = Resamples(10)
    result = sorted(resamples.left(run, Where("clean", metric=METRIC)))
    expected = pytest.approx(sorted(by_hand(logits)))
    assert result == expected
    female, male = (by_hand(logits, SEX == g) for g in (0, 1))
    where = Where("clean", attribute="sex", group="f", metric=METRIC)
    expected = pytest.approx(sorted(female))
    assert sorted(resamples.left(run, where)) == expected
    assert male.shape == female.shape == (30,)


def test_a_gap_without_each_patient_is_that_of_the_groups_means(tmp_path):
    models = model(1, 0), model(2, 1)
    (a,) = read([scored(tmp_path / "a", models[0])])
    (b,) = read([scored(tmp_path / "b", models[1])])
    gap = Where("clean", attribute="sex", metric=METRIC, measure=GAP)
    without = left_difference([(a, b)], gap, Resamples(10), [0])
    gaps = []
    for logits in models:
        female, male = (by_hand(logits, SEX == g) for g in (0, 1))
        gaps.append(np.abs(female - male))
    expected = pytest.approx(sorted(gaps[1] - gaps[0]))
    assert sorted(without) == expected


def test_a_patient_of_one_test_set_is_left_out_of_its_pairs_alone():
    without = [np.array([0.1, 0.3]), np.array([0.5, 0.1]), np.array([0.0, 0.6, 0.3])]
    result = left_of_mean([0.2, 0.4, 0.3], without, [0, 0, 1])
    expected = pytest.approx([0.9 / 3, 0.7 / 3, 0.6 / 3, 1.2 / 3, 0.9 / 3])
    assert result == expected


def test_compare_gives_bca_intervals_where_they_are_asked_for(tmp_path):
    runs = model(0.5, 0), model(1.5, 1)
    a = [scored(tmp_path / "a", runs[0])]
    b = [heal(tmp_path / "b", runs[1])]
    usual = compare(a, b, resamples=300)
    bca = compare(a, b, resamples=300, interval="bca")
    row = next(row for row in bca.rows if row.metric == METRIC)
    before = next(row for row in usual.rows if row.metric == METRIC)
    resamples = Resamples(300)
    run_a, run_b = read([*a, *b])
    where = Where("clean", metric=METRIC)
    resampled = resamples.drawn(run_a, where)
    other_resampled = resamples.drawn(run_b, where)
    expected = bca_interval(
        row.difference, other_resampled - resampled, by_hand(runs[1]) - by_hand(runs[0])
    )
    assert (row.low, row.high) == pytest.approx(expected)
    assert (row.low, row.high) != (before.low, before.high)
    assert row.p == before.p
    assert "(BCa)" in legend(bca)
    assert "(BCa)" not in legend(usual)
    assert body(bca)["interval"] == "bca"
    gap, plain = (comparison.groups["sex"].gaps[0] for comparison in (bca, usual))
    assert gap.low < gap.high
    assert (gap.low, gap.high) != (plain.low, plain.high)


def right(logits, y):
    return (logits[-1].argmax(1) == y).astype(float)


def a_fold(folder, k, size, seed):
    """A run of so many test images, its answers and their labels; images stand alone."""
    y = np.arange(size) % 3
    fields = fold(k) | {"ids": np.array([f"fold {k} image {i:02d}" for i in range(size)])}
    logits = model(0.5, 10 * k + seed, y=y)
    return scored(folder, logits, seed=seed, y=y, units=None, **fields), right(logits, y)


def known(answers, method):
    return Score(
        [float(answers.mean())],
        [6],
        low=0.0,
        high=1.0,
        interval=f"{method} by image",
        units=len(answers),
    )


def left_out(answers):
    return (answers.sum() - answers) / (len(answers) - 1)


def test_a_patient_is_left_out_of_the_runs_of_its_own_test_set_alone(tmp_path, monkeypatch):
    """Two seeds of one fold, one of another."""
    runs_and_answers = []
    for k, seed in ((1, 0), (1, 1), (2, 0)):
        runs_and_answers.append(a_fold(tmp_path / f"{k}{seed}", k, SIZES[k - 1], seed))
    runs = read([path for path, _ in runs_and_answers])
    (a, b, c) = [answers for _, answers in runs_and_answers]
    arguments = []
    monkeypatch.setattr(intervals, "bounds", lambda *values: arguments.extend(values) or (0.1, 0.9))
    result = bounds_of_mean(
        runs, SCORE, [known(right_answers, "bca") for right_answers in (a, b, c)]
    )
    assert result == (0.1, 0.9)
    draws, other_draws = (draw(size, intervals.RESAMPLES, intervals.SEED) for size in SIZES)
    without = [left_out(a) + left_out(b) + c.mean(), a.mean() + b.mean() + left_out(c)]
    expected = pytest.approx(np.mean([a.mean(), b.mean(), c.mean()]))
    assert arguments[0] == expected
    expected = pytest.approx(((draws @ a + draws @ b) / 60 + np.roll(other_draws @ c / 48, 1)) / 3)
    assert arguments[1] == expected
    expected = pytest.approx(np.concatenate(without) / 3)
    assert arguments[2] == expected


@pytest.mark.parametrize("method", ["", "bca"])
def test_patients_of_two_test_sets_of_one_size_are_not_drawn_as_one(tmp_path, method):
    """The answers are alike, image by image, but they are of other patients: the mean of the two varies less."""
    y = np.arange(60) % 3
    logits = model(0.5, 0)
    paths = [scored(tmp_path / f"alike{k}", logits, y=y, units=None, **fold(k)) for k in (1, 2)]
    alone = read(paths[:1])
    both = read(paths)
    estimate = known(right(logits, y), method)
    bounds_alone = bounds_of_mean(alone * 2, SCORE, [estimate] * 2)
    bounds_of_both = bounds_of_mean(both, SCORE, [estimate] * 2)
    result = bounds_of_both[1] - bounds_of_both[0]
    assert result < 0.85 * (
        bounds_alone[1] - bounds_alone[0]
    )  # by the square root of two, in the long run
    of_women = SCORE._replace(attribute="sex", group="f")
    low_alone, high_alone = bounds_of_mean(alone * 2, of_women, [estimate] * 2)
    low, high = bounds_of_mean(both, of_women, [estimate] * 2)
    assert high - low < 0.9 * (high_alone - low_alone)


@pytest.mark.parametrize(("score", "expected"), [(0.4, [np.nan, np.nan]), (None, [0.2, 0.3])])
def test_a_gap_has_no_interval_where_a_group_has_a_score_and_none(score, expected, monkeypatch):
    columns = {"a": np.array([0.5, 0.6]), "b": np.array([0.7, 0.9]), "c": np.full(2, np.nan)}
    run_a, run_b = [SimpleNamespace(factor=factor, number=lambda _: score) for factor in (1, 2)]
    resamples = SimpleNamespace(drawn=lambda run, where: run.factor * columns[where.group])
    groups = [Where("clean", attribute="sex", group=group) for group in columns]
    monkeypatch.setattr(resampling, "_groups", lambda pairs, where: groups)
    gap = Where("clean", attribute="sex", measure="gap")
    differences = resampling.drawn_difference([(run_a, run_b)], gap, resamples)
    assert_allclose(differences, expected)


def test_tables_are_remembered_up_to_a_number_of_bytes(monkeypatch):
    """Three of 100 numbers fit, and of four the one used least recently is made again."""
    monkeypatch.setattr(resampling, "MOST_BYTES", 3 * 800)
    calls = []

    @resampling.Remembered
    def table_of(name):
        calls.append(name)
        return {SCORE: np.zeros(100)}

    for name in "abc" * 3:
        table_of(name)
    assert calls == ["a", "b", "c"]
    for name in "adcab":
        table_of(name)
    assert calls == ["a", "b", "c", "d", "b"]
    assert table_of.bytes == 3 * 800
    monkeypatch.setattr(resampling, "MOST_BYTES", 0)
    assert table_of("e") is table_of("e")  # one is kept, whatever it takes


def test_a_comparison_of_more_than_256_runs_draws_each_once(monkeypatch):
    draws = []

    def drawn(path, *_):
        draws.append(path)
        return {SCORE: np.zeros(2)}

    monkeypatch.setattr(resampling, "_drawn", resampling.Remembered(drawn))
    monkeypatch.setattr(resampling, "sha256", str)
    runs = [SimpleNamespace(path=f"run {i}", identity="made") for i in range(300)]
    for _ in range(3):
        for run in runs:
            Resamples(2).drawn(run, SCORE)
    assert len(draws) == 300


def test_tables_drawn_side_by_side_are_those_drawn_one_by_one(tmp_path, monkeypatch):
    runs = read([scored(tmp_path / f"run{k}", model(0.5, k), seed=k) for k in range(3)])
    resamples = Resamples(RESAMPLES + 1)
    tables = {}
    for jobs in (1, 2):
        monkeypatch.setattr(processes, "cores", lambda jobs=jobs: jobs)
        resampling._drawn.cache_clear()
        resamples.draw(runs, "")
        assert len(resampling._drawn.tables) == 3
        tables[jobs] = [resamples.table(run, "") for run in runs]
    for one_by_one, together in zip(tables[1], tables[2], strict=True):
        assert one_by_one.keys() == together.keys()
        for where, column in one_by_one.items():
            assert_array_equal(together[where], column)
    resampling._drawn.cache_clear()
    Resamples(RESAMPLES).draw(runs, "")
    assert not resampling._drawn.tables
