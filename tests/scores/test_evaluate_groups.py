"""Scores by group, and intervals, of a run."""

import numpy as np
import pytest
from evaluated_runs import ATTRIBUTES, ROSTER, a_run, logits_of, scorer
from nested_scores import body_of
from score_json import group_scores
from scored_runs import bootstrap

from fedcli import metrics
from fedcli.errors import UsageError
from fedcli.scores.statistics.bootstrap import interval


@pytest.fixture
def scores_of(monkeypatch):
    return scorer(monkeypatch)


def test_groups_hold_the_last_round_and_worst_gap_and_es_auc_over_rounds(tmp_path, scores_of):
    run = a_run(tmp_path)
    sex = body_of(scores_of(run))["groups"]["sex"]
    y = run.data.test["clean"].y.numpy()
    groups = run.data.test["clean"].groups["sex"].numpy()
    rounds = [
        group_scores(
            logits_of(run, r, "corrupted"), y, groups, ["female", "male"], classes=run.data.classes
        )
        for r in (4, 5, 6)
    ]
    assert sex["corrupted"]["last_round"] == rounds[2]
    assert sex["corrupted"]["last_round"]["unknown"] == (groups == -1).sum() > 0
    over = sex["corrupted"]["over_rounds"]
    expected = pytest.approx(np.mean([r["es_auc_ovo_macro"] for r in rounds]))
    assert over["es_auc_ovo_macro"]["mean_last5"] == expected
    between = [r["between"]["auc_ovo_macro"] for r in rounds]
    auc = over["auc_ovo_macro"]
    expected = [b["gap"] for b in between]
    assert auc["gap_in_each_round"]["per_round"] == expected
    worst = np.mean([b["worst"]["score"] for b in between])
    assert auc["worst_in_each_round"]["mean_last5"] == pytest.approx(worst)
    means = [score["mean_last5"] for score in sex["corrupted"]["each"]["auc_ovo_macro"].values()]
    assert auc["worst"]["mean_last5"] == min(means)
    expected = max(means) - min(means)
    assert auc["gap"]["mean_last5"] == expected


def test_each_group_is_averaged_over_rounds_and_then_across_groups(tmp_path, scores_of):
    run = a_run(tmp_path)
    age = body_of(scores_of(run))["groups"]["age"]["clean"]
    y = run.data.test["clean"].y.numpy()
    groups = run.data.test["clean"].groups["age"].numpy()
    rounds = [group_scores(logits_of(run, r), y, groups, ATTRIBUTES["age"]) for r in (4, 5, 6)]
    per_group = {}
    for value in ATTRIBUTES["age"]:
        per_group[value] = [scores["groups"][value]["auc_ovo_macro"] for scores in rounds]
    outcome = {v: result["per_round"] for v, result in age["each"]["auc_ovo_macro"].items()}
    assert outcome == per_group
    means = [np.mean(values) for values in per_group.values()]
    std_sample = np.std(means, ddof=1)
    expected = pytest.approx({"average": np.mean(means), "std_sample": std_sample})
    assert age["across"]["auc_ovo_macro"] == expected
    over = age["over_rounds"]
    expected = pytest.approx(np.mean(means))
    assert over["auc_ovo_macro"]["average"]["mean_last5"] == expected
    for name in ("demographic_parity", "equalized_odds", "average_odds"):
        name = f"{name}_difference_ovr_macro"
        assert over[name]["per_round"] == [r[name] for r in rounds]
    compared = set(metrics.names(metrics.CLASSES, compared=True))
    assert set(age["each"]) == set(age["across"]) == compared


def test_crossed_attributes_are_groups_of_their_own(tmp_path, scores_of):
    run = a_run(tmp_path)
    attributes = ["sex", " sex * age ", "sex*age"]
    path = scores_of(run, by=attributes)
    body = body_of(path)
    assert list(body["groups"]) == ["sex", "sex*age"]
    last = body["groups"]["sex*age"]["clean"]["last_round"]
    sex, age = (run.data.test["clean"].groups[name].numpy() for name in ("sex", "age"))
    expected = ((sex == 0) & (age == 1)).sum()
    assert last["groups"]["female x old"]["count"] == expected
    result = (len(last["groups"]), last["unknown"])
    expected = (6, (sex < 0).sum())
    assert result == expected


@pytest.mark.parametrize(
    ("name", "sentence"), [("sex*rage", "no attribute 'rage'"), ("sex*sex", "with itself")]
)
def test_a_cross_of_what_is_not_there_is_refused(tmp_path, scores_of, name, sentence):
    with pytest.raises(UsageError, match=sentence):
        scores_of(a_run(tmp_path), by=[name])


def test_intervals_are_of_the_last_round_by_patient_for_all_and_for_each_group(tmp_path, scores_of):
    units = np.array([f"p{i // 3}" for i in range(90)])
    run = a_run(tmp_path, units=units)
    body = body_of(scores_of(run))
    y = run.data.test["clean"].y.numpy()
    resamples_by_version = {
        v: bootstrap(logits_of(run, 6, v), y, units, seed=0)["accuracy"]
        for v in ("clean", "corrupted")
    }
    resamples_by_version["average"] = (
        resamples_by_version["clean"] + resamples_by_version["corrupted"]
    ) / 2
    for version, values in resamples_by_version.items():
        low, high = interval(values)
        facts = {"level": 0.95, "resamples": 1000, "unit": "patient or lesion", "units": 30}
        last = body["versions"][version]["accuracy"]["last"]
        assert (
            body["intervals"][version]["accuracy"]
            == {"value": last, "low": low, "high": high} | facts
        )
        assert low < last < high
    resampled = set(metrics.names(metrics.CLASSES, resampled=True))
    female = {m: v["female"] for m, v in body["groups"]["sex"]["corrupted"]["intervals"].items()}
    assert set(female) == set(body["intervals"]["clean"]) == resampled
    score_ = body["groups"]["sex"]["corrupted"]["last_round"]["groups"]["female"]["accuracy"]
    assert female["accuracy"]["low"] < score_ < female["accuracy"]["high"]
    of_women = units[run.data.test["clean"].groups["sex"].numpy() == 0]
    expected = len(np.unique(of_women))
    assert female["accuracy"]["units"] == expected


def test_groups_are_compared_by_f1_too(tmp_path, scores_of):
    path = scores_of(a_run(tmp_path))
    groups = body_of(path)["groups"]["sex"]["clean"]
    f1_scores = [group["f1_macro"] for group in groups["last_round"]["groups"].values()]
    expected = max(f1_scores) - min(f1_scores)
    result = groups["last_round"]["between"]["f1_macro"]["gap"]
    assert result == expected
    expected = max(f1_scores) - min(f1_scores)
    result = groups["over_rounds"]["f1_macro"]["gap"]["last"]
    assert result == expected


def test_without_patients_the_intervals_are_by_image(tmp_path, scores_of):
    path = scores_of(a_run(tmp_path))
    result = body_of(path)["intervals"]["clean"]["auc_ovo_macro"]
    assert (result["unit"], result["units"]) == ("image", 90)


def test_clients_with_test_parts_of_their_own_have_groups_on_them(tmp_path, scores_of):
    run = a_run(tmp_path, own={"north": range(40), "harbour": range(40, 90)})
    path = scores_of(run, by=["sex"])
    body = body_of(path)
    clients = body["clients"]
    y = run.data.test["clean"].y.numpy()
    outcome = [name for name in ROSTER if "groups" in clients[name]]
    assert outcome == ["north", "harbour"]
    sex = run.data.test["clean"].groups["sex"].numpy()
    logits = logits_of(run, 6, "corrupted")[40:]
    groups = sex[40:]
    expected = group_scores(
        logits,
        y[40:],
        groups,
        ["female", "male"],
        classes=run.data.classes,
    )
    result = clients["harbour"]["groups"]["sex"]
    assert result["last_round"] == expected
    assert result["over_rounds"]["es_auc_ovo_macro"]["last"] == expected["es_auc_ovo_macro"]


def test_by_names_the_attributes_in_any_order_and_none_means_all(tmp_path, scores_of):
    run = a_run(tmp_path)
    everything = scores_of(run)
    attributes = ["age", "sex", "age"]
    both = scores_of(run, by=attributes)
    assert both == everything
    result = list(body_of(everything)["groups"])
    assert result == ["age", "sex"]  # sorted in the file
    path = scores_of(run, by=["age"])
    result = list(body_of(path)["groups"])
    assert result == ["age"]


def test_an_unknown_attribute_names_the_nearest(tmp_path, scores_of):
    with pytest.raises(UsageError, match="skin has no attribute 'sexx'") as caught:
        scores_of(a_run(tmp_path), by=["sexx"])
    assert caught.value.hint == "did you mean 'sex'?"
