"""`evaluate --corrupt KIND --severity N`: a run's test images under any corruption, without training."""

import math

import numpy as np
import published_schema
import pytest
from report_tables import texts

import fedcli
from fedcli.data import manifest
from fedcli.errors import FedcliError, UsageError
from fedcli.reporting import page, single_runs
from fedcli.scores import table
from fedcli.scores.corrupted_tests import asked
from fedcli.scores.scores import RunScores
from fedcli.scores.severities import success


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    work = tmp_path_factory.mktemp("work")
    data = fedcli.prepare(
        "phantom", size=16, clients=3, corrupt="gaussian", sample_images=240, work=work, jobs=1
    )
    return fedcli.train("fedavg", data, rounds=2, work=work)


@pytest.fixture(scope="module")
def evaluated(run, tmp_path_factory):
    out = tmp_path_factory.mktemp("scores") / "scores"
    return fedcli.evaluate(
        run, by=["sex"], corrupt=["gaussian", "contrast"], severity=["1", "3"], out=out
    )


def test_the_kind_and_severity_of_training_has_the_scores_of_the_runs_own_corrupted_test_set(
    evaluated,
):
    levels = evaluated.body["severities"]["gaussian-noise"]
    assert not published_schema.errors(evaluated)
    expected = evaluated.body["versions"]["corrupted"]
    assert levels["3"]["scores"] == expected
    expected = evaluated.body["intervals"]["corrupted"]
    assert levels["3"]["intervals"] == expected
    expected = evaluated.body["groups"]["sex"]["corrupted"]
    assert levels["3"]["groups"]["sex"] == expected
    assert levels["1"]["scores"] != levels["3"]["scores"]


def test_what_training_has_seen_is_recorded_and_shown_on_terminal_and_page(evaluated, tmp_path):
    in_training = {
        (kind, level): (level_facts["kind_in_training"], level_facts["severity_in_training"])
        for kind, levels in evaluated.body["severities"].items()
        for level, level_facts in levels.items()
    }
    expected = {
        ("gaussian-noise", "1"): (True, False),
        ("gaussian-noise", "3"): (True, True),
        ("contrast", "1"): (False, False),
        ("contrast", "3"): (False, False),
    }
    assert in_training == expected
    runs = [("", RunScores.read(evaluated.path))]
    (table,) = single_runs.by_severity(runs)
    result = [row[:3] for row in texts(table)]
    expected = [
        ["clean", "-", "-"],
        ["contrast", "1", "unseen"],
        ["contrast", "3", "unseen"],
        ["gaussian noise", "1", "another severity"],
        ["gaussian noise", "3", "this severity"],
    ]
    assert result == expected
    text = page.write(tmp_path / "page.html", [evaluated.path]).read_text(encoding="utf-8")
    assert "Other corruptions" in text
    assert "another severity" in text


def test_scores_without_it_have_no_such_part_and_equal_questions_have_equal_answers(
    run, evaluated, tmp_path
):
    plain = fedcli.evaluate(run, by=["sex"])
    assert "severities" not in plain.body
    assert plain.path != evaluated.path
    expected = plain.body["versions"]["clean"]["count"]
    assert (
        next(iter(RunScores.read(evaluated.path).part().overall["contrast 1"].values())).count
        == expected
    )
    out = tmp_path / "s"
    again = fedcli.evaluate(
        run,
        by=["sex"],
        corrupt=["gaussian-noise", "contrast"],
        severity=["3", "1"],
        out=out,
    )
    assert again.body == evaluated.body
    expected = manifest.read(evaluated.path).options
    assert manifest.read(again.path).options == expected


def test_a_range_is_each_severity_and_none_is_all_five(run):
    result = asked(["shot"], ["1..3", "2-4"], run.path)
    expected = [("shot-noise", n) for n in (1, 2, 3, 4)]
    assert result == expected
    result = asked([], ["2"], run.path)
    assert result == [("gaussian-noise", 2)]
    result = [n for _, n in asked(["contrast"], [], run.path)]
    assert result == [1, 2, 3, 4, 5]
    assert asked([], [], run.path) == []


WRONG_LEVELS = [
    (["gausian"], [], "unknown corruption"),
    (["shot"], ["6"], "--severity 6 is none of 1 to 5"),
    (["shot"], ["4..2"], "--severity 4..2"),
    (["motion"], ["1"], "motion-blur needs images of at least 32 px"),
    (["saturate"], ["1"], "saturate changes colours"),
]


@pytest.mark.parametrize(("kinds", "levels", "sentence"), WRONG_LEVELS)
def test_what_cannot_be_is_refused_before_anything_is_scored(run, kinds, levels, sentence):
    with pytest.raises(FedcliError, match=sentence) as error:
        asked(kinds, levels, run.path)
    assert error.value.hint


def test_a_severity_without_a_kind_needs_a_corrupted_run(run, tmp_path):
    path = manifest.parent(run.path, "corruption")
    partition = manifest.parent(path, "partition")
    clean = fedcli.train("fedavg", partition, rounds=1, work=tmp_path)
    with pytest.raises(UsageError, match="--severity is about a corruption"):
        asked([], ["3"], clean.path)


@pytest.mark.long
def test_a_backdoor_has_its_success_beside_the_scores(tmp_path):
    """Also where images are corrupted after the attack; it is the share of other classes that are called the target."""
    data = fedcli.prepare("phantom", size=16, clients=3, work=tmp_path, jobs=1)
    hostile = fedcli.corrupt(
        data,
        "clients",
        change="backdoor",
        clients=2,
        target="epidural",
        strength=1.0,
        work=tmp_path,
    )
    noisy = fedcli.corrupt(hostile, "gaussian", on=["client-00"], work=tmp_path, jobs=1)
    evaluated = fedcli.evaluate(fedcli.train("fedavg", noisy, rounds=2, work=tmp_path), by=["sex"])
    success = evaluated.body["backdoor"]
    assert not published_schema.errors(evaluated)
    assert list(success) == ["patched", "unpatched"]
    scores = RunScores.read(evaluated.path)
    runs = [("", scores)]
    (table,) = single_runs.by_severity(runs)
    assert table.title == "Success of the backdoor"
    assert 0 <= success["patched"]["last"] <= 1
    assert (
        scores.part().overall["patched"]["attack_success"].count
        < evaluated.body["versions"]["clean"]["count"]
    )


def test_a_backdoor_has_no_success_where_all_test_images_are_of_its_target(tmp_path):
    """An empty cell, as of any score without images, so that its file can be read."""
    logits = np.array([[0.0, 1.0], [1.0, 0.0]])
    others = np.array([True, True])
    result = success([logits], others, target=1)
    assert result == 0.5
    others = np.array([False, True])
    result = success([logits], others, target=1)
    assert result == 0.0
    others = np.array([False, False])
    none = success([logits], others, target=1)
    where = table.Where("patched", metric="attack_success")
    table.write(tmp_path / "scores.csv", {where: table.Score([none], [1], 0)})
    result = table.read(tmp_path / "scores.csv")[where].values
    assert result == [None]


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_no_number_is_an_empty_cell(number, tmp_path):
    where = table.Where("clean", metric="accuracy")
    table.write(tmp_path / "scores.csv", {where: table.Score([0.5, number], [1, 2], 3)})
    result = table.read(tmp_path / "scores.csv")[where].values
    assert result == [0.5, None]
