"""The shape of a paper's table."""

import re
from pathlib import Path

import pytest
from made_results import UNMARKED, a_cell, made
from tiny_recipe import TINY, write

from fedcli.errors import UsageError
from fedcli.reporting.table import number as number_of
from fedcli.reproduction import recipe
from fedcli.reproduction.recipe import RecipeColumn
from fedcli.reproduction.shape import Printed, PrintedLayout
from fedcli.reproduction.tables import layout
from fedcli.reproduction.tables.agreement import FEW, OUTSIDE, UNKNOWN, WITHIN

VERDICTS = WITHIN, OUTSIDE, FEW, UNKNOWN


NAMES_WITH_WORDS = [
    ("race Delta Avg AUC", ("Avg", "Delta Avg"), "race AUC", "Delta Avg"),
    ("non-IID Head", ("IID", "non-IID"), "Head", "non-IID"),
    ("ICH noise, std of AUC", ("ICH",), "noise, std of AUC", "ICH"),
    ("FedISM, ratio=0.3", ("ratio=0.3",), "FedISM", "ratio=0.3"),
    ("Average AUC", ("Avg",), "Average AUC", ""),
    ("mean", ("mean",), "", "mean"),
]


@pytest.mark.parametrize(
    ("name", "words", "rest", "word"),
    NAMES_WITH_WORDS,
)
def test_a_word_is_taken_from_a_name_as_a_whole(name, words, rest, word):
    assert layout.without_word(name, words) == (rest, word)


def numbers(names, rows, published):
    """Results of these columns and rows; published: "row|column" of those that the paper has."""
    columns = [RecipeColumn(name=name, data="d", score="versions/clean/accuracy") for name in names]
    result = made(columns[0], dict.fromkeys(rows, a_cell(1.0)))
    made_rows = []
    for row_index, row in enumerate(result.rows):
        cells = {}
        for column_index, name in enumerate(names):
            printed = Printed(mean=1.0) if f"{row.name}|{name}" in published else None
            mean = 10.0 * row_index + column_index
            cells[name] = a_cell(mean, published=printed)
        made_rows.append(row.model_copy(update={"cells": cells}))
    update = {"columns": columns, "rows": made_rows, "marks": dict.fromkeys(names, UNMARKED)}
    return result.model_copy(update=update)


def drawn(result, **shape):
    """Title -> heads and lines of each table."""
    update = {"layout": PrintedLayout(**shape)}
    tables = layout.tables(result.model_copy(update=update), "")
    by_title = {}
    for table in tables:
        heads = [(column.over, column.name) for column in table.columns[1:]]
        lines = []
        for row in table.unfolded().rows:
            lines.append([cell.plain for cell in row])
        by_title[table.title] = (heads, lines)
    return by_title


def test_metrics_are_in_words_in_the_heads():
    names = ["clean balanced_accuracy", "average auc_ovo_macro, best round"]
    result = numbers(names, ["A"], [])
    heads, _ = drawn(result)["Scores"]
    assert heads == [("", "clean balanced accuracy"), ("", "average AUC, best round")]


def test_words_go_down_and_over_and_what_the_paper_lacks_stands_apart():
    names = ["race C1 AUC", "race C2 AUC", "race all AUC", "age C1 AUC", "age C2 AUC"]
    result = numbers(names, ["FedAvg"], {"FedAvg|race C1 AUC", "FedAvg|age C1 AUC"})
    tables = drawn(result, over=("race", "age"), down=("C1", "C2"))
    expected = (
        [("race", "AUC"), ("age", "AUC")],
        [["FedAvg, C1", "0.00", "3.00"], ["  paper", "1.00", "1.00"]],
    )
    assert tables["Ours, above the paper's"] == expected
    expected = (
        [("race", "AUC"), ("age", "AUC")],
        [["FedAvg, C2", "1.00", "4.00"]],
    )
    assert tables["Further rows"] == expected
    expected = ([("race", "all AUC")], [["FedAvg", "2.00"]])
    assert tables["Further columns"] == expected


def test_words_of_rows_go_across_and_blocks_come_first():
    result = numbers(["IID acc", "non-IID acc"], ["Fed, q=0", "Fed, q=1"], set())
    tables = drawn(result, over=("IID", "non-IID"), across=("q=0", "q=1"))
    heads = [
        ("IID", "acc, q=0"),
        ("non-IID", "acc, q=0"),
        ("IID", "acc, q=1"),
        ("non-IID", "acc, q=1"),
    ]
    expected = {"Scores": (heads, [["Fed", "0.00", "1.00", "10.00", "11.00"]])}
    assert tables == expected
    blocks = drawn(result, down=("IID", "non-IID"), outer=True)["Scores"][1]
    result = [line[0] for line in blocks]
    assert result == [
        "IID, Fed, q=0",
        "IID, Fed, q=1",
        "non-IID, Fed, q=0",
        "non-IID, Fed, q=1",
    ]


def test_rows_and_columns_change_places():
    result = numbers(["AVG", "STD"], ["a", "b"], set())
    table = drawn(result, transposed=True)["Scores"]
    expected = ([("", "a"), ("", "b")], [["AVG", "0.00", "10.00"], ["STD", "1.00", "11.00"]])
    assert table == expected


def test_a_word_that_no_name_has_is_refused(tmp_path):
    with pytest.raises(
        UsageError, match="layout: over 'acuracy' is in the name of none of the columns"
    ):
        text = TINY.replace("[data", '[layout]\nover = ["acuracy"]\n[data', 1)
        recipe.load(write(tmp_path, text))


def test_every_published_number_has_a_place_of_its_own():
    for path in recipe.names().values():
        table = recipe.load(path)
        spots = [
            layout.spot_at(table.layout, row, column)[:2]
            for row in table.rows
            for column in table.columns
            if column.name in table.numbers.get(row.name, {})
        ]
        assert len(set(spots)) == len(spots), path.stem


def test_the_papers_numbers_on_the_docs_page_are_the_published_ones():
    """Their shapes there are of smoke runs, which tests do not repeat."""
    page = (Path(__file__).parents[2] / "docs" / "published-tables.md").read_text("utf-8")
    parts = re.findall(
        r"^    fedcli reproduce (\S+) --scale smoke[^\n]*\n\n```\n(.*?)```", page, re.S | re.M
    )
    assert len(parts) == 5
    for name, text in parts:
        published = set()
        for numbers in recipe.load(recipe.find(name)).numbers.values():
            for printed in numbers.values():
                plain = number_of(printed.mean, digits=printed.digits, sign="")
                signed = number_of(printed.mean, digits=printed.digits, sign="+")
                published |= {plain.text, signed.text}
        on_page = [
            word
            for line in re.findall(r"^   paper(.*)$", text, re.M)
            for word in line.split()
            if not word.startswith("±")
        ]
        assert len(on_page) > 15, name
        assert not set(on_page) - published, name


def test_a_printed_number_outside_of_our_interval_has_the_mark_and_no_other():
    column = RecipeColumn(name="ACC", data="d", score="versions/clean/accuracy")
    published = Printed(mean=1.0)
    cells = {verdict: a_cell(9.0, published=published, verdict=verdict) for verdict in VERDICTS}
    (table,) = layout.tables(made(column, cells), "")
    printed = {row[0].plain: row[1].below.plain for row in table.rows}
    expected = {WITHIN: "1.00", OUTSIDE: "!1.00", FEW: "1.00", UNKNOWN: "1.00"}
    assert printed == expected
