"""Rules that the numbers which FedMRL prints must keep to."""

import itertools

import pytest
from published_numbers import means

ROWS = means("fedmrl-table1")
DATA = "ISIC-2018", "Messidor"
QUOTED = {  # gains in the text, "%"
    "ISIC-2018": {"FedAvg": 0.92, "FedProx": 0.81, "FedNova": 7.64, "FedBN": 2.43},
    "Messidor": {"FedAvg": 3.59, "FedProx": 1.43, "FedNova": 13.65, "FedBN": 3.59},
}


def printed(row: str, data: str) -> dict[str, float]:
    return {name: ROWS[row][f"{data} {name}"] for name in ("ACC", "AUC", "Pre", "Recall", "F1")}


@pytest.mark.parametrize("data", DATA)
def test_f1_is_of_the_printed_precision_and_recall_in_every_row(data):
    for row in ROWS:
        result = printed(row, data)
        harmonic = 2 / (1 / result["Pre"] + 1 / result["Recall"])
        expected = pytest.approx(harmonic, abs=0.011)
        assert result["F1"] == expected


def test_weighted_recall_is_accuracy_but_in_two_rows():
    odd = set()
    for row, data in itertools.product(ROWS, DATA):
        numbers = printed(row, data)
        if numbers["Recall"] != numbers["ACC"]:
            odd.add((row, data))
    assert odd == {("FedProx", "ISIC-2018"), ("FedMRL", "ISIC-2018")}


@pytest.mark.parametrize("data", DATA)
def test_quoted_gains_are_parts_of_its_own_score_and_no_points(data):
    fedmrl = printed("FedMRL", data)["ACC"]
    for row, gain in QUOTED[data].items():
        points = fedmrl - printed(row, data)["ACC"]
        expected = pytest.approx(gain, abs=0.015)
        assert 100 * points / fedmrl == expected
        assert abs(points - gain) > 0.2


def test_messidor_accuracies_are_of_240_images():
    for row in ROWS:
        hits = printed(row, "Messidor")["ACC"] * 2.4
        assert abs(hits - round(hits)) < 0.024  # a printed digit, cut or rounded


def test_fedmrl_has_the_lowest_auc_on_isic():
    result = min(ROWS, key=lambda row: printed(row, "ISIC-2018")["AUC"])
    assert result == "FedMRL"
