"""Names of runs in pictures, titles of series, and options of runs."""

from pathlib import Path

import numpy as np
import pytest

from fedcli.figures import names, series
from fedcli.figures.series import Record, Series


def record(label="FedAvg", folder="runs/a", data=None, corrupted=(), **options):
    facts = {
        "dataset": "skin",
        "clients": 4,
        "played": 3,
        "rounds": 3,
        "series": {},
        "histograms": {},
    }
    return Record(
        Path(folder),
        label,
        options=options,
        data=data or {},
        corrupted=list(corrupted),
        **facts,
    )


def labels(*records, **options):
    return list(names.labels(list(records), **options))


def test_runs_of_several_methods_have_the_names_of_the_methods():
    result = labels(record(), record("FedHEAL", "runs/b"))
    assert result == ["FedAvg", "FedHEAL"]


NAMES_BY_OPTIONS = [
    ([{"lr": 0.1}, {"lr": 0.01}], ["FedAvg (lr 0.1)", "FedAvg (lr 0.01)"]),
    ([{"lr": 1.0}, {"lr": 2.0}], ["FedAvg (lr 1)", "FedAvg (lr 2)"]),
    ([{"rounds": 1}, {"rounds": 6}], ["FedAvg (1 round)", "FedAvg (6 rounds)"]),
    ([{"epochs": 1}, {"epochs": 2}], ["FedAvg (1 epoch)", "FedAvg (2 epochs)"]),
    ([{"seed": 0}, {"seed": 1}], ["FedAvg (seed 0)", "FedAvg (seed 1)"]),
    (
        [{"lr": 0.1, "rounds": 5}, {"lr": 0.2, "rounds": 6}],
        ["FedAvg (lr 0.1, 5 rounds)", "FedAvg (lr 0.2, 6 rounds)"],
    ),
]


@pytest.mark.parametrize(("options", "expected"), NAMES_BY_OPTIONS)
def test_runs_of_one_method_have_the_options_in_which_they_differ(options, expected):
    records = [record(folder=f"runs/{k}", **chosen) for k, chosen in enumerate(options)]
    result = sorted(labels(*records))
    assert result == sorted(expected)


def test_settings_of_a_method_are_written_as_they_are_typed():
    runs = [record(folder=f"runs/{rho}", settings={"rho": rho}, rho=rho) for rho in (0.05, 0.1)]
    assert labels(*runs) == ["FedAvg (rho=0.05)", "FedAvg (rho=0.1)"]


def test_an_option_of_the_data_is_named_without_its_stage():
    runs = [
        record(folder=f"runs/{alpha}", data={"partition dirichlet": alpha}) for alpha in (1.0, 0.1)
    ]
    assert labels(*runs) == ["FedAvg (dirichlet 1)", "FedAvg (dirichlet 0.1)"]


def test_options_that_only_watch_a_training_are_no_part_of_a_name():
    runs = [record(folder=f"runs/{every}", eval_every=every) for every in (1, 2)]
    assert labels(*runs) == ["1", "2"]  # of their folders


def test_equal_runs_have_the_names_of_their_folders_or_else_numbers():
    result = labels(record(folder="runs/a"), record(folder="runs/b"))
    assert result == ["a", "b"]
    result = labels(record(folder="x/a"), record(folder="y/a"))
    assert result == ["FedAvg [1]", "FedAvg [2]"]


def test_a_name_that_is_too_long_is_that_of_the_folder():
    long = {f"setting_{number}": "value" for number in range(8)}
    other = dict.fromkeys(long, "other")
    runs = [
        record(folder="runs/a", settings=long, **long),
        record(folder="runs/b", settings=other, **other),
    ]
    assert labels(*runs) == ["a", "b"]


def test_an_option_that_is_shown_elsewhere_is_no_part_of_a_name():
    runs = [record("FedAvg", lr=0.1, seed=1), record("FedHEAL", "runs/b", lr=0.2, seed=2)]
    result = labels(*runs, without="lr")
    assert result == ["FedAvg", "FedHEAL"]


def test_training_that_differs_between_methods_is_named_where_seeds_are_not_compared():
    runs = [record("FedAvg", rounds=3), record("FedHEAL", "runs/b", rounds=6)]
    result = labels(*runs, without="lr")
    assert result == ["FedAvg (3 rounds)", "FedHEAL (6 rounds)"]
    assert labels(*runs) == ["FedAvg", "FedHEAL"]


def test_runs_that_differ_in_the_seed_are_one_system():
    runs = [record(folder=f"runs/{seed}", seed=seed, lr=0.1) for seed in (0, 1)]
    other = record("FedHEAL", "runs/b", seed=0, lr=0.1)
    records = [*runs, other]
    systems = names.systems(records)
    result = {name: len(group) for name, group in systems.items()}
    assert result == {"FedAvg": 2, "FedHEAL": 1}


def test_the_training_of_a_run_is_without_seeds_and_method():
    data = {"partition dirichlet": 1.0, "partition seed": 3}
    run = record(data=data, seed=1, lr=0.1, rounds=6, mu=0.5)
    training = names.trained(run, "lr")
    assert training == {"rounds": 6, "partition dirichlet": 1.0, "dataset": "skin"}


WORDS_OF_SERIES = [
    (("loss",), ("Training loss", "mean over local steps", 1)),
    (("weights",), ("Weight in the aggregation", "share", 1)),
    (("reports", "gap"), ("Generalisation gap", "reported by clients", 1)),
    (("reports", "rescue_factor"), ("rescue factor", "reported by clients", 1)),
    (("reports", "ab"), ("ab", "reported by clients", 1)),
    (("server", "mu"), ("mu, the proximal coefficient", "kept by the server", 1)),
    (("test", "clean", "accuracy"), ("Accuracy, clean", "clean test images (%)", 100)),
    (
        ("test", "validation", "accuracy"),
        ("Accuracy, validation", "validation images (%)", 100),
    ),
    (("test", "clean", "my_own"), ("my own, clean", "clean test images", 1)),
    (
        ("group", "clean", "worst accuracy by sex"),
        ("Worst accuracy by sex, clean", "clean test images (%)", 100),
    ),
]


@pytest.mark.parametrize(("key", "words"), WORDS_OF_SERIES)
def test_a_series_has_a_title_a_unit_and_a_factor(key, words):
    title, unit, factor = series._words(key)
    assert title.lower() == words[0].lower()
    assert (unit, factor) == words[1:]


GROUPS = {"f": {"accuracy": 0.5}, "m": {"accuracy": None}, "x": {"accuracy": 0.9}}


def test_numbers_of_groups_have_a_mean_and_a_worst_of_those_that_are_known():
    numbers = series._of_groups(GROUPS)
    expected = {
        "average accuracy": pytest.approx(0.7),
        "worst accuracy": 0.5,
        "accuracy of f": 0.5,
        "accuracy of m": None,
        "accuracy of x": 0.9,
    }
    assert numbers == expected


def test_groups_without_a_known_score_have_neither():
    numbers = series._of_groups({"f": {"accuracy": None}, "m": {"accuracy": float("nan")}})
    assert numbers["average accuracy"] is None
    assert numbers["worst accuracy"] is None
    assert series._of_groups({}) == {}


def curve(*values):
    return np.array(list(enumerate(values, 1)), float)


def test_a_series_as_a_frame_has_a_line_for_each_client_and_round():
    curves = {"north": curve(1.0, 2.0), "south": curve(3.0)}
    loss = Series("Loss", "nats", curves)
    frame = loss.frame()
    assert frame["client"].tolist() == ["north", "north", "south"]
    assert frame["round"].tolist() == [1, 2, 1]
    assert frame["value"].tolist() == [1, 2, 3]
    assert loss.values.tolist() == [1, 2, 3]
    assert not loss.scalar
    curves = {"": curve(1.0)}
    assert Series("", "", curves).scalar


@pytest.mark.parametrize(("kind", "tested"), [("test", True), ("group", True), ("loss", False)])
def test_scores_of_the_test_set_are_tested_series(kind, tested):
    assert Series("", "", {}, kind).tested is tested


def test_over_runs_has_a_spread_where_two_runs_have_a_round():
    curves = {"n": curve(1.0, 5.0), "s": curve(3.0, 7.0)}
    runs = [
        Series("", "", curves),
        Series("", "", {"n": curve(4.0)}),
    ]
    frame = series.over_runs(runs)
    assert frame["value"].tolist() == [3, 6]
    expected = pytest.approx(3 - 2**0.5)
    assert frame["low"][0] == expected
    expected = pytest.approx(3 + 2**0.5)
    assert frame["high"][0] == expected
    result = frame[["low", "high"]].isna().to_numpy().tolist()
    assert result == [[False, False], [True, True]]


HEADINGS = [
    ([record()], "FedAvg on skin: 4 clients, 3 rounds"),
    ([record(seed=0), record(seed=1)], "2 runs on skin, 2 seeds"),
    ([record(seed=0), record("FedHEAL", seed=0)], "2 runs on skin"),
]


@pytest.mark.parametrize(("records", "words"), HEADINGS)
def test_a_heading_says_what_was_recorded(records, words):
    assert series.heading(records) == words


OPTIONS = [
    ("lr", 0.1),
    ("dirichlet", 1.0),
    ("ratio", 0.5),  # of the corruption, which is nearest
    ("clients", "a, b"),
    ("unknown", None),
]


@pytest.mark.parametrize(("key", "value"), OPTIONS)
def test_an_option_is_that_of_the_run_or_of_the_nearest_stage(key, value):
    data = {
        "partition dirichlet": 1.0,
        "partition ratio": 0.1,
        "corruption ratio": 0.5,
        "corruption clients": ["a", "b"],
    }
    result = series.option(record(data=data, lr=0.1), key)
    assert result == value
