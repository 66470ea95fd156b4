"""Rules that the numbers which FairFedMed prints must keep to, and the cells in which they do not."""

import pytest
from published_numbers import means
from score_json import equity_scaled

GROUPS = {
    "race": ("asian", "black", "white"),
    "language": ("english", "spanish", "other"),
    "ethnicity": ("non-hispanic", "hispanic"),
}
METHODS = "FedAvg", "FedHEAL", "PromptFL", "FedOTP", "FairLoRA"
CLIENTS = "C1", "C2", "C3"
ODD_ES = {  # (table, method, attribute, client): printed, from the printed AUCs
    (1, "FedAvg", "race", "C2"): (66.3, 66.0),
    (1, "FedHEAL", "language", "C3"): (58.3, 58.6),
    (1, "FedOTP", "ethnicity", "C1"): (64.7, 67.4),
    (1, "FedOTP", "ethnicity", "C2"): (66.5, 69.4),
    (1, "FedOTP", "ethnicity", "C3"): (59.5, 66.8),
    (3, "FedAvg", "ethnicity", "C3"): (67.3, 68.6),
    (3, "FedHEAL", "ethnicity", "C2"): (72.0, 73.8),
}
ODD_AVERAGES = {
    (1, "FedAvg", "race", "ES-AUC"): (67.8, 67.3),
    (1, "FedAvg", "race", "black AUC"): (70.7, 70.57),
    (1, "FedAvg", "ethnicity", "hispanic AUC"): (69.3, 69.17),
    (2, "FedAvg", "race", "black AUC"): (73.0, 73.93),
    (3, "FedAvg", "ethnicity", "non-hispanic AUC"): (75.5, 74.67),
    (3, "FedHEAL", "ethnicity", "hispanic AUC"): (81.4, 83.07),
}


def read(name: str) -> dict[tuple[str, str], float]:
    """(row, column) -> mean."""
    return {
        (row, column): mean
        for row, cells in means(f"fairfedmed-{name}").items()
        for column, mean in cells.items()
    }


TABLES = {number: read(f"table{number}") for number in (1, 2, 3, 4)}


def printed(table: int, method: str, attribute: str, rest: str) -> float:
    """The number of a client or of the average; rest: for example "C1 ES-AUC"."""
    return TABLES[table][method, f"{attribute} {rest}"]


def test_es_auc_follows_from_the_group_aucs_in_173_of_180_cells():
    odd = {}
    cells = 0
    for table in TABLES:
        for method in METHODS:
            for attribute, groups in GROUPS.items():
                for client in CLIENTS:
                    group_aucs = [
                        printed(table, method, attribute, f"{client} {group} AUC") / 100
                        for group in groups
                    ]
                    whole = printed(table, method, attribute, f"{client} AUC") / 100
                    scores = dict(zip(groups, group_aucs, strict=True))
                    result = 100 * equity_scaled(whole, scores)
                    expected = printed(table, method, attribute, f"{client} ES-AUC")
                    cells += 1
                    if abs(result - expected) > 0.25:
                        odd[table, method, attribute, client] = (
                            expected,
                            pytest.approx(result, abs=0.051),
                        )
    assert (cells, len(odd)) == (180, 7)
    assert odd == ODD_ES


def test_an_average_is_the_mean_of_the_clients_but_in_six_cells():
    odd = {}
    for table in TABLES:
        for method in METHODS:
            for attribute, groups in GROUPS.items():
                for kind in ("AUC", "ES-AUC", *(f"{group} AUC" for group in groups)):
                    expected = printed(table, method, attribute, f"Avg {kind}")
                    result = (
                        sum(
                            printed(table, method, attribute, f"{client} {kind}")
                            for client in CLIENTS
                        )
                        / 3
                    )
                    if abs(result - expected) > 0.1 + 1e-9:
                        odd[table, method, attribute, kind] = (
                            expected,
                            pytest.approx(result, abs=0.0051),
                        )
    assert odd == ODD_AVERAGES


def test_a_gain_is_over_the_best_other_method_but_in_one_cell():
    odd = {}
    cells = 0
    for table in TABLES:
        for attribute, groups in GROUPS.items():
            for kind in ("AUC", "ES-AUC", *(f"{group} AUC" for group in groups)):
                *others, fairlora = (
                    printed(table, method, attribute, f"Avg {kind}") for method in METHODS
                )
                gain = printed(table, "FairLoRA", attribute, f"Delta Avg {kind}")
                cells += 1
                if fairlora - max(others) != pytest.approx(gain, abs=0.051):
                    odd[table, attribute, kind] = (
                        gain,
                        pytest.approx(fairlora - max(others), abs=0.051),
                    )
    assert cells == 56
    expected = {(1, "race", "asian AUC"): (0.1, -1.0)}
    assert odd == expected


def test_table_3_repeats_fairloras_numbers_on_race_from_table_1():
    race = [column for row, column in TABLES[1] if row == "FairLoRA" and column.startswith("race")]
    assert len(race) == 25
    race = [column for column in race if "Delta" not in column]  # to others than in Table 1
    for column in race:
        expected = TABLES[1]["FairLoRA", column]
        assert TABLES[3]["FairLoRA", column] == expected
    for row in METHODS:
        if row != "FairLoRA":
            assert TABLES[3][row, "race C1 AUC"] != TABLES[1][row, "race C1 AUC"]


def test_every_published_column_is_there():
    result = {len({column for _, column in table}) for table in TABLES.values()}
    assert result == {70}


def test_figure_5_speaks_of_table_2():
    contents = read("figure5")
    for kind in ("AUC", "ES-AUC"):
        result = contents["FairLoRA", f"Avg {kind}"]
        expected = printed(2, "FairLoRA", "race", f"Avg {kind}")
        assert result == expected
        result = contents["PromptFL", f"Avg {kind}"]
        expected = pytest.approx(printed(2, "PromptFL", "race", f"Avg {kind}"), abs=1)
        assert result == expected
