"""A recipe's cells as shell scripts: the very commands, each once, in the order they are run."""

import os
import re
import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .. import console
from ..errors import UsageError
from ..io.files import sync, write_text
from ..io.locks import scratch
from ..options import Options
from .expand import RecipeCell, stages_of
from .flags import PLACEHOLDER, placeholder, variable
from .recipe import Recipe, recipes_folder

Paths = dict[tuple[Options, ...], str]  # the path that a chain made, or the variable that holds it
LONGEST_NAME = 80
UNSCORED = (
    "Validation images choose the value: the same command without --dry-run scores the runs and "
    "shows test scores of the chosen value alone"
)


@dataclass
class Script:
    """Commands that make cells. They ask for folders and files that were not given in variables.

    Attributes:
        samples: dataset -> folder of its synthetic sample. source: the data of cells that make
            none.
        devices: of the cells that run side by side, one after another where it is one.
    """

    recipe: Recipe
    cells: list[RecipeCell]
    work: Path
    samples: dict[str, str] = field(default_factory=dict)
    source: Path | None = None
    devices: tuple[str, ...] = ("cpu",)

    def text(self) -> str:
        """One script of all cells; those of a device run one after another, beside those of the
        others."""
        paths = Paths()
        count = console.counted(len(self.cells), "cell", "cells")
        title = f"{self.recipe.title}: {count}"
        lines = self._head(self.cells, title)
        lines += self._samples() + self._files()
        if len(self.devices) == 1:
            for cell in self.cells:
                lines.append(self._title(cell))
                lines += self._data(cell, paths)
                lines += self._trained(cell, paths, self.devices[0])
            return _joined(lines)
        for cell in self.cells:
            lines += self._data(cell, paths)
        sides = range(min(len(self.devices), len(self.cells)))
        for k in sides:
            lines.append("(")
            for cell in self.cells[k :: len(self.devices)]:
                lines.append(self._title(cell))
                device = self.devices[k]
                lines += self._trained(cell, paths, device, wait=True)
            lines.append(f") & side_{k + 1}=$!")
        lines.append("failed=0")
        for k in sides:
            lines.append(f'wait "$side_{k + 1}" || failed=1')
        lines.append('exit "$failed"')
        return _joined(lines)

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
        paths = Paths()
        lines = self._head(self.cells, f"{self.recipe.title}: the data of all cells")
        lines += self._samples() + self._files()
        for cell in self.cells:
            lines += self._data(cell, paths)
        write_text(folder / "data.sh", _joined(lines))
        digits = len(str(len(self.cells)))
        for number, cell in enumerate(self.cells, 1):
            paths = Paths()
            lines = self._head([cell], f"{self.recipe.title}: {cell.name}")
            lines += self._data(cell, paths)
            device = self.devices[0]
            lines += self._trained(cell, paths, device, wait=True)
            file_words = re.sub(r"[^\w.=+-]+", "-", cell.name)
            name = file_words[:LONGEST_NAME].strip("-")
            file_name = f"{number:0{digits}}-{name}.sh"
            write_text(folder / file_name, _joined(lines))

    def _head(self, cells: list[RecipeCell], title: str) -> list[str]:
        lines = ["#!/bin/sh", f"# {title}"]
        if self.recipe.tests_of_chosen:
            lines.append(f"# {UNSCORED}")
        return [*lines, "set -e", *_questions(self.recipe, cells)]

    def _samples(self) -> list[str]:
        lines = []
        for name, folder in self.samples.items():
            command = shlex.join(["fedcli", "datasets", name, "--make-sample", folder])
            lines.append(f"[ -d {shlex.quote(folder)} ] || {command}")
        return lines

    def _files(self) -> list[str]:
        """Lines that write files of the recipes' folder, such as an augmentation, below the work
        folder, so that the script needs no folder of the machine that it was made on."""
        augments = {str(cell.train.augment) for cell in self.cells}
        paths = [Path(text) for text in augments if text.startswith(str(recipes_folder()))]
        lines = []
        for path in sorted(paths):
            target = _shared(str(path), self.work)
            copy = shlex.quote(target)
            text = path.read_text(encoding="utf-8")
            text = text.rstrip("\n")
            lines += [f'mkdir -p "$(dirname {copy})"', f"cat > {copy} <<'END'", text, "END"]
        return lines

    def _title(self, cell: RecipeCell) -> str:
        position = self.cells.index(cell) + 1
        return f"# [{position}/{len(self.cells)}] {cell.name}"

    def _data(self, cell: RecipeCell, paths: Paths) -> list[str]:
        lines = []
        paths.setdefault((), str(self.source or ""))
        for _, chain in stages_of([cell]):
            if chain not in paths:
                stage = chain[-1].stage
                of_stage = [other for other in paths if other and other[-1].stage == stage]
                name = f"{stage}_{len(of_stage) + 1}"
                command = _command(chain[-1], paths[chain[:-1]], self.work)
                lines.append(f"{name}=$({command})")
                paths[chain] = placeholder(name)
        return lines

    def _trained(
        self, cell: RecipeCell, paths: Paths, device: str, wait: bool = False
    ) -> list[str]:
        """The commands that train and score a cell. wait: for another cell that has the same
        training."""
        train = replace(cell.train, resume=True, device=device, wait=wait)
        command = _command(train, paths[cell.chain], self.work)
        lines = [f"run=$({command})"]
        if cell.evaluate and not self.recipe.tests_of_chosen:
            evaluate = replace(cell.evaluate, device=device)
            lines.append(_command(evaluate, placeholder("run"), self.work))
        return lines


def _joined(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def _questions(recipe: Recipe, cells: list[RecipeCell]) -> list[str]:
    """Lines that end a script where a variable of a folder or a file that its cells need is not
    set."""
    asked_for: set[str] = set()
    for cell in cells:
        asked_for |= cell.asks
    texts = {}
    for name in sorted({data.dataset for data in recipe.chains.values()}):
        texts[variable(name)] = f"the folder of {name} as downloaded"
    lines = []
    for name, file in recipe.files.items():
        word = variable(name, "file")
        texts[word] = f"the file {name}"
        if word in asked_for:
            lines.append(f"# {word}: {file.what}")
    for word, text in texts.items():
        if word in asked_for:
            lines.append(f': "${{{word}:?{text}}}"')
    return lines


def _command(options: Options, source: str, work: Path) -> str:
    if source:
        options = options.reading(source)
    folder: dict[str, Any] = {"work": work}
    words = replace(options, **folder).argv()
    return " ".join(["fedcli", *(_quoted(_shared(word, work)) for word in words)])


def _shared(word: str, work: Path) -> str:
    """A word in which files of the recipes' folder are those that the script writes."""
    return word.replace(str(recipes_folder()), str(work / "recipes"))


def _quoted(word: str) -> str:
    """A word as the shell reads it, with a variable where a path is asked for."""
    if not PLACEHOLDER.search(word):
        return shlex.quote(word)
    quoted = ""
    end = 0
    for match in PLACEHOLDER.finditer(word):
        quoted += _escaped(word[end : match.start()])
        end = match.end()
        # braces where a letter follows, which would belong to the name
        goes_on = re.match(r"\w", word[end:])
        quoted += f"${{{match[1]}}}" if goes_on else f"${match[1]}"
    quoted += _escaped(word[end:])
    return f'"{quoted}"'


def _escaped(text: str) -> str:
    return re.sub(r'([\\"$`])', r"\\\1", text)
