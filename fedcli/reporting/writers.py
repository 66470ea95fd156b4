"""A table as text: for a terminal, Markdown, LaTeX and CSV. Each writes the marks that the model
holds.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TextIO

from ..console import printable
from ..io.csv_text import csv_text
from ..system import terminal
from .table import DAGGER, Cell, Column, ReportTable

ONE_COLUMN = 4  # columns of a table that fit into one of two columns of a page
STAR = " *"  # behind the best of a column, where there is no bold
TEX_OF = str.maketrans(
    {
        **{c: f"\\{c}" for c in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "±": r"$\pm$",
        "−": "$-$",
        "<": "$<$",
        ">": "$>$",
        "≥": r"$\geq$",
        "≤": r"$\leq$",
        "×": r"$\times$",
        "↓": r"$\downarrow$",
        "→": r"$\rightarrow$",
        "*": r"$\ast$",
        DAGGER: r"$^\dagger$",
    }
)


def starred(cell: Cell) -> str:
    """A cell in text without bold."""
    return cell.plain + STAR if cell.best else cell.plain


def show(table: ReportTable, file: TextIO | None = None) -> None:
    """Print a table for a person, and below it what its numbers are. file: default stdout."""
    table = table.unfolded()
    columns = []
    for cells in table.cells:
        has_best = any(cell.best for cell in cells)
        columns.append([_aligned(cell, has_best) for cell in cells])
    over, names = zip(*(column.levels for column in table.columns))
    lines = list(zip(*columns))
    terminal.table(names, lines, title=table.title, over=over, file=file)


def _aligned(cell: Cell, has_best: bool) -> str:
    """A cell with room for the mark of the best, if its column has one."""
    if has_best and cell.text and not cell.best:
        return cell.plain + " " * len(STAR)
    return starred(cell)


def say(texts: Iterable[str], file: TextIO | None = None) -> None:
    """Print sentences within the width of tables. file: default stdout."""
    width = terminal.width_of(file)
    for text in filter(None, texts):
        print(*terminal.wrapped(text, width), sep="\n", file=file)


def markdown(table: ReportTable) -> str:
    """The table alone, as several below each other where it is wide; its title and legend are the
    document's.
    """
    parts = []
    for part in _parts(table):
        head = [_escaped(column.heading) for column in part.columns]
        rule = ["---:" if numeric else "---" for numeric in part.numeric]
        lines = [head, rule]
        for row in part.rows:
            lines.append([_escaped(starred(cell)) for cell in row])
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
    return "\n\n".join(parts)


def _parts(table: ReportTable) -> list[ReportTable]:
    """The table, or if that is too wide for a page its columns in several, those under one head
    together.
    """
    table = table.unfolded()
    widths = []
    for column, cells in zip(table.columns, table.cells):
        texts = [*column.name.split(), *column.over.split(), column.unit, *map(starred, cells)]
        widths.append(max(map(len, texts)))
    heads = [column.over for column in table.columns]
    bars = 4  # at both ends of a line
    parts = terminal.packed(
        widths,
        heads,
        terminal.WIDEST - bars,
        gap=3,
        head_gap=0,
    )
    return [table.part(indices) for indices in parts] or [table]


def titled(table: ReportTable) -> str:
    """A table in Markdown with its title above and what its numbers are below."""
    return f"{printable(table.title)}:\n\n{markdown(table)}\n\n{printable(table.legend)}\n"


def latex(
    tables: Iterable[ReportTable],
    texts_of_tables: Iterable[Sequence[str]],
    remarks: Iterable[str],
) -> str:
    """Tables of a paper, with rules of the package booktabs and the best in bold.

    A table that is too wide for a page becomes several. texts_of_tables: of each table behind its
    title; the first text of all is the caption, the others are notes below, where all tables but
    the first refer to it. remarks: comments for the author at the end.
    """
    lines = ["% needs \\usepackage{booktabs}"]
    labels: list[str] = []
    counts = Counter[str]()
    for table, texts in zip(tables, texts_of_tables):
        kind = "groups" if table.title else "scores"
        caption, *notes = [*filter(None, [table.title, *texts, table.legend]), ""]
        for part in _parts(table):
            counts[kind] += 1
            label = kind
            if counts[kind] > 1:
                label += f"-{counts[kind]}"
            below = _sentences(notes)
            if labels:
                below += f" Runs, numbers and signs as in Table~\\ref{{tab:{labels[0]}}}."
                lines.append("")  # a paragraph of its own
            labels.append(label)
            lines += _float(part, _sentences([caption]), below.lstrip(), label)
            notes = []
    for remark in remarks:
        lines.append(f"% {printable(' '.join(remark.split()))}")
    return "\n".join([*lines, ""])


def _float(table: ReportTable, caption: str, notes: str, label: str) -> list[str]:
    """A table within a column of a page, or over both where it is wider."""
    environment = "table" if len(table.columns) <= ONE_COLUMN else "table*"
    lines = [f"\\begin{{{environment}}}", "\\centering"]
    lines += [f"\\caption{{{caption}}}", f"\\label{{tab:{label}}}", "\\small"]
    lines += _tabular(table)
    if notes:
        lines.append(f"\\par\\smallskip\\parbox{{\\linewidth}}{{\\footnotesize {notes}}}")
    return [*lines, f"\\end{{{environment}}}"]


def _sentences(texts: Iterable[str]) -> str:
    """The texts as sentences, in LaTeX."""
    sentences = []
    for text in filter(None, texts):
        sentences.append(text if text.endswith((".", "!", "?")) else f"{text}.")
    return _tex(" ".join(sentences))


def _tabular(table: ReportTable) -> list[str]:
    sides = "".join("r" if numeric else "l" for numeric in table.numeric)
    lines = [f"\\begin{{tabular}}{{{sides}}}", "\\toprule"]
    lines += [*_two_heads(table.columns), "\\midrule"]
    for row in table.rows:
        lines.append(_tex_line([_tex_cell(cell) for cell in row]))
    return [*lines, "\\bottomrule", "\\end{tabular}"]


def _two_heads(columns: Sequence[Column]) -> list[str]:
    """The headings in LaTeX, those that several columns share in a line of their own."""
    spans = []
    rules = ""
    start = 1
    for over, group in groupby(column.levels[0] for column in columns):
        width = len(list(group))
        end = start + width - 1
        if over:
            spans.append(f"\\multicolumn{{{width}}}{{c}}{{{_tex(over)}}}")
            rules += f"\\cmidrule(lr){{{start}-{end}}}"
        else:
            spans += [""] * width
        start = end + 1
    names = _tex_line([_tex(column.levels[1]) for column in columns])
    return [_tex_line(spans), rules, names] if rules else [names]


def _tex_cell(cell: Cell) -> str:
    text = _tex(cell.plain)
    return f"\\textbf{{{text}}}" if cell.best else text


def _tex_line(cells: list[str]) -> str:
    return f"{' & '.join(cells)} \\\\"


def _tex(words: str) -> str:
    plain = printable(re.sub(r"\s+", " ", words)).translate(TEX_OF)
    # TeX makes one dash of two
    return re.sub(r"(?<![\w-])--([a-z][a-z-]*)", r"\\texttt{-{}-\1}", plain)


def comma_separated(table: ReportTable) -> str:
    """Bare numbers, the spread of each in a column of its own; marks are left out."""
    table = table.unfolded()
    columns = []
    for column, cells in zip(table.columns, table.cells):
        name = column.key or column.title
        unit = f" ({column.unit})" if column.unit else ""
        texts = ["" if cell == Cell() else cell.text for cell in cells]
        spreads = [cell.spread for cell in cells]
        if any(spreads):
            columns.append([f"{name} mean{unit}", *texts])
            columns.append([f"{name} std{unit}", *spreads])
        else:
            columns.append([f"{name}{unit}", *texts])
    return csv_text(zip(*columns))


def _escaped(words: str) -> str:
    return printable(" ".join(words.split())).replace("\\", "\\\\").replace("|", "\\|")
