"""A recipe's cells as shell scripts: the very commands, each once, in the order they are run."""

import os
import re
import shlex
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from .. import console
from ..errors import UsageError
from ..io.files import sync, write_text
from ..io.locks import scratch
from ..options import Options
from .expand import Cell, stages_of
from .flags import ASKED, asked, variable
from .recipe import Recipe

Made = dict[tuple[Options, ...], str]  # the path that a chain made, or the variable that holds it


@dataclass
class Script:
    """Commands that make cells. They ask for folders and files that were not given in variables.

    Attributes:
        samples: dataset -> folder of its synthetic sample. source: the data of cells that make none.
        devices: of the cells that run side by side, one after another where it is one.
    """

    recipe: Recipe
    cells: list[Cell]
    work: Path
    samples: dict[str, str] = field(default_factory=dict)
    source: Path | None = None
    devices: tuple[str, ...] = ("cpu",)

    def text(self) -> str:
        """One script of all cells; those of a device run one after another, beside those of the others."""
        made, count = Made(), len(self.devices)
        lines = self._head(
            self.cells, f"{self.recipe.title}: {console.counted(len(self.cells), 'cell', 'cells')}"
        )
        if count == 1:
            for cell in self.cells:
                lines += [
                    self._named(cell),
                    *self._data(cell, made),
                    *self._trained(cell, made, self.devices[0]),
                ]
            return _joined(lines)
        for cell in self.cells:
            lines += self._data(cell, made)
        for k, device in enumerate(self.devices[: len(self.cells)]):
            own = [
                [self._named(cell), *self._trained(cell, made, device, wait=True)]
                for cell in self.cells[k::count]
            ]
            lines += ["(", *chain.from_iterable(own), f") & side_{k + 1}=$!"]
        waits = [f'wait "$side_{k + 1}" || failed=1' for k in range(min(count, len(self.cells)))]
        return _joined([*lines, "failed=0", *waits, 'exit "$failed"'])

    def write(self, folder: Path) -> None:
        """A script for each cell, and data.sh, to be run before them; all or none.

        Raises UsageError for a folder in use.
        """
        if folder.is_dir() and any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty", "give --dry-run= the name of a new folder")
        with scratch(folder) as temporary:
            self._write_into(temporary)
            sync(temporary)
            os.rename(temporary, folder)

    def _write_into(self, folder: Path) -> None:
        made = Made()
        data = self._head(self.cells, f"{self.recipe.title}: the data of all cells")
        write_text(
            folder / "data.sh",
            _joined([*data, *chain.from_iterable(self._data(c, made) for c in self.cells)]),
        )
        digits = len(str(len(self.cells)))
        for number, cell in enumerate(self.cells, 1):
            made, name = Made(), re.sub(r"[^\w.=+-]+", "-", cell.name)[:80].strip("-")
            lines = self._head(
                [cell], f"{self.recipe.title}: {cell.name}", samples=False
            ) + self._data(cell, made)
            lines += self._trained(cell, made, self.devices[0], wait=True)
            write_text(folder / f"{number:0{digits}}-{name}.sh", _joined(lines))

    def _head(self, cells: list[Cell], about: str, *, samples: bool = True) -> list[str]:
        lines = ["#!/bin/sh", f"# {about}", "set -e", *_wanted(self.recipe, cells)]
        for name, folder in self.samples.items() if samples else ():
            make = shlex.join(["fedcli", "datasets", name, "--make-sample", folder])
            lines.append(f"[ -d {shlex.quote(folder)} ] || {make}")
        return lines

    def _named(self, cell: Cell) -> str:
        return f"# [{self.cells.index(cell) + 1}/{len(self.cells)}] {cell.name}"

    def _data(self, cell: Cell, made: Made) -> list[str]:
        lines = []
        made.setdefault((), str(self.source or ""))
        for _, stages in stages_of([cell]):
            if stages not in made:
                stage = stages[-1].stage
                name = f"{stage}_{sum(key[-1].stage == stage for key in made if key) + 1}"
                lines.append(f"{name}=$({_command(stages[-1], made[stages[:-1]], self.work)})")
                made[stages] = asked(name)
        return lines

    def _trained(self, cell: Cell, made: Made, device: str, wait: bool = False) -> list[str]:
        """wait: for another cell that has the same training."""
        train = replace(cell.train, resume=True, device=device, wait=wait)
        lines = [f"run=$({_command(train, made[cell.chain], self.work)})"]
        if cell.evaluate:
            lines.append(_command(replace(cell.evaluate, device=device), asked("run"), self.work))
        return lines


def _joined(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def _wanted(recipe: Recipe, cells: list[Cell]) -> list[str]:
    files = {variable(name, "file"): name for name in recipe.files}
    names = sorted({data.dataset for data in recipe.chains.values()})
    known = {variable(name): f"the folder of {name} as downloaded" for name in names}
    known |= {word: f"the file {name}" for word, name in files.items()}
    wanted = {name for cell in cells for name in cell.asks}
    lines = [
        f"# {word}: {recipe.files[name].what}" for word, name in files.items() if word in wanted
    ]
    return lines + [f': "${{{name}:?{known[name]}}}"' for name in known if name in wanted]


def _command(options: Options, source: str, work: Path) -> str:
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
