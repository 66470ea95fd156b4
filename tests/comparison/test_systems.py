"""Runs that are one system, differences between two systems, and names of runs and of values."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from nested_scores import ABOUT

from fedcli.comparison import systems
from fedcli.comparison.systems import Scored, brief, grouped, identity, settings, settled
from fedcli.errors import UsageError
from fedcli.scores.parts import External, Stage
from fedcli.scores.scores import RunScores
from fedcli.scores.table import Score, Where

HASH = "0123456789abcdef" * 4
EXTERNAL = External("dataset", "other", HASH, "test", 9, 0, {})
CLEAN = Where("clean", metric="accuracy")
SEX = Where("clean", attribute="sex", metric="accuracy")


def run_scores(**changed):
    dataset = Stage("d", {"seed": 0, "size": 32})
    partition = Stage("p", {"seed": 0, "dirichlet": 1.0})
    data = {
        "dataset": dataset,
        "partition": partition,
        "corruption": None,
    }
    facts = {"options": {"seed": 3, "lr": 0.1}, "data": data, "settings": {"mu": 0.5}}
    return RunScores(**ABOUT | facts | changed)


def scored(name="a", **changed):
    scores = run_scores(**changed)
    return Scored(Path(name), {}, scores)


def with_data(**stages):
    data = dict(run_scores().data)
    for name, options in stages.items():
        data[name] = Stage(name[0], options)
    return data


OF_ONE_SYSTEM = [
    {"options": {"seed": 4, "lr": 0.1}},
    {"data": with_data(dataset={"seed": 9, "size": 32})},
    {"data": with_data(partition={"seed": 9, "dirichlet": 1.0})},
    {"data": with_data(dataset={"seed": 0, "size": 32, "fold": 2})},
]


@pytest.mark.parametrize("changed", OF_ONE_SYSTEM)
def test_seeds_and_folds_are_no_part_of_a_system(changed):
    assert scored(**changed).identity == scored().identity


OF_ANOTHER_SYSTEM = [
    {"options": {"seed": 3, "lr": 0.2}},
    {"settings": {"mu": 0.6}},
    {"label": "N"},
    {"rule": "released"},
    {"rounds": 3},
    {"roster_size": 4},
    {"dataset": "e"},
    {"model": {"name": "resnet18"}},
    {"model": {"precision": "bf16"}},
    {"data": with_data(partition={"seed": 0, "dirichlet": 0.1})},
    {"external": EXTERNAL},
]


@pytest.mark.parametrize("changed", OF_ANOTHER_SYSTEM)
def test_everything_else_is(changed):
    assert scored(**changed).identity != scored().identity


def test_facts_of_a_network_that_tables_do_not_name_are_no_part_of_a_system():
    result = scored(model={"parameters": 10}).identity
    assert result == scored().identity


def test_runs_are_paired_by_all_their_seeds_and_their_fold():
    fold = {"dataset": {"seed": 0, "fold": 1}, "partition": {"seed": 2}}
    run = scored(data=with_data(**fold))
    expected = {
        "dataset fold": 1,
        "dataset seed": 0,
        "partition seed": 2,
        "seed": 3,
    }
    assert json.loads(run.draw) == expected
    assert run.fold == 1
    assert run.seed == 3


NAMES_BY_DATA = [
    (with_data(), "seed 3"),
    (with_data(partition={"seed": 7}), "seed 3, partition seed 7"),
    (with_data(dataset={"fold": 0, "seed": 5}), "fold 0, seed 3, dataset seed 5"),
    ({}, "seed 3"),
]


@pytest.mark.parametrize(("data", "words"), NAMES_BY_DATA)
def test_a_run_is_named_by_its_fold_its_seed_and_seeds_of_data_other_than_0(data, words):
    assert scored(data=data).which == words


def test_a_run_without_a_data_set_has_no_fold_and_no_hash():
    run = scored(data={})
    assert run.fold is None
    assert run.sha256("dataset") is None
    assert scored().sha256("dataset") == "d"
    assert scored().sha256("corruption") is None


def test_options_of_data_have_their_stage_in_front():
    expected = {
        "dataset seed": 0,
        "dataset size": 32,
        "partition seed": 0,
        "partition dirichlet": 1.0,
    }
    assert systems.data_options(run_scores()) == expected


def test_settled_options_are_sorted_and_without_draws_and_named_ones():
    options = {"seed": 1, "lr": 0.1, "dataset fold": 2, "dataset size": 32, "beta": 3}
    result = list(settled(options, without=["size"]).items())
    assert result == [("beta", 3), ("lr", 0.1)]
    assert identity(options) == '{"beta": 3, "dataset size": 32, "lr": 0.1}'


def test_items_of_equal_keys_come_together_in_the_order_of_the_first():
    result = grouped([3, 1, 4, 2, 7], lambda number: number % 2)
    expected = [[3, 1, 7], [4, 2]]
    assert result == expected


BRIEF_TEXTS = [
    (HASH, "01234567"),
    (HASH[:-1] + "x", HASH[:-1] + "x"),
    (2.0, "2"),
    (0.5, "0.5"),
    ("2.0", "2.0"),
    (None, "None"),
    ({"file": "mine.py", "sha256": HASH}, "mine.py 01234567"),
]


@pytest.mark.parametrize(("value", "text"), BRIEF_TEXTS)
def test_a_value_is_written_briefly(value, text):
    assert brief(value) == text


def test_settings_of_one_method_are_compared_one_by_one():
    options = {"seed": 3, "lr": 0.2}
    other = run_scores(settings={"mu": 0.5, "tau": 2.0}, options=options)
    expected = [
        {"what": "lr", "a": "0.1", "b": "0.2"},
        {"what": "tau", "a": "-", "b": "2"},
    ]
    assert settings(run_scores(), other) == expected


def test_settings_of_another_method_are_one_text_without_the_rule():
    other = run_scores(method="n", label="N", settings={"rule": "released", "tau": 2})
    expected = [
        {"what": "method", "a": "M", "b": "N"},
        {"what": "method settings", "a": "mu=0.5", "b": "tau=2"},
    ]
    assert settings(run_scores(), other) == expected
    without = run_scores(method="n", label="N", settings={})
    result = settings(run_scores(), without)[-1]["b"]
    assert result == "none"


def test_test_images_from_elsewhere_are_named_with_their_hash():
    differences = settings(run_scores(), run_scores(external=EXTERNAL))
    expected = [{"what": "tested on", "a": "-", "b": "other 01234567"}]
    assert differences == expected


def test_samples_and_real_data_are_not_compared():
    real = scored("real.json")
    sample = scored("sample.json", sample=True)
    systems.refuse_mixed([real, real])
    systems.refuse_mixed([sample])
    with pytest.raises(UsageError) as refusal:
        systems.refuse_mixed([real, sample])
    assert refusal.value.sentence == (
        "some of these runs are on a SYNTHETIC sample and others on real data: sample.json and "
        "real.json, for example"
    )


def groups_of(female, male, rounds=(5, 6)):
    """A run's scores of two groups and of all images."""
    table = {CLEAN: Score([0.5, 0.7], list(rounds), 10)}
    table[SEX._replace(group="female")] = Score(female, list(rounds), 5)
    table[SEX._replace(group="male")] = Score(male, list(rounds), 5)
    return scored(table=table)


def test_a_score_is_of_all_images_of_a_group_or_between_groups():
    run = groups_of([0.4, 0.5], [0.8, 0.6])
    assert run.score(CLEAN).values == [0.5, 0.7]
    result = run.score(SEX._replace(group="male")).values
    assert result == [0.8, 0.6]
    gap = run.score(SEX._replace(measure="gap"))
    assert gap.values == pytest.approx([0.4, 0.1])
    assert run.score(CLEAN._replace(metric="f1_macro")) is None
    assert run.score(CLEAN._replace(version="corrupted")) is None


def test_the_rounds_of_a_score_are_those_that_have_one():
    run = groups_of([0.4, 0.5], [0.8, 0.6])
    assert run.rounds(CLEAN) == [0.5, 0.7]
    assert run.rounds(CLEAN._replace(metric="f1_macro")) is None


def test_a_group_without_a_score_in_a_round_has_no_mean():
    run = groups_of([None, 0.5], [0.8, 0.6])
    female = SEX._replace(group="female")
    assert run.number(female) is None
    assert run.rounds(female) is None
    result = run.rounds(SEX._replace(group="male"))
    assert result == [0.8, 0.6]


def test_the_nested_form_of_a_run_has_its_numbers_by_path():
    run = groups_of([0.4, 0.5], [0.8, 0.6])
    result = run.nested["versions"]["clean"]["accuracy"]["last"]
    assert result == 0.7


def test_a_run_that_only_its_label_tells_apart_is_another_system():
    one = scored()
    scores = replace(one.scores, label="M, tuned")
    two = replace(one, scores=scores)
    result = len(grouped([one, two], lambda run: run.identity))
    assert result == 2
