"""Options named behind a label in a table's row."""

from fedcli.reporting.rows import unlike

PLAIN = {"sampling": "shuffle", "seed": 0}
DRAWN = {"sampling": "group-class:sex", "seed": 0}


def test_an_option_that_the_label_has_is_not_said_again():
    every = [PLAIN, DRAWN, {**PLAIN, "seed": 1}]
    assert unlike("FedAvg, sampling group-class:sex", DRAWN, every, every, [DRAWN]) == []
    assert unlike("FedAvg", DRAWN, every, every, [DRAWN]) == ["sampling=group-class:sex"]
    weights = [{"class_weights": "balanced"}, {"class_weights": "none"}]
    assert unlike("FedAvg, balanced class weights", weights[0], weights, weights) == []


def test_a_seed_is_said_where_rows_of_one_label_have_others_and_not_beside_a_number_of_seeds():
    rows = [PLAIN, {**PLAIN, "seed": 1}]
    result = unlike("FedAvg", rows[1], rows, [PLAIN, *rows], rows)
    assert result == ["seed=1"]
    result = unlike("FedAvg", rows[1], rows, [PLAIN, *rows], None)
    assert result == []
    outcome = unlike("FedAvg", PLAIN, rows, [PLAIN, *rows], [PLAIN])
    assert outcome == []


def test_an_option_that_most_rows_share_is_not_said():
    every = [{"rounds": 5}, {"rounds": 5}, {"rounds": 9}]
    outcome = unlike("MOON", every[0], [every[0]], every)
    assert outcome == []
    result = unlike("MOON", every[2], [every[2]], every)
    assert result == ["rounds=9"]
