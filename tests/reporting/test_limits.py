"""Limits of --fail-if: what is read, where it is looked up, what is said; and the short JSON beside it."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scored_runs import heal, model, scored
from typed_lines import fedcli

from fedcli.comparison.tested import compare
from fedcli.errors import UsageError
from fedcli.reporting import pipelines
from fedcli.reporting.columns import all_numbers
from fedcli.reporting.rows import rows
from fedcli.scores.table import Score, Where


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    versions = {"corrupted": model(1, 7)}
    good = scored(folder / "a", model(2, 0), **versions)
    bad = heal(folder / "b", model(0, 0), warning="a made-up run", **versions)
    return good, bad


def broken(path, *texts):
    return pipelines.broken(pipelines.limits(texts), rows([path], warned=True))


def test_a_score_is_found_by_its_name_or_title_on_any_version(paths):
    (row,) = rows([paths[0]], warned=True)
    value = 100 * row.scores.versions["corrupted"]["balanced_accuracy"].mean
    for metric in ("balanced_accuracy", "Balanced Accuracy"):
        result = broken(paths[0], f"{metric} on noisy > {value - 1}")
        expected = [
            f"FedAvg: {metric} on noisy is {value:.2f} %, which --fail-if '{metric} on noisy > {value - 1}' forbids"
        ]
        assert result == expected
        result = broken(paths[0], f"{metric} on noisy > {value + 1} %")
        assert result == []
    assert broken(paths[0], "auc_ovo_macro on both < 0") == []


def test_gap_and_worst_group_are_those_of_the_groups_means(paths):
    (row,) = rows([paths[1]], warned=True)
    means = [score.mean for score in row.scores.groups["sex"]["clean"]["auc_ovo_macro"].values()]
    gap = 100 * (max(means) - min(means))
    worst = 100 * min(means)
    rounds = row.scores.part().lies("sex", "clean", "auc_ovo_macro", "gap in each round")
    outcome = abs(100 * rounds.mean - gap)
    assert outcome > 0.01
    result = broken(paths[1], "gap(sex) > 0")[0]
    assert f"is {gap:.2f} points" in result
    result = broken(paths[1], "worst(sex) > 0")[0]
    assert f"is {worst:.2f} %" in result
    in_each = broken(paths[1], "gap in each round(sex) > 0")
    expected = f"is {100 * rounds.mean:.2f} points"
    assert expected in in_each[0]
    short = pipelines.of_row(row)["groups"]["sex"]["clean"]
    by_group = short["each"].values()
    assert short["worst"] == min(by_group)
    assert short["each"][short["worst_group"]] == short["worst"]
    expected = pytest.approx(max(by_group) - min(by_group))
    assert short["gap"] == expected


def test_the_short_json_says_which_groups_are_small_and_what_they_decide(tmp_path):
    few = np.where(np.arange(60) < 26, 0, 1)  # groups of 26 and 34 images
    (row,) = rows([scored(tmp_path / "a", model(1, 0), sex=few)], warned=True)
    short = pipelines.of_row(row)["groups"]["sex"]["clean"]
    assert short["images"] == {"f": 26, "m": 34}
    assert short["small"] == {"f": "26 images, fewer than 30"}
    assert short["small_group_decides"] == ["gap", "worst group"]


def test_where_groups_tie_or_test_sets_differ_there_is_no_name_and_no_number(tmp_path):
    (row,) = rows([scored(tmp_path / "a", model(1, 0))], warned=True)
    where = Where("clean", attribute="sex", metric="auc_ovo_macro")
    equal = {where._replace(group=group): Score([0.7], [6], 30) for group in "fm"}
    (run,) = row.scored
    tied = replace(run, scores=replace(run.scores, table=run.scores.table | equal))
    row = replace(row, scored=[tied], known=[all_numbers(tied.scores, "last5")])
    assert pipelines.of_row(row)["groups"]["sex"]["clean"]["worst_group"] is None
    more = {line: replace(score, count=31) for line, score in run.scores.table.items()}
    other = replace(run, scores=replace(run.scores, table=more))
    row = replace(row, scored=[run, other], known=[all_numbers(run.scores, "last5")] * 2)
    images = pipelines.of_row(row)["groups"]["sex"]["clean"]["images"]
    assert images == {"f": None, "m": None}


def test_a_change_that_is_not_tested_is_said_to_be(tmp_path):
    y = np.where(np.arange(60) < 2, 2, np.arange(60) % 2)  # one patient alone has the last class
    paths = [scored(tmp_path / "a", model(1, 0, y=y), y=y), heal(tmp_path / "b", model(1, 1), y=y)]
    changes = pipelines.of_comparison(compare(paths[:1], paths[1:], resamples=100))["changes"]
    assert {change["verdict"] for change in changes} == {"not tested"}
    reason = "a class has images of one patient only, so no interval and no p over patients"
    assert {change["reason"] for change in changes} == {reason}
    decided = {change["gap_by"]: change["small_group_decides"] for change in changes}
    assert decided == {"": False, "sex": True}


def test_the_words_of_a_column_and_of_a_limit_name_the_same_number(paths):
    (_row,) = rows([paths[0]], warned=True)
    called = "worst(sex) of f1_macro on noisy"
    (sentence,) = broken(paths[0], f"{called} < 100")
    value = sentence.split(" is ")[1].split(",")[0]
    texts = [
        "noisy worst group f1_macro by sex",
        "worst group f1_macro by sex on noisy",
        "worst f1_macro by sex on corrupted",
    ]
    for text in texts:
        result = broken(paths[0], f"{text} < 100")[0]
        assert f"{text} is {value}" in result
    (row,) = rows([paths[0]], metrics=[called], warned=True)
    number = row.cells["corrupted worst group f1_macro by sex"].mean
    assert f"{100 * number:.2f} %" == value
    (row,) = rows([paths[0]], metrics=["gap(sex)"], warned=True)
    assert "clean gap auc_ovo_macro by sex" in row.cells


def test_gap_and_worst_group_are_found_by_attribute_and_metric(paths):
    (row,) = rows([paths[0]], warned=True)
    gap = 100 * row.scores.part().lies("sex", "clean", "auc_ovo_macro", "gap").mean
    worst = 100 * row.scores.part().lies("sex", "clean", "f1_macro", "worst group").mean
    gap_limit = f"gap(sex)>={gap - 0.01:.2f}"
    worst_limit = f"worst(sex) of f1_macro < {worst + 1:.2f}"
    sentences = broken(paths[0], gap_limit, worst_limit, "gap(sex) > 99")
    assert len(sentences) == 2
    assert f"gap(sex) is {gap:.2f} points" in sentences[0]
    assert f"{worst:.2f} %" in sentences[1]


NO_LIMITS = [
    ("gap(sex)", "is no limit"),
    ("", "is no limit"),
    ("__import__('os') > 1", "no score is named"),
    ("gap(race) > 5", "groups are by sex, not race"),
    ("acuracy < 5", "no score is named 'acuracy'"),
    ("auc < 5", "no score is named 'auc'"),
    ("gap(sex) on both > 5", "on images that are clean, noisy, not both"),
    ("accuracy on foggy < 5", "is no limit"),
    ("change(accuracy) < 1", "is no limit that can be checked here"),
    ("> 5", "is no limit"),
]


@pytest.mark.parametrize(("text", "sentence"), NO_LIMITS)
def test_what_the_scores_do_not_have_is_a_usage_error_that_lists_what_there_is(
    paths, text, sentence
):
    with pytest.raises(UsageError) as refused:
        broken(paths[0], text)
    assert sentence in refused.value.sentence
    assert refused.value.hint


def test_a_part_of_a_scores_name_is_answered_with_the_whole(paths):
    with pytest.raises(UsageError) as refused:
        broken(paths[0], "AUC < 5")
    assert refused.value.hint.startswith("did you mean auc_ovo_macro")


def test_a_number_that_is_not_there_is_not_within_any_limit(tmp_path):
    path = scored(tmp_path / "a", model(1, 0))
    assert "there is no such number" in broken(path, "std among clients > 5")[0]


def test_report_ends_with_its_own_code_after_its_table_and_says_each_limit(paths):
    code, out, err = fedcli(
        "report", *paths, "--fail-if", "accuracy < 99", "--fail-if", "accuracy > 100"
    )
    assert code == 4
    assert "FedHEAL" in out
    assert err.count("which --fail-if 'accuracy < 99' forbids") == 2
    assert fedcli("report", *paths, "--fail-if", "accuracy > 100")[0] == 0
    assert fedcli("report", *paths, "--fail-if", "gap(race) > 5")[0] == 2


def test_the_number_of_a_broken_limit_is_seen_to_be_beyond_it():
    (limit,) = pipelines.limits(["gap(sex) > 1.62"])
    assert limit.broken_by("A", 1.62) == ""
    assert "gap(sex) is 1.70 points, which" in limit.broken_by("A", 1.70001)
    assert "gap(sex) is 1.6204 points, which" in limit.broken_by("A", 1.62041)


def test_compare_has_limits_of_changes_and_of_p(paths):
    words = ["compare", *paths, "--resamples", "100", "--quiet", "--fail-if"]
    code, _, err = fedcli(*words, "change(auc_ovo_macro) < -1")
    assert code == 4
    assert "which --fail-if 'change(auc_ovo_macro) < -1' forbids" in err
    assert fedcli(*words, "change(auc_ovo_macro) > 1", "--fail-if", "change(gap(sex)) > 99")[0] == 0
    assert fedcli(*words, "p(auc_ovo_macro) < 0.05")[0] == 4
    assert fedcli(*words, "auc_ovo_macro < 5")[0] == 2
    assert "groups are by sex, not race" in fedcli(*words, "change(gap(race)) > 5")[2]


def test_the_short_json_is_a_handful_of_numbers_with_the_warnings(paths):
    code, out, _ = fedcli("report", "--json", *paths, "--quiet", "--fail-if", "accuracy < 99")
    whole = json.loads(out)
    row = whole["rows"][0]
    assert code == 4
    assert len(whole["broken"]) == 2
    assert len(out.splitlines()) < 180
    assert set(row["scores"]) == {"balanced_accuracy", "auc_ovo_macro"}
    assert row["chance"]["auc_ovo_macro"] == 0.5
    result = set(row["groups"]["sex"]["clean"]["each"])
    assert result == {"f", "m"}
    assert any(
        "a made-up run" in text for text in whole["warnings"]
    )  # --quiet hides it on stderr alone
    full = json.loads(fedcli("report", "--json=full", *paths, "--quiet")[1])
    assert full["rows"][0]["cells"]
    code, out, _ = fedcli("compare", "--json", *paths, "--resamples", "100", "--quiet")
    short = json.loads(out)
    assert code == 0
    assert {"score", "change", "p", "verdict"} <= short["changes"][0].keys()
    assert short["sentences"]


def test_a_value_of_json_is_typed_behind_an_equals_sign(paths):
    code, _, err = fedcli("report", "--json=long", *paths)
    assert code == 2
    assert "is not one of" in err
