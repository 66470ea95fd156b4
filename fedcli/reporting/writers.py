"""A table as text: for a terminal, Markdown, LaTeX and CSV. Each writes the marks that the model holds."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
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
    table = table.unfolded()
    best = [any(row[place].best for row in table.rows) for place in range(len(table.columns))]
    lines = [
        [
            starred(cell)
            if cell.best or not marked or not cell.text
            else cell.plain + " " * len(STAR)
            for cell, marked in zip(row, best)
        ]
        for row in table.rows
    ]
    over, names = zip(*(column.levels for column in table.columns), strict=True)
    terminal.table(names, lines, title=table.title, over=over, file=file)


def say(texts: Iterable[str], file: TextIO | None = None) -> None:
    """Print sentences within the width of tables. file: default stdout."""
    room = terminal.width_of(file)
    for text in filter(None, texts):
        print(*terminal.wrapped(text, room), sep="\n", file=file)


def markdown(table: Table) -> str:
    """The table alone, as several below each other where it is wide; its title and legend are the document's."""
    parts = []
    for part in _parts(table.unfolded()):
        rule = ["---:" if numeric else "---" for numeric in part.numeric]
        head = [_escaped(column.heading) for column in part.columns]
        lines = [head, rule, *([_escaped(starred(cell)) for cell in row] for row in part.rows)]
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
    return "\n\n".join(parts)


def _parts(table: Table) -> Iterator[Table]:
    """The table, or where that is too wide for a page its columns in several, those under one head together."""
    heads = [(*column.name.split(), *column.over.split(), column.unit) for column in table.columns]
    texts = [[*head, *(starred(row[at]) for row in table.rows)] for at, head in enumerate(heads)]
    least = [max(map(len, column)) for column in texts]
    heads_over = [column.over for column in table.columns]
    bars = 4  # at both ends of a line
    parts = terminal.packed(least, heads_over, terminal.WIDEST - bars, gap=3, head_gap=0)
    for part in parts or [list(range(len(heads)))]:
        rows = [[row[place] for place in part] for row in table.rows]
        yield replace(table, columns=[table.columns[place] for place in part], rows=rows)


def titled(table: Table) -> str:
    """A table in Markdown with its title above and what its numbers are below."""
    return "\n\n".join(
        [f"{printable(table.title)}:", markdown(table), f"{printable(table.legend)}\n"]
    )


def latex(
    tables: Iterable[Table], captions: Iterable[Sequence[str]], remarks: Iterable[str]
) -> str:
    """Tables of a paper, with rules of the package booktabs and the best in bold.

    captions: of each table, behind its title; all but the first refer to it. remarks: comments for the author below.
    """
    made, first, kinds = ["% needs \\usepackage{booktabs}"], "", list[str]()
    for table, about in zip(tables, captions, strict=True):
        parts = filter(None, [table.title, *about, table.legend])
        caption = _tex(
            " ".join(part if part.endswith((".", "!", "?")) else f"{part}." for part in parts)
        )
        caption += f" Runs, numbers and signs as in Table~\\ref{{tab:{first}}}." if first else ""
        kinds.append(kind := "groups" if table.title else "scores")
        label = kind + f"-{kinds.count(kind)}" * (kinds.count(kind) > 1)
        made += [""] * bool(first)  # a paragraph of its own
        first = first or label
        made += [
            "\\begin{table}",
            "\\centering",
            f"\\caption{{{caption}}}",
            f"\\label{{tab:{label}}}",
        ]
        for part in _parts(table.unfolded()):
            sides = "".join("r" if numeric else "l" for numeric in part.numeric)
            made += [
                f"\\begin{{tabular}}{{{sides}}}",
                "\\toprule",
                *_two_heads(part.columns),
                "\\midrule",
            ]
            for row in part.rows:
                cells = [
                    f"\\textbf{{{_tex(cell.plain)}}}" if cell.best else _tex(cell.plain)
                    for cell in row
                ]
                made.append(_tex_line(cells))
            made += ["\\bottomrule", "\\end{tabular}"]
        made.append("\\end{table}")
    return "\n".join(
        [*made, *(f"% {printable(' '.join(remark.split()))}" for remark in remarks), ""]
    )


def comma_separated(table: Table) -> str:
    """Bare numbers, the spread of each in a column of its own; marks are left out."""
    table = table.unfolded()
    spreads = [any(row[place].spread for row in table.rows) for place in range(len(table.columns))]
    head: list[str] = []
    for column, spread in zip(table.columns, spreads, strict=True):
        unit, name = f" ({column.unit})" * bool(column.unit), column.key or column.title
        head += (
            [f"{name} {what}{unit}" for what in ("mean", "std")] if spread else [f"{name}{unit}"]
        )
    lines = [
        [
            part
            for cell, spread in zip(row, spreads, strict=True)
            for part in ("" if cell == Cell() else cell.text, cell.spread)[: 1 + spread]
        ]
        for row in table.rows
    ]
    return csv_text([head, *lines])


def _escaped(words: str) -> str:
    return printable(" ".join(words.split())).replace("\\", "\\\\").replace("|", "\\|")


def _two_heads(columns: Sequence[Column]) -> list[str]:
    levels = [column.levels for column in columns]
    spans, rules, at = [], [], 0
    for name, part in (
        (name, len(list(part))) for name, part in groupby(over for over, _ in levels)
    ):
        spans.append(
            f"\\multicolumn{{{part}}}{{c}}{{{_tex(name)}}}" if name else " & ".join([""] * part)
        )
        rules += [f"\\cmidrule(lr){{{at + 1}-{at + part}}}"] if name else []
        at += part
    lines = [_tex_line(spans), "".join(rules)] if rules else []
    return [*lines, _tex_line([_tex(name) for _, name in levels])]


def _tex_line(cells: list[str]) -> str:
    return f"{' & '.join(cells)} \\\\"


def _tex(words: str) -> str:
    plain = printable(re.sub(r"\s+", " ", words)).translate(LATEX)
    return re.sub(
        r"(?<![\w-])--([a-z][a-z-]*)", r"\\texttt{-{}-\1}", plain
    )  # TeX makes one dash of two
