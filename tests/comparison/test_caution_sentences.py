"""Numbers that small groups, hidden groups and small clients decide, and the sentences on them."""

from pathlib import Path

import pytest
from nested_scores import ABOUT

from fedcli.comparison import cautions
from fedcli.comparison.cautions import doubtful_decisions, small_decides, small_in_sets
from fedcli.comparison.systems import BEST, LAST, LAST5, Scored
from fedcli.scores.parts import Client, Grouped
from fedcli.scores.scores import RunScores
from fedcli.scores.table import BY_POLICIES, Score, Where

AREA = "auc_ovo_macro"
WORST_AND_GAP = {"worst group", "gap"}
FEW = "3 images"
HIDDEN = f"5 images {BY_POLICIES}"


def run_of(attribute="sex", clients=None, versions=("clean",), **groups):
    """A run whose groups have these scores: a mean, or a whole Score."""
    table = {}
    for version in versions:
        area = Where(version, metric=AREA)
        table[area] = Score([0.7, 0.7], [1, 2], 80)
        for group, score in groups.items():
            where = area._replace(attribute=attribute, group=group)
            table[where] = score if isinstance(score, Score) else even(score)
    return RunScores(**ABOUT, clients=clients or {}, table=table, kept_rounds=[1, 2])


def even(mean, small=""):
    """A group that has one score in both rounds."""
    return Score([mean, mean], [1, 2], 40, (), small)


def decided(*runs, rounds=LAST5, metric=AREA, **options):
    return small_decides(runs, "sex", "clean", metric, rounds, **options)


def test_a_small_worst_group_decides_both_numbers_and_a_small_best_one_the_gap():
    result = decided(run_of(f=even(0.6, FEW), m=0.8))
    assert result == WORST_AND_GAP
    result = decided(run_of(f=0.6, m=even(0.8, FEW)))
    assert result == {"gap"}
    result = decided(run_of(f=0.6, m=0.8))
    assert result == set()


def test_a_small_group_between_the_others_decides_nothing():
    other = even(0.7, FEW)
    result = decided(run_of(f=0.6, m=0.8, other=other))
    assert result == set()


def test_a_group_that_is_small_in_one_run_is_in_doubt_in_the_mean_over_runs():
    runs = [run_of(f=0.6, m=0.8), run_of(f=even(0.6, FEW), m=0.8)]
    assert decided(*runs) == WORST_AND_GAP


def test_the_mean_over_runs_says_which_group_is_worst():
    runs = [run_of(f=even(0.9, FEW), m=0.8), run_of(f=even(0.5, FEW), m=0.8)]
    assert decided(*runs) == WORST_AND_GAP
    runs = [run_of(f=even(0.9, FEW), m=0.8), run_of(f=even(0.8, FEW), m=0.8)]
    assert decided(*runs) == {"gap"}


def test_the_last_round_may_have_another_worst_group_than_the_mean_over_rounds():
    rising = Score([0.1, 0.9], [1, 2], 40, (), FEW)
    run = run_of(f=rising, m=0.8)
    assert decided(run, rounds=LAST5) == WORST_AND_GAP
    assert decided(run, rounds=LAST) == {"gap"}


@pytest.mark.parametrize(("small_error", "expected"), [(0.3, WORST_AND_GAP), (0.05, {"gap"})])
def test_of_an_error_the_highest_is_the_worst(small_error, expected):
    run = run_of(f=0.6, m=0.8)
    error = Where("clean", attribute="sex", metric="own.py:my_error")
    run.table[error._replace(group="f")] = even(small_error, FEW)
    run.table[error._replace(group="m")] = even(0.1)
    assert decided(run, metric="own.py:my_error") == expected


WITHOUT_GROUPS = [
    {"rounds": BEST},  # no scores of the chosen round
    {"rounds": BEST, "view": "male"},
    {"view": "male"},  # no scores of this view
    {"metric": "f1_macro"},
]


@pytest.mark.parametrize("changed", WITHOUT_GROUPS)
def test_what_has_no_scores_of_groups_is_not_decided(changed):
    result = decided(run_of(f=even(0.6, FEW), m=0.8), **changed)
    assert result == set()


def test_one_group_alone_has_no_gap_that_it_could_decide():
    result = decided(run_of(f=even(0.6, FEW)))
    assert result == set()


def test_a_small_group_has_a_share_in_every_scaled_score():
    other = even(0.7, FEW)
    between = run_of(f=0.6, m=0.8, other=other)
    assert cautions.has_small_group([between], "sex", AREA)
    runs = [run_of(f=0.6, m=0.8)]
    assert not cautions.has_small_group(runs, "sex", AREA)
    assert not cautions.has_small_group([between], "race", AREA)


def test_a_small_group_without_a_score_has_no_share():
    without = Score([None, None], [1, 2], 3, (), FEW)
    runs = [run_of(f=without, m=0.8)]
    assert not cautions.has_small_group(runs, "sex", AREA)


def test_columns_in_doubt_are_named_as_tables_name_them():
    run = run_of(f=even(0.6, FEW), m=0.8)
    expected = [
        f"sex gap {AREA}",
        f"sex worst group {AREA}",
        f"sex ES-AUC ({AREA})",
    ]
    result = cautions.doubtful([run], [AREA], LAST5)
    assert result == expected


def with_clients(**scores):
    """A run whose clients have these scores of their own test parts."""
    clients = {name: Client("clean", "own") for name in scores}
    run = run_of(f=0.6, m=0.8, clients=clients)
    for name, score in scores.items():
        run.table[Where("clean", client=name, metric=AREA)] = score
    return run


def test_small_clients_are_those_with_a_score_of_few_images_of_their_own():
    east = Score([None], [2], 1, (), "1 image")
    north = even(0.6, FEW)
    run = with_clients(north=north, south=even(0.7), east=east)
    assert cautions.small_clients(run, AREA) == {"north": FEW}


def test_a_client_that_is_shown_the_whole_test_set_is_never_small():
    run = with_clients(north=even(0.6, FEW))
    run.clients["north"] = Client("clean", "whole")
    assert cautions.small_clients(run, AREA) == {}


def test_small_clients_put_the_spread_among_clients_in_doubt():
    north = even(0.6, FEW)
    run = with_clients(north=north, south=even(0.7))
    expected = [
        f"std among clients {AREA}",
        f"worst among clients {AREA}",
    ]
    result = cautions.doubtful([run], [AREA], LAST5)
    assert result == expected


def hidden_run():
    """A run whose sites hide the images of women."""
    return run_of(f=Score([None, None], [1, 2], 0, (), HIDDEN), m=0.8)


def test_hidden_groups_are_not_small_ones():
    run = hidden_run()
    assert cautions.small_groups(run, "sex") == {}
    assert cautions.hidden_groups(run, "sex") == {"f": HIDDEN}


def test_a_group_without_any_image_is_neither():
    run = run_of(f=Score([None, None], [1, 2], 0, (), "no image"), m=0.8)
    assert cautions.small_groups(run, "sex") == {}
    assert cautions.hidden_groups(run, "sex") == {}


def test_hidden_groups_are_said_once_whatever_the_number_of_runs():
    sentence = (
        f"sex f: {HIDDEN}; without the scores of all groups there is no gap, worst group or "
        "equity-scaled AUC by sex."
    )
    runs = [hidden_run(), hidden_run()]
    assert cautions.hidden_note(runs) == sentence
    assert cautions.hidden_note([hidden_run()], "sex") == sentence


def test_another_attribute_or_no_hidden_group_has_no_note():
    assert cautions.hidden_note([hidden_run()], "race") == ""
    runs = [run_of(f=0.6, m=0.8)]
    assert cautions.hidden_note(runs) == ""
    assert cautions.hidden_note([]) == ""


def without_group(unknown, attribute="sex"):
    """A run with so many test images in no group of an attribute."""
    run = run_of(attribute, f=0.6, m=0.8)
    run.grouped[attribute] = Grouped(unknown)
    return run


def test_images_without_a_known_group_are_counted_where_all_test_sets_have_as_many():
    sentence = (
        "sex is unknown for 10 of 80 test images: they are in no group, but in the other scores"
    )
    runs = [without_group(10), without_group(10)]
    assert cautions.unknown_group(runs, "sex") == sentence
    assert cautions.unknown_groups([*runs, without_group(0, "race")]) == [sentence]
    folds = [without_group(10), without_group(9)]
    assert cautions.unknown_groups(folds) == [
        "images whose sex is unknown are in no group, but in the other scores"
    ]
    assert cautions.unknown_groups([without_group(0)]) == []
    assert cautions.unknown_groups([without_group(None)]) == []  # sites hide it


def test_each_attribute_with_hidden_groups_has_its_sentence():
    by_race = run_of("race", b=Score([None, None], [1, 2], 0, (), HIDDEN), w=0.8)
    note = cautions.hidden_note([hidden_run(), by_race])
    assert note.count("there is no gap") == 2
    assert note.index("by sex.") < note.index(f"race b: {HIDDEN}")


def test_reasons_of_several_test_sets_name_the_set():
    clean = run_of(f=even(0.6, FEW), m=0.8)
    noisy = run_of(f=even(0.5, "2 images"), m=0.8)
    sets = {
        "clean": clean,
        "noisy": noisy,
    }
    assert small_in_sets(sets, "sex") == {"f": "3 images (clean); 2 images (noisy)"}
    result = small_in_sets({"clean": sets["clean"]}, "sex")
    assert result == {"f": FEW}


def test_a_group_is_small_for_the_metrics_that_are_shown():
    run = run_of(f=even(0.6, "2 images of ill"), m=0.8)
    for group in "fm":
        where = Where("clean", attribute="sex", group=group, metric="accuracy")
        run.table[where] = even(0.7)
    assert small_in_sets({"clean": run}, "sex", ["accuracy"]) == {}
    both = ["accuracy", AREA]
    assert small_in_sets({"clean": run}, "sex", both) == {"f": "2 images of ill"}


def test_a_group_that_a_test_set_lacks_has_no_test_image_there():
    clean = run_of(f=0.6, m=0.8)
    sets = {"clean": clean, "noisy": run_of(m=0.8)}
    assert small_in_sets(sets, "sex") == {"f": "no test image (noisy)"}


def test_a_group_without_images_in_all_test_sets_is_left_out():
    empty = Score([None, None], [1, 2], 0, (), "no image")
    clean = run_of(f=empty, m=0.8)
    noisy = run_of(f=empty, m=0.8)
    sets = {"clean": clean, "noisy": noisy}
    assert small_in_sets(sets, "sex") == {}


def test_hidden_groups_of_a_test_set_have_their_reason():
    result = small_in_sets({"clean": hidden_run()}, "sex")
    assert result == {"f": HIDDEN}


def test_all_differences_in_decisions_are_in_doubt_where_any_group_is_small():
    names = ["dpd", "eod", "auc_gap"]
    parity = [name for name in names if name.startswith(cautions.PARITY)]
    small = run_of(f=even(0.6, FEW), m=0.8)
    assert doubtful_decisions(small, "sex", names) == set(parity)
    scores = run_of(f=0.6, m=0.8)
    assert doubtful_decisions(scores, "sex", names) == set()


def levels(before, after):
    return cautions._levels_down(before, after)


LEVELLING_DOWN = [
    ({"f": 0.7, "m": 0.9}, {"f": 0.7, "m": 0.8}, True),
    ({"f": 0.7, "m": 0.9}, {"f": 0.6, "m": 0.7}, True),
    ({"f": 0.7, "m": 0.9}, {"f": 0.71, "m": 0.8}, False),  # one gained
    ({"f": 0.7, "m": 0.9}, {"f": 0.5, "m": 0.8}, False),  # the gap grew
    ({"f": 0.7, "m": 0.9}, {"f": 0.6, "m": 0.8}, False),  # the gap stayed
    ({"f": 0.7, "m": 0.9}, {"f": 0.7, "m": 0.8999}, False),  # not as they are printed
    ({"f": 0.7, "m": 0.9}, {"f": 0.7, "m": 0.8994}, True),
    ({"f": 0.7, "m": 0.9}, {"m": 0.8}, False),  # one group in common
    ({"f": 0.7, "m": 0.9, "x": 0.1}, {"f": 0.7, "m": 0.8}, True),  # of the shared groups
]


@pytest.mark.parametrize(("before", "after", "expected"), LEVELLING_DOWN)
def test_levelling_down_is_a_smaller_gap_without_a_gain(before, after, expected):
    assert levels(before, after) is expected


def stuck_run(name, low, seed=0, **versions):
    """A run whose interval in the last round begins here."""
    table = {}
    for version, lowest in {"clean": low, **versions}.items():
        where = Where(version, metric="balanced_accuracy")
        table[where] = Score([0.4], [2], 60, (), "", lowest, 0.5, "percentile by image", 60)
    classes = ["a", "b", "c"]
    scores = RunScores(**ABOUT | {"options": {"seed": seed}}, classes=classes, table=table)
    return Scored(Path(name), {}, scores)


@pytest.fixture
def no_predictions(monkeypatch):
    def refuse(runs, version):
        raise cautions.FedcliError("there are no predictions", "evaluate again")

    monkeypatch.setattr(cautions, "one_class", refuse)


@pytest.mark.usefixtures("no_predictions")
def test_a_run_at_chance_has_its_number_and_its_bound():
    result = cautions.at_chance([stuck_run("a", 0.3)])
    assert result == (
        "may be no better than chance (33.3 %) on clean images: balanced accuracy 40.0 % in the "
        "last round, its 95 % interval begins at 30.0 %. Try a higher --lr or more rounds"
    )


@pytest.mark.usefixtures("no_predictions")
def test_several_runs_at_chance_have_their_numbers_in_turn_and_are_named_if_others_are_not():
    runs = [stuck_run("a", 0.3, seed=1), stuck_run("b", 0.2, seed=2)]
    text = cautions.at_chance(runs)
    assert "on clean images: balanced accuracy 40.0, 40.0 % in the last round" in text
    assert "begins at 30.0, 20.0 %" in text
    text = cautions.at_chance([*runs, stuck_run("c", 0.39, seed=3)])
    assert "on clean images (seed 1; seed 2): " in text


@pytest.mark.usefixtures("no_predictions")
def test_both_kinds_of_images_have_a_clause():
    text = cautions.at_chance([stuck_run("a", 0.3, corrupted=0.1)])
    first, second, *_ = text.split("; ")
    assert "on clean images" in first
    assert "its 95 % interval begins at 10.0 %" in second


def test_a_run_above_chance_or_without_an_interval_has_no_caution():
    result = cautions.at_chance([stuck_run("a", 0.39)])
    assert result == ""
    result = cautions.at_chance([stuck_run("a", None)])
    assert result == ""


@pytest.mark.usefixtures("no_predictions")
def test_a_run_at_chance_without_an_interval_has_its_number_alone():
    run = stuck_run("a", None)
    where = Where("clean", metric="balanced_accuracy")
    run.scores.table[where].values = [1 / 3]
    text = cautions.at_chance([run])
    assert "(33.3 %) on clean images: balanced accuracy 33.3 % in the last round. Try" in text


def test_test_images_of_one_class_have_no_chance_to_be_at():
    run = stuck_run("a", 0.3)
    where = Where("clean", metric="balanced_accuracy")
    run.scores.table[where].missing = (0, 1)
    assert cautions.at_chance([run]) == ""
