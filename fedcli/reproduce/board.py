"""Progress for a person while cells run: how many have ended in all processes, what each found, and the time left."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from .. import console
from ..bench.estimate import span
from ..stages.train import resolved
from .expand import Cell
from .shared import Outcome, Shared

LOOK = 10.0  # seconds between two looks at what other processes have done, while a cell is played here
BEFORE, ELSEWHERE = "was done already", "by another process"


@dataclass
class Board:
    """Attributes:
    number: a sentence on the number that a cell has found.
    ended: by name of the cell.
    left: rounds still to play, by name of the cell.
    """

    shared: Shared
    number: Callable[[Outcome], str]
    ended: dict[str, Outcome] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    playing: set[str] = field(default_factory=set)  # in this process
    played: int = 0  # rounds, here
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
            if cell.name not in self.ended and cell.name not in self.playing and (end := self.shared.ended(cell)):
                self.passed += self.left[cell.name] if how == ELSEWHERE else 0
                self.end(end, how)

    def played_round(self, cell: Cell, done: int, total: int) -> None:
        """Show how far a cell is."""
        self.played += 1
        self.passed += 1
        self.left[cell.name] = total - done
        if time.monotonic() - self.looked > LOOK:
            self.look()
        console.status(f"{self.count} {cell.name}: round {done}/{total}{self.rest}")

    def end(self, outcome: Outcome, how: str = "") -> Outcome:
        """Tell how a cell has ended. how: where it was, if not here and now."""
        name = outcome.cell.name
        self.playing.discard(name)
        told = name in self.ended
        self.ended[name], self.left[name] = outcome, 0
        if not outcome.scores:
            console.fail(f"{self.count} {name}: {outcome.sentence}", outcome.hint)
        elif not told or not how:
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
        return f"; {span(left * (time.monotonic() - self.began) / self.passed)} left" if self.passed and left else ""
