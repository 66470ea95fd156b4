"""Cells that several processes play on one work folder: which have ended, which this process has,
how they are dealt.

cells/<id>.json     how a cell has ended: where its scores are below the work folder, or why there
are none cells/held/<id>.0   what a process plays at the moment, see io/claims.py
"""

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .. import console, shapes
from ..bench.estimate import span
from ..bench.passes import passes_of
from ..data import manifest
from ..data.not_chosen import CELLS, SWEEP
from ..errors import FedcliError, UsageError
from ..io.claims import Claims
from ..io.files import write_text
from ..methods import resolve
from ..stages.train import resolved
from .expand import RecipeCell
from .plan import per_image

HELD = f"{CELLS}/held"  # below the work folder
# seconds between two looks at what other processes have done, while a cell is played here
LOOK = 10.0
BEFORE, ELSEWHERE = "was done already", "by another process"
KEYS = {"scores"}, {"scores", SWEEP}, {"failed", "hint", "at"}  # of the file of a cell
LONGEST_NUMBER = 5  # digits of a part's number
# forward and backward take three times as long as forward
PASSES = {"step": 3.0, "forward": 1.0, "traffic": 0.0}


@dataclass(frozen=True)
class Outcome:
    """The end of a cell: the path of its scores.json, of its run.json where it is not scored, or in
    one sentence why there is none."""

    cell: RecipeCell
    scores: Path | None
    sentence: str = ""
    hint: str = ""

    @property
    def path(self) -> Path:
        """The path that a cell which has ended well has."""
        assert self.scores is not None, self.sentence
        return self.scores


Sources = dict[tuple, Path | Outcome]  # chain -> the manifest of its data, or why there is none


class Shared(AbstractContextManager["Shared"]):
    """The cells of a table, those that are equal once, and what became of each in this process or
    another.

    Attributes:
        every_cell: all cells. cells: those that have data, of equal work the first. mine: those to
            play here.
        data: cell -> the manifest of its data.
        wait: until all have ended.
        sweep: its folder's name where test scores are shown of the chosen cells alone, else "".
    """

    def __init__(
        self,
        work: Path,
        every_cell: Sequence[RecipeCell],
        sources: Sources,
        part: str = "",
        *,
        wait: bool = True,
        sweep: str = "",
    ):
        """part: of `cells`, such as "3/8"; "" for all. Raises UsageError for another part."""
        self.work = work
        self.every_cell = every_cell
        self.sources = sources
        self.wait = wait
        self.sweep = sweep
        cell_of_work: dict[Any, RecipeCell] = {}
        for cell in every_cell:
            cell_of_work.setdefault(cell.work, cell)
        self.data: dict[RecipeCell, Path] = {}
        for cell in cell_of_work.values():
            source = sources[cell.chain]
            if isinstance(source, Path):
                self.data[cell] = source
        self.cells = list(self.data)
        self.mine = dealt(self.data, part) if part else self.cells
        self.table = _digest([self._id(cell) for cell in self.cells])
        self.claims = Claims(work / HELD, self.table)
        self._failed_before: dict[RecipeCell, dict[str, str]] = {}
        for cell in self.mine:
            end = self._read(cell)
            if end and "failed" in end:
                self._failed_before[cell] = end

    def claim(self, cell: RecipeCell) -> bool:
        """Take a cell and its trainings, which other cells may have too."""
        claimed: list[str] = []
        for name in self._claims_of(cell):
            if not self.claims.take(name):
                for other in claimed:
                    self.claims.give_back(other)
                return False
            claimed.append(name)
        return True

    def give_back(self, cell: RecipeCell) -> None:
        """Leave a cell that was claimed to others."""
        for name in self._claims_of(cell):
            self.claims.give_back(name)

    def end(self, outcome: Outcome) -> None:
        """Write down how a claimed cell has ended, for all processes."""
        if outcome.scores:
            end = {"scores": under(self.work, outcome.scores)}
            if self.sweep:
                end[SWEEP] = self.sweep
        else:
            end = {
                "failed": outcome.sentence,
                "hint": outcome.hint,
                "at": str(time.time_ns()),
            }
        line = json.dumps(end, ensure_ascii=False)
        write_text(self._path(outcome.cell), line + "\n")
        self.give_back(outcome.cell)

    def ended(self, cell: RecipeCell) -> Outcome | None:
        """The end of a cell, in any process; None where it has none, or failed before this process
        began."""
        end = self._read(cell)
        if end is None or end == self._failed_before.get(cell):
            return None
        if "failed" in end:
            return Outcome(cell, None, end["failed"], end["hint"])
        name = Path(end["scores"])
        leads_out = name.is_absolute() or ".." in name.parts
        if not leads_out and (self.work / name).is_file():
            return Outcome(cell, self.work / name)
        return None

    def left_to_others(self, cells: Sequence[RecipeCell]) -> bool:
        """Tell whether all of these are played by processes that make this table too, and finish
        it.

        Who has only a training of a cell, for another cell, does not score it.
        """
        return all(self.claims.holder(self._id(cell)) == self.table for cell in cells)

    def joins(self) -> bool:
        """Tell whether this process is to write the table; no other has taken that upon it at the
        same time."""
        return self.claims.take(self.table)

    def __exit__(self, *_: object) -> None:
        self.claims.__exit__()

    def _read(self, cell: RecipeCell) -> dict[str, str] | None:
        """The file of a cell; None where it is not there, or damaged: the cell is played."""
        try:
            end = shapes.read_json(self._path(cell), {str: str})
        except FedcliError:
            return None
        return end if set(end) in KEYS else None

    def _path(self, cell: RecipeCell) -> Path:
        folder = self.work / CELLS
        return folder / f"{self._id(cell)}.json"

    def _id(self, cell: RecipeCell) -> str:
        evaluate = cell.evaluate.argv() if cell.evaluate else None
        return _digest([cell.train.argv(), evaluate, self._data(cell)])

    def _claims_of(self, cell: RecipeCell) -> list[str]:
        """The names under which it and its trainings are claimed."""
        names = [self._id(cell)]
        if cell.train.then:
            this_cell_alone = replace(cell.train, then=None)
            names.append(self._training(this_cell_alone, cell))
        names.append(self._training(cell.train, cell))
        return names

    def _training(self, train: Any, cell: RecipeCell) -> str:
        return _digest([train.argv(), self._data(cell)])

    def _data(self, cell: RecipeCell) -> str:
        return manifest.sha256(self.data[cell])


def under(work: Path, path: Path) -> str:
    """A path from the work folder on. Runs may lie behind a link that leads out of it."""
    absolute = path.absolute()
    if absolute.is_relative_to(work.absolute()):
        return absolute.relative_to(work.absolute()).as_posix()
    return path.resolve().relative_to(work.resolve()).as_posix()


@dataclass
class Board:
    """Progress for a person: how many cells have ended in all processes, what each found, and the
    time left.

    number: a sentence on the number that a cell has found.
    ended: by name of the cell.
    rounds_left: rounds still to play, by name of the cell.
    """

    shared: Shared
    number: Callable[[Outcome], str]
    ended: dict[str, Outcome] = field(default_factory=dict)
    rounds_left: dict[str, int] = field(default_factory=dict)
    playing: set[str] = field(default_factory=set)  # in this process
    begun: set[str] = field(default_factory=set)  # cells of which a round was played here
    passed: int = 0  # rounds since the start, here and elsewhere
    began: float = field(default_factory=time.monotonic)
    looked: float = 0.0

    def __post_init__(self) -> None:
        for cell in self.shared.cells:
            self.rounds_left[cell.name] = resolved(cell.train).rounds
        self.look(BEFORE)

    def look(self, how: str = ELSEWHERE) -> None:
        """Tell of cells that have ended since in other processes."""
        self.looked = time.monotonic()
        for cell in self.waiting():
            end = self.shared.ended(cell)
            if end:
                if how == ELSEWHERE:
                    self.passed += self.rounds_left[cell.name]
                self.end(end, how)

    def waiting(self) -> list[RecipeCell]:
        """The cells that have not ended and are not played in this process."""
        busy = self.ended.keys() | self.playing
        return [cell for cell in self.shared.cells if cell.name not in busy]

    def played_round(self, cell: RecipeCell, done: int, total: int) -> None:
        """Show how far a cell is."""
        self.begun.add(cell.name)
        self.passed += 1
        self.rounds_left[cell.name] = total - done
        if time.monotonic() - self.looked > LOOK:
            self.look()
        console.status(f"{self.count} {cell.name}: round {done}/{total}{self.rest}")

    def end(self, outcome: Outcome, how: str = "") -> Outcome:
        """Tell how a cell has ended. how: where it was, if not in this process."""
        name = outcome.cell.name
        if not how and name not in self.begun:
            how = BEFORE
        self.playing.discard(name)
        is_known = name in self.ended
        self.ended[name] = outcome
        self.rounds_left[name] = 0
        if not outcome.scores:
            console.fail(f"{self.count} {name}: {outcome.sentence}", outcome.hint)
        elif not is_known or not how:
            text = _joined(self.number(outcome), how)
            console.say(f"{self.count} {name}: {text}{self.rest}")
        return outcome

    @property
    def count(self) -> str:
        """The number of cells that have ended."""
        return f"[{len(self.ended)}/{len(self.shared.cells)}]"

    @property
    def rest(self) -> str:
        """The time left, at the pace since the start; nothing where that cannot be said."""
        rounds = sum(self.rounds_left.values())
        if not self.passed or not rounds:
            return ""
        elapsed = time.monotonic() - self.began
        seconds = rounds * elapsed / self.passed
        return f"; {span(seconds)} left"


def _joined(number: str, how: str) -> str:
    """The number of a cell, and where it was found."""
    if number and how:
        return f"{number} ({how})"
    return number or how or "done"


def _digest(body: Any) -> str:
    text = json.dumps(body)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def dealt(sources: dict[RecipeCell, Path], part: str) -> list[RecipeCell]:
    """One of several parts of the cells that take about as long, equal wherever it is asked. part:
    see part_of()."""
    number, count = part_of(part)
    lengths = {cell: _length(cell, source) for cell, source in sources.items()}
    loads = [0.0] * count
    part_of_cell = {}
    # the longest first, to the least laden
    for cell in sorted(sources, key=lambda cell: -lengths[cell]):
        least = loads.index(min(loads))
        loads[least] += lengths[cell]
        part_of_cell[cell] = least + 1
    return [cell for cell in sources if part_of_cell[cell] == number]


def part_of(text: str) -> tuple[int, int]:
    """The number of a part and how many there are, "3/8" the third of eight. Raises UsageError."""
    number, _, count = text.partition("/")
    if _is_count(number) and _is_count(count) and 1 <= int(number) <= int(count):
        return int(number), int(count)
    hint = "write for example --cells 3/8, the third of eight parts"
    raise UsageError(f"--cells {text!r} is no part", hint)


def _is_count(word: str) -> bool:
    return word.isascii() and word.isdecimal() and len(word) <= LONGEST_NUMBER


def _length(cell: RecipeCell, source: Path) -> float:
    """The length of a cell beside others, in passes forward over an image."""
    plan = resolved(cell.train)
    passes_per_step = passes_of(resolve(plan.method or "", dict(plan.set)))
    passes, _ = per_image(
        PASSES,
        passes_per_step,
        plan.epochs,
    )
    return plan.rounds * images(source) * passes


def images(source: Path) -> int:
    """The images that the clients of a manifest train on."""
    roster = manifest.read(source).body["roster"]
    return sum(client["train"] for client in roster)
