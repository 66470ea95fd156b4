"""A table as text: for a terminal, Markdown, LaTeX and CSV. Each writes the marks that the model holds."""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TextIO

from ..console import printable
from ..io.csv_text import csv_text
from ..system import terminal
from .table import DAGGER, Cell, Column, Table

STAR = " *"  # behind the best of a column, where there is no bold
LATEX = str.maketrans(
    {
        **{c: f"\\{c}" for c in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "±": r"$\pm$",
        "−": "$-$",
        "<": "$<$",
        ">": "$>$",
        "*": r"$\ast$",
        DAGGER: r"$^\dagger$",
    }
)


def starred(cell: Cell) -> str:
    """A cell in text without bold."""
    return cell.plain + STAR * cell.best


def show(table: Table, file: TextIO | None = None) -> None:
    """Print a table for a person. file: default stdout."""
    best = [any(row[place].best for row in table.rows) for place in range(len(table.columns))]
    lines = [
        [starred(cell) if cell.best or not marked else cell.plain + " " * len(STAR) for cell, marked in zip(row, best)]
        for row in table.rows
    ]
    terminal.table([column.heading for column in table.columns], lines, title=table.title, file=file)


def markdown(table: Table) -> str:
    """The table alone; its title and legend are the document's."""
    rule = ["---:" if numeric else "---" for numeric in table.numeric]
    head = [_escaped(column.heading) for column in table.columns]
    lines = [head, rule, *([_escaped(starred(cell)) for cell in row] for row in table.rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def titled(table: Table) -> str:
    """A table in Markdown with its title above and what its numbers are below."""
    return "\n\n".join([f"{printable(table.title)}:", markdown(table), f"{printable(table.legend)}\n"])


def latex(table: Table, remarks: Iterable[str]) -> str:
    """A tabular with rules of the package booktabs, the best in bold; the remarks stand below as comments."""
    return "\n".join(
        [
            "% needs \\usepackage{booktabs}",
            f"\\begin{{tabular}}{{{''.join('r' if numeric else 'l' for numeric in table.numeric)}}}",
            "\\toprule",
            *_two_heads(table.columns),
            "\\midrule",
            *(
                _tex_line([f"\\textbf{{{_tex(cell.plain)}}}" if cell.best else _tex(cell.plain) for cell in row])
                for row in table.rows
            ),
            "\\bottomrule",
            "\\end{tabular}",
            *(f"% {printable(' '.join(remark.split()))}" for remark in remarks),
            "",
        ]
    )


def comma_separated(table: Table) -> str:
    """Bare numbers, the spread of each in a column of its own; marks are left out."""
    spreads = [any(row[place].spread for row in table.rows) for place in range(len(table.columns))]
    head: list[str] = []
    for column, spread in zip(table.columns, spreads, strict=True):
        unit = f" ({column.unit})" if column.unit else ""
        head += [f"{column.title} {what}{unit}" for what in ("mean", "std")] if spread else [column.heading]
    lines = [
        [part for cell, spread in zip(row, spreads, strict=True)
         for part in ("" if cell == Cell() else cell.text, cell.spread)[: 1 + spread]]
        for row in table.rows
    ]  # fmt: skip
    return csv_text([head, *lines])


def _escaped(words: str) -> str:
    return printable(" ".join(words.split())).replace("\\", "\\\\").replace("|", "\\|")


def _two_heads(columns: Sequence[Column]) -> list[str]:
    """Lines that name clean, corrupted and average over their columns, where there are such, and each column."""
    spans, rules, at = [], [], 0
    for name, part in ((name, len(list(part))) for name, part in groupby(column.over for column in columns)):
        spans.append(f"\\multicolumn{{{part}}}{{c}}{{{_tex(name)}}}" if name else " & ".join([""] * part))
        rules += [f"\\cmidrule(lr){{{at + 1}-{at + part}}}"] if name else []
        at += part
    lines = [_tex_line(spans), "".join(rules)] if rules else []
    return [*lines, _tex_line([_tex(column.name) for column in columns])]


def _tex_line(cells: list[str]) -> str:
    return f"{' & '.join(cells)} \\\\"


def _tex(words: str) -> str:
    return printable(re.sub(r"\s+", " ", words)).translate(LATEX)
