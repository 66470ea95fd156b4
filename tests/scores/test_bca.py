"""BCa intervals, against scipy, and where they stand."""

from types import SimpleNamespace

import numpy as np
import pytest
import session
from hospitals import prepared, write_hospitals
from scipy import stats
from scored_runs import bootstrap

import fedcli
from fedcli.comparison.resampling import bounds_of_mean
from fedcli.comparison.systems import read
from fedcli.metrics import score
from fedcli.scores.scores import RunScores
from fedcli.scores.statistics.bootstrap import bca_interval, interval, without_each
from fedcli.scores.table import Where

OVERALL = Where("clean", metric="auc_ovo_macro")


def test_leaving_out_a_patient_is_scoring_the_others():
    draw = np.random.default_rng(0)
    logits = draw.normal(size=(9, 3))
    y = np.arange(9) % 3
    units = np.arange(9) // 2
    without = without_each(logits, y, units)
    for metric in ("accuracy", "balanced_accuracy", "auc_ovo_macro"):
        expected = [score(logits[units != u], y[units != u])[metric] for u in range(5)]
        assert without[metric] == pytest.approx(expected)


def test_bca_agrees_with_scipy_on_the_same_resamples():
    draw = np.random.default_rng(1)
    y = draw.integers(0, 2, 40)
    logits = draw.normal(size=(40, 2)) + np.eye(2)[y]
    resampled = bootstrap(logits, y, resamples=1000, seed=0)["accuracy"]
    right = (logits.argmax(1) == y).astype(float)
    bootstrap_result = SimpleNamespace(bootstrap_distribution=resampled)
    oracle = stats.bootstrap(
        (right,),
        np.mean,
        n_resamples=0,
        method="BCa",
        bootstrap_result=bootstrap_result,
    ).confidence_interval
    without = without_each(logits, y, None)["accuracy"]
    limits = bca_interval(right.mean(), resampled, without)
    expected = pytest.approx((oracle.low, oracle.high), abs=1e-12)
    assert limits == expected
    assert limits != interval(resampled)


def test_without_bias_and_skewness_it_is_the_percentile_interval():
    values = np.linspace(-1, 1, 1001)
    without = np.array([-1.0, 0.0, 1.0])
    result = bca_interval(0.0, values, without)
    assert result == pytest.approx(interval(values))
    without = np.ones(4)
    outcome = bca_interval(1.0, np.ones(9), without)
    assert outcome == (1.0, 1.0)
    without = np.array([-1.0, 1.0])
    result = bca_interval(2.0, values, without)
    assert result == interval(values)  # z0 is infinite
    without = np.zeros(3)
    result = bca_interval(None, np.full(3, np.nan), without)
    assert result == (None, None)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Three seeds of one system."""
    work = tmp_path_factory.mktemp("work")
    raw = write_hospitals(work / "raw", count=60)
    options = prepared(raw, work)
    clients = fedcli.partition(options, by=["hospital"], work=work)
    return [
        fedcli.train("fedavg", clients, rounds=1, seed=seed, work=work).path for seed in range(3)
    ]


def test_the_kind_of_interval_is_said(runs):
    usual = RunScores.read(fedcli.evaluate(runs[0]).path)
    with_bca = RunScores.read(fedcli.evaluate(runs[0], interval="bca").path)
    before, after = (scores.versions["clean"]["balanced_accuracy"] for scores in (usual, with_bca))
    assert (before.is_bca, after.is_bca) == (False, True)
    assert before.last == after.last
    assert with_bca.groups["sex"]["clean"]["accuracy"]["female"].is_bca
    result = " ".join(session.run(f"fedcli evaluate {runs[0]} --interval bca").split())
    assert "BCa intervals: 1,000 bootstrap resamples" in result
    result = fedcli.report(runs[:1], interval="bca").to("html")
    assert "95 % BCa interval" in result
    outcome = fedcli.report(runs[:1]).to("html")
    assert "BCa interval from" not in outcome


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_the_interval_of_a_mean_over_seeds_is_of_the_mean_in_each_resample(runs, method):
    path = [fedcli.evaluate(run, interval=method).path for run in runs]
    scored = read(path)
    scores_of_runs = [run.scores.versions["clean"]["auc_ovo_macro"] for run in scored]
    low, high = bounds_of_mean(scored, OVERALL, scores_of_runs)
    averaged = (
        np.mean([score.low for score in scores_of_runs]),
        np.mean([score.high for score in scores_of_runs]),
    )
    assert averaged[0] <= low + 0.05
    assert high <= averaged[1] + 0.05
    assert low <= np.mean([k.last for k in scores_of_runs]) <= high
    estimates = scores_of_runs[:1] * 3
    result = bounds_of_mean([scored[0]] * 3, OVERALL, estimates)
    expected = pytest.approx((scores_of_runs[0].low, scores_of_runs[0].high))
    assert result == expected
    groups = [run.scores.groups["sex"]["clean"]["auc_ovo_macro"]["female"] for run in scored]
    where = OVERALL._replace(attribute="sex", group="female")
    low, high = bounds_of_mean(scored, where, groups)
    assert low <= np.mean([score.last for score in groups]) <= high
    estimates = scores_of_runs[:1]
    result = bounds_of_mean(scored[:1], OVERALL, estimates)
    expected = (scores_of_runs[0].low, scores_of_runs[0].high)
    assert result == expected
