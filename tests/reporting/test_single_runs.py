"""Tables of single runs, cell by cell, from scores that are made up."""

from pathlib import Path

import pytest
from nested_scores import ABOUT
from report_tables import texts

from fedcli.comparison.systems import Scored
from fedcli.reporting import single_runs
from fedcli.scores.parts import (
    AS_TRAINED,
    PATCHED,
    SUCCESS,
    Adaptations,
    AdaptedScore,
    Client,
    Severity,
)
from fedcli.scores.scores import RunScores
from fedcli.scores.table import BY_POLICIES, TRAINED_AT, Score, Where

AREA = "auc_ovo_macro"
ACCURACY = "balanced_accuracy"
FEW = "3 images"
CLEAN = Where("clean")


def scores_of(table, **facts):
    usual = {
        CLEAN._replace(metric=ACCURACY): one(0.5),
        CLEAN._replace(metric=AREA): one(0.7),
    }
    facts = {"label": "FedAvg", "classes": ["a", "b", "c"], "kept_rounds": [2]} | facts
    return RunScores(**ABOUT | facts, table=usual | table)


def one(value, count=40, small="", **interval):
    """A score of one round."""
    return Score([value], [2], count, (), small, **interval)


def groups(attribute="sex", version="clean", metric=AREA, **values):
    """Scores of groups: numbers, or whole scores."""
    table = {}
    for group, value in values.items():
        where = Where(version, attribute=attribute, group=group, metric=metric)
        table[where] = value if isinstance(value, Score) else one(value)
    return table


def run_of(table, **facts):
    path = Path("nowhere") / "scores.json"
    return Scored(path, {}, scores_of(table, **facts))


def heads_of(table):
    return [column.name for column in table.columns]


def test_a_group_has_its_images_and_its_score_and_a_small_one_a_mark():
    run = run_of(groups(f=one(0.625, 3, FEW), m=0.75))
    (table,) = single_runs.by_group(run)
    assert table.title == "FedAvg, last round: AUC, one-vs-one in %, by sex"
    assert heads_of(table) == ["sex", "images", "clean"]
    lines = texts(table)
    assert lines[0] == ["f†", "3", "62.5"]
    assert lines[1] == ["m", "40", "75.0"]


def test_the_seed_and_another_metric_are_in_the_title():
    run = run_of(groups(metric="accuracy", f=0.6, m=0.8), options={"seed": 3})
    (table,) = single_runs.by_group(run, "accuracy")
    assert table.title == "FedAvg, seed 3, last round: accuracy in %, by sex"


def test_an_interval_of_the_last_round_stands_behind_the_score():
    interval = {"low": 0.5, "high": 0.75, "interval": "percentile by image", "units": 40}
    run = run_of(groups(f=one(0.625, **interval), m=0.75))
    (table,) = single_runs.by_group(run)
    assert texts(table)[0] == ["f", "40", "62.5 (50.0 to 75.0)"]


def test_what_is_lost_to_noise_is_in_points_and_a_dash_where_a_score_is_missing():
    table = groups(f=0.75, m=0.75) | groups(version="corrupted", f=0.5, m=one(None))
    corrupted = {Where("corrupted", metric=metric): one(0.5) for metric in (ACCURACY, AREA)}
    run = run_of(table | corrupted, corruption={"kind": "gaussian-noise"})
    (printed,) = single_runs.by_group(run)
    assert heads_of(printed)[-1].startswith("lost to ")
    lines = {line[0]: line[-1] for line in texts(printed)}
    assert lines["f"] == "25.0"
    assert lines["m"] == "-"


@pytest.mark.parametrize(
    ("clean", "corrupted", "low", "text"),
    [
        (0.75, 0.5, False, "25.0"),
        (0.5, 0.75, False, "-25.0"),
        (0.25, 0.5, True, "25.0"),
        (None, 0.5, False, "-"),
        (0.5, None, True, "-"),
    ],
)
def test_a_loss_is_positive_where_corruption_makes_a_score_worse(clean, corrupted, low, text):
    assert single_runs._loss(clean, corrupted, low=low) == text


def test_hidden_groups_have_no_number_of_images():
    hidden = one(None, 0, f"5 images {BY_POLICIES}")
    run = run_of(groups(f=hidden, m=0.75))
    (table,) = single_runs.by_group(run)
    assert texts(table)[0] == ["f", "hidden", "-"]


def test_the_worst_group_of_each_attribute_is_a_sentence():
    table = groups(f=0.625, m=0.75) | groups("race", b=0.5, w=0.5)
    run = run_of(table)
    result = list(single_runs.worst_groups(run))
    assert result == [
        "worst group by sex on clean images, last round: f, 62.5 % AUC, one-vs-one; gap 12.5 points",
        "no group by race on clean images, last round, scores lower than another: 50.0 % AUC, "
        "one-vs-one",
    ]


def test_the_worst_group_of_one_of_several_runs_has_its_seed():
    run = run_of(groups(f=0.625, m=0.75))
    (sentence,) = single_runs.worst_groups(run, "fold 0, seed 1")
    assert sentence.startswith("worst group by sex on clean images, fold 0, seed 1, last round: f,")


def test_one_group_alone_is_not_the_worst():
    run = run_of(groups(f=0.625))
    assert list(single_runs.worst_groups(run)) == []


def test_small_groups_and_clients_are_named_once():
    table = groups(f=one(0.5, 3, FEW), m=0.75)
    table[Where("clean", client="north", metric=AREA)] = one(0.5, 2, "2 images")
    clients = {"north": Client("clean", "own")}
    scores = scores_of(table, clients=clients)
    assert single_runs.unreliable([scores, scores]) == "† not reliable: sex f (3 images)."
    assert single_runs.unreliable([scores], clients=True) == (
        "† not reliable: sex f (3 images), client north (2 images)."
    )
    assert single_runs.unreliable([scores], ["race"]) == ""
    runs = [scores_of({})]
    assert single_runs.unreliable(runs) == ""


def with_severities(*levels):
    """A run that was scored under fog, and its facts about training."""
    severities = {"motion-blur": {}}
    table = {}
    for severity, kind_in_training, severity_in_training in levels:
        severities["motion-blur"][severity] = Severity(kind_in_training, severity_in_training)
        version = f"motion-blur {severity}"
        table[Where(version, metric=AREA)] = one(0.7 - int(severity) / 10)
        table[Where(version, metric=ACCURACY)] = one(0.5 - int(severity) / 10)
        table |= groups(version=version, f=0.5, m=0.75)
    return scores_of(groups(f=0.5, m=0.875) | table, severities=severities)


SEVERE = with_severities(("3", True, True), ("1", True, False), ("5", False, False))


def test_severities_are_lines_in_rising_order_after_the_clean_images():
    runs = [("FedAvg", SEVERE)]
    (table,) = single_runs.by_severity(runs, [AREA])
    assert table.title == "Severities: FedAvg"
    (table,) = single_runs.by_severity([("", SEVERE)], [AREA])
    assert table.title == "Severities"
    assert heads_of(table) == ["test images", "severity", "in training", "AUC, one-vs-one"]
    expected = [
        ["clean", "-", "-", "70.0"],
        ["motion blur", "1", "another severity", "60.0"],
        ["motion blur", "3", "this severity", "40.0"],
        ["motion blur", "5", "unseen", "20.0"],
    ]
    assert texts(table) == expected
    assert table.legend == single_runs.SEVERITIES


def test_several_runs_with_severities_are_named():
    runs = [("FedAvg", SEVERE), ("FedHEAL", SEVERE), ("FedProx", scores_of({}))]
    titles = [table.title for table in single_runs.by_severity(runs)]
    assert titles == ["Severities: FedAvg", "Severities: FedHEAL"]


def test_a_score_that_a_severity_does_not_have_is_a_dash():
    runs = [("FedAvg", SEVERE)]
    (table,) = single_runs.by_severity(runs, ["f1_macro"])
    result = [line[-1] for line in texts(table)]
    assert result == ["-"] * 4


def test_groups_are_columns_beside_their_gap_at_each_severity():
    runs = [("", SEVERE), ("x", scores_of({}))]
    (table,) = single_runs.by_severity_and_group(runs)
    assert table.title == "AUC, one-vs-one by severity and sex: FedAvg"
    expected = ["test images", "severity", "f", "m", "gap"]
    assert heads_of(table) == expected
    expected = [
        ["clean", "-", "50.0", "87.5", "37.5"],
        ["motion blur", "1", "50.0", "75.0", "25.0"],
    ]
    assert texts(table)[:2] == expected


def test_the_success_of_a_backdoor_has_a_line_for_each_run():
    patched = {Where(version, metric=SUCCESS): one(0.25) for version in PATCHED}
    runs = [("FedAvg", scores_of(patched)), ("FedHEAL", scores_of({}))]
    (table,) = single_runs.by_severity(runs)
    assert table.title == "Success of the backdoor"
    assert heads_of(table) == ["", *PATCHED]
    assert texts(table) == [["FedAvg", "25.0", "25.0"]]
    assert all(column.lower for column in table.columns[1:])
    assert table.legend == single_runs.BACKDOOR


def crossed():
    """Models of two clients on the test images of both."""
    table = {}
    numbers = {
        ("north", "north"): 0.75,
        ("north", "south"): 0.5,
        ("south", "north"): 0.25,
        ("south", "south"): 1.0,
    }
    for (trained, tested), value in numbers.items():
        model = f"{TRAINED_AT}{trained}"
        where = Where("clean", model=model, client=tested, metric=AREA)
        table[where] = one(value, 12)
    return scores_of(table)


def test_models_are_rows_and_test_images_columns_of_a_cross_site_test():
    (table,) = single_runs.cross_site([("", crossed()), ("other", scores_of({}))])
    assert table.title == "Trained at and tested on: AUC, one-vs-one, FedAvg"
    assert heads_of(table) == ["trained at", "north [12]", "south [12]"]
    expected = [["north", "75.0", "50.0"], ["south", "25.0", "100.0"]]
    assert texts(table) == expected
    assert table.legend == single_runs.CROSS_SITE


def adapted_score(adaptation, group="", *, attribute="", metric=AREA, value=0.5, **change):
    facts = {"difference": None, "low": None, "high": None} | change
    return AdaptedScore(
        adaptation, "clean", attribute, group, metric, images=1200, value=value, **facts
    )


def adapted_tables(*scores, prior=None, table=None):
    adaptations = Adaptations(None, prior or {}, list(scores))
    return list(single_runs.adapted([("", scores_of(table or {}, adapted=adaptations))]))


HIGHER = {"difference": 0.125, "low": 0.0625, "high": 0.25}
LOWER = {"difference": -0.125, "low": -0.25, "high": -0.0625}
SAME = {"difference": 0.0, "low": -0.125, "high": 0.125}


def test_an_adapted_model_has_its_change_below_the_model_as_trained():
    (table,) = adapted_tables(adapted_score(AS_TRAINED), adapted_score("bn", **HIGHER))
    assert table.title == "Adapted to the clean test images: FedAvg"
    assert heads_of(table) == ["adapted", "images", "AUC, one-vs-one"]
    as_trained, changed = texts(table)
    assert as_trained == [AS_TRAINED, "1,200", "50.0"]
    assert changed[:2] == ["bn", ""]
    assert changed[2] == "+12.5 (6.2 to 25.0)"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (HIGHER, "Changes whose interval excludes 0: bn: higher AUC, one-vs-one."),
        (LOWER, "Changes whose interval excludes 0: bn: lower AUC, one-vs-one."),
        (SAME, "The interval of every change includes 0."),
        ({"difference": 0.125}, "The interval of every change includes 0."),
    ],
)
def test_changes_whose_interval_excludes_0_are_named(change, words):
    (table,) = adapted_tables(adapted_score(AS_TRAINED), adapted_score("bn", **change))
    expected = f"{words} {single_runs.ADAPTED}"
    assert table.legend == expected


def test_groups_and_their_gap_have_a_table_of_their_own():
    scores = [adapted_score(AS_TRAINED)]
    for group in ("f", "m", ""):
        scores += [
            adapted_score(AS_TRAINED, group, attribute="sex"),
            adapted_score("bn", group, attribute="sex", **SAME),
        ]
    whole, by_sex = adapted_tables(*scores)
    assert whole.legend == single_runs.SAME
    assert by_sex.title == "Adapted to the clean test images: FedAvg, by sex"
    expected = [
        [f"f, {AS_TRAINED}", "1,200"],
        ["f, bn", ""],
        [f"m, {AS_TRAINED}", "1,200"],
        ["m, bn", ""],
        [f"gap, {AS_TRAINED}", ""],
        ["gap, bn", ""],
    ]
    result = [line[:2] for line in texts(by_sex)]
    assert result == expected


def test_a_small_group_that_decides_the_gap_marks_both():
    scores = []
    for group, value in (("f", 0.5), ("m", 0.75), ("", 0.25)):
        scores.append(adapted_score(AS_TRAINED, group, attribute="sex", value=value))
    (table,) = adapted_tables(*scores, table=groups(f=one(0.5, 3, FEW), m=0.75))
    expected = [
        f"f†, {AS_TRAINED}",
        f"m, {AS_TRAINED}",
        f"gap†, {AS_TRAINED}",
    ]
    result = [line[0] for line in texts(table)]
    assert result == expected


def test_a_group_without_a_score_has_no_line():
    (table,) = adapted_tables(
        adapted_score(AS_TRAINED, "f", attribute="sex", value=None),
        adapted_score("bn", "f", attribute="sex", value=None),
        adapted_score(AS_TRAINED, "m", attribute="sex"),
    )
    result = [line[0] for line in texts(table)]
    assert result == [f"m, {AS_TRAINED}"]


def test_accuracy_finds_no_room_in_a_table_of_groups():
    (table,) = adapted_tables(
        adapted_score(AS_TRAINED, "f", attribute="sex"),
        adapted_score(AS_TRAINED, "f", attribute="sex", metric="accuracy"),
    )
    assert heads_of(table) == ["sex, adapted", "images", "AUC, one-vs-one"]


def test_the_class_prior_is_a_table_in_the_order_of_the_classes():
    shares = {"c": 0.125, "a": 0.5, "b": 0.375}
    _, table = adapted_tables(adapted_score(AS_TRAINED), prior={"clean": shares})
    assert table.title == "Class prior: FedAvg"
    assert heads_of(table) == ["images", "a", "b", "c"]
    expected = [["clean", "50.0", "37.5", "12.5"]]
    assert texts(table) == expected


def test_a_run_that_was_not_adapted_has_no_table():
    result = list(single_runs.adapted([("", scores_of({}))]))
    assert result == []
