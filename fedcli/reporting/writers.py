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
    """Print a table for a person, and below it what its numbers are. file: default stdout."""
    best = [any(row[place].best for row in table.rows) for place in range(len(table.columns))]
    lines = [
        [starred(cell) if cell.best or not marked else cell.plain + " " * len(STAR) for cell, marked in zip(row, best)]
        for row in table.rows
    ]
    over, names = zip(*(column.levels for column in table.columns), strict=True)
    terminal.table(names, lines, title=table.title, over=over, file=file)


def say(texts: Iterable[str], file: TextIO | None = None) -> None:
    """Print sentences within the width of tables. file: default stdout."""
    room = terminal.width_of(file)
    for text in texts:
        print(*terminal.wrapped(text, room), sep="\n", file=file)


def markdown(table: Table) -> str:
    """The table alone, in as many as fit a page beside each other; its title and legend are the document's."""
    grid = [[_escaped(starred(cell)) for cell in row] for row in table.rows]
    heads = [_escaped(column.heading) for column in table.columns]
    least = [
        max(len(text) for text in (*head.split(), *(row[place] for row in grid))) for place, head in enumerate(heads)
    ]
    over = [column.over for column in table.columns]
    parts = terminal.packed(least, over, terminal.WIDEST, gap=3) or [list(range(len(heads)))]
    return "\n\n".join(_grid_in_markdown(heads, grid, table.numeric, part) for part in parts)


def _grid_in_markdown(heads: list[str], grid: list[list[str]], numeric: list[bool], part: list[int]) -> str:
    lines = [heads, ["---:" if right else "---" for right in numeric], *grid]
    return "\n".join(f"| {' | '.join(line[place] for place in part)} |" for line in lines)


def titled(table: Table) -> str:
    """A table in Markdown with its title above and what its numbers are below."""
    return "\n\n".join([f"{printable(table.title)}:", markdown(table), f"{printable(table.legend)}\n"])


def latex(tables: Iterable[Table], about: Iterable[str], remarks: Iterable[str]) -> str:
    """Tables of a paper, with rules of the package booktabs and the best in bold.

    about: the captions, behind a table's title. remarks: comments for the author below the last.
    """
    made = ["% needs \\usepackage{booktabs}"]
    for table in tables:
        label = "scores" if not table.title else "groups"
        made += [
            "\\begin{table}",
            "\\centering",
            f"\\caption{{{_tex(' '.join(filter(None, [table.title and f'{table.title}.', *about])))}}}",
            f"\\label{{tab:{label}}}",
            f"\\begin{{tabular}}{{{''.join('r' if numeric else 'l' for numeric in table.numeric)}}}",
            "\\toprule",
            *_two_heads(table.columns),
            "\\midrule",
            *(_tex_line([_tex_cell(cell) for cell in row]) for row in table.rows),
            "\\bottomrule",
            "\\end{tabular}",
            "\\end{table}",
        ]
    return "\n".join([*made, *(f"% {printable(' '.join(remark.split()))}" for remark in remarks), ""])


def _tex_cell(cell: Cell) -> str:
    return f"\\textbf{{{_tex(cell.plain)}}}" if cell.best else _tex(cell.plain)


def comma_separated(table: Table) -> str:
    """Bare numbers, the spread of each in a column of its own; marks are left out."""
    spreads = [any(row[place].spread for row in table.rows) for place in range(len(table.columns))]
    head: list[str] = []
    for column, spread in zip(table.columns, spreads, strict=True):
        unit, name = f" ({column.unit})" * bool(column.unit), column.key or column.title
        head += [f"{name} {what}{unit}" for what in ("mean", "std")] if spread else [f"{name}{unit}"]
    lines = [
        [part for cell, spread in zip(row, spreads, strict=True)
         for part in ("" if cell == Cell() else cell.text, cell.spread)[: 1 + spread]]
        for row in table.rows
    ]  # fmt: skip
    return csv_text([head, *lines])


def _escaped(words: str) -> str:
    return printable(" ".join(words.split())).replace("\\", "\\\\").replace("|", "\\|")


def _two_heads(columns: Sequence[Column]) -> list[str]:
    """Lines that name what columns share over them, where they do, and each column."""
    levels = [column.levels for column in columns]
    spans, rules, at = [], [], 0
    for name, part in ((name, len(list(part))) for name, part in groupby(over for over, _ in levels)):
        spans.append(f"\\multicolumn{{{part}}}{{c}}{{{_tex(name)}}}" if name else " & ".join([""] * part))
        rules += [f"\\cmidrule(lr){{{at + 1}-{at + part}}}"] if name else []
        at += part
    lines = [_tex_line(spans), "".join(rules)] if rules else []
    return [*lines, _tex_line([_tex(name) for _, name in levels])]


def _tex_line(cells: list[str]) -> str:
    return f"{' & '.join(cells)} \\\\"


def _tex(words: str) -> str:
    return printable(re.sub(r"\s+", " ", words)).translate(LATEX)
