import json

import numpy as np
import pytest

from fedcli.evaluation.groups import equity_scaled, group_scores, spread
from fedcli.evaluation.metrics import score

# chance of class 1, label, group: the women are ranked perfectly, the men no better than by a coin
WOMEN = [(0.9, 1, 0), (0.1, 0, 0)]
MEN = [(0.3, 1, 1), (0.7, 1, 1), (0.5, 0, 1), (0.5, 0, 1)]


def grouped(rows, values=("female", "male")):
    chance, y, groups = (np.array(column) for column in zip(*rows, strict=True))
    return group_scores(np.log(np.stack([1 - chance, chance], 1)), y, groups, list(values))


def test_the_equity_scaled_auc_by_hand():
    # all: .9 wins 3, .3 wins 1, .7 wins 3 of 3 each: 7/9; women 1, men 2/4
    found = grouped(WOMEN + MEN)
    assert found["overall"]["auc_ovo_macro"] == pytest.approx(7 / 9)
    assert [found["groups"][g]["auc_ovo_macro"] for g in ("female", "male")] == [1, 0.5]
    assert found["es_auc_ovo_macro"] == pytest.approx((7 / 9) / (1 + 2 / 9 + 5 / 18))


def test_worst_best_gap_and_population_std_by_hand():
    between = grouped(WOMEN + MEN)["between"]
    assert between["auc_ovo_macro"] == {
        "worst": {"group": "male", "score": 0.5},
        "best": {"group": "female", "score": 1.0},
        "gap": 0.5,
        "std": 0.25,
    }
    assert set(between) == {"balanced_accuracy", "auc_ovo_macro", "accuracy"}
    # men: argmax gives 0 1 0 0 for 1 1 0 0, where the tie at .5 goes to class 0
    assert between["accuracy"]["worst"] == {"group": "male", "score": 0.75}


def test_an_unknown_group_counts_in_the_overall_and_is_no_group():
    found = grouped([*WOMEN, *MEN, (0.05, 1, -1)])
    assert found["unknown"] == 1
    assert list(found["groups"]) == ["female", "male"]
    assert found["overall"]["count"] == 7
    assert found["overall"]["auc_ovo_macro"] == pytest.approx(7 / 12)
    assert found["es_auc_ovo_macro"] == pytest.approx((7 / 12) / (1 + 5 / 12 + 1 / 12))


def test_a_group_of_one_class_is_shown_with_its_count_and_takes_no_part():
    found = grouped([*WOMEN, *MEN, (0.2, 0, 2), (0.4, 0, 2)], ["female", "male", "other"])
    other = found["groups"]["other"]
    assert (other["count"], other["auc_ovo_macro"], other["accuracy"]) == (2, None, 1)
    assert other["small"]
    assert other["reason"] == "2 images, fewer than 30; no image of class 1"
    assert found["between"]["auc_ovo_macro"]["worst"]["group"] == "male"
    assert found["between"]["auc_ovo_macro"]["gap"] == 0.5
    overall = found["overall"]["auc_ovo_macro"]
    assert found["es_auc_ovo_macro"] == pytest.approx(overall / (1 + abs(overall - 1) + abs(overall - 0.5)))


def test_a_value_nobody_has_is_shown_with_no_image():
    nobody = grouped(WOMEN + MEN, ["female", "male", "other"])["groups"]["other"]
    assert nobody["count"] == 0
    assert nobody["accuracy"] is None
    assert nobody["small"]
    assert grouped(WOMEN + MEN, ["female", "male", "other"])["between"] == grouped(WOMEN + MEN)["between"]


@pytest.mark.parametrize("rows", [WOMEN, [*WOMEN, (0.5, 1, 1)]])
def test_with_one_defined_group_there_is_nothing_to_compare(rows):
    found = grouped(rows)
    assert found["between"]["auc_ovo_macro"] == {"worst": None, "best": None, "gap": None, "std": None}
    assert found["es_auc_ovo_macro"] is None
    json.dumps(found, allow_nan=False)


def test_no_image_at_all_gives_no_number():
    found = group_scores(np.zeros((0, 2)), np.zeros(0, int), np.zeros(0, int), ["female", "male"])
    assert found["es_auc_ovo_macro"] is None
    assert found["unknown"] == 0
    assert spread({})["gap"] is None


def test_a_group_is_small_below_thirty_images_and_says_so():
    balanced = [(0.9, 1, 0), (0.1, 0, 0)] * 15
    assert grouped(balanced)["groups"]["female"]["small"] is False
    assert grouped(balanced)["groups"]["female"]["reason"] == ""
    assert grouped(balanced[:-1])["groups"]["female"]["reason"] == "29 images, fewer than 30"


def test_a_group_without_images_says_that_and_no_list_of_classes():
    empty = grouped([*WOMEN, *MEN], ["female", "male", "other"])["groups"]["other"]
    assert (empty["count"], empty["small"], empty["reason"]) == (0, True, "has no test image")


def test_a_class_that_a_group_lacks_is_named():
    y, groups = np.array([0, 1, 2] * 20 + [0, 1] * 20), np.array([0] * 60 + [1] * 40)
    logits = np.zeros((100, 3))
    assert group_scores(logits, y, groups, ["a", "b"])["groups"]["b"]["reason"] == "no image of class 2"
    named = group_scores(logits, y, groups, ["a", "b"], classes=["mel", "nv", "df"])
    assert named["groups"]["b"]["reason"] == "no image of df"
    assert named["groups"]["a"]["reason"] == ""


def test_a_class_that_the_whole_test_set_lacks_makes_no_group_small():
    rng = np.random.default_rng(0)
    y, groups = np.arange(120) % 2, np.arange(120) // 60
    found = group_scores(rng.normal(size=(120, 3)), y, groups, ["female", "male"])
    assert found["overall"]["classes_missing"] == [2]
    assert not any(group["small"] for group in found["groups"].values())


def test_each_group_has_every_score_of_its_own_images():
    rng = np.random.default_rng(0)
    logits, y, groups = rng.normal(size=(300, 4)), rng.integers(0, 4, 300), rng.integers(-1, 3, 300)
    found = group_scores(logits, y, groups, ["a", "b", "c"])
    own = score(logits[groups == 1], y[groups == 1])
    assert {name: found["groups"]["b"][name] for name in own} == own
    assert found["overall"] == score(logits, y)


def test_equal_groups_cost_nothing_and_distance_always_costs():
    assert equity_scaled(0.8, {"a": 0.8, "b": 0.8}) == 0.8
    assert equity_scaled(0.8, {"a": 0.9, "b": 0.7}) == pytest.approx(0.8 / 1.2)
    assert equity_scaled(None, {"a": 0.9, "b": 0.7}) is None
