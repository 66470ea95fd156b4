"""Cells run one after another or side by side; one that fails is reported, and the rest goes on.

A stage that is done is found by its own command, so nothing is kept here about what was run before: the same command
goes on wherever the last one was killed.
"""

import contextlib
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from .. import console, extensions
from ..bench.estimate import span
from ..errors import FedcliError, of_system
from ..io.locks import Busy
from ..options import Options
from ..runs.resources import check_device
from ..stages import corrupt, evaluate, partition, prepare, train
from ..stages.options import TrainOptions
from ..stages.results import Result
from ..system import interrupts
from ..system.processes import Ended, one_each
from .expand import Cell

RUN: dict[str, Callable[[Any], Result]] = {
    "prepare": prepare.run,
    "partition": partition.run,
    "corrupt": corrupt.run,
}  # the stages that make data
Report = Callable[[int, int], None]  # (rounds played, rounds of the cell)


@dataclass(frozen=True)
class Outcome:
    """The end of a cell: the path of its scores.json, or in one sentence why there is none."""

    cell: Cell
    scores: Path | None
    sentence: str = ""
    hint: str = ""

    @property
    def path(self) -> Path:
        """The path of the scores.json of a cell that has one."""
        assert self.scores is not None, self.sentence
        return self.scores


@dataclass(frozen=True)
class Place:
    """Where cells run.

    Attributes:
        devices: one for each process; a cell takes the next that is free.
        debug: show the traceback of a cell that fails unexpectedly.
    """

    work: Path
    devices: tuple[str, ...] = ("cpu",)
    debug: bool = False


def devices(device: str, jobs: int | None) -> tuple[str, ...]:
    """The device of each process: `cuda` spreads over all GPUs, one process on each unless jobs says otherwise.

    Raises as check_device() does, before anything is trained.
    """
    check_device(device)
    several = torch.cuda.device_count() if device == "cuda" else 1
    jobs = jobs or max(several, 1)
    return tuple(f"cuda:{k % several}" if several > 1 else device for k in range(jobs))


def run(cells: list[Cell], sources: dict[tuple, Path | Outcome], place: Place) -> list[Outcome]:
    """Train and score every cell, in this order; cells of equal work are run once.

    sources: of make_data(): the data of each chain, or why there is none.
    Raises KeyboardInterrupt with everything saved.
    """
    tasks: dict[tuple, Cell] = {}
    for cell in cells:
        tasks.setdefault(cell.work, cell)
    data = {chain: source for chain, source in sources.items() if isinstance(source, Path)}
    faults = {chain: source for chain, source in sources.items() if isinstance(source, Outcome)}
    board = _Board(list(tasks.values()))
    ready = [cell for cell in tasks.values() if cell.chain in data]
    play = _one_by_one if len(place.devices) == 1 else _side_by_side
    outcomes = {outcome.cell.work: outcome for outcome in play(ready, data, place, board)}
    return [replace(outcomes.get(cell.work) or faults[cell.chain], cell=cell) for cell in cells]


def make_data(cells: list[Cell], place: Place) -> dict[tuple, Path | Outcome]:
    """The manifest of every chain's data, made where it is missing; a failed stage is reported once.

    Raises FedcliError where no cell has data.
    """
    made: dict[tuple, Path | Outcome] = {}
    for cell in cells:
        for stage in range(len(cell.chain)):
            upto, above = cell.chain[: stage + 1], made.get(cell.chain[:stage])
            if upto in made:
                continue
            if isinstance(above, Outcome):
                made[upto] = above
                continue
            folder: dict[str, Any] = {"work": place.work}
            options = replace(upto[-1].reading(above) if above else upto[-1], **folder)
            outcome = _tried(cell, partial(_made, options), place.debug)
            made[upto] = outcome.scores or outcome
    faults = {outcome.sentence: outcome for outcome in made.values() if isinstance(outcome, Outcome)}
    if faults and all(isinstance(made[cell.chain], Outcome) for cell in cells):
        raise FedcliError("; ".join(faults), next(iter(faults.values())).hint)
    for fault in faults.values():
        console.fail(f"data of {fault.cell.name}: {fault.sentence}", fault.hint)
    return made


def _made(options: Options) -> Path:
    """The manifest of one stage's data."""
    return RUN[options.stage](options).path


def _tried(cell: Cell, work: Callable[[], Path], debug: bool = False) -> Outcome:
    """The path that some work gives, or the sentence in which it ended."""
    try:
        return Outcome(cell, work())
    except FedcliError as error:
        if error.code == 130 or interrupts.came():
            raise KeyboardInterrupt from None
        return Outcome(cell, None, error.sentence, error.hint)
    except Exception as error:  # one cell's fault is not the next one's: it is reported, and shows in the exit code
        if interrupts.came():
            raise KeyboardInterrupt from None
        if debug:
            traceback.print_exc()
        if fault := extensions.fault(error) or of_system(error):
            return Outcome(cell, None, fault.sentence, fault.hint)
        return Outcome(cell, None, f"unexpected {type(error).__name__}: {error}")


def _play(cell: Cell, source: Path, place: Place, device: str, report: Report) -> Outcome:
    """Train and score one cell in this process."""

    def stages() -> Path:
        with own_threads(), console.muted(report):
            run = _trained(cell, replace(cell.train, data=source, device=device, work=place.work, resume=True))
        with own_threads(), console.muted():
            return evaluate.run(replace(cell.evaluate, run=run, device=device, work=place.work)).path

    return _tried(cell, stages, place.debug)


def _trained(cell: Cell, options: TrainOptions) -> Result:
    """The run of a cell; one that another process trains is waited for."""
    while True:
        try:
            return train.run(options)
        except Busy as busy:
            console.status(f"{cell.name}: waiting for another process, which trains it")
            busy.wait()


@contextlib.contextmanager
def own_threads() -> Iterator[None]:
    """A stage sets the threads of its process; the next cell begins as a process of its own would."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass
class _Board:
    """Progress for a person while cells run: which one is where, and how long the rest will take."""

    cells: list[Cell]
    left: dict[str, int] = field(default_factory=dict)  # rounds still to play, by name of cell
    played: int = 0  # rounds since the start
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.left = {cell.name: train.resolved(cell.train).rounds for cell in self.cells}

    def label(self, cell: Cell) -> str:
        return f"[{self.cells.index(cell) + 1}/{len(self.cells)}] {cell.name}"

    def played_round(self, cell: Cell, done: int, total: int) -> None:
        self.played += 1
        self.left[cell.name] = total - done
        console.status(f"{self.label(cell)}: round {done}/{total}{self.rest}")

    def ended(self, outcome: Outcome, played: bool) -> None:
        self.left[outcome.cell.name] = 0
        if outcome.scores:
            console.say(f"{self.label(outcome.cell)}: {'done' if played else 'was done already'}{self.rest}")
        else:
            console.fail(f"{self.label(outcome.cell)}: {outcome.sentence}", outcome.hint)

    @property
    def rest(self) -> str:
        """The time left, at the pace since the start; nothing where that cannot be said."""
        left = sum(self.left.values())
        return f", {span(left * (time.monotonic() - self.began) / self.played)} left" if self.played and left else ""


def _one_by_one(cells: list[Cell], sources: dict[tuple, Path], place: Place, board: _Board) -> Iterator[Outcome]:
    for cell in cells:
        before = board.played
        outcome = _play(cell, sources[cell.chain], place, place.devices[0], partial(board.played_round, cell))
        board.ended(outcome, board.played > before)
        yield outcome


def _side_by_side(cells: list[Cell], sources: dict[tuple, Path], place: Place, board: _Board) -> Iterator[Outcome]:
    """Each cell in a process of its own."""
    tasks = [(cell, sources[cell.chain], place) for cell in cells]
    began: set[int] = set()
    with contextlib.closing(one_each(_play, tasks, place.devices, preload=__name__)) as messages:
        for index, message in messages:
            if not isinstance(message, Ended):
                began.add(index)
                board.played_round(cells[index], *message)
                continue
            outcome = message.value or _killed(cells[index], message)
            board.ended(outcome, index in began)
            yield outcome


def _killed(cell: Cell, process: Ended) -> Outcome:
    sentence = f"its process ended without a result (code {process.code})"
    return Outcome(cell, None, sentence, "it may have run out of memory; give fewer --jobs")
