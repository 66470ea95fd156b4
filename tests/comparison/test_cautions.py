"""Levelling down is named, a gap that shrinks because the worst group gained is not; models that may be at chance."""

from dataclasses import replace

import numpy as np
import pytest
from nested_scores import ABOUT
from scored_runs import Y, heal, model, scored

from fedcli.comparison.cautions import at_chance, doubtful, levelling_down, unreliable_groups
from fedcli.comparison.systems import Scored
from fedcli.comparison.verdict import INCONCLUSIVE, MODELS_ONLY, Difference
from fedcli.figures.kinds import forest
from fedcli.reporting.rows import compared, notes, rows
from fedcli.reporting.single_runs import unreliable, worst_groups
from fedcli.scores.parts import Client, Shots
from fedcli.scores.scores import RunScores
from fedcli.scores.table import Score, Where

SURE = Difference(low=-0.15, high=-0.05, p=0.001, samples=1, verdict=MODELS_ONLY)
UNSURE = Difference(
    difference=-0.022, low=-0.059, high=0.075, p=0.66, samples=3, verdict=INCONCLUSIVE
)


def said_of(rows, tested=SURE):
    return list(levelling_down([(row.name, row.scored) for row in rows], lambda of, place: tested))


def with_groups(row, **means):
    """The row with these means of its groups by sex."""
    run = row.scored[0]
    where = Where("clean", attribute="sex", metric="auc_ovo_macro")
    lines = {where._replace(group=group): Score([mean], [6]) for group, mean in means.items()}
    return replace(
        row, scored=[replace(run, scores=replace(run.scores, table=run.scores.table | lines))]
    )


def test_a_gap_that_shrinks_because_the_best_group_lost_is_levelling_down(tmp_path):
    fedavg, fedheal = rows([scored(tmp_path / "a", model(1, 0)), heal(tmp_path / "b", model(2, 0))])
    fedavg = with_groups(fedavg, f=0.70, m=0.90)
    (sentence,) = said_of([fedavg, with_groups(fedheal, f=0.70, m=0.80)])
    assert sentence == (
        "FedHEAL: smaller gap by sex than FedAvg, but only because no group gained and m fell from "
        "90.0 to 80.0 % AUC, one-vs-one (levelling down)"
    )
    assert not (said_of([fedavg, with_groups(fedheal, f=0.75, m=0.85)]))  # f gained
    assert not (said_of([fedavg, with_groups(fedheal, f=0.60, m=0.85)]))  # the gap grew
    assert not (said_of([fedavg]))
    high = 0.3 + 0.5, 0.1 + 0.7  # 0.8 twice, but for the last bit
    fedavg = with_groups(fedavg, f=0.70, m=0.90)
    assert not (said_of([fedavg, with_groups(fedheal, f=high[1] - 0.1, m=high[0] + 0.1)]))
    assert said_of(
        [with_groups(fedavg, f=high[1], m=0.90), with_groups(fedheal, f=high[0], m=0.85)]
    )


def test_a_smaller_gap_that_may_be_chance_is_called_so(tmp_path):
    fedavg, fedheal = rows([scored(tmp_path / "a", model(1, 0)), heal(tmp_path / "b", model(2, 0))])
    both = with_groups(fedavg, f=0.70, m=0.90), with_groups(fedheal, f=0.70, m=0.80)
    (sentence,) = said_of(both, UNSURE)
    assert sentence.endswith(
        "(levelling down). This may be chance: the change of the gap has the 95 % interval -5.9 to +7.5 points"
    )
    (sentence,) = said_of(both, None)
    assert sentence.endswith("(levelling down). Whether this is chance was not tested")


def test_test_images_in_no_group_are_noted_beside_tables_and_below_a_forest(tmp_path):
    sex = np.where(np.arange(len(Y)) < 10, -1, np.arange(len(Y)) % 2)
    table = rows([scored(tmp_path / "a", model(1, 0), sex=sex)])
    sentence = "is unknown for 10 of 60 test images: they are in no group, but in the other scores"
    assert f"sex {sentence}" in notes(table)
    caption = forest.frame(compared(table)).attrs["caption"]
    assert f" Sex {sentence}." in caption
    known = rows([scored(tmp_path / "b", model(1, 1))])
    assert "unknown" not in " ".join(notes(known))
    assert "unknown" not in forest.frame(compared(known)).attrs["caption"]


def intervals(low, value, version="clean"):
    return {
        version: {
            "balanced_accuracy": {
                "value": value,
                "low": low,
                "high": value + 0.1,
                "unit": "image",
                "units": 60,
            }
        }
    }


def noted(*paths):
    return " ".join(notes(rows(list(paths))))


def test_a_model_that_answers_one_class_is_said_not_to_be_shown_to_beat_chance(tmp_path):
    stuck = [np.tile(np.float32([0, 1, 0]), (len(Y), 1))] * 2
    note = noted(scored(tmp_path / "a", stuck, intervals=intervals(1 / 3, 1 / 3)))
    assert "FedAvg: gives the same answer for every clean image. Try a higher --lr" in note


ADVICE = [
    ({"a": 900, "b": 80, "c": 700}, {}, "--prior logit-adjust, a higher --lr or more rounds"),
    ({"a": 900, "b": 80}, {"prior": "logit-adjust"}, "a higher --lr or more rounds"),
    ({"a": 900, "b": 80}, {"class_weights": "balanced"}, "a higher --lr or more rounds"),
    ({"a": 900, "b": 80}, {"sampling": "class"}, "a higher --lr or more rounds"),
    ({"a": 900, "b": 80}, {"sampling": "group-class:sex"}, "a higher --lr or more rounds"),
    (
        {"a": 900, "b": 80},
        {"freeze_backbone": True},
        "--prior logit-adjust-all, a higher --lr or more rounds",
    ),
    ({"a": 300, "b": 300, "c": 290}, {}, "a higher --lr or more rounds"),
    ({"a": 900, "b": 80}, {"dp_noise": 20.0}, "less noise (--dp client), or more clients"),
    ({"a": 300, "b": 300}, {"dp_sgd": 1.0}, "less noise (--dp image), or more clients"),
    ({}, {}, "a higher --lr or more rounds"),
]


@pytest.mark.parametrize(("images", "options", "advice"), ADVICE)
def test_advice_is_of_what_may_help_the_run(tmp_path, images, options, advice):
    (row,) = rows([scored(tmp_path / "a", model(0.1, 1), intervals=intervals(0.3, 0.38))])
    (run,) = row.scored
    shots = Shots(700, 70, {"head": images, "medium": {}, "tail": {}}, [])
    recorded = {**run.scores.options, **options}
    changed = replace(run, scores=replace(run.scores, options=recorded, shots=shots))
    assert at_chance([changed]).endswith(f". Try {advice}")


def test_a_lower_end_above_chance_by_rounding_alone_is_at_chance(tmp_path):
    stuck = [np.tile(np.float32([0, 1, 0]), (len(Y), 1))] * 2
    low = np.nextafter(1 / 3, 1)
    assert "gives the same answer" in noted(
        scored(tmp_path / "a", stuck, intervals=intervals(low, low))
    )


def test_a_model_near_chance_is_said_to_be_and_one_above_it_is_not(tmp_path):
    weak = model(0.1, 1)
    skilled = model(2.0, 1)
    note = noted(scored(tmp_path / "a", weak, intervals=intervals(0.3, 0.38)))
    assert (
        "may be no better than chance (33.3 %) on clean images: balanced accuracy 38.0 % in the last round, its "
        "95 % interval begins at 30.0 %" in note
    )
    assert "chance" not in noted(scored(tmp_path / "b", skilled, intervals=intervals(0.7, 0.8)))


def test_only_the_seed_that_is_at_chance_is_named(tmp_path):
    paths = [
        scored(tmp_path / f"{seed}", model(1.0, seed), seed=seed, intervals=intervals(low, 0.5))
        for seed, low in ((0, 0.45), (1, 0.2))
    ]
    text = " ".join(notes(rows(paths, spread="pooled")))
    assert "no better than chance (33.3 %) on clean images (seed 1): " in text


def of_two_hospitals(why):
    """A run with two hospitals and two groups, of which one each is small for this reason."""
    area = Where("clean", metric="auc_ovo_macro")
    table = {area: Score([0.7], [1], 80)}
    for name, score, small in (("north", 0.6, why), ("south", 0.8, "")):
        lines = Score([score], [1], 40, (), small)
        table[area._replace(client=name)] = lines
        table[area._replace(attribute="site", group=name)] = lines
    clients = {name: Client("clean", "own") for name in ("north", "south")}
    return RunScores(**ABOUT, clients=clients, table=table)


def test_few_images_of_a_class_decide_gaps_scaled_scores_and_spreads_over_clients():
    area = "auc_ovo_macro"
    result = doubtful([of_two_hospitals("2 images of ill")], [area], "last5")
    expected = [
        f"site gap {area}",
        f"site worst group {area}",
        f"site ES-AUC ({area})",
        f"std among clients {area}",
        f"worst among clients {area}",
    ]
    assert result == expected
    assert doubtful([of_two_hospitals("")], [area], "last5") == []


def test_the_sentences_name_few_images_of_a_class_in_all_images_and_in_groups():
    scores = of_two_hospitals("2 images of ill")
    scores.table[Where("clean", metric="auc_ovo_macro")].small = "5 images of ill"
    assert unreliable_groups(scores) == [
        "few test images: 5 images of ill; intervals may be too narrow, and p too small",
        "groups of few test images: site north (2 images of ill)",
    ]
    assert unreliable([scores], clients=True) == (
        "† not reliable: site north (2 images of ill), client north (2 images of ill)."
    )


MISSING_CLASSES = [
    (["ill", "well"], (0,), "has no test image of ill: it has no AUC"),
    (["ill", "odd", "well"], (0,), "has no test image of ill: its AUC covers 2 of 3 classes"),
    (["ill", "odd", "well"], (0, 1), "has no test image of ill or odd: it has no AUC"),
]


@pytest.mark.parametrize(("classes", "missing", "consequence"), MISSING_CLASSES)
def test_a_group_with_one_class_alone_has_no_auc(classes, missing, consequence):
    assert _of_north(of_two_hospitals("no image of ill"), classes, missing) == [
        f"site north {consequence}"
    ]


def test_a_label_that_all_images_of_a_group_have_is_not_said_to_be_of_none():
    """Nor is the group said to have no AUC, where it has those of other labels."""
    scores = of_two_hospitals("no AUC of ill")
    scores.table[Where("clean", metric="auc", label="odd")] = Score([0.7], [1], 80)
    assert _of_north(scores, ["ill", "odd", "well"], (0,)) == [
        "site north has no AUC of ill: its mean covers 2 of 3 labels"
    ]


def _of_north(scores, classes, missing):
    """The sentences on the groups, where north lacks these of the classes."""
    scores = replace(scores, classes=classes)
    lines = [line for line in scores.table if line.group == "north"]
    for line in lines:
        scores.table[line] = replace(scores.table[line], missing=missing)
    return unreliable_groups(scores)


def test_a_worst_group_is_named_with_its_doubt_and_of_equal_ones_none(tmp_path):
    def said(scores):
        return [*worst_groups(Scored(tmp_path / "scores.json", {}, scores))]

    begin = "worst group by site on clean images, last round: north, 60.0 % AUC, one-vs-one; gap 20.0 points"
    assert said(of_two_hospitals("")) == [begin]
    assert said(of_two_hospitals("2 images of ill")) == [f"{begin} (not reliable)"]
    scores = of_two_hospitals("")
    for line in [line for line in scores.table if line.group]:
        scores.table[line] = replace(scores.table[line], values=[0.7])
    assert said(scores) == [
        "no group by site on clean images, last round, scores lower than another: 70.0 % AUC, one-vs-one"
    ]
