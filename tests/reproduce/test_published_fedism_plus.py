"""Rules that the numbers which FedISM+ prints must keep to, so that a slip in ours or theirs shows."""

import published_numbers
import pytest

METRICS = "balanced accuracy", "AUC ovo macro"
AVERAGE = "mean, std of AUC ovo macro among clients"  # the last column of Table IV
SHARE = (
    (0.2 * 0.8) ** 0.5
)  # the standard deviation of two values a fifth and four fifths of the clients have, over their gap
ROUNDED = 0.005 + SHARE * 0.01 + 1e-9  # of a printed cell and of both ends of the gap


def rows(table: str) -> dict[str, dict[str, dict[str, float]]]:
    return published_numbers.rows(f"fedism-plus-{table}")


@pytest.mark.parametrize(
    ("table", "kinds"),
    [("table1", [""]), ("table2", ["noise ", "blur "]), ("table3", ["noise ", "blur "])],
)
def test_an_average_is_the_mean_of_clean_and_corrupted(table, kinds):
    for cells in rows(table).values():
        for kind in kinds:
            for metric in METRICS:
                clean, corrupted, average = (
                    cells[f"{kind}{version} {metric}"]["mean"]
                    for version in ("clean", "corrupted", "average")
                )
                result = abs(average - (clean + corrupted) / 2)
                assert result <= 0.01 + 1e-9


def test_the_delta_columns_are_differences_to_fedavg():
    base = rows("table1")["FedAvg"]
    differences = 0
    for name, cells in rows("table1").items():
        for column in [column for column in cells if not column.endswith("less FedAvg")]:
            printed = cells.get(f"{column} less FedAvg")
            assert (printed is None) == (name == "FedAvg")
            if printed:
                differences += 1
                expected = pytest.approx(cells[column]["mean"] - base[column]["mean"], abs=1e-9)
                assert printed["mean"] == expected
    assert differences == 30


def gap(variant: str, column: str) -> float:
    """Clean less corrupted AUC of Tables II and III, for a column of Table IV."""
    table = "table2" if column.startswith("ICH") else "table3"
    kind = column.split()[1].rstrip(",")
    cells = rows(table)[variant]
    return abs(
        cells[f"{kind} clean AUC ovo macro"]["mean"]
        - cells[f"{kind} corrupted AUC ovo macro"]["mean"]
    )


def test_the_spread_among_clients_is_the_gap_of_the_auc_rescaled_but_for_agnostic_fl():
    by_name = {}
    for method, cells in rows("table4").items():
        for column in cells.keys() - {AVERAGE}:
            difference = cells[column]["mean"] - SHARE * gap(method, column)
            by_name[method, column] = abs(difference) <= ROUNDED
    assert len(by_name) == 32
    assert sum(by_name.values()) == 28
    result = {method for (method, _), holds in by_name.items() if not holds}
    assert result == {"Agnostic-FL"}
    agnostic = rows("table4")["Agnostic-FL"]
    for _, column in by_name:  # a gap that changes its sign between rounds
        assert agnostic[column]["mean"] > SHARE * gap("Agnostic-FL", column)


def test_the_printed_average_is_the_mean_of_the_four_columns():
    whole = [cells for cells in rows("table4").values() if AVERAGE in cells]
    assert len(whole) == 7
    for cells in whole:
        means = [cell["mean"] for column, cell in cells.items() if column != AVERAGE]
        result = abs(cells[AVERAGE]["mean"] - sum(means) / 4)
        assert result <= 0.01 + 1e-9
    parts = [
        cell["mean"]
        for row in ("FedISM+ (S)", "FedISM+ (L)")
        for cell in rows("table4")[row].values()
    ]
    result = abs(sum(parts) / 4 - 1.39)
    assert result <= 0.01


def test_the_row_fedism_plus_takes_the_better_variant_of_each_column():
    printed = {}
    for method in ("FedISM+ (S)", "FedISM+ (L)"):
        for column, cell in rows("table4")[method].items():
            printed[column] = (method, cell["mean"])
    result = {column.split(",")[0]: method[-2] for column, (method, _) in printed.items()}
    expected = {
        "ICH noise": "S",
        "ICH blur": "S",
        "ISIC blur": "S",
        "ISIC noise": "L",
    }
    assert result == expected
    for column, (method, mean) in printed.items():
        other = {"FedISM+ (S)": "FedISM+ (L)", "FedISM+ (L)": "FedISM+ (S)"}[method]
        assert SHARE * gap(other, column) > mean + ROUNDED


def test_the_ablation_repeats_rows_of_the_main_table():
    for method in ("FedAvg", "FedISM+ (S)", "FedISM+ (L)"):
        main = {
            c.removeprefix("noise "): cell
            for c, cell in rows("table2")[method].items()
            if c.startswith("noise ")
        }
        result = {c: cell for c, cell in rows("table1")[method].items() if "less FedAvg" not in c}
        assert result == main


def test_the_printed_megabytes_are_a_network_with_a_thousand_classes():
    numbers = 11_176_512 + 513 * 1000  # ResNet-18 without its classifier, and that
    result = rows("table5")["FedAvg"]["to a client"]["mean"]
    expected = pytest.approx(numbers * 4 / 1e6)
    assert result == expected
    result = round(numbers * 4 / 2**20, 2)
    assert result == 44.59  # as printed
    extra = (
        rows("table5")["FedISM+ (S)"]["from a client"]["mean"]
        - rows("table5")["FedAvg"]["from a client"]["mean"]
    )
    assert extra * 1e6 == pytest.approx(4)
    result = round(1 + 4 / (2 * numbers * 4), 9)
    assert result == 1.000000043
