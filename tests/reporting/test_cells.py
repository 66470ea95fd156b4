"""Columns and cells of tables: how values are written, and which cell of a column is the best."""

from dataclasses import replace

import pytest
from report_tables import texts
from tables_of_numbers import rows

from fedcli.reporting.table import (
    Cell,
    Column,
    ReportTable,
    Section,
    bounded,
    heads,
    number,
    percent,
)
from fedcli.scores.table import HIDDEN


@pytest.mark.parametrize(
    ("column", "title", "heading", "levels"),
    [
        (Column("runs"), "runs", "runs", ("", "runs")),
        (Column("AUC", "%"), "AUC", "AUC (%)", ("", "AUC (%)")),
        (Column("clean", "%", "AUC"), "AUC, clean", "AUC, clean (%)", ("AUC, %", "clean")),
        (Column("clean", "", "AUC"), "AUC, clean", "AUC, clean", ("AUC", "clean")),
    ],
)
def test_a_heading_has_one_part_or_two_and_its_unit_once(column, title, heading, levels):
    assert column.title == title
    assert column.heading == heading
    assert column.levels == levels


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        (Column("x"), None, "-"),
        (Column("x"), "text", "text"),
        (Column("x"), 1234567, "1,234,567"),
        (Column("x"), 0.5, "0.50"),
        (Column("x", digits=3), 0.5, "0.500"),
        (Column("x", "%"), 0.5, "50.00"),
        (Column("x", "points"), -0.125, "-12.50"),
        (Column("x", "MB"), 1.5, "1.50"),
        (Column("x", "%"), Cell("as it is"), "as it is"),
    ],
)
def test_a_value_is_written_as_its_column_asks(column, value, text):
    assert column.cell(value).text == text


@pytest.mark.parametrize(
    ("cell", "plain"),
    [
        (Cell(), "-"),
        (Cell("50.0"), "50.0"),
        (Cell("50.0", "1.2"), "50.0 ±1.2"),
        (Cell("50.0", "1.2", whose="male"), "50.0 ±1.2 male"),
        (Cell("50.0", doubtful=True), "50.0†"),
        (Cell(doubtful=True), "-"),
        (Cell("50.0", best=True), "50.0"),
    ],
)
def test_a_cell_in_a_line_has_its_spread_its_doubt_and_its_group(cell, plain):
    assert cell.plain == plain


@pytest.mark.parametrize(
    ("text", "numeric"),
    [("1.5", True), ("-", True), ("", True), (HIDDEN, True), ("1,234", True), ("FedAvg", False)],
)
def test_a_text_in_place_of_a_number_looks_like_one(text, numeric):
    assert Cell(text).looks_numeric is numeric


def test_rounding_keeps_the_number_and_rounds_its_spread_too():
    cell = percent(0.12345, 0.0567)
    assert (cell.text, cell.spread) == ("12.35", "5.67")
    rounded = cell.rounded(1)
    assert (rounded.text, rounded.spread) == ("12.3", "5.7")
    assert (rounded.number, rounded.std) == (cell.number, cell.std)
    result = Cell("text").rounded(1)
    assert result == Cell("text")


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (number(None), "-"),
        (number(1.0, sign="+"), "+1.00"),
        (number(-1.0, sign="+"), "-1.00"),
        (percent(None), "-"),
        (bounded(None, 0.1, 0.2), "-"),
        (bounded(0.5, 0.25, 0.75), "50.0 (25.0 to 75.0)"),
        (bounded(0.5, None, 0.75), "50.0"),
    ],
)
def test_a_number_that_is_missing_is_a_dash_and_half_an_interval_none(cell, text):
    assert cell.text == text


def table_of(*shares, unit="%"):
    """A table of one column of means and spreads."""
    cells = [percent(mean, std) for mean, std in shares]
    return ReportTable.of("", [Column("AUC", unit)], [[cell] for cell in cells])


@pytest.mark.parametrize(
    ("shares", "texts"),
    [
        ([(0.5, 0.001), (0.25, 0.009)], ["50.00", "25.00"]),
        ([(0.5, 0.001), (0.25, 0.011)], ["50.0", "25.0"]),
        ([(0.5, None), (0.25, None)], ["50.0", "25.0"]),
        ([(0.5, 0.001), (0.25, None)], ["50.00", "25.00"]),
    ],
)
def test_shares_have_two_digits_where_every_spread_is_below_a_point(shares, texts):
    table = table_of(*shares)
    result = [row[0].text for row in table.rows]
    assert result == texts
    expected = len(texts[0].partition(".")[2])
    assert table.digits == expected


def test_numbers_of_another_unit_keep_their_digits():
    table = ReportTable.of("", [Column("size", "MB", digits=3)], [[1.0]])
    assert table.rows[0][0].text == "1.000"
    assert table.digits == 1


def test_a_part_of_a_table_has_its_columns_in_the_order_that_is_asked_for():
    table = ReportTable.of("title", ["a", "b", "c"], rows("1 2 3; 4 5 6"), "legend")
    part = table.part([2, 0])
    result = [column.name for column in part.columns]
    assert result == ["c", "a"]
    expected = [["3", "1"], ["6", "4"]]
    assert texts(part) == expected
    assert (part.title, part.legend) == ("title", "legend")


def test_second_lines_of_cells_become_rows():
    published = replace(Cell("50.0"), below=Cell("48.0"))
    table = ReportTable.of("", ["name", "AUC"], [["FedAvg", published], ["FedHEAL", Cell("9.0")]])
    expected = [["FedAvg", "50.0"], ["", "48.0"], ["FedHEAL", "9.0"]]
    assert texts(table.unfolded()) == expected


def test_a_column_is_numeric_where_its_texts_are_numbers_or_dashes():
    table = ReportTable.of("", ["name", "runs", "none"], [["FedAvg", 3, None], ["B", 4, None]])
    assert table.numeric == [False, True, True]
    result = ReportTable.of("", ["name"], []).cells
    assert result == [()]


def test_columns_that_are_alike_differ_in_their_names():
    columns = heads("a", "b", unit="%", lower=True)
    result = [column.name for column in columns]
    assert result == ["a", "b"]
    assert {column.unit for column in columns} == {"%"}
    assert all(column.lower for column in columns)


@pytest.mark.parametrize(
    ("parts", "is_there"),
    [
        ({}, False),
        ({"text": ["a"]}, True),
        ({"notes": ["a"]}, True),
        ({"pairs": [("a", "b")]}, False),
    ],
)
def test_a_section_is_there_where_it_has_something_to_show(parts, is_there):
    assert Section("name", "title", **parts).there is is_there
