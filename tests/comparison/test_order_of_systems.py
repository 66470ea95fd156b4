"""Tests against a reference and between all systems: refusals, notes, and when a pair is tested."""

import pytest
from scored_runs import heal, model, ordered, scored

from fedcli.comparison import tested
from fedcli.comparison.systems import read
from fedcli.comparison.tested import Leads, check_names, compare
from fedcli.comparison.verdict import HIGHER, INCONCLUSIVE, Difference
from fedcli.errors import FedcliError, UsageError
from fedcli.scores.table import Where

ACCURACY = Where("clean", metric="accuracy")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("order")


@pytest.fixture(scope="module")
def fedavg(folder):
    logits = model(0.5, 1)
    return scored(folder / "fedavg", logits)


@pytest.fixture(scope="module")
def fedheal(folder):
    logits = model(2.5, 1)
    return heal(folder / "fedheal", logits)


@pytest.fixture(scope="module")
def other_seed(folder):
    logits = model(2.5, 2)
    return heal(folder / "other-seed", logits, seed=9)


@pytest.mark.parametrize(
    ("reference", "version", "sentence", "hint"),
    [
        ("fedavgg", "clean", "no system is named 'fedavgg'", "fedavg"),
        ("fedavg", "claen", "no version of the test images is named 'claen'", "clean"),
    ],
)
def test_a_mistyped_name_is_refused_with_the_nearest(fedavg, reference, version, sentence, hint):
    with pytest.raises(UsageError) as refusal:
        ordered({"fedavg": [fedavg]}, reference, "accuracy", version)
    assert refusal.value.sentence == sentence
    assert hint in refusal.value.hint


@pytest.mark.parametrize(
    ("metric", "sentence"),
    [
        ("accuracyy", "no interval can be made of 'accuracyy'"),
        ("auc_binary", "no interval can be made of 'auc_binary'"),  # three classes
        ("auc_macro", "no interval can be made of 'auc_macro'"),  # of labels
        (
            "./own.py:reward",
            "./own.py:reward is a metric of your own, and the tests here are made for fedcli's",
        ),
    ],
)
def test_a_metric_without_a_test_is_refused(fedavg, fedheal, metric, sentence):
    with pytest.raises(UsageError) as refusal:
        compare([fedavg], [fedheal], metrics=[metric])
    assert refusal.value.sentence == sentence


def test_a_metric_of_ones_own_is_shown_by_report():
    with pytest.raises(UsageError) as refusal:
        check_names(["accuracy", "./own.py:reward"])
    assert refusal.value.hint == (
        "fedcli report --metric ./own.py:reward shows it with its interval"
    )


def test_two_classes_have_the_metrics_of_a_binary_task(folder):
    labels = scored.__globals__["Y"] % 2
    paths = []
    for name, skill in (("weak", 0.5), ("strong", 2.5)):
        logits = model(skill, 1, classes=2, y=labels)
        paths.append([scored(folder / f"two-{name}", logits, y=labels, by=())])
    compared = compare(*paths, metrics=["auc_binary"], resamples=50)
    result = {row.metric for row in compared.rows}
    assert result == {"auc_binary"}


def test_no_run_on_one_side_is_refused(fedavg):
    with pytest.raises(FedcliError, match="there is no run to compare"):
        compare([fedavg], [])


def test_two_runs_of_one_seed_in_a_system_are_refused(fedavg, folder, fedheal):
    logits = model(0.5, 3)
    twin = scored(folder / "twin", logits)
    with pytest.raises(FedcliError, match="are of one system and the same seed"):
        compare([fedavg, twin], [fedheal])


def test_the_reference_comes_first_and_has_no_test(fedavg, fedheal):
    systems = {"fedheal": [fedheal], "fedavg": [fedavg]}
    reference, other = ordered(systems, "fedavg", "accuracy", "clean", resamples=50)
    assert (reference.name, reference.is_reference) == ("fedavg", True)
    result = (reference.difference, reference.note, reference.warning)
    assert result == (None, "the reference", "")
    assert (other.name, other.is_reference) == ("fedheal", False)
    expected = pytest.approx(other.mean - reference.mean)
    assert other.difference == expected


def test_progress_names_the_method_and_the_score(fedavg, fedheal, caplog, monkeypatch):
    monkeypatch.setattr(tested, "MANY", 0)
    with caplog.at_level("INFO", logger="fedcli"):
        ordered({"fedavg": [fedavg], "fedheal": [fedheal]}, "fedavg", "accuracy", "clean")
    assert "tests of accuracy against fedavg: 1 of 1, fedheal" in caplog.messages


def test_systems_without_a_common_seed_have_a_note_in_place_of_a_test(fedavg, other_seed, folder):
    logits = model(2.5, 3)
    second = heal(folder / "other-seed-2", logits, seed=10)
    systems = {"fedavg": [fedavg], "fedheal": [other_seed, second]}
    _, other = ordered(systems, "fedavg", "accuracy", "clean", resamples=50)
    assert other.difference is None
    assert other.verdict is None
    assert other.note == (
        "no run of FedAvg and of FedHEAL has the same seeds (of training: 0; 10, 9)"
    )
    assert other.warning == ""
    assert other.mean is not None


def test_resamples_are_drawn_of_the_runs_that_are_tested(
    fedavg, fedheal, other_seed, folder, monkeypatch
):
    drawn = []
    monkeypatch.setattr(tested.Resamples, "draw", lambda self, runs, attribute: drawn.append(runs))
    unpaired = [other_seed, heal(folder / "unpaired", model(2.5, 3), seed=11)]
    systems = {"fedavg": [fedavg], "fedheal": [fedheal], "unpaired": unpaired}
    ordered(systems, "fedavg", "accuracy", "clean", resamples=50)
    (runs,) = drawn
    assert [run.path for run in runs] == [fedavg, fedheal]


def test_a_caution_on_a_pair_is_a_warning_and_a_note(fedavg, other_seed):
    systems = {"fedavg": [fedavg], "fedheal": [other_seed]}
    _, other = ordered(systems, "fedavg", "accuracy", "clean", resamples=50)
    caution = "the two runs do not have the same seeds: their random draws differ too"
    assert other.warning == caution
    assert other.note.endswith(f"; {caution}")


def test_the_resamples_follow_from_the_number_of_systems(fedavg, fedheal, monkeypatch):
    counts = []
    monkeypatch.setattr(tested, "enough", lambda comparisons: counts.append(comparisons) or 50)
    runs = read([fedavg])
    tested.order({"a": runs, "b": read([fedheal]), "c": runs}, "a", "accuracy", "clean")
    assert counts == [2]


@pytest.fixture
def leads(fedavg, fedheal, monkeypatch):
    monkeypatch.setattr(tested, "enough", lambda comparisons: 200)
    systems = [read([fedavg]), read([fedheal])]
    return Leads(systems, ["accuracy", "worst group", "./own.py:reward"])


def test_a_pair_is_tested_once_in_whatever_order_it_is_named(leads, monkeypatch):
    row = leads.row(0, 1, ACCURACY)
    monkeypatch.setattr(tested, "_test", None)
    assert leads.row(1, 0, ACCURACY) is row
    assert row.difference > 0  # of the later system against the earlier


def test_a_metric_outside_the_table_or_without_resamples_has_no_test(leads):
    for metric in ("f1_macro", "worst group", "./own.py:reward"):
        assert leads.test(Where("clean", metric=metric), 0, 1, comparisons=1) is None
    assert leads.samples is None


def test_the_fewest_samples_of_the_tested_pairs_are_remembered(leads):
    assert leads.test(ACCURACY, 0, 1, comparisons=1) is True
    assert (leads.samples, leads.over) == (1, "seeds")
    leads._rows[0, 1, ACCURACY] = Difference(samples=3, over="folds", difference=0.1)
    leads.test(ACCURACY, 0, 1, comparisons=1)
    assert (leads.samples, leads.over) == (1, "folds")


def test_a_pair_without_a_test_is_remembered_as_such(fedavg, folder):
    others = [heal(folder / f"lone-{seed}", model(1, seed), seed=seed) for seed in (20, 21)]
    systems = [read([fedavg]), read(others)]
    leads = Leads(systems, ["accuracy"])
    assert leads.test(ACCURACY, 0, 1, comparisons=1) is None
    assert leads._rows == {(0, 1, ACCURACY): None}


@pytest.mark.parametrize(
    ("p", "comparisons", "differs"), [(0.01, 1, True), (0.01, 4, True), (0.01, 5, False)]
)
def test_p_is_multiplied_by_the_comparisons_of_a_column(leads, p, comparisons, differs):
    row = Difference(difference=0.1, p=p, samples=1, over="seeds", differing=20)
    leads._rows[0, 1, ACCURACY] = row
    assert leads.test(ACCURACY, 0, 1, comparisons) is differs


@pytest.mark.parametrize(("p", "expected"), [(None, None), (0.0, 0.0), (0.2, 0.6), (0.5, 1.0)])
def test_an_adjusted_p_is_never_above_one(p, expected):
    assert tested._bonferroni(p, 3) == (None if expected is None else pytest.approx(expected))


def test_a_synthetic_sample_and_rare_classes_are_remarked_on(folder):
    three = [
        scored(folder / f"sample-a{seed}", model(0, seed), seed=seed, sample=True, by=())
        for seed in range(3)
    ]
    others = [
        heal(folder / f"sample-b{seed}", model(3, seed), seed=seed, sample=True, by=())
        for seed in range(3)
    ]
    compared = compare(three, others, metrics=["accuracy"], resamples=200)
    assert "SYNTHETIC" in compared.remarks[0]
    assert compared.rows[0].verdict == HIGHER
    same = compare(three, three, metrics=["accuracy"], resamples=200)
    assert same.rows[0].verdict == INCONCLUSIVE
    assert same.settings == []
