"""Text as the page shows it: escaped, spreads quiet, the best in bold, long names free to break,
heads in two lines.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from ..table import Cell, Column, ReportTable

INTERVAL = re.compile(r"(−?[\d.]+) (\([−\d.]+ – [−\d.]+\))")  # a score and its bounds


@dataclass(frozen=True)
class Head:
    """A cell of a table's head. at: the place of its column, None of what stands over several."""

    text: Markup
    columns: int = 1
    rows: int = 1
    at: int | None = None


def heads(columns: Sequence[Column]) -> list[list[Head]]:
    """One line of heads; two where some columns share what stands over them."""
    above: list[Head] = []
    below: list[Head] = []
    for over, part in groupby(enumerate(columns), lambda item: item[1].levels[0]):
        group = list(part)
        if over:
            above.append(Head(breakable(over), columns=len(group)))
            below += [Head(breakable(column.name), at=k) for k, column in group]
        else:
            above += [Head(breakable(column.heading), rows=2, at=k) for k, column in group]
    if below:
        return [above, below]
    return [[replace(head, rows=1) for head in above]]


HERE = Path(__file__).parent
PAGE = "page.html"  # its macros stand above the page itself


def environment() -> Environment:
    """Templates as the page writes them."""
    templates = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {"cell": shown_cell, "heads": heads, "breakable": breakable}
    return templates


def fragment(tables: Sequence[ReportTable], words: Sequence[str]) -> str:
    """Tables as on the page, and sentences below them, for a notebook."""
    macros, _, _ = (HERE / PAGE).read_text(encoding="utf-8").partition("<!doctype")
    write = environment().from_string(macros).make_module().table  # type: ignore[attr-defined]  # a macro of it
    parts = [write(table) for table in tables]
    parts += [Markup("<p>{}</p>").format(word) for word in words]
    return "\n".join(map(str, parts))


def shown_cell(cell: Cell) -> Markup:
    """A cell: its spread is quieter, the best is bold; a long name may break."""
    if cell.text.startswith("fedcli "):
        return _command(cell.text)
    bounds = INTERVAL.fullmatch(cell.text)
    if bounds:
        return Markup('{} <span class="pm nb">{}</span>').format(*bounds.groups())
    markup = breakable(replace(cell, spread="", whose="").plain)
    if cell.spread:
        markup += Markup(' <span class="pm">±&#8239;{}</span>').format(cell.spread)
    if cell.whose:
        markup += Markup(' <span class="pm">{}</span>').format(cell.whose)
    if cell.best:
        markup = Markup("<b>{}</b>").format(markup)
    if cell.below:
        markup += Markup('<br><span class="pm">{}</span>').format(shown_cell(cell.below))
    return markup


def _command(text: str) -> Markup:
    """A command whose line breaks never split an option."""
    words = [escape(word) for word in text.split(" ")]
    for k, word in enumerate(words):
        if word.startswith("-"):
            words[k] = Markup('<span class="nb">{}</span>').format(word)
    return Markup("<code>{}</code>").format(Markup(" ").join(words))


def breakable(text: str) -> Markup:
    """Text that may break behind an underscore, and beside the signs within paths; a flag behind
    words is small.
    """
    with_breaks = re.sub(r"([_/])(?=\w)", r"\1<wbr>", str(escape(text)))
    return Markup(re.sub(r" \((--[\w-]+)\)$", r' <small class="pm nb">\1</small>', with_breaks))
