"""Cells of a CSV are text, and printed text drives no terminal."""

import pandas

from fedcli.io.csv_text import csv_text
from fedcli.reporting import writers
from fedcli.reporting.table import Cell, Column, ReportTable


def test_a_formula_is_text_and_a_number_stays_a_number(tmp_path):
    cells = [
        '=HYPERLINK("http://x","y")',
        "@SUM(1)",
        "-2+3",
        "+",
        "-1",
        "+1e5",
        "-inf",
        "",
        "a=b",
        -3,
        None,
    ]
    path = tmp_path / "x.csv"
    path.write_text(csv_text([["cell"], *([cell] for cell in cells)]))
    assert pandas.read_csv(path, dtype=str, keep_default_na=False, skip_blank_lines=False)[
        "cell"
    ].tolist() == [
        '\'=HYPERLINK("http://x","y")',
        "'@SUM(1)",
        "'-2+3",
        "'+",
        "-1",
        "+1e5",
        "-inf",
        "",
        "a=b",
        "-3",
        "",
    ]


def test_control_characters_of_names_are_written_as_their_codes():
    name = "\x1b]0;title\x07\tnorth"
    table = ReportTable("", [Column(name)], [[Cell(name)]])
    for text in (
        csv_text([[name]]),
        writers.markdown(table),
        writers.latex([table], [name], [name]),
    ):
        assert "title" in text
        assert "\x1b" not in text
        assert "\x07" not in text
