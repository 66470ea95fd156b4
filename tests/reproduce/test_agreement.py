"""Published numbers beside ours: intervals, the order of rows, and how it is said."""

from itertools import permutations

import numpy as np
import pytest
from made_results import a_cell, made
from scipy import stats
from scipy.stats import kendalltau

from fedcli.reproduction import record
from fedcli.reproduction.recipe import RecipeColumn
from fedcli.reproduction.shape import Printed
from fedcli.reproduction.tables import agreement, beside


def ours(*runs, **about):
    mean = float(np.mean(runs))
    return record.ResultCell(mean=mean, std=None, runs=len(runs), per_run=list(runs), **about)


@pytest.mark.parametrize(("runs", "published_runs"), [(3, 1), (3, 3), (5, 5), (2, 1)])
def test_the_interval_holds_the_mean_of_other_runs_95_times_in_100(runs, published_runs):
    rng = np.random.default_rng(0)
    cases = 4000
    mine = rng.normal(70, 2, (cases, runs))
    theirs = rng.normal(70, 2, (cases, published_runs)).mean(1)
    halves = np.array([agreement.half_width(list(scores), published_runs) for scores in mine])
    result = (abs(mine.mean(1) - theirs) <= halves).mean()
    expected = pytest.approx(0.95, abs=0.012)
    assert result == expected


def test_a_printed_number_lies_within_or_outside_by_so_much():
    half = (
        4.302653 * 1.0 * (1 / 3 + 1) ** 0.5 + 0.05
    )  # t of two degrees of freedom, s = 1, one more run; 72.0 is rounded
    for printed, verdict, beyond in (
        (72.0, "within", None),
        (76.0, "outside", 6 - half),
        (65.02, "within", None),
    ):
        published = Printed(mean=printed, digits=1)
        cell = agreement.judged(ours(69.0, 70.0, 71.0), published, scale="paper")
        assert (cell.verdict, cell.half) == (verdict, pytest.approx(half))
        assert cell.beyond == (beyond and pytest.approx(beyond))
        assert cell.difference == pytest.approx(70 - printed)
    published = Printed(mean=70.0)
    single = agreement.judged(ours(70.0), published, scale="paper")
    assert (single.verdict, single.half) == ("too few seeds", None)
    published = Printed(mean=70.0)
    result = agreement.judged(ours(70.0, 71.0), published, scale="small").verdict
    assert result == "-"
    published = Printed(mean=46.758048, digits=6)
    sure = agreement.judged(ours(44.754712), published, scale="paper", sure=True)
    expected = ("outside", pytest.approx(2.003336, abs=1e-6))
    assert (sure.verdict, sure.beyond) == expected


def test_tau_is_kendalls_and_p_is_the_share_of_orders():
    a = [1.0, 2.0, 2.0, 4.0, 5.0]
    b = [1.0, 3.0, 2.0, 5.0, 4.0]
    tau, p = agreement.tau_b(a, b)
    expected = pytest.approx(kendalltau(a, b).statistic)
    assert tau == expected
    expected = np.mean([kendalltau(a, order).statistic >= tau - 1e-9 for order in permutations(b)])
    assert p == expected
    theirs = [1.0, 2.0, 3.0]
    assert agreement.tau_b([1.0, 1.0, 1.0], theirs) is None
    long = np.random.default_rng(1).normal(size=(2, 28))
    tau, p = agreement.tau_b(*long)
    exact = kendalltau(*long, alternative="greater")
    expected = (pytest.approx(exact.statistic), pytest.approx(exact.pvalue, abs=0.02))
    assert (tau, p) == expected


def a_table(seeds=3, scale="paper"):
    column = RecipeColumn(name="acc", data="d", score="versions/clean/accuracy")
    cells = {}
    for row in range(14):
        scores = ours(*(50.0 + row + seed for seed in range(seeds)))
        mean = 51.0 + row + 20 * row
        printed = Printed(mean=mean)
        cells[f"row {row:02d}"] = agreement.judged(scores, printed, scale=scale)
    result = made(column, cells, scale=scale, seeds=range(seeds))
    orders = list(agreement.orders(result))
    return result.model_copy(update={"orders": orders})


def test_the_worst_ten_differences_are_listed_and_the_rest_is_counted():
    result = a_table()
    table = beside.differences(result)
    expected = [f"row {number:02d}" for number in range(13, 3, -1)]
    assert [row[0].text for row in table.rows] == expected
    assert table.legend.endswith("3 more in results.json.")
    (main_table,) = beside.main(result)
    below = [row[0].text for row in main_table.unfolded().rows[1::2]]
    expected = ["  paper 1/1"] + ["  paper 0/1"] * 13
    assert below == expected
    assert main_table.rows[0][1].below.text == "51.00"
    assert main_table.rows[1][1].below.text == "!72.00"
    inside, order = agreement.sentences([result])
    assert inside.startswith(
        "1 of 14 published numbers lie where our runs expect it, in our mean ± 4.97"
    )
    assert "tau-b with the paper's is 1.00 on average over 1 column" in order
    assert "; in 1 the order is kept" in order
    orders = [result.orders[0].model_copy(update={"p": 0.4})]
    chance = result.model_copy(update={"orders": orders})
    assert (
        "; in none is the order kept better than a random one would"
        in agreement.sentences([chance])[1]
    )


def test_one_seed_says_that_it_is_too_few_and_lists_the_largest():
    result = a_table(seeds=1)
    assert (
        "14 published numbers have one run of ours beside them: too few seeds"
        in agreement.sentences([result])[0]
    )
    table = beside.differences(result)
    assert table.title == "Largest differences"
    assert table.rows[0][0].text == "row 13"
    smoke = a_table(scale="smoke")
    assert not agreement.sentences([smoke])
    assert not beside.differences(smoke).rows


def test_rows_at_chance_are_said_once_for_each_data():
    result = a_table()
    stuck = [row.model_copy(update={"chance": {"Digits": "why"}}) for row in result.rows]
    assert beside.at_chance(result.model_copy(update={"rows": stuck})) == [
        "May be no better than chance on Digits: every row. No such row is marked as the best on test images."
    ]
    rows = [*stuck[:2], *result.rows[2:]]
    sentences = beside.at_chance(result.model_copy(update={"rows": rows}))
    assert sentences == [
        "May be no better than chance on Digits: row 00; row 01. No such row is marked as the best on test images."
    ]


def test_a_table_in_which_no_cell_has_a_number_is_written_too():
    column = RecipeColumn(name="acc", data="d", score="versions/clean/accuracy")
    results = made(column, {"FedAvg": a_cell(None)})
    assert beside.main(results) == []
    assert "tabular" not in beside.latex(results)
    assert "## What ran" in beside.markdown(results)


def test_a_printed_deviation_over_runs_makes_the_interval_of_welchs_test():
    runs = [68.0, 70.0, 73.0]
    equal = np.std(runs, ddof=1)
    # of equal deviations and counts f is 2 (n - 1)
    expected = stats.t.ppf(0.975, 4) * equal * (2 / 3) ** 0.5
    assert agreement.half_width(runs, 3, equal) == pytest.approx(expected)
    width = agreement.half_width(runs, 5, 0.4)
    test = stats.ttest_ind_from_stats(60 + width, equal, 3, 60, 0.4, 5, equal_var=False)
    assert test.pvalue == pytest.approx(0.05)
    assert agreement.half_width([1.0, 1.0], 5, 0.0) == 0
    assert agreement.half_width(runs, 1, 2.0) == agreement.half_width(runs, 1)


def test_a_deviation_that_is_not_over_runs_alone_is_not_welchs():
    published = Printed(mean=71.0, std=0.1, runs=3)
    over_runs = agreement.judged(ours(69.0, 70.0, 72.0), published, scale="paper", spread="runs")
    pooled = agreement.judged(ours(69.0, 70.0, 72.0), published, scale="paper", spread="pooled")
    none = agreement.judged(
        ours(69.0, 70.0, 72.0), Printed(mean=71.0, runs=3), scale="paper", spread="runs"
    )
    assert over_runs.half < pooled.half == none.half
