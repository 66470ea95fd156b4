"""A recipe's cells as a shell script: the very commands, each once, in the order they are run."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from .. import console
from .plan import Cell
from .recipe import Recipe


def script(
    recipe: Recipe,
    cells: list[Cell],
    *,
    work: Path,
    twins: dict[str, str],
    unknown: list[str],
    source: Path | None = None,
) -> str:
    """The script's text.

    twins: dataset -> folder of its twin.
    unknown: datasets whose folder was not given: the script asks for it in a variable.
    source: the data of cells that make none.
    """
    place = [] if work == Path("fedcli-work") else ["--work", str(work)]
    lines = ["#!/bin/sh", f"# {recipe.title}: {console.counted(len(cells), 'cell', 'cells')}", "set -e"]
    lines += [f': "${{{variable(name)}:?the folder of {name} as downloaded}}"' for name in unknown]
    for name, folder in twins.items():
        make = shlex.join(["fedcli", "datasets", name, "--make-twin", folder])
        lines.append(f"[ -d {shlex.quote(folder)} ] || {make}")
    made = {(): shlex.quote(str(source)) if source else ""}  # what a chain made, as the shell names it
    for number, cell in enumerate(cells, 1):
        lines.append(f"# [{number}/{len(cells)}] {cell.name}")
        for stage in range(len(cell.chain)):
            upto = cell.chain[: stage + 1]
            if upto not in made:
                name = f"{upto[-1][0]}_{sum(key[-1][0] == upto[-1][0] for key in made if key) + 1}"
                lines.append(f"{name}=$({_command(upto[-1], made[upto[:-1]], place, unknown)})")
                made[upto] = f'"${name}"'
        lines.append(f"run=$({_command(cell.train, made[cell.chain], place, unknown)} --resume)")
        lines.append(_command(cell.evaluate, '"$run"', place, unknown))
    return "\n".join(lines) + "\n"


def variable(dataset: str) -> str:
    return re.sub(r"\W", "_", dataset).upper()


def with_source(line: Sequence[str], source: str) -> list[str]:
    """A stage's command line with the manifest it reads, after its own argument."""
    own = 2 if line[0] in ("corrupt", "train") else 1
    return [*line[:own], source, *line[own:]]


def _command(line: Sequence[str], source: str, place: list[str], unknown: list[str]) -> str:
    quoted = [shlex.quote(word) for word in line]
    words = with_source(quoted, source) if source else quoted
    if line[0] == "prepare" and line[1] in unknown:
        words[2:2] = ["--raw", f'"${variable(line[1])}"']
    return " ".join(["fedcli", *words, *map(shlex.quote, place)])
