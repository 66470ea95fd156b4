import numpy as np
import pytest
from score_json import group_intervals, intervals

from fedcli.metrics import score
from fedcli.scores.statistics import bootstrap


def answers(n=60, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    logits = rng.normal(size=(n, classes)).astype(np.float32)
    logits[np.arange(n), y] += 1
    return logits, y


def width(interval):
    return interval["high"] - interval["low"]


def test_copies_of_an_image_make_nothing_surer_when_they_are_one_patients():
    logits, y = answers()
    once = intervals({"clean": [logits]}, y, None)["clean"]
    four = [np.repeat(part, 4, axis=0) for part in (logits, y, np.arange(60))]
    patients = intervals({"clean": [four[0]]}, four[1], four[2])["clean"]
    images = intervals({"clean": [four[0]]}, four[1], None)["clean"]
    for metric in once:
        expected = pytest.approx((once[metric]["low"], once[metric]["high"]))
        assert (patients[metric]["low"], patients[metric]["high"]) == expected
        assert width(images[metric]) < 0.7 * width(once[metric])
    result = (patients["accuracy"]["units"], images["accuracy"]["units"])
    assert result == (60, 240)


def test_several_models_that_answer_are_drawn_together():
    (one_model, y) = answers()
    (other_model, _) = answers(seed=1)
    both = intervals({"clean": [one_model, other_model]}, y, None)["clean"]["accuracy"]
    same = intervals({"clean": [one_model, one_model]}, y, None)["clean"]
    expected = intervals({"clean": [one_model]}, y, None)["clean"]
    assert same == expected
    assert 0 < width(both) < 1


def test_each_interval_has_the_score_that_it_is_of():
    (clean, y) = answers()
    (corrupted, _) = answers(seed=1)
    bounds = intervals({"clean": [clean], "corrupted": [corrupted]}, y, None)
    for metric in bounds["clean"]:
        clean_score = score(clean, y)[metric]
        corrupted_score = score(corrupted, y)[metric]
        values = [bounds[v][metric]["value"] for v in ("clean", "corrupted", "average")]
        assert values == [clean_score, corrupted_score, (clean_score + corrupted_score) / 2]
    in_two = y < 2
    groups = group_intervals([clean], y, None, np.where(in_two, 0, 1), ["two classes", "one"])[
        "auc_ovo_macro"
    ]
    result = (groups["two classes"]["value"], groups["one"]["value"])
    expected = (
        score(clean[in_two], y[in_two])["auc_ovo_macro"],
        None,
    )
    assert result == expected


def test_one_patient_has_no_interval():
    logits, y = answers()
    units = np.zeros(60)
    bounds = intervals({"clean": [logits]}, y, units)["clean"]["accuracy"]
    result = (bounds["low"], bounds["high"], bounds["units"])
    assert result == (None, None, 1)
    expected = score(logits, y)["accuracy"]
    assert bounds["value"] == expected


@pytest.mark.parametrize(("ill", "has_interval"), [(1, False), (2, True)])
@pytest.mark.parametrize("how", ["percentile", "bca"])
def test_one_patient_of_a_class_gives_no_interval_to_scores_that_need_it(ill, has_interval, how):
    y = np.array([0] * 30 + [1] * ill)
    logits = np.random.default_rng(0).normal(size=(len(y), 2))
    whole = intervals({"clean": [logits]}, y, None, how)["clean"]
    groups = np.zeros(len(y), int)
    of_group = group_intervals([logits], y, None, groups, ["all"], how)
    for metric in ("balanced_accuracy", "auc_ovo_macro", "auc_binary", "f1_macro"):
        assert (whole[metric]["low"] is not None) == has_interval
        assert (of_group[metric]["all"]["low"] is not None) == has_interval
    assert whole["accuracy"]["low"] is not None
    assert of_group["accuracy"]["all"]["low"] is not None


def test_a_group_without_images_or_without_an_auc_has_no_interval():
    logits, y = answers()
    groups = np.where(y == 2, 1, 0)
    groups[:5] = -1
    values = ["mixed", "one class", "nobody"]
    bounds = group_intervals([logits], y, None, groups, values)
    assert bounds["auc_ovo_macro"]["mixed"]["low"] is not None
    assert bounds["auc_ovo_macro"]["one class"]["low"] is None
    assert bounds["accuracy"]["one class"]["low"] is not None
    for metric in bounds:
        result = (bounds[metric]["nobody"]["low"], bounds[metric]["nobody"]["units"])
        assert result == (None, 0)
    result = bounds["accuracy"]["mixed"]["units"]
    assert result == (groups == 0).sum()


def test_groups_that_nobody_is_known_to_be_of_have_none():
    logits, y = answers()
    groups = np.full(60, -1)
    bounds = group_intervals([logits], y, None, groups, ["a", "b"])
    result = {part["low"] for column in bounds.values() for part in column.values()}
    assert result == {None}


def test_no_image_gives_no_interval():
    none = np.zeros((0, 3))
    outcome = intervals({"clean": [none]}, np.zeros(0, int), None)
    assert outcome == {}
    groups = np.zeros(0, int)
    result = group_intervals([none], np.zeros(0, int), None, groups, ["a"])
    assert result == {}


def test_a_percentile_interval_leaves_out_a_fortieth_at_each_end():
    values = np.linspace(0, 1, 1001)
    result = bootstrap.interval(values)
    assert result == pytest.approx((0.025, 0.975))
