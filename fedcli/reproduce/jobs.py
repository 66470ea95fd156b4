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

from .. import console, extensions, models
from ..bench.estimate import span
from ..errors import FedcliError, of_system
from ..methods import resolve
from ..runs.resources import check_device, free
from ..stages import corrupt, evaluate, partition, prepare, train
from ..stages.results import Result
from ..system import interrupts, processes
from ..system.processes import Ended, one_each
from .expand import Cell, stages_of

RUN: dict[str, Callable[[Any], Result]]  # the stages that make data
RUN = {"prepare": prepare.run, "partition": partition.run, "corrupt": corrupt.run}
Report = Callable[[int, int], None]  # (rounds played, rounds of the cell)


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


def devices(device: str, jobs: int | None, cells: list[Cell]) -> tuple[str, ...]:
    """The device of each process that plays cells: `cuda` spreads over all GPUs, one process on each unless jobs says
    otherwise, and the CPU has a process on each core where every training is of one thread.

    Raises as check_device() does, before anything is trained.
    """
    check_device(device)
    several = torch.cuda.device_count() if device == "cuda" else 1
    jobs = jobs or (_at_once(cells) if device == "cpu" else max(several, 1))
    return tuple(f"cuda:{k % several}" if several > 1 else device for k in range(jobs))


def _at_once(cells: list[Cell]) -> int:
    """As many as there are cores and GiB of free memory, or one, which then has all cores: for a large network, and for
    code that another process does not have."""
    for cell in cells:
        plan = train.resolved(cell.train)
        alone = plan.engine or plan.at_once or plan.sites or resolve(plan.method or "").module == "__main__"
        if alone or (plan.threads or models.describe(plan.model).threads) != 1:
            return 1
    room = max(1, free("cpu") // 2**30) if free("cpu") else len(cells)
    return min(processes.cores(), len({cell.work for cell in cells}), room)


def make_data(cells: list[Cell], place: Place) -> Sources:
    """The manifest of every chain's data, made where it is missing; a failed stage is reported once.

    Raises FedcliError where no cell has data.
    """
    sources: Sources = {}
    for cell, chain in stages_of(cells):
        above = sources.get(chain[:-1])
        if isinstance(above, Outcome):
            sources[chain] = above
            continue
        folder: dict[str, Any] = {"work": place.work}
        options = replace(chain[-1].reading(above) if above else chain[-1], **folder)
        outcome = _tried(cell, partial(RUN[options.stage], options), place.debug)
        sources[chain] = outcome.scores or outcome
    faults = {outcome.sentence: outcome for outcome in sources.values() if isinstance(outcome, Outcome)}
    if faults and all(isinstance(sources[cell.chain], Outcome) for cell in cells):
        raise FedcliError("; ".join(faults), next(iter(faults.values())).hint)
    for fault in faults.values():
        console.fail(f"data of {fault.cell.name}: {fault.sentence}", fault.hint)
    return sources


def run(cells: list[Cell], sources: Sources, place: Place) -> list[Outcome]:
    """Train and score every cell, in this order; cells of equal work are run once.

    Raises KeyboardInterrupt with everything saved.
    """
    tasks: dict[tuple, Cell] = {}
    for cell in cells:
        tasks.setdefault(cell.work, cell)
    board = _Board(list(tasks.values()))
    ready = [(cell, source) for cell in tasks.values() if isinstance(source := sources[cell.chain], Path)]
    play = _one_by_one if len(place.devices) == 1 else _side_by_side
    outcomes = {outcome.cell.work: outcome for outcome in play(ready, place, board)}
    faults = {chain: source for chain, source in sources.items() if isinstance(source, Outcome)}
    return [replace(outcomes.get(cell.work) or faults[cell.chain], cell=cell) for cell in cells]


def refuse_failed(outcomes: list[Outcome], singular: str, plural: str) -> None:
    """Raise FedcliError where a cell has failed. singular, plural: what a cell is called."""
    if failed := [outcome for outcome in outcomes if not outcome.scores]:
        raise FedcliError(
            f"{len(failed)} of {console.counted(len(outcomes), singular, plural)} failed: {failed[0].cell.name}"
            + (" and others" if len(failed) > 1 else ""),
            "the reason of each stands above; mend it and give the same command again: the others are not redone",
        )


def _tried(cell: Cell, work: Callable[[], Result], debug: bool = False) -> Outcome:
    """The outcome of some work: the path of what it makes, or the sentence in which it ended."""
    try:
        return Outcome(cell, Path(work()))
    except Exception as error:  # one cell's fault is not the next one's: it is reported, and shows in the exit code
        if interrupts.came() or (isinstance(error, FedcliError) and error.code == 130):
            raise KeyboardInterrupt from None
        if debug and not isinstance(error, FedcliError):
            traceback.print_exc()
        fault = told(error)
        return Outcome(cell, None, fault.sentence, fault.hint)


def told(error: Exception) -> FedcliError:
    """An error of any kind as one that a user reads."""
    if isinstance(error, FedcliError):
        return error
    unexpected = FedcliError(f"unexpected {type(error).__name__}: {error}", "--debug shows where")
    return extensions.fault(error) or of_system(error) or unexpected


def _play(cell: Cell, source: Path, place: Place, device: str, report: Report) -> Outcome:
    """Train and score one cell in this process."""

    def stages() -> Result:
        with own_threads(), console.muted(report):
            run = train.run(replace(cell.train, data=source, device=device, work=place.work, resume=True, wait=True))
        if cell.evaluate is None:
            return run
        with own_threads(), console.muted():
            return evaluate.run(replace(cell.evaluate, run=run, device=device, work=place.work))

    return _tried(cell, stages, place.debug)


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

    def ended(self, outcome: Outcome, played: bool) -> Outcome:
        self.left[outcome.cell.name] = 0
        if outcome.scores:
            console.say(f"{self.label(outcome.cell)}: {'done' if played else 'was done already'}{self.rest}")
        else:
            console.fail(f"{self.label(outcome.cell)}: {outcome.sentence}", outcome.hint)
        return outcome

    @property
    def rest(self) -> str:
        """The time left, at the pace since the start; nothing where that cannot be said."""
        left = sum(self.left.values())
        return f", {span(left * (time.monotonic() - self.began) / self.played)} left" if self.played and left else ""


def _one_by_one(cells: list[tuple[Cell, Path]], place: Place, board: _Board) -> Iterator[Outcome]:
    for cell, source in cells:
        before = board.played
        outcome = _play(cell, source, place, place.devices[0], partial(board.played_round, cell))
        yield board.ended(outcome, board.played > before)


def _side_by_side(cells: list[tuple[Cell, Path]], place: Place, board: _Board) -> Iterator[Outcome]:
    """Each cell in a process of its own."""
    began: set[int] = set()
    tasks = [(cell, source, place) for cell, source in cells]
    with contextlib.closing(one_each(_play, tasks, place.devices, preload=__name__)) as messages:
        for index, message in messages:
            cell, _ = cells[index]
            if isinstance(message, Ended):
                sentence = f"its process ended without a result (code {message.code})"
                killed = Outcome(cell, None, sentence, "it may have run out of memory; give fewer --jobs")
                yield board.ended(message.value or killed, index in began)
            else:
                began.add(index)
                board.played_round(cell, *message)
