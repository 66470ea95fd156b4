"""The population that pairs of runs are a sample of, and methods ranked over datasets."""

from dataclasses import replace

import pytest
from nested_scores import ABOUT

from fedcli.comparison.pairing import Sample, numbered
from fedcli.comparison.ranks import Ranks, by_method, datasets_of, friedman
from fedcli.scores.parts import Stage
from fedcli.scores.scores import RunScores


def sample(over, *sets):
    return Sample(over, sets, overlap=0.0, test_images=60, unit="image", units=60)


COUNTS = [("seeds", (0, 0, 0), 3), ("folds", (0, 1, 1, 2), 3)]


@pytest.mark.parametrize(("over", "sets", "count"), COUNTS)
def test_seeds_are_counted_by_run_and_folds_by_test_set(over, sets, count):
    assert sample(over, *sets).count == count


def test_each_fold_has_the_mean_of_its_runs_and_each_seed_its_own_number():
    folds = sample("folds", 0, 1, 1, 2)
    result = folds.means([0.1, 0.2, 0.4, 0.5])
    assert result == pytest.approx([0.1, 0.3, 0.5])
    result = sample("seeds", 0, 0).means([0.1, 0.2])
    assert result == [0.1, 0.2]


EVEN = [sample("seeds", 0, 0, 0), sample("folds", 0, 1, 2), sample("folds", 0, 0, 1, 1)]


@pytest.mark.parametrize("even", EVEN)
def test_equal_numbers_of_runs_need_no_note(even):
    assert even.note == ""


def test_unlike_numbers_of_runs_are_counted_in_the_order_of_the_folds():
    assert sample("splits", 1, 0, 1).note == (
        "the splits have different numbers of runs (1, 2): means, differences, their intervals and p "
        "over patients weight every run equally, p over splits every split"
    )


def test_equal_keys_have_equal_numbers():
    result = numbered([b"x", b"y", b"x", b"z"])
    assert result == [0, 1, 0, 2]


def run_on(dataset, label="M", **settings):
    return RunScores(**ABOUT | {"dataset": dataset, "label": label, "settings": settings})


def test_methods_that_every_dataset_has_once_are_ranked_in_the_order_of_datasets():
    systems = [
        (run_on("skin"), 0.7),
        (run_on("skin", "N"), 0.6),
        (run_on("chest", "N"), 0.5),
        (run_on("chest"), 0.8),
        (run_on("chest", "only here"), 0.9),
    ]
    expected = {"M": [0.7, 0.8], "N": [0.6, 0.5]}
    assert by_method(systems) == expected


def test_a_method_twice_on_a_dataset_is_left_out():
    systems = [(run_on("skin"), 0.7), (run_on("skin"), 0.8), (run_on("skin", "N"), 0.6)]
    assert by_method(systems) == {"N": [0.6]}


def run_of_files(files, dataset="images", label="M", **options):
    stage = Stage("0" * 64, {"raw_fingerprint": files * 8} | options)
    return replace(run_on(dataset, label), data={"dataset": stage})


def test_folders_of_images_are_told_apart_by_their_files():
    runs = [run_of_files("0123abcd"), run_of_files("4567abcd"), run_on("skin")]
    assert datasets_of(runs) == ["images 0123abcd", "images 4567abcd", "skin"]
    assert datasets_of([runs[0], runs[0]]) == ["images", "images"]
    systems = [
        (run_of_files(files, label=label), number)
        for label, numbers in {"M": (0.7, 0.8), "N": (0.6, 0.5)}.items()
        for files, number in zip(("0123abcd", "4567abcd"), numbers, strict=True)
    ]
    assert by_method(systems) == {"M": [0.7, 0.8], "N": [0.6, 0.5]}


ONE_DATASET = [
    ("isic2018", {}),  # prepared from other files of it
    ("images", {"sample_images": 100}),  # maybe samples of one folder
    ("./mine.py", {}),
]


@pytest.mark.parametrize(("dataset", "options"), ONE_DATASET)
def test_other_files_of_a_named_dataset_and_samples_are_no_dataset_of_their_own(dataset, options):
    runs = [run_of_files("0123abcd", dataset), run_of_files("4567abcd", dataset, **options)]
    assert datasets_of(runs) == [dataset, dataset]


def test_settings_of_a_method_are_in_its_name_where_it_has_several():
    systems = [(run_on("skin", q=1), 0.7), (run_on("skin", q=2), 0.8), (run_on("skin", "N"), 0.6)]
    expected = {"M (q=1)": [0.7], "M (q=2)": [0.8], "N": [0.6]}
    assert by_method(systems) == expected


def test_the_test_in_words_names_the_pairs_that_differ():
    differ = [("A", "B"), ("A", "C")]
    ranks = Ranks(
        metric="accuracy",
        datasets=12,
        ranks={"A": 1.0, "B": 2.0, "C": 3.0},
        chi2=24.0,
        f=8.125,
        degrees=(2, 22),
        p=0.00123,
        critical_difference=0.957,
        differ=differ,
        enough=3,
    )
    assert ranks.said == (
        "chi2 24.00, F(2, 22) 8.12, p 0.0012; critical difference 0.96: "
        "A is better than B; A is better than C."
    )
    assert ranks.caution == ""


def test_few_datasets_have_a_caution_and_full_agreement_an_infinite_f():
    scores = {"A": [0.9, 0.8], "B": [0.8, 0.7]}
    ranks = friedman("accuracy", scores)
    assert ranks.said.startswith(
        "chi2 2.00, F(1, 1) infinite, since all datasets give the same ranks, p 0.5;"
    )
    assert ranks.said.endswith("no two methods differ.")
    assert ranks.caution == (
        "The test is made for 10 datasets or more, and two of 2 methods cannot differ on fewer "
        "than 4."
    )


def test_low_scores_are_ranked_first_where_they_are_better():
    scores = {"A": [0.9, 0.8], "B": [0.8, 0.7]}
    result = list(friedman("accuracy", scores).ranks)
    assert result == ["A", "B"]
    result = list(friedman("error", scores, lower=True).ranks)
    assert result == ["B", "A"]
