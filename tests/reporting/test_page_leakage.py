"""Tables and sentences of an audit, from a body with numbers made by hand."""

import copy

import pytest
from report_tables import texts

from fedcli.reporting.page import leakage
from fedcli.scores.audit.membership import ALONE, EQUAL_MIX


def share(value, low=None, high=None):
    return {"value": value, "low": low, "high": high}


MEMBERS = {
    "attack": "loss",
    "attribute": "",
    "group": "",
    "members": 120,
    "held_out": 60,
    "small": False,
    "allowed": None,
    "numbers": {
        "auc": share(0.61, 0.55, 0.67),
        EQUAL_MIX: share(0.52, 0.45, 0.59),
        ALONE: share(0.6),
        "advantage": share(0.1, 0.02, 0.2),
    },
}
HOSPITAL = {
    "of": "answers",
    "hospitals": 3,
    "count": 90,
    "accuracy": share(0.7, 0.6, 0.8),
    "by_class": share(0.65),
    "chance": 1 / 3,
    "within": {"accuracy": share(0.5, 0.4, 0.6), "chance": 0.35},
}
SOURCE = {
    "server": "each hospital's model",
    "attribute": "",
    "group": "",
    "small": False,
    "images": 80,
    "own": share(0.6, 0.5, 0.7),
    "others": share(0.3, 0.2, 0.4),
    "difference": share(0.3, 0.1, 0.5),
}
INVERSION = {
    "client": "east",
    "blind": [10.0, 12.0],
    "blind_by_class": [11.0, 11.5],
    "models": [{"model": "last", "distance": 0.1234, "psnr": [10.5, 12.5]}],
}


@pytest.fixture
def body():
    parts = {
        "shared_tests": False,
        "membership": [MEMBERS],
        "hospital": [HOSPITAL],
        "inversion": INVERSION,
    }
    return copy.deepcopy(parts)


def names(table):
    return [column.name for column in table.columns]


def test_an_audit_has_a_table_of_each_question(body):
    titles = [table.title for table in leakage.tables(body, "FedAvg")]
    assert titles == [
        "Is an image one of the training images? By loss, FedAvg",
        "Of which hospital is it?, FedAvg",
        "An image rebuilt from a gradient of east, FedAvg",
    ]


def test_the_table_of_an_attack_has_the_numbers_that_it_measured(body):
    table = next(leakage.tables(body))
    heads = ["images of", "training", "held out", "AUC", "AUC at equal class mix"]
    assert names(table) == [*heads, "AUC by class alone", "advantage"]
    (line,) = texts(table)
    assert line[:4] == ["all", "120", "60", "61.0 (55.0 to 67.0)"]
    assert line[5] == "60.0"
    assert table.legend == leakage.LEGEND


def test_a_group_of_few_images_is_in_doubt_and_lacks_what_it_did_not_measure(body):
    numbers = {"auc": share(0.7, 0.4, 0.9)}
    group = {"attribute": "sex", "group": "f", "small": True, "numbers": numbers}
    body["membership"].append(MEMBERS | group)
    table = next(leakage.tables(body))
    line = table.rows[1]
    assert line[0].text == "sex f"
    assert line[3].doubtful
    assert line[4].text == "-"


def test_shared_test_images_are_said_below_the_table(body):
    body["shared_tests"] = True
    assert next(leakage.tables(body)).legend.endswith("look like membership.")


def test_each_attack_has_a_table_of_its_own(body):
    body["membership"].append(MEMBERS | {"attack": "shadow"})
    titles = [table.title for table in leakage.tables(body)]
    assert titles[:2] == [
        "Is an image one of the training images? By loss",
        "Is an image one of the training images? By shadow",
    ]


def test_the_bound_of_differential_privacy_has_a_table(body):
    bound = {"epsilon": 8.0, "auc": 0.9, "advantage": 0.8}
    body["membership"][0]["allowed"] = bound
    _, table, *_ = leakage.tables(body)
    assert table.title == "At most, by differential privacy"
    assert names(table) == ["images of", "epsilon", "AUC", "advantage"]
    assert texts(table) == [["all", "8", "90.0", "80.0"]]
    assert table.legend == leakage.ALLOWED


def test_the_bound_of_a_group_is_not_one_of_differential_privacy(body):
    bound = {"epsilon": 8.0, "auc": 0.9}
    body["membership"].append(MEMBERS | {"attribute": "sex", "group": "f", "allowed": bound})
    assert not list(leakage._allowed(body["membership"], ""))


def test_the_probe_of_hospitals_has_a_line(body):
    _, table, _ = leakage.tables(body)
    (line,) = texts(table)
    assert line[:3] == ["answers", "3", "90"]
    assert line[3:6] == ["70.0 (60.0 to 80.0)", "65.0", "33.3"]
    assert line[6:] == ["50.0 (40.0 to 60.0)", "35.0"]


def test_a_probe_without_a_class_at_two_hospitals_has_dashes(body):
    body["hospital"][0]["within"] = None
    _, table, _ = leakage.tables(body)
    assert texts(table)[0][6:] == ["-", "-"]


def test_rebuilt_images_have_a_line_for_each_model_and_guess(body):
    *_, table = leakage.tables(body)
    assert names(table) == ["from the gradient at the", "distance", "image 1", "image 2"]
    expected = [
        ["last model", "0.123", "10.5", "12.5"],
        ["mean image", "-", "10.0", "12.0"],
        ["mean image of its class", "-", "11.0", "11.5"],
    ]
    assert texts(table) == expected


def test_a_model_that_rebuilt_fewer_images_has_dashes(body):
    body["inversion"]["models"][0]["psnr"] = [10.5]
    del body["inversion"]["blind_by_class"]
    *_, table = leakage.tables(body)
    assert texts(table)[0] == ["last model", "0.123", "10.5", "-"]
    assert len(table.rows) == 2


def test_the_sentences_say_what_the_tables_show(body):
    body["caution"] = "Few images."
    caution, membership, hospital, gradient = leakage.sentences(body, "FedAvg")
    assert caution == "FedAvg: Few images."
    assert membership == (
        "FedAvg: Membership by loss: training images differ from held-out ones, AUC 61.0 (55.0 to 67.0); with the "
        "same mix of classes in both 52.0 (45.0 to 59.0), not significantly more than the mix of classes reveals"
    )
    assert hospital == (
        "FedAvg: From answers the hospital is recognised in 70.0 (60.0 to 80.0) %, and within a class in 50.0 (40.0 "
        "to 60.0) %, where chance is 35.0 %: they reveal more than the case mix"
    )
    assert gradient == (
        "FedAvg: Gradient of the last model: 1 of 2 rebuilt images nearer to their originals than the mean image "
        "and the mean image of their class"
    )


def test_an_attack_without_an_interval_has_no_sentence(body):
    body["membership"][0]["numbers"]["auc"]["low"] = None
    body["hospital"] = []
    body["inversion"] = None
    assert not list(leakage.sentences(body))
    assert len(list(leakage.tables(body))) == 1


def test_an_attack_no_better_than_chance_is_said_to_be_so():
    numbers = {"auc": share(0.52, 0.45, 0.6)}
    sentence = leakage._membership(numbers)
    assert sentence == (
        "training images do not differ significantly from held-out ones, AUC 52.0 (45.0 to 60.0)"
    )


def test_held_out_images_that_are_taken_for_training_images_are_said_to_differ():
    """So it may be where the held-out images are of other hospitals."""
    numbers = {"auc": share(0.3, 0.2, 0.4)}
    sentence = leakage._membership(numbers)
    assert sentence == (
        "training images differ from held-out ones, which the attack takes for training images "
        "more often, AUC 30.0 (20.0 to 40.0)"
    )


def test_an_older_audit_of_hospitals_says_that_it_is():
    row = {name: value for name, value in HOSPITAL.items() if name != "within"}
    sentence = leakage._hospital(row)
    assert sentence.endswith(f"70.0 (60.0 to 80.0) %; {leakage.OLDER}")


def test_an_older_audit_of_gradients_is_against_the_mean_image_alone():
    older = {"blind": [10.0, 12.0]}
    sentence = leakage._inversion([11.0, 13.0], older)
    assert sentence == "2 of 2 rebuilt images nearer to their originals than the mean image"


def test_the_source_of_an_image_has_a_line_for_each_server_and_part(body):
    small = SOURCE | {"attribute": "client", "group": "east", "small": True}
    body["source"] = [SOURCE, small]
    *_, table, _ = leakage.tables(body)
    assert names(table) == leakage.SOURCE_HEADS
    whole = ["each hospital's model", "all", "80", "60.0 (50.0 to 70.0)"]
    assert texts(table)[0] == [*whole, "30.0 (20.0 to 40.0)", "30.0 (10.0 to 50.0)"]
    assert texts(table)[1][1] == "client east"
    assert table.rows[1][3].doubtful


@pytest.mark.parametrize(("low", "verdict"), [(0.1, "more"), (-0.1, "not significantly more")])
def test_the_source_is_compared_with_what_the_class_reveals(body, low, verdict):
    row = SOURCE | {"difference": share(0.3, low, 0.5)}
    body["source"] = [row, row | {"attribute": "sex", "group": "male"}]
    *_, sentence, _ = leakage.sentences(body)
    assert sentence == (
        "From each hospital's model a hospital is named for 60.0 (50.0 to 70.0) % of its training images and 30.0 "
        f"(20.0 to 40.0) % of others' with the same class: {verdict} than the class reveals"
    )
