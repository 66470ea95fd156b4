"""A recipe's cells as a shell script: the very commands, each once, in the order they are run."""

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import console
from ..options import Options
from .expand import Cell, stages_of
from .flags import ASKED, asked, variable
from .recipe import Recipe


def script(
    recipe: Recipe, cells: list[Cell], *, work: Path, samples: dict[str, str], source: Path | None = None
) -> str:  # fmt: skip
    """The script's text, which asks for folders and files that were not given in variables.

    samples: dataset -> folder of its synthetic sample. source: the data of cells that make none.
    """
    lines = ["#!/bin/sh", f"# {recipe.title}: {console.counted(len(cells), 'cell', 'cells')}", "set -e"]
    lines += _wanted(recipe, cells)
    for name, folder in samples.items():
        make = shlex.join(["fedcli", "datasets", name, "--make-sample", folder])
        lines.append(f"[ -d {shlex.quote(folder)} ] || {make}")
    made: dict[tuple[Options, ...], str] = {(): str(source or "")}  # what a chain made, or the variable that holds it
    chains = list(stages_of(cells))
    for number, cell in enumerate(cells, 1):
        lines.append(f"# [{number}/{len(cells)}] {cell.name}")
        for chain in (chain for first, chain in chains if first is cell):
            stage = chain[-1].stage
            name = f"{stage}_{sum(key[-1].stage == stage for key in made if key) + 1}"
            lines.append(f"{name}=$({_command(chain[-1], made[chain[:-1]], work)})")
            made[chain] = asked(name)
        lines.append(f"run=$({_command(replace(cell.train, resume=True), made[cell.chain], work)})")
        lines += [_command(cell.evaluate, asked("run"), work)] if cell.evaluate else []
    return "\n".join(lines) + "\n"


def _wanted(recipe: Recipe, cells: list[Cell]) -> list[str]:
    """Lines that stop a script whose variables are not set."""
    files = {variable(name, "file"): name for name in recipe.files}
    names = sorted({data.dataset for data in recipe.chains.values()})
    known = {variable(name): f"the folder of {name} as downloaded" for name in names}
    known |= {word: f"the file {name}" for word, name in files.items()}
    wanted = {name for cell in cells for name in cell.asks}
    lines = [f"# {word}: {recipe.files[name]}" for word, name in files.items() if word in wanted]
    return lines + [f': "${{{name}:?{known[name]}}}"' for name in known if name in wanted]


def _command(options: Options, source: str, work: Path) -> str:
    """A stage's command line on what it reads."""
    place: dict[str, Any] = {"work": work}
    options = replace(options.reading(source) if source else options, **place)
    return " ".join(["fedcli", *map(_quoted, options.argv())])


def _quoted(word: str) -> str:
    """A word as the shell reads it, with a variable where a path is asked for."""
    if not ASKED.search(word):
        return shlex.quote(word)
    parts = ASKED.split(word)  # text, variable, text, ...
    parts[::2] = [re.sub(r'([\\"$`])', r"\\\1", text) for text in parts[::2]]
    parts[1::2] = [
        f"${name}" if not re.match(r"\w", after) else f"${{{name}}}"
        for name, after in zip(parts[1::2], parts[2::2], strict=True)
    ]
    return f'"{"".join(parts)}"'
