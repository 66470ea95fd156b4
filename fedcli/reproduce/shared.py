"""Cells that several processes play on one work folder: which have ended, which this process has, how they are dealt.

cells/<id>.json     how a cell has ended: where its scores are below the work folder, or why there are none
cells/held/<id>.0   what a process plays at the moment, see io/claims.py
"""

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from .. import console
from ..bench.estimate import span
from ..data import manifest
from ..errors import FedcliError, UsageError
from ..io.claims import Claims
from ..io.files import read_text, write_text
from ..methods import resolve
from ..stages.train import resolved
from .expand import Cell
from .plan import passes_of, per_image

CELLS, HELD = "cells", "cells/held"  # below the work folder
LOOK = (
    10.0  # seconds between two looks at what other processes have done, while a cell is played here
)
BEFORE, ELSEWHERE = "was done already", "by another process"
KEYS = {"scores"}, {"failed", "hint", "at"}  # of the file of a cell
PASSES = {
    "step": 3.0,
    "forward": 1.0,
    "traffic": 0.0,
}  # forward and backward take three times as long as forward


@dataclass(frozen=True)
class Outcome:
    """The end of a cell: the path of its scores.json, of its run.json where it is not scored, or in one sentence why
    there is none."""

    cell: Cell
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
    """The cells of a table, those that are equal once, and what became of each in this process or another."""

    def __init__(
        self,
        work: Path,
        asked: Sequence[Cell],
        sources: Sources,
        part: str = "",
        *,
        wait: bool = True,
    ):
        """asked: all cells; `cells` are those that have data, of equal work the first, and `mine` those to play here.

        part: of `cells`, such as "3/8"; "" for all. wait: until all have ended. Raises UsageError for another part.
        """
        self.work, self.asked, self.sources, self.wait = work, asked, sources, wait
        first = {cell.work: cell for cell in reversed(asked)}
        unlike = [cell for cell in asked if first[cell.work] is cell]
        self.data = {cell: made for cell in unlike if isinstance(made := sources[cell.chain], Path)}
        self.cells = list(self.data)
        self.mine = dealt(self.data, part) if part else self.cells
        self.table = _digest([self._id(cell) for cell in self.cells])
        self.claims = Claims(work / HELD, self.table)
        self._failed_before = {
            cell: why for cell in self.mine if (why := self._read(cell)) and "failed" in why
        }

    def claim(self, cell: Cell) -> bool:
        """Take a cell and its trainings, which other cells may have too."""
        names = self._claims_of(cell)
        taken = [*takewhile(self.claims.take, names)]
        if len(taken) == len(names):
            return True
        for name in taken:
            self.claims.give_back(name)
        return False

    def give_back(self, cell: Cell) -> None:
        """Leave a cell that was claimed to others."""
        for name in self._claims_of(cell):
            self.claims.give_back(name)

    def end(self, outcome: Outcome) -> None:
        """Write down how a claimed cell has ended, for all processes."""
        known = {"failed": outcome.sentence, "hint": outcome.hint, "at": str(time.time_ns())}
        if outcome.scores:
            known = {"scores": outcome.scores.resolve().relative_to(self.work.resolve()).as_posix()}
        write_text(self._path(outcome.cell), json.dumps(known, ensure_ascii=False) + "\n")
        self.give_back(outcome.cell)

    def ended(self, cell: Cell) -> Outcome | None:
        """The end of a cell, in any process; None where it has none, or failed before this process began."""
        known = self._read(cell)
        if known is None or known == self._failed_before.get(cell):
            return None
        if "failed" in known:
            return Outcome(cell, None, known["failed"], known["hint"])
        with suppress(FedcliError):  # a path that leads out of the folder
            if (scores := manifest.inside(self.work, known["scores"])).is_file():
                return Outcome(cell, scores)
        return None

    def left_to_others(self, cells: Sequence[Cell]) -> bool:
        """Tell whether all of these are played by processes that make this table too, and finish it.

        Who has only a training of a cell, for another cell, does not score it.
        """
        return all(self.claims.holder(self._id(cell)) == self.table for cell in cells)

    def joins(self) -> bool:
        """Tell whether this process is to write the table; no other has taken that upon it at the same time."""
        return self.claims.take(self.table)

    def __exit__(self, *_: object) -> None:
        self.claims.__exit__()

    def _read(self, cell: Cell) -> dict[str, str] | None:
        with suppress(
            FedcliError, ValueError, RecursionError
        ):  # it is not there, or damaged: the cell is played
            known = json.loads(read_text(self._path(cell)))
            if (
                isinstance(known, dict)
                and {*known} in KEYS
                and all(isinstance(text, str) for text in known.values())
            ):
                return known
        return None

    def _path(self, cell: Cell) -> Path:
        return self.work / CELLS / f"{self._id(cell)}.json"

    def _id(self, cell: Cell) -> str:
        return _digest(
            [cell.train.argv(), cell.evaluate.argv() if cell.evaluate else None, self._data(cell)]
        )

    def _claims_of(self, cell: Cell) -> list[str]:
        """The names under which it and its trainings are claimed."""
        stages = [cell.train]
        if cell.train.then:
            stages.insert(0, replace(cell.train, then=None))
        trainings = [_digest([stage.argv(), self._data(cell)]) for stage in stages]
        return [self._id(cell), *trainings]

    def _data(self, cell: Cell) -> str:
        return manifest.sha256(self.data[cell])


@dataclass
class Board:
    """Progress for a person: how many cells have ended in all processes, what each found, and the time left.

    number: a sentence on the number that a cell has found.
    ended: by name of the cell.
    left: rounds still to play, by name of the cell.
    """

    shared: Shared
    number: Callable[[Outcome], str]
    ended: dict[str, Outcome] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    playing: set[str] = field(default_factory=set)  # in this process
    begun: set[str] = field(default_factory=set)  # cells of which a round was played here
    passed: int = 0  # rounds since the start, here and elsewhere
    began: float = field(default_factory=time.monotonic)
    looked: float = 0.0

    def __post_init__(self) -> None:
        self.left = {cell.name: resolved(cell.train).rounds for cell in self.shared.cells}
        self.look(BEFORE)

    def look(self, how: str = ELSEWHERE) -> None:
        """Tell of cells that have ended since in other processes."""
        self.looked = time.monotonic()
        for cell in self.shared.cells:
            if (
                cell.name not in self.ended
                and cell.name not in self.playing
                and (end := self.shared.ended(cell))
            ):
                self.passed += self.left[cell.name] if how == ELSEWHERE else 0
                self.end(end, how)

    def played_round(self, cell: Cell, done: int, total: int) -> None:
        """Show how far a cell is."""
        self.begun.add(cell.name)
        self.passed += 1
        self.left[cell.name] = total - done
        if time.monotonic() - self.looked > LOOK:
            self.look()
        console.status(f"{self.count} {cell.name}: round {done}/{total}{self.rest}")

    def end(self, outcome: Outcome, how: str = "") -> Outcome:
        """Tell how a cell has ended. how: where it was, if not in this process."""
        name = outcome.cell.name
        how = how or BEFORE * (name not in self.begun)
        self.playing.discard(name)
        shown_before = name in self.ended
        self.ended[name], self.left[name] = outcome, 0
        if not outcome.scores:
            console.fail(f"{self.count} {name}: {outcome.sentence}", outcome.hint)
        elif not shown_before or not how:
            found = self.number(outcome)
            said = f"{found} ({how})" if found and how else found or how or "done"
            console.say(f"{self.count} {name}: {said}{self.rest}")
        return outcome

    @property
    def count(self) -> str:
        """The number of cells that have ended."""
        return f"[{len(self.ended)}/{len(self.shared.cells)}]"

    @property
    def rest(self) -> str:
        """The time left, at the pace since the start; nothing where that cannot be said."""
        left = sum(self.left.values())
        return (
            f"; {span(left * (time.monotonic() - self.began) / self.passed)} left"
            if self.passed and left
            else ""
        )


def _digest(what: Any) -> str:
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]


def dealt(sources: dict[Cell, Path], part: str) -> list[Cell]:
    """One of several parts of the cells that take about as long, equal wherever it is asked. part: see part_of()."""
    which, count = part_of(part)
    lengths = {cell: _length(cell, source) for cell, source in sources.items()}
    took, parts = [0.0] * count, [set[Cell]() for _ in range(count)]
    for cell in sorted(
        sources, key=lambda cell: -lengths[cell]
    ):  # the longest first, to the least laden
        least = took.index(min(took))
        took[least] += lengths[cell]
        parts[least].add(cell)
    return [cell for cell in sources if cell in parts[which - 1]]


def part_of(text: str) -> tuple[int, int]:
    """The number of a part and how many there are, "3/8" the third of eight. Raises UsageError."""
    which, slash, count = text.partition("/")
    whole = slash and all(
        word.isascii() and word.isdecimal() and len(word) < 6 for word in (which, count)
    )
    if not whole or not 1 <= int(which) <= int(count):
        raise UsageError(
            f"--cells {text!r} is no part",
            "write for example --cells 3/8, the third of eight parts",
        )
    return int(which), int(count)


def _length(cell: Cell, source: Path) -> float:
    """The length of a cell beside others, in passes forward over an image."""
    plan = resolved(cell.train)
    passes, _ = per_image(PASSES, passes_of(resolve(plan.method or "")), plan.epochs)
    return plan.rounds * images(source) * passes


def images(source: Path) -> int:
    """The images that the clients of a manifest train on."""
    return sum(client["train"] for client in manifest.read(source).body["roster"])
