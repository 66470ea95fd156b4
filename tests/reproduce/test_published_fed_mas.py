"""Rules that the numbers which Fed-MAS prints must keep to; All and B-acc of Table 1 are in test_shots.py."""

import json
from pathlib import Path

import published_numbers

VECTORS = Path(__file__).parents[1] / "vectors"


def rows(table: int) -> dict[str, dict[str, dict[str, float]]]:
    return published_numbers.rows(f"fed-mas-table{table}")


def means(table: int) -> dict[str, dict[str, float]]:
    return published_numbers.means(f"fed-mas-table{table}")


def test_table_1_is_the_one_whose_sums_are_tested():
    vector = json.loads((VECTORS / "fed_mas_table1.json").read_text())
    columns = "Head", "Medium", "Tail", "All", "B-acc"
    expected = {}
    for method, setting, *values in vector["rows"]:
        heading = "IID" if setting == "iid" else "non-IID"
        for column, value in zip(columns, values, strict=True):
            expected[method, f"{heading} {column}"] = value
    result = {
        (row, column): mean for row, cells in means(1).items() for column, mean in cells.items()
    }
    assert result == expected


def test_no_distillation_is_bsm_fl_so_it_has_no_weights_by_divergence_either():
    for column in ("IID B-acc", "non-IID B-acc"):
        expected = means(1)["BSM-FL"][column]
        assert means(4)["BSM-FL"][column] == expected
        expected = means(1)["Fed-MAS"][column]
        assert means(4)["Fed-MAS, lambda_f=3"][column] == expected


def test_tables_repeat_each_others_means_but_not_each_spread():
    whole = rows(1)["Fed-MAS"]["non-IID All"], rows(1)["Fed-MAS"]["non-IID B-acc"]
    expected = (rows(2)["Fed-MAS"]["All"], rows(2)["Fed-MAS"]["B-acc"])
    assert whole == expected
    assert rows(5)["MoCo-v2 RN50"]["B-acc"] == whole[1] == {"mean": 61.61, "std": 1.0}
    result = rows(6)["Fed-MAS"]["non-IID B-acc"]
    assert result == {"mean": 61.61, "std": 1.4}
    for row, row_of_table1 in {"FedAvg": "BSM-FL", "Fed-MAS": "Fed-MAS"}.items():
        result = {c: m for c, m in means(1)[row_of_table1].items() if c in means(6)[row]}
        assert result == means(6)[row]


def test_avg_is_the_mean_of_light_and_dark():
    for cells in means(3).values():
        result = abs(cells["ISIC-FL Avg"] - (cells["ISIC-FL Light"] + cells["ISIC-FL Dark"]) / 2)
        assert result <= 0.005 + 1e-9


def test_the_column_of_six_hospitals_has_the_gains_of_the_text_and_lies_by_own_models():
    column = "FLamby-ISIC B-acc, own models"
    by_name = {row: cells[column] for row, cells in means(3).items()}
    result = round(by_name["Fed-MAS"] - by_name["FedLC"], 2)
    assert result == 4.33
    result = round(by_name["Fed-MAS"] - by_name["BSM-FL"], 2)
    assert result == 2.68
    fold = means(8)
    for row, row_of_fold in {
        "FedLC": "FedLC",
        "BSM-FL": "BSM-FL",
        "Fed-MAS": "Fed-MAS, lambda_f=3",
    }.items():
        spread = rows(3)[row][column]["std"]
        assert abs(fold[row_of_fold]["pFL"] - by_name[row]) < 1.2 * spread
        assert by_name[row] - fold[row_of_fold]["gFL"] > 2.9 * spread
