import json

import numpy as np
import pytest
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    precision_recall_fscore_support,
    roc_auc_score,
)

from fedcli.errors import FedcliError
from fedcli.metrics import (
    balanced_accuracy,
    calibration_error,
    mean_of_known,
    probabilities,
    recalls,
    score,
)


def logits_of(*rows):
    """Logits whose softmax is the given rows."""
    return np.log(np.array(rows, float))


def predictions(classes, *, n=400, seed=0, decimals=None):
    """Logits [N, C] that know something of y; few decimals make many ties."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(classes))
    drawn_labels = rng.choice(classes, n - classes, p=shares)
    y = np.concatenate([np.arange(classes), drawn_labels])
    logits = rng.normal(size=(n, classes))
    logits[np.arange(n), y] += 1
    if decimals is not None:
        logits = logits.round(decimals)
    return logits.astype(np.float32), y


@pytest.mark.parametrize("decimals", [None, 0])
@pytest.mark.parametrize("classes", [3, 5, 8])
def test_every_score_equals_scikit_learns(classes, decimals):
    logits, y = predictions(classes, decimals=decimals)
    chance = probabilities(logits)
    guess = logits.argmax(1)
    auc_ovo_macro = roc_auc_score(y, chance, multi_class="ovo", average="macro")
    auc_ovr_macro = roc_auc_score(y, chance, multi_class="ovr", average="macro")
    auc_ovr_weighted = roc_auc_score(y, chance, multi_class="ovr", average="weighted")
    expected = {
        "accuracy": accuracy_score(y, guess),
        "balanced_accuracy": balanced_accuracy_score(y, guess),
        "auc_ovo_macro": auc_ovo_macro,
        "auc_ovr_macro": auc_ovr_macro,
        "auc_ovr_weighted": auc_ovr_weighted,
    }
    for average in ("macro", "weighted"):
        precision, recall, f1, _ = precision_recall_fscore_support(
            y, guess, average=average, zero_division=0
        )
        expected |= {
            f"f1_{average}": f1,
            f"precision_{average}": precision,
            f"recall_{average}": recall,
        }
    scores = score(logits, y)
    result = (scores["count"], scores["classes_missing"])
    assert result == (400, [])
    result = {name: scores[name] for name in expected}
    assert result == pytest.approx(expected, abs=1e-12, rel=0)


@pytest.mark.parametrize("decimals", [None, 0])
def test_with_two_classes_every_auc_is_the_binary_one(decimals):
    logits, y = predictions(2, decimals=decimals)
    chance = probabilities(logits)[:, 1]
    expected = roc_auc_score(y, chance)
    scores = score(logits, y)
    for name in ("auc_binary", "auc_ovo_macro", "auc_ovr_macro", "auc_ovr_weighted"):
        assert scores[name] == pytest.approx(expected, abs=1e-12, rel=0)
    assert "auc_binary" not in score(*predictions(3))


def test_a_tie_counts_as_half_a_win():
    # chance of class 1: sick .8 .5 .5, healthy .5 .2; won pairs 2 + 1.5 + 1.5 of 6
    logits = logits_of([0.2, 0.8], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5], [0.8, 0.2])
    y = np.array([1, 1, 1, 0, 0])
    assert score(logits, y)["auc_binary"] == 5 / 6


def test_a_model_that_says_the_same_of_everyone_scores_one_half():
    logits = np.zeros((6, 3))
    y = np.array([0, 0, 1, 1, 2, 2])
    scores = score(logits, y)
    assert scores["auc_ovo_macro"] == 0.5
    assert scores["auc_ovr_macro"] == 0.5
    third = pytest.approx(1 / 3)
    assert scores["accuracy"] == third
    assert scores["balanced_accuracy"] == third


def test_the_one_vs_one_auc_is_the_mean_over_pairs_of_both_directions():
    logits = logits_of([0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.4, 0.2, 0.4], [0.3, 0.3, 0.4])
    # images of classes 0 1 2 2. 0-1: 1 both ways. 0-2: by class 0, .5 beats .4 and .3; by class 2, both .4 beat .2.
    # 1-2: by class 1, .5 beats .2 and .3; by class 2, both .4 beat .3
    y = np.array([0, 1, 2, 2])
    assert score(logits, y)["auc_ovo_macro"] == 1
    # images of classes 1 0 2 2. 0-1: .2 and .3 lose to .5: 0. 0-2: by class 0, .2 loses to .4 and .3: 0; by class 2: 1.
    # 1-2: by class 1, .3 beats .2 and ties with .3: 3/4; by class 2, both .4 beat .2: 1
    y = np.array([1, 0, 2, 2])
    of_pairs = [0, 1 / 2, 7 / 8]
    expected = pytest.approx(np.mean(of_pairs))
    assert score(logits, y)["auc_ovo_macro"] == expected


def test_a_class_without_an_image_is_left_out_of_the_auc_and_named():
    logits, y = predictions(4)
    others = y != 2
    scores = score(logits[others], y[others])
    chance = probabilities(logits[others])
    labels = y[others]
    present = [0, 1, 3]
    one_against_rest = [roc_auc_score(labels == c, chance[:, c]) for c in present]
    assert scores["classes_missing"] == [2]
    expected = pytest.approx(np.mean(one_against_rest), abs=1e-12)
    assert scores["auc_ovr_macro"] == expected
    weights = np.bincount(labels)[present]
    weighted = np.average(one_against_rest, weights=weights)
    expected = pytest.approx(weighted, abs=1e-12)
    assert scores["auc_ovr_weighted"] == expected
    one_against_one = []
    for a, b in ((0, 1), (0, 3), (1, 3)):
        pair = (labels == a) | (labels == b)
        auc_of_a = roc_auc_score(labels[pair] == a, chance[pair, a])
        auc_of_b = roc_auc_score(labels[pair] == b, chance[pair, b])
        one_against_one.append((auc_of_a + auc_of_b) / 2)
    expected = pytest.approx(np.mean(one_against_one), abs=1e-12)
    assert scores["auc_ovo_macro"] == expected
    is_right = logits.argmax(1) == y
    class_recalls = [is_right[y == c].mean() for c in present]
    expected = pytest.approx(np.mean(class_recalls))
    assert scores["balanced_accuracy"] == expected


def test_f1_counts_a_class_that_is_predicted_but_never_seen():
    guess = [0, 0, 2, 1]
    y = np.array([0, 0, 1, 1])
    scores = score(np.eye(3)[guess], y)
    f1_of_classes = [1, 2 / 3, 0]
    expected = pytest.approx(np.mean(f1_of_classes))
    assert scores["f1_macro"] == expected
    expected = pytest.approx((1 + 2 / 3) / 2)
    assert scores["f1_weighted"] == expected
    expected = pytest.approx(2 / 3)
    assert scores["precision_macro"] == expected
    recall_of_classes = [1, 1 / 2, 0]
    expected = pytest.approx(np.mean(recall_of_classes))
    assert scores["recall_macro"] == expected
    expected = pytest.approx(np.mean(recall_of_classes[:2]))  # of those that were seen
    assert scores["balanced_accuracy"] == expected


def test_a_class_neither_seen_nor_predicted_takes_no_part_in_f1():
    y = np.array([0, 1, 1])
    scores = score(np.eye(3)[y], y)
    for name in ("f1_macro", "precision_macro", "recall_macro"):
        assert scores[name] == 1


def test_weighted_precision_and_recall_count_a_class_by_its_images():
    guess = [0, 0, 0, 2, 1]
    y = np.array([0, 0, 1, 1, 1])
    scores = score(np.eye(3)[guess], y)
    precision_of_classes = [2 / 3, 1]
    weighted = np.average(precision_of_classes, weights=[2, 3])
    assert scores["precision_weighted"] == pytest.approx(weighted)
    assert scores["recall_weighted"] == pytest.approx(3 / 5)
    assert scores["accuracy"] == pytest.approx(3 / 5)


def test_the_calibration_error_by_hand():
    # chances .9 .9 .6 of the class said, right, wrong, right: bins (.867, .933] and (.533, .6]
    logits = logits_of([0.1, 0.9], [0.9, 0.1], [0.4, 0.6])
    y = np.array([1, 1, 1])
    scores = score(logits, y)
    gaps = [1.8 - 1, 1 - 0.6]  # of the sums in both bins
    expected = pytest.approx(sum(gaps) / 3)
    assert scores["calibration_error_top_label"] == expected
    # chances .9 .1 .6 of class 1, which all three are
    expected = pytest.approx((0.1 + 0.9 + 0.4) / 3)
    assert scores["calibration_error_positive_class"] == expected
    assert "calibration_error_positive_class" not in score(*predictions(3))


def test_a_chance_on_an_edge_belongs_to_the_bin_below_it():
    """1/3 is 5/15 to the bit: with .3, wrong, it is in (4/15, 5/15], and .34, right, is in the next."""
    chance = np.array([1 / 3, 0.3, 0.34])
    right = np.array([True, False, True])
    gaps = [1 - 1 / 3 - 0.3, 1 - 0.34]
    expected = pytest.approx(sum(gaps) / 3, abs=1e-12)
    assert calibration_error(chance, right) == expected


def test_the_calibration_error_equals_a_loop_over_fifteen_bins():
    rng = np.random.default_rng(0)
    edges = np.arange(16) / 15
    chance = np.concatenate([rng.random(500), edges])
    right = rng.random(516) < chance**2
    expected = 0.0
    binned = 0
    for k in range(15):
        low = edges[k] if k else -1.0  # 0 is in the first bin
        inside = (chance > low) & (chance <= edges[k + 1])
        chance_minus_share = chance[inside].mean() - right[inside].mean()
        expected += inside.sum() * abs(chance_minus_share) / 516
        binned += inside.sum()
    assert binned == 516
    assert calibration_error(chance, right) == pytest.approx(expected, abs=1e-12)


def test_chances_that_come_true_as_often_as_they_say_are_calibrated():
    chance = np.full(10, 0.3)
    right = np.arange(10) < 3
    assert calibration_error(chance, right) == pytest.approx(0)
    sure = np.ones(4)
    assert calibration_error(sure, sure == 1) == 0
    assert calibration_error(sure, sure == 0) == 1


@pytest.mark.parametrize("classes", [2, 3])
def test_one_class_alone_has_an_accuracy_but_no_auc(classes):
    guess = [1, 1, 0]
    y = np.ones(3, int)
    scores = score(np.eye(classes)[guess], y)
    assert scores["accuracy"] == pytest.approx(2 / 3)
    aucs = {name: value for name, value in scores.items() if name.startswith("auc")}
    expected = {"auc_ovo_macro", "auc_ovr_macro", "auc_ovr_weighted"}
    if classes == 2:
        expected.add("auc_binary")
    assert set(aucs) == expected
    assert set(aucs.values()) == {None}
    json.dumps(scores, allow_nan=False)


def test_no_image_at_all_gives_the_same_names_without_numbers():
    usual = score(*predictions(3))
    logits = np.zeros((0, 3))
    empty = score(logits, np.zeros(0, int))
    assert list(empty) == list(usual)
    assert empty.pop("count") == 0
    assert empty.pop("classes_missing") == [0, 1, 2]
    assert set(empty.values()) == {None}


def test_huge_logits_neither_overflow_nor_change_the_order():
    logits = np.array([[0, 9e4], [0, -9e4], [5e4, 6e4], [6e4, 5e4]], np.float32)
    y = np.array([1, 0, 1, 0])
    scores = score(logits, y)
    assert scores["auc_binary"] == 1
    assert scores["accuracy"] == 1


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_logits_that_are_not_finite_are_refused_with_their_count(bad):
    logits, y = predictions(3)
    logits[7, 1] = bad
    with pytest.raises(FedcliError, match="1 of 400 images got logits that are not finite"):
        score(logits, y)


@pytest.mark.parametrize("classes", [2, 8, 23])
def test_balanced_accuracy_is_one_number_however_many_classes_have_no_image(classes):
    logits, y = predictions(classes)
    parts = [y >= 0, y != 1, y % 3 == 0]
    for images in parts:
        labels = y[images]
        answers = logits[images]
        is_right = answers.argmax(1) == labels
        class_recalls = [is_right[labels == c].mean() for c in np.unique(labels)]
        accuracy = balanced_accuracy(answers, labels)
        assert accuracy == pytest.approx(np.mean(class_recalls), abs=1e-15)
        assert accuracy == score(answers, labels)["balanced_accuracy"]
        missing = np.isnan(recalls(answers, labels)).sum()
        assert missing == classes - len(class_recalls)


def test_mean_recall_of_resamples_leaves_out_the_classes_that_each_of_them_lacks():
    recall = np.array(
        [[0.5, np.nan, np.nan], [1.0, 0.25, np.nan], [np.nan, np.nan, np.nan]]
    )  # [3, 3]
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(mean_of_known(recall), [0.75, 0.25, np.nan])
