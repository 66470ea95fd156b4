"""Text as the page shows it: escaped, spreads quiet, the best in bold, long names free to break, heads in two lines."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from ..table import Cell, Column, Table

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
    if not any(column.over for column in columns):
        return [[Head(breakable(column.heading), at=at) for at, column in enumerate(columns)]]
    above: list[Head] = []
    below: list[Head] = []
    for over, part in groupby(enumerate(columns), lambda item: item[1].levels[0]):
        own = list(part)
        if over:
            above.append(Head(breakable(own[0][1].levels[0]), columns=len(own)))
            below += [Head(breakable(column.name), at=at) for at, column in own]
        else:
            above += [Head(breakable(column.heading), rows=2, at=at) for at, column in own]
    return [above, below]


HERE = Path(__file__).parent
PAGE = "page.html"  # its macros stand above the page itself


def environment() -> Environment:
    """Templates as the page writes them."""
    made = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"cell": shown_cell, "heads": heads, "breakable": breakable}
    return made


def fragment(tables: Sequence[Table], words: Sequence[str]) -> str:
    """Tables as on the page, and sentences below them, for a notebook."""
    macros, _, _ = (HERE / PAGE).read_text(encoding="utf-8").partition("<!doctype")
    write = environment().from_string(macros).make_module().table  # type: ignore[attr-defined]  # a macro of it
    return "\n".join(
        [*map(str, map(write, tables)), *(str(Markup("<p>{}</p>").format(word)) for word in words)]
    )


def shown_cell(cell: Cell) -> Markup:
    """A cell: its spread is quieter, the best is bold; a long name may break."""
    if cell.text.startswith("fedcli "):  # a command whose line breaks never split an option
        words = [
            Markup('<span class="nb">{}</span>').format(word)
            if word.startswith("-")
            else escape(word)
            for word in cell.text.split(" ")
        ]
        return Markup("<code>{}</code>").format(Markup(" ").join(words))
    if bounds := INTERVAL.fullmatch(cell.text):
        return Markup('{} <span class="pm nb">{}</span>').format(*bounds.groups())
    shown = breakable(replace(cell, spread="", whose="").plain)
    if cell.spread:
        shown += Markup(' <span class="pm">±&#8239;{}</span>').format(cell.spread)
    if cell.whose:
        shown += Markup(' <span class="pm">{}</span>').format(cell.whose)
    shown = Markup("<b>{}</b>").format(shown) if cell.best else shown
    if cell.below:
        shown += Markup('<br><span class="pm">{}</span>').format(shown_cell(cell.below))
    return shown


def breakable(text: str) -> Markup:
    """Text that may break behind an underscore, and beside the signs within paths; a flag behind words is small."""
    shown = re.sub(r"([_/])(?=\w)", r"\1<wbr>", str(escape(text)))
    return Markup(re.sub(r" \((--[\w-]+)\)$", r' <small class="pm nb">\1</small>', shown))
