"""BCa intervals of a difference: scores without each patient, and what compare makes of them."""

import numpy as np
import pytest
from scored_runs import PATIENTS_OF, SEX, N, Y, heal, model, scored

from fedcli.compare.resampling import Resamples, left_of_mean
from fedcli.compare.systems import read
from fedcli.compare.tested import compare
from fedcli.reporting.comparison import body, legend
from fedcli.scores.statistics.bootstrap import bca_interval
from fedcli.scores.table import Where
from fedcli.scores.views import GAP

METRIC = "balanced_accuracy"


def balanced(logits, keep):
    right = logits.argmax(1) == Y
    return np.mean([right[keep & (Y == c)].mean() for c in range(3)])


def by_hand(rounds, of=None):
    """The mean over rounds without each patient, of images [N] or all."""
    images = np.full(N, True) if of is None else of
    keeps = [images & (PATIENTS_OF != patient) for patient in np.unique(PATIENTS_OF)]
    return np.array([np.mean([balanced(each, keep) for each in rounds]) for keep in keeps])


def test_scores_of_all_images_and_of_groups_without_each_patient(tmp_path):
    logits = model(1, 0)
    (run,) = read([scored(tmp_path / "a", logits)])
    made = Resamples(10)
    assert sorted(made.left(run, Where("clean", metric=METRIC))) == pytest.approx(sorted(by_hand(logits)))
    female, male = (by_hand(logits, SEX == g) for g in (0, 1))
    assert sorted(made.left(run, Where("clean", attribute="sex", group="f", metric=METRIC))) == pytest.approx(
        sorted(female)
    )
    gaps = made.left(run, Where("clean", attribute="sex", metric=METRIC, measure=GAP))
    each = [np.abs(np.subtract(*(by_hand([single], SEX == g) for g in (0, 1)))) for single in logits]
    assert sorted(gaps) == pytest.approx(sorted(np.mean(each, axis=0))) and male.shape == gaps.shape == (30,)


def test_a_patient_of_one_test_set_is_left_out_of_its_pairs_alone():
    left = [np.array([0.1, 0.3]), np.array([0.5, 0.1]), np.array([0.0, 0.6, 0.3])]
    made = left_of_mean([0.2, 0.4, 0.3], left, [0, 0, 1])
    assert made == pytest.approx([0.9 / 3, 0.7 / 3, 0.6 / 3, 1.2 / 3, 0.9 / 3])


def test_compare_gives_bca_intervals_where_they_are_asked_for(tmp_path):
    runs = model(0.5, 0), model(1.5, 1)
    a, b = [scored(tmp_path / "a", runs[0])], [heal(tmp_path / "b", runs[1])]
    usual, made = compare(a, b, resamples=300), compare(a, b, resamples=300, interval="bca")
    row, before = (next(r for r in each.rows if r.metric == METRIC) for each in (made, usual))
    resamples = Resamples(300)
    first, second = (resamples.drawn(run, Where("clean", metric=METRIC)) for run in read([*a, *b]))
    expected = bca_interval(row.difference, second - first, by_hand(runs[1]) - by_hand(runs[0]))
    assert (row.low, row.high) == pytest.approx(expected)
    assert (row.low, row.high) != (before.low, before.high) and row.p == before.p
    assert "(BCa)" in legend(made) and "(BCa)" not in legend(usual) and body(made)["interval"] == "bca"
    gap, plain = (each.groups["sex"].gaps[0] for each in (made, usual))
    assert gap.low < gap.high and (gap.low, gap.high) != (plain.low, plain.high)
