import itertools

import numpy as np
import pytest
import scipy.stats
from scored_runs import bootstrap
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score, roc_auc_score

from fedcli import metrics
from fedcli.errors import FedcliError
from fedcli.metrics import CLASSES, names, plan, probabilities, score
from fedcli.scores.statistics.bootstrap import bootstrap_p, draw, draws, interval
from fedcli.scores.statistics.significance import (
    delong,
    holm,
    mcnemar,
    over_seeds,
    paired_t,
    sign_floor,
    wilcoxon,
)


def images(n=90, classes=3, *, seed=0, ties=False):
    """Logits that know something, labels, and two or three images of each patient."""
    chance = np.random.default_rng(seed)
    y = chance.integers(0, classes, n)
    logits = chance.normal(size=(n, classes)) + 1.2 * np.eye(classes)[y]
    return (
        (np.round(logits) if ties else logits).astype(np.float32),
        y,
        np.sort(chance.integers(0, n // 2, n)),
    )


def weighted(logits, y, weights):
    """Scores of the same images under other weights: weights [B, N] -> {metric: [B]}."""
    return metrics.resampled(plan(logits, y), np.asarray(weights).T)


def one_by_one(logits, y, weights):
    """scikit-learn's scores of one resample, its images written out."""
    rows = np.repeat(np.arange(len(y)), weights)
    truth = y[rows]
    chance = probabilities(logits)[rows]
    guess = logits[rows].argmax(1)
    f1_macro = f1_score(truth, guess, average="macro")
    return {
        "accuracy": accuracy_score(truth, guess),
        "balanced_accuracy": balanced_accuracy_score(truth, guess),
        "f1_macro": f1_macro,
        "auc_ovo_macro": roc_auc_score(truth, chance, multi_class="ovo")
        if chance.shape[1] > 2
        else None,
        "auc_binary": roc_auc_score(truth, chance[:, 1]) if chance.shape[1] == 2 else None,
    }


@pytest.mark.parametrize(("classes", "ties"), [(2, False), (2, True), (4, False), (4, True)])
def test_every_resample_is_what_scikit_learn_says_of_its_images_one_by_one(classes, ties):
    logits, y, patients = images(80, classes, ties=ties)
    weights = draw(patients, 12, seed=3)
    resampled = bootstrap(logits, y, patients, resamples=12, seed=3)
    for b, row in enumerate(weights):
        expected = {k: v for k, v in one_by_one(logits, y, row).items() if v is not None}
        result = {k: resampled[k][b] for k in expected}
        assert result == pytest.approx(expected, rel=1e-12)


def test_the_scores_of_given_weights_are_those_of_the_images_written_out():
    logits, y, patients = images(ties=True)
    weights = draw(patients, 20, seed=0)
    scores = weighted(logits, y, weights)
    for b, row in enumerate(weights):
        rows = np.repeat(np.arange(len(y)), row)
        expected = score(logits[rows], y[rows])
        result = {k: scores[k][b] for k in names(CLASSES, resampled=True)}
        assert result == pytest.approx(
            {k: expected[k] for k in names(CLASSES, resampled=True)}, rel=1e-14
        )


def test_each_image_once_is_the_score_itself():
    logits, y, _ = images()
    weights = np.ones((1, len(y)))
    once = weighted(logits, y, weights)
    result = {k: v[0] for k, v in once.items()}
    expected = pytest.approx({k: score(logits, y)[k] for k in once}, rel=1e-14)
    assert result == expected


def test_all_images_of_a_patient_are_drawn_together_and_as_many_patients_as_there_are():
    patients = np.array(["a", "b", "b", "c", "a"])
    weights = draw(patients, 50, seed=1)
    assert (weights[:, 0] == weights[:, 4]).all()
    assert (weights[:, 1] == weights[:, 2]).all()
    assert (weights[:, [0, 1, 3]].sum(1) == 3).all()
    assert len(np.unique(weights, axis=0)) > 5


def test_a_number_draws_that_many_images_one_by_one():
    weights = draw(7, 200, seed=1)
    assert weights.shape == (200, 7)
    assert (weights.sum(1) == 7).all()
    expected = pytest.approx(np.ones(7), abs=0.25)
    assert weights.mean(0) == expected


def test_draws_that_are_remembered_are_those_that_are_drawn_anew(monkeypatch):
    logits, y, patients = images(60)
    remembered = [bootstrap(logits, y, patients, resamples=9, seed=2) for _ in range(2)]
    monkeypatch.setattr("fedcli.scores.statistics.bootstrap.KEPT", 0)
    anew = bootstrap(logits, y, patients, resamples=9, seed=2)
    for scores in remembered:
        result = {k: v.tolist() for k, v in scores.items()}
        expected = {k: v.tolist() for k, v in anew.items()}
        assert result == expected


def test_how_many_resamples_are_held_at_a_time_changes_no_number(monkeypatch):
    logits, y, patients = images()
    whole = bootstrap(logits, y, patients, resamples=25, seed=0)
    weights = draw(patients, 25, seed=0)
    monkeypatch.setattr("fedcli.scores.statistics.bootstrap.CHUNK", 3 * len(y))
    few = bootstrap(logits, y, patients, resamples=25, seed=0)
    np.testing.assert_array_equal(draw(patients, 25, seed=0), weights)
    for metric, values in whole.items():
        np.testing.assert_array_equal(few[metric], values)


def test_a_class_that_a_resample_lacks_is_left_out_of_its_score():
    logits, y, _ = images(30, 3)
    weights = np.where(y == 2, 0, 1)[None]
    expected = score(logits[y < 2], y[y < 2])
    scores = weighted(logits, y, weights)
    result = {k: v[0] for k, v in scores.items()}
    assert result == pytest.approx({k: expected[k] for k in scores})


def test_an_auc_of_one_class_is_nan_and_the_interval_passes_over_it():
    logits, y, _ = images(12, 2)
    weights = np.stack([y == 1, np.ones(12)])
    scores = weighted(logits, y, weights)
    assert (
        np.isnan(scores["auc_ovo_macro"]).tolist()
        == np.isnan(scores["auc_binary"]).tolist()
        == [True, False]
    )
    expected = (scores["auc_binary"][1],) * 2
    assert interval(scores["auc_binary"]) == expected
    values = np.array([np.nan])
    assert interval(values) == (None, None)
    differences = np.array([np.nan])
    result = bootstrap_p(differences, 9)
    assert result is None


def test_groups_are_scored_in_the_same_resamples_as_all_images():
    logits, y, patients = images()
    groups = np.array([0, 1, -1])[np.arange(len(y)) % 3]
    resampled = bootstrap(logits, y, patients, resamples=6, seed=2, groups=groups)
    weights = draw(patients, 6, seed=2)
    for g in (0, 1):
        expected = weighted(logits[groups == g], y[groups == g], weights[:, groups == g])
        np.testing.assert_array_equal(resampled["auc_ovo_macro"][:, g], expected["auc_ovo_macro"])
    assert resampled["accuracy"].shape == (6, 2)


def test_a_group_without_an_image_has_no_number():
    logits, y, _ = images(20)
    groups = np.full(20, 1)
    resampled = bootstrap(logits, y, resamples=4, seed=0, groups=groups)
    assert np.isnan(resampled["accuracy"][:, 0]).all()
    assert not np.isnan(resampled["accuracy"][:, 1]).any()


def test_no_image_is_refused():
    with pytest.raises(FedcliError, match="no image to draw"):
        draw(0, 3, seed=0)


def test_the_interval_of_accuracy_holds_the_truth_about_as_often_as_it_says():
    chance = np.random.default_rng(5)
    hits = 0
    truth = 0.7
    for trial in range(200):
        right = chance.random(150) < truth
        values = draw(150, 200, seed=trial) @ right / 150
        low, high = interval(values)
        hits += low <= truth <= high
    assert 0.90 <= hits / 200 <= 0.98


def test_images_of_one_patient_that_agree_widen_the_interval():
    """Twice the same image of each patient says no more than one: the interval by image is too narrow by sqrt 2."""
    logits, y, _ = images(100)
    twice = np.repeat(logits, 2, 0)
    labels = np.repeat(y, 2)
    patients = np.repeat(np.arange(100), 2)
    single = bootstrap(logits, y, resamples=400, seed=0)["accuracy"]
    by_patient = bootstrap(twice, labels, patients, resamples=400, seed=0)["accuracy"]
    by_image = bootstrap(twice, labels, resamples=400, seed=0)["accuracy"]
    np.testing.assert_allclose(by_patient, single)
    expected = pytest.approx(np.sqrt(2), rel=0.15)
    result = by_patient.std() / by_image.std()
    assert result == expected


def test_the_p_of_a_resampled_difference():
    differences = np.zeros(99)
    assert bootstrap_p(differences, 0) == 1
    expected = pytest.approx(2 / 100)
    differences = np.ones(99)
    assert bootstrap_p(differences, 40) == expected
    differences = np.array([-1.0] * 9 + [1.0] * 90)
    result = bootstrap_p(differences, 40)
    expected = pytest.approx(2 * 10 / 100)
    assert result == expected
    differences = np.array([-1.0] * 90 + [1.0] * 9)
    result = bootstrap_p(differences, 40)
    expected = pytest.approx(2 * 10 / 100)
    assert result == expected


FLOORS_BY_UNITS = [(0, 1), (1, 1), (2, 0.5), (5, 0.0625), (6, 0.03125)]


@pytest.mark.parametrize(("units", "floor"), FLOORS_BY_UNITS)
def test_no_resamples_give_a_p_below_that_of_a_sign_test(units, floor):
    assert bootstrap_p(np.ones(999), units) == sign_floor(units) == floor
    assert scipy.stats.binomtest(0, units).pvalue == floor if units else floor == 1


def slow_delong(a, b, y):
    """Every pair of a positive and a negative written out, as in the paper."""
    tens = []
    ones = []
    for s in (a, b):
        pairs = (s[y == 1][:, None] > s[y == 0]) + 0.5 * (s[y == 1][:, None] == s[y == 0])  # [m, n]
        tens.append(pairs.mean(1)), ones.append(pairs.mean(0))
    m = int((y == 1).sum())
    n = int((y == 0).sum())
    return np.mean(tens, 1), np.cov(tens) / m + np.cov(ones) / n


@pytest.mark.parametrize("ties", [False, True])
def test_delong_is_the_sum_over_every_pair(ties):
    chance = np.random.default_rng(1)
    y = chance.integers(0, 2, 70)
    a = y + chance.normal(size=70)
    b = y + 2 * chance.normal(size=70)
    a, b = (np.round(a), np.round(b)) if ties else (a, b)
    auc, covariance = slow_delong(a, b, y)
    result = delong(a, b, y)
    expected = pytest.approx((roc_auc_score(y, a), roc_auc_score(y, b)))
    assert (result.auc_a, result.auc_b) == expected
    expected = pytest.approx(tuple(auc))
    assert (result.auc_a, result.auc_b) == expected
    expected = pytest.approx(tuple(np.sqrt(np.diag(covariance))))
    assert (result.se_a, result.se_b) == expected
    expected = pytest.approx(np.sqrt([1, -1] @ covariance @ [1, -1]))
    assert result.se == expected
    expected = pytest.approx(auc[1] - auc[0])
    assert result.difference == expected
    expected = pytest.approx(2 * scipy.stats.norm.sf(abs(result.z)))
    assert result.p == expected


def test_delong_of_the_same_order_is_no_difference():
    y = np.array([0, 1, 0, 1, 1])
    a = np.array([0.1, 0.4, 0.5, 0.6, 0.2])
    score_b = 3 * a
    result = delong(a, score_b, y)
    outcome = (result.difference, result.se, result.z, result.p)
    assert outcome == (0, 0, 0, 1)


def test_delong_has_no_p_where_nothing_varies_but_the_areas_differ():
    y = np.array([0, 0, 1, 1])
    score_b = 1 - y
    result = delong(y, score_b, y)
    outcome = (result.difference, result.se, result.z, result.p)
    assert outcome == (-1, 0, None, None)


def test_delong_needs_two_images_of_each_class():
    with pytest.raises(FedcliError, match="two images of each class; here are 3 and 1"):
        score_a = np.arange(4)
        score_b = np.arange(4)
        delong(score_a, score_b, np.array([0, 0, 0, 1]))


def test_delong_refuses_scores_that_are_no_numbers():
    with pytest.raises(FedcliError, match="1 of 4 images got a score that is no number"):
        score_a = np.array([np.nan, 1, 2, 3])
        score_b = np.arange(4)
        delong(score_a, score_b, np.array([0, 1, 0, 1]))


def test_delong_and_the_bootstrap_agree_on_the_standard_error():
    chance = np.random.default_rng(0)
    y = chance.integers(0, 2, 300)
    a, b = ([np.zeros(300), y + chance.normal(size=300)] for _ in range(2))
    a = np.stack(a, 1)
    b = np.stack(b, 1)
    resampled = [bootstrap(logits, y, resamples=500, seed=1)["auc_binary"] for logits in (a, b)]
    score_a = a[:, 1]
    score_b = b[:, 1]
    expected = pytest.approx(delong(score_a, score_b, y).se, rel=0.1)
    result = (resampled[1] - resampled[0]).std()
    assert result == expected


DIFFERING = [(0, 0), (3, 3), (1, 9), (10, 4), (0, 5)]


@pytest.mark.parametrize(("only_a", "only_b"), DIFFERING)
def test_mcnemar_is_the_exact_binomial_test(only_a, only_b):
    right_a = np.array([1] * only_a + [0] * only_b + [1, 0])
    right_b = np.array([0] * only_a + [1] * only_b + [1, 0])
    result = mcnemar(right_a, right_b)
    n = only_a + only_b
    assert (result.only_a, result.only_b) == (only_a, only_b)
    expected = pytest.approx(scipy.stats.binomtest(only_a, n).pvalue if n else 1)
    assert result.p == expected


def test_paired_t_is_scipys():
    a = [0.71, 0.74, 0.69, 0.75]
    b = [0.73, 0.75, 0.74, 0.74]
    expected = scipy.stats.ttest_rel(b, a)
    result = paired_t(a, b)
    assert (result.statistic, result.p) == pytest.approx((expected.statistic, expected.pvalue))
    expected = (4, pytest.approx(0.0175))
    assert (result.pairs, result.difference) == expected


def test_paired_t_where_nothing_varies():
    result = paired_t([0.5, 0.6], [0.5, 0.6]).p
    assert result == 1
    assert paired_t([0.5, 0.6], [0.6, 0.7]).p is None
    assert paired_t([0.5], [0.6]).p is None


def test_the_t_test_of_folds_adds_the_overlap_of_their_training_sets():
    """Nadeau and Bengio: five folds train on four times the images they test on, so 1/5 becomes 1/5 + 1/4."""
    a = [0.71, 0.74, 0.69, 0.75, 0.70]
    b = [0.73, 0.75, 0.74, 0.74, 0.73]
    plain = paired_t(a, b)
    overlap = 1 / 4
    corrected = paired_t(a, b, overlap=overlap)
    expected = pytest.approx(plain.statistic / np.sqrt(1 + 5 / 4))
    assert corrected.statistic == expected
    expected = pytest.approx(2 * scipy.stats.t.sf(corrected.statistic, 4))
    assert corrected.p == expected


def test_wilcoxon_sees_ties_that_floating_point_hides():
    a = [0.1, 0.2, 0.3, 0.4]
    b = [0.2, 0.3, 0.4, 0.3]
    result = len(set(np.abs(np.subtract(b, a))))
    assert result > 1
    result = (wilcoxon(a, b).statistic, wilcoxon(a, b).p)
    assert result == (7.5, 0.625)


def test_wilcoxon_is_scipys_exact_test():
    chance = np.random.default_rng(2)
    for n in (3, 5, 9):
        a = chance.normal(size=n)
        b = chance.normal(0.4, size=n)
        expected = pytest.approx(scipy.stats.wilcoxon(b, a, method="exact").pvalue)
        assert wilcoxon(a, b).p == expected


def test_wilcoxon_with_ties_and_zeros_is_the_count_over_all_signs():
    a = np.zeros(6)
    b = np.array([1, 1, -1, 2, 3, 0.0])
    d = b[b != 0]
    ranks = scipy.stats.rankdata(abs(d))
    sums = np.array([np.dot(ranks, signs) for signs in itertools.product([0, 1], repeat=5)])
    rises = ranks[d > 0].sum()
    result = wilcoxon(a, b)
    expected = pytest.approx(min(1, 2 * min((sums <= rises).mean(), (sums >= rises).mean())))
    assert result.p == expected
    assert result.statistic == rises


FLOORS_BY_PAIRS = [(1, 1), (2, 0.5), (3, 0.25), (5, 0.0625), (6, 0.03125)]


@pytest.mark.parametrize(("n", "floor"), FLOORS_BY_PAIRS)
def test_no_numbers_give_wilcoxon_a_p_below_its_floor(n, floor):
    result = wilcoxon(list(range(n)), [10 * (i + 1) for i in range(n)])
    assert result.p == result.floor == floor


def test_the_floor_of_wilcoxon_is_of_all_pairs_given():
    result = wilcoxon([1, 2, 3], [1, 3, 5]).floor
    assert result == 0.25


def test_counts_of_pairs_of_images_do_not_overflow_where_patients_have_many():
    units = np.arange(46_341 // 3 + 1).repeat(3)
    (times,) = draws(units, 1, seed=0)
    assert times.dtype == np.int64  # a resample may hold 46,341 images, whose pairs are 2^31


def test_wilcoxon_of_the_same_numbers_is_no_difference():
    result = wilcoxon([0.5, 0.6], [0.5, 0.6]).p
    assert result == 1


def test_pairs_need_as_many_numbers_on_both_sides():
    with pytest.raises(FedcliError, match="2 and 1 numbers make no pairs"):
        wilcoxon([1, 2], [1])


def test_holm_by_hand():
    """0.01 x 4, 0.02 x 3, 0.03 x 2 (no less than the one before it), 0.9 x 1."""
    expected = pytest.approx([0.06, 0.04, None, 0.9, 0.06])
    result = holm([0.03, 0.01, None, 0.9, 0.02])
    assert result == expected
    assert holm([0.6, 0.7]) == [1, 1]
    assert holm([]) == []


def test_over_seeds_pools_rounds_or_takes_runs():
    per_round = [[0.5, 0.7], [0.8, 0.8]]
    result = over_seeds(per_round)
    assert result.mean == pytest.approx(0.7)
    expected = pytest.approx(np.std([0.5, 0.7, 0.8, 0.8]))
    assert result.std_pooled == expected
    expected = pytest.approx(np.std([0.6, 0.8], ddof=1))
    assert result.std_runs == expected
    assert result.runs == 2
    per_round = [[0.5, 0.7]]
    assert over_seeds(per_round).std_runs is None


def test_pairs_of_many_images_are_counted_without_overflow():
    n = 200_000
    y = np.arange(n) % 2
    logits = np.stack([np.zeros(n), np.arange(n) // 2 % 2 * 1.0], 1)  # says nothing of the class
    weights = np.ones((n, 1), bool)
    scores = metrics.resampled(plan(logits, y), weights)
    assert scores["auc_binary"] == pytest.approx(0.5)
