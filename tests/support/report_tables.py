"""A report's table as text, for tests that read its cells."""

from dataclasses import replace

from fedcli.reporting.tables import report
from fedcli.reporting.writers import starred


def as_text(table):
    """Headings, as in CSV where they have ids, and rows of text, as in a format without bold."""
    heads = [
        replace(column, name=column.key or column.name, over="" if column.key else column.over)
        for column in table.columns
    ]
    return [column.heading for column in heads], [starred_row(row) for row in table.rows]


def starred_row(row):
    return [starred(cell) for cell in row]


def texts(table):
    """Rows of text, as in HTML, where bold marks the best."""
    return [row_texts(row) for row in table.rows]


def row_texts(row):
    return [cell.text for cell in row]


def table_cells(rows):
    """Heads and texts of all columns of a report."""
    return as_text(report(rows).whole)
