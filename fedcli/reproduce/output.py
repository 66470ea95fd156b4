"""The folder of a reproduction: results.json, table.md, report.html and the pictures, renewed as a whole."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

from .. import console
from ..data.manifest import scratch, sync
from ..evaluation import page
from ..evaluation.page import Table
from . import pictures, results
from .cells import Outcome
from .recipe import Recipe
from .results import Body


def write(folder: Path, recipe: Recipe, found: Body, outcomes: list[Outcome], *, device: str) -> Body:
    """Write the folder in place of an older one, and return what results.json holds."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with scratch(folder) as temporary:
        drawn, missing = pictures.draw(recipe, found, outcomes, temporary, older=folder, device=device)
        found = found | {"notes": [*found["notes"], *missing], "pictures": {title: path.name for title, path in drawn}}
        _text(
            temporary / "results.json", json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
        )
        _text(temporary / "table.md", markdown(found))
        if scores := [one.scores for one in outcomes if one.scores]:
            with console.heard():  # its remarks stand on the page
                page.write(
                    temporary / "report.html", list(dict.fromkeys(scores)), title=found["title"], tables=tables(found, star="Bold"), notes=found["notes"],
                    pictures=drawn, at=found["at"], spread=found["spread"],
                )  # fmt: skip
        sync(temporary)
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(temporary, folder)
    return found


def _text(path: Path, text: str) -> None:
    path.write_text(text.rstrip("\n") + "\n", encoding="utf-8")


def tables(found: Body, *, star: str = "*") -> list[Table]:
    """Ours; ours beside the published; the rows against the reference; what ran under which rule."""
    out = main_tables(found, star)
    for tested in found["statistics"]:
        title = f"Against {tested['reference']}, {results.where(found, tested)}"
        legend = results.ORDER_LEGEND if tested is found["statistics"][-1] else ""
        out.append(Table(title, *results.order(tested), legend))
    return [*out, Table("What ran", *results.rules(found))]


def main_tables(found: Body, star: str = "*") -> list[Table]:
    out = [Table("Ours", *results.ours(found), results.legend(found, star))]
    columns, lines = results.beside(found)
    return out + (
        [Table("Beside the published numbers", columns, lines, results.beside_legend(found))] if lines else []
    )


def markdown(found: Body) -> str:
    """The tables and notes as Markdown."""
    parts = [f"# {_cell(found['title'])}", found["paper"]]
    for table in tables(found):
        rule = [":---", *("---:" if numeric else ":---" for numeric in table.numeric[1:])]
        lines = [f"| {' | '.join(map(_cell, line))} |" for line in (table.columns, rule, *table.lines)]
        parts += [f"## {_cell(table.title)}", "\n".join(lines), table.legend]
    if said := results.told(found):
        parts += ["## What these runs can tell", "\n".join(f"- {_cell(line)}" for line in said)]
    if found["notes"]:
        parts += ["## Notes", "\n".join(f"- {_cell(note)}" for note in found["notes"])]
    parts += [f"![{_cell(title)}]({name})" for title, name in found["pictures"].items()]
    return "\n\n".join(part for part in parts if part)


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text.replace("\\", "\\\\").replace("|", "\\|"))


def show(found: Body) -> None:
    """The main tables on stdout, what the statistics say, and what is to be known before reading them."""
    for table in main_tables(found):
        console.table(table.columns, table.lines, title=table.title, file=sys.stdout)
        print(f"{table.legend}\n")
    if said := results.told(found):
        print("What these runs can tell (tests in table.md):", *said, "", sep="\n")
    for note in found["notes"]:
        print(f"note: {note}")
