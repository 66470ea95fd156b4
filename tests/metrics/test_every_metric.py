"""Every metric of images, whatever it is: what weights mean is the same for all, and its words are there."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fedcli import metrics
from fedcli.metrics import CLASSES, GROUPS, LABELS, TWO

RANDOM = np.random.default_rng(0)
COUNTS = {CLASSES: 4, TWO: 2, LABELS: 3}
PAIRS = [(needs, metric) for needs in COUNTS for metric in metrics.registered(needs)]
every = pytest.mark.parametrize(
    ("needs", "metric"), PAIRS, ids=[f"{m.name} of {needs}" for needs, m in PAIRS]
)


def images(needs, n=60):
    """Logits and labels; many logits are equal, a class is rare, and some labels are not known."""
    count = COUNTS[needs]
    if needs == LABELS:
        y = RANDOM.choice(3, (n, count), p=[0.6, 0.3, 0.1])
        logits = RANDOM.normal(size=(n, count)) + (y == 1)
    else:
        y = RANDOM.choice(count, n, p=np.array([0.5, *[0.5 / (count - 1)] * (count - 1)]))
        logits = RANDOM.normal(size=(n, count)) + np.eye(count)[y]
    return logits.round(1).astype(np.float32), y


def value(metric, logits, y, weights=None):
    with np.errstate(invalid="ignore", divide="ignore"):
        return metric.value(metrics.plan(logits, y), weights)


@every
def test_a_weight_of_two_is_an_image_twice_and_of_zero_none(needs, metric):
    logits, y = images(needs)
    weights = RANDOM.integers(0, 3, (len(y), 7))
    resamples = [np.repeat(np.arange(len(y)), times) for times in weights.T]
    expected = [
        value(metric, logits[images_drawn], y[images_drawn])[0] for images_drawn in resamples
    ]
    assert_allclose(value(metric, logits, y, weights), expected, rtol=0, atol=1e-12)


@every
def test_a_group_is_weights_of_zero_and_one(needs, metric):
    logits, y = images(needs)
    group = RANDOM.random((len(y), 3)) < [0.2, 0.5, 0.9]
    expected = [value(metric, logits[members], y[members])[0] for members in group.T]
    weights = group.astype(int)
    result = value(metric, logits, y, weights)
    assert_allclose(result, expected, rtol=0, atol=1e-12)


@every
def test_no_weights_are_ones_and_what_score_says(needs, metric):
    logits, y = images(needs)
    scores = metrics.score(logits, y)
    weights = np.ones((len(y), 1), int)
    ones = value(metric, logits, y, weights)
    expected = pytest.approx([scores[metric.name]], abs=1e-12)
    assert value(metric, logits, y).tolist() == expected
    expected = pytest.approx([scores[metric.name]], abs=1e-12)
    assert ones.tolist() == expected


@every
def test_of_no_image_there_is_no_score(needs, metric):
    logits, y = images(needs)
    weights = np.zeros((len(y), 2), int)
    assert np.isnan(value(metric, logits, y, weights)).all()
    assert np.isnan(value(metric, logits[:0], y[:0])).all()


@every
def test_the_order_of_images_does_not_matter_and_a_perfect_model_is_best(needs, metric):
    logits, y = images(needs)
    order = RANDOM.permutation(len(y))
    result = value(metric, logits[order], y[order])
    expected = pytest.approx(value(metric, logits, y), abs=1e-12)
    assert result == expected
    sure = 100.0 * (np.where(y == 1, 1, -1) if needs == LABELS else np.eye(COUNTS[needs])[y])
    expected = pytest.approx(1.0 if metric.better == "high" else 0.0, abs=1e-12)
    assert value(metric, sure, y) == expected


@pytest.mark.parametrize(
    "metric", [*metrics.registered(), *metrics.registered(GROUPS)], ids=lambda each: each.name
)
def test_a_metric_has_a_title_in_words_a_meaning_and_a_direction(metric):
    assert metrics.title(metric.name) == metric.title
    assert "_" not in metric.title
    assert len(metric.meaning) > 20
    assert metric.better in ("high", "low")
    assert metrics.better_low(metric.name) == (metric.better == "low")
    assert metrics.get(metric.name) is metric


def test_titles_differ_and_one_of_a_mean_over_classes_says_so():
    titles = [metric.title for metric in (*metrics.registered(), *metrics.registered(GROUPS))]
    assert len(set(titles)) == len(titles)
    assert (
        metrics.title("average_odds_difference_ovr_macro")
        == "average odds difference, mean over classes"
    )
    assert metrics.title("my_cost") == "my cost"
