"""A report's table as text, for tests that read its cells."""

from dataclasses import replace

from fedcli.reporting.tables import report
from fedcli.reporting.writers import starred


def as_text(table):
    """Headings, as in CSV where they have ids, and rows of text, as in a format without bold."""
    heads = [
        replace(column, name=column.key or column.name, over=column.over * (not column.key))
        for column in table.columns
    ]
    return [column.heading for column in heads], [
        [starred(cell) for cell in row] for row in table.rows
    ]


def table_cells(rows):
    """Heads and texts of all columns of a report."""
    return as_text(report(rows).whole)
