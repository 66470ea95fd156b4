"""Intervals of a mean over runs whose test sets differ: folds, and splits drawn anew."""

import numpy as np
import pytest
from scored_runs import fold, model, scored

from fedcli.compare.resampling import bounds_of_mean
from fedcli.compare.systems import read
from fedcli.scores.statistics import intervals
from fedcli.scores.statistics.bootstrap import draw
from fedcli.scores.table import Score, Where

SCORE = Where("clean", metric="accuracy")
SIZES = 60, 48


def right(logits, y):
    return (logits[-1].argmax(1) == y).astype(float)


def a_fold(folder, k, size, seed):
    """A run of so many test images, its answers and their labels; images stand alone."""
    y = np.arange(size) % 3
    about = fold(k) | {"ids": np.array([f"fold {k} image {i:02d}" for i in range(size)])}
    logits = model(0.5, 10 * k + seed, y=y)
    return scored(folder, logits, seed=seed, y=y, units=None, **about), right(logits, y)


def known(answers, method):
    return Score([float(answers.mean())], [6], low=0.0, high=1.0, interval=f"{method} by image", units=len(answers))


def without_each(answers):
    return (answers.sum() - answers) / (len(answers) - 1)


def test_a_patient_is_left_out_of_the_runs_of_its_own_test_set_alone(tmp_path, monkeypatch):
    """Two seeds of one fold, one of another."""
    made = [a_fold(tmp_path / f"{k}{seed}", k, SIZES[k - 1], seed) for k, seed in ((1, 0), (1, 1), (2, 0))]
    runs, (a, b, c) = read([path for path, _ in made]), [answers for _, answers in made]
    asked = []
    monkeypatch.setattr(intervals, "bounds", lambda *of: asked.extend(of) or (0.1, 0.9))
    assert bounds_of_mean(runs, SCORE, [known(each, "bca") for each in (a, b, c)]) == (0.1, 0.9)
    first, second = (draw(size, intervals.RESAMPLES, intervals.SEED) for size in SIZES)
    left = [without_each(a) + without_each(b) + c.mean(), a.mean() + b.mean() + without_each(c)]
    assert asked[0] == pytest.approx(np.mean([a.mean(), b.mean(), c.mean()]))
    assert asked[1] == pytest.approx(((first @ a + first @ b) / 60 + np.roll(second @ c / 48, 1)) / 3)
    assert asked[2] == pytest.approx(np.concatenate(left) / 3)


@pytest.mark.parametrize("method", ["", "bca"])
def test_patients_of_two_test_sets_of_one_size_are_not_drawn_as_one(tmp_path, method):
    """The answers are alike, image by image, but they are of other patients: the mean of the two varies less."""
    y, logits = np.arange(60) % 3, model(0.5, 0)
    paths = [scored(tmp_path / f"alike{k}", logits, y=y, units=None, **fold(k)) for k in (1, 2)]
    alone, both = read(paths[:1]), read(paths)
    estimate = known(right(logits, y), method)
    one = bounds_of_mean(alone * 2, SCORE, [estimate] * 2)
    two = bounds_of_mean(both, SCORE, [estimate] * 2)
    assert two[1] - two[0] < 0.85 * (one[1] - one[0])  # by the square root of two, in the long run
    groups = [
        bounds_of_mean(each, SCORE._replace(attribute="sex", group="f"), [estimate] * 2) for each in (alone * 2, both)
    ]
    assert groups[1][1] - groups[1][0] < 0.9 * (groups[0][1] - groups[0][0])
