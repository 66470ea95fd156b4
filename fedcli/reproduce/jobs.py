"""Cells run one after another or side by side, here and in other processes; one that fails is reported.

A stage that is done is found by its own command, so the same command goes on wherever the last one was killed.
"""

import contextlib
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from .. import console, extensions, models
from ..bench.measuring import threads
from ..data import manifest
from ..errors import FedcliError, UsageError, of_system
from ..io.claims import Claims
from ..methods import resolve
from ..runs.resources import check_device, free
from ..stages import corrupt, evaluate, partition, prepare, train
from ..stages.results import Result
from ..system import interrupts, processes
from ..system.processes import Ended, one_each
from .expand import Cell, stages_of
from .shared import HELD, Board, Outcome, Shared, Sources

RUN: dict[str, Any] = {
    "prepare": prepare.run,
    "partition": partition.run,
    "corrupt": corrupt.run,
}  # that make data
CONTEXT = 2**29  # bytes that a process holds on a GPU beside its tensors
POLL = 1.0  # seconds between two looks at what other processes hold


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


def devices(
    device: str, jobs: int | None, cells: list[Cell], at_once: int | None = None
) -> tuple[str, ...]:
    """The device of each process that plays cells: `cuda` spreads over all GPUs, at_once processes on each (one unless
    it or jobs says otherwise), and the CPU has a process on each core where every training is of one thread.

    Raises as check_device() does, before anything is trained; UsageError for at_once on the CPU.
    """
    if at_once and device == "cpu":
        raise UsageError("--at-once is about cells on one GPU", "give --jobs, or add --device cuda")
    check_device(device)
    return spread(device, jobs or (_at_once(cells) if device == "cpu" else None), at_once)


def spread(device: str, jobs: int | None, at_once: int | None) -> tuple[str, ...]:
    """The device of each of so many processes, of one on each GPU where no number is given."""
    several = max(torch.cuda.device_count(), 1) if device == "cuda" else 1
    jobs = jobs or (at_once or 1) * several
    return tuple(f"cuda:{k % several}" if several > 1 else device for k in range(jobs))


def fitting(place: Place, needed: int, free: int) -> Place:
    """The place with as many processes on each GPU as its memory holds, at least one.

    needed, free: bytes of the largest cell, and those that a GPU has; 0 where unknown.
    """
    if place.devices[0] == "cpu" or not (needed and free):
        return place
    most = max(1, free // (needed + CONTEXT))
    kept = [each for k, each in enumerate(place.devices) if place.devices[:k].count(each) < most]
    if len(kept) < len(place.devices):
        console.say(
            f"Cells at a time on each GPU: {most}; one takes up to {needed >> 30} of {free >> 30} GiB"
        )
    return replace(place, devices=tuple(kept))


def _at_once(cells: list[Cell]) -> int:
    """As many as there are cores and GiB of free memory, or one, which then has all cores: for a large network, and for
    code that another process does not have."""
    for cell in cells:
        plan = train.resolved(cell.train)
        alone = (
            plan.engine
            or plan.at_once
            or plan.sites
            or resolve(plan.method or "").module == "__main__"
        )
        if alone or (plan.threads or models.describe(plan.model).threads) != 1:
            return 1
    room = max(1, free("cpu") // 2**30) if free("cpu") else len(cells)
    return min(processes.cores(), len({cell.work for cell in cells}), room)


def make_data(cells: list[Cell], place: Place) -> Sources:
    """The manifest of every chain's data, made where it is missing by one process alone; a failed stage is reported
    once.

    Raises FedcliError where no cell has data.
    """
    sources: Sources = {}
    with Claims(place.work / HELD) as claims:
        for cell, chain in stages_of(cells):
            above = sources.get(chain[:-1])
            if isinstance(above, Outcome):
                sources[chain] = above
                continue
            folder: dict[str, Any] = {"work": place.work}
            options = replace(chain[-1].reading(above) if above else chain[-1], **folder)
            name = manifest.identity({"data": options.argv()}, [])
            while not claims.take(name):
                console.status(
                    f"another process makes the data of {cell.name} ({options.stage}): waiting for it"
                )
                time.sleep(POLL)
            outcome = _tried(cell, partial(RUN[options.stage], options), place.debug)
            claims.give_back(name)
            sources[chain] = outcome.scores or outcome
    faults = {
        outcome.sentence: outcome for outcome in sources.values() if isinstance(outcome, Outcome)
    }
    if faults and all(isinstance(sources[cell.chain], Outcome) for cell in cells):
        raise FedcliError("; ".join(faults), next(iter(faults.values())).hint)
    for fault in faults.values():
        console.fail(f"data of {fault.cell.name}: {fault.sentence}", fault.hint)
    return sources


def run(
    shared: Shared, place: Place, number: Callable[[Outcome], str] = lambda _: ""
) -> list[Outcome] | None:
    """Train and score every cell, in their order and beside other processes; cells of equal work are run once.

    number: what is said of a cell that has ended well. Returns None, and says what was done here, where other processes
    still play some, or are to play those of their parts: whoever is last gets all. Raises KeyboardInterrupt with
    everything saved, and in the latter case FedcliError where a cell failed here.
    """
    board = Board(shared, number)
    play = _one_by_one if len(place.devices) == 1 else _side_by_side
    here: dict[Cell, Outcome] = {}
    for outcome in play(_claimed(shared, board), place, board):
        shared.end(outcome)
        here[outcome.cell] = outcome
    board.look()
    if not shared.wait and (len(board.ended) < len(shared.cells) or not shared.joins()):
        count, left = (
            console.counted(len(shared.cells), "cell", "cells"),
            len(shared.cells) - len(board.ended),
        )
        who = (
            f"{left} left to other processes, the last of which writes it"
            if left
            else "another process writes it"
        )
        console.say(f"{len(here)} of {count} of this table trained here; {who}")
        refuse_failed([*here.values()], "cell", "cells")
        return None
    failed = {end.cell: end for end in board.ended.values() if not end.scores}
    rest = [cell for cell in shared.cells if cell not in here and cell not in failed]
    here |= {
        outcome.cell: outcome
        for outcome in play(((cell, shared.data[cell]) for cell in rest), place, board)
    }
    outcomes = {cell.work: outcome for cell, outcome in (failed | here).items()}
    faults = {
        chain: source for chain, source in shared.sources.items() if isinstance(source, Outcome)
    }
    return [
        replace(outcomes.get(cell.work) or faults[cell.chain], cell=cell) for cell in shared.asked
    ]


def _claimed(shared: Shared, board: Board) -> Iterator[tuple[Cell, Path] | None]:
    """Cells that this process has taken, one at a time, and None while others have all that are left."""
    while True:
        board.look()
        others = [
            cell
            for cell in shared.cells
            if cell.name not in board.ended and cell.name not in board.playing
        ]
        left = [cell for cell in others if cell in shared.mine]
        cell = next((cell for cell in left if shared.claim(cell)), None)
        if cell and shared.ended(cell):  # at this moment
            shared.give_back(cell)
        elif cell:
            board.playing.add(cell.name)
            yield cell, shared.data[cell]
        elif board.playing or (others and shared.wait) or not shared.left_to_others(left):
            if not board.playing:
                console.status(
                    f"{board.count} waiting for other processes: {', '.join(each.name for each in others)}"
                )
            yield None
        else:
            return


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


def _play(
    cell: Cell, source: Path, place: Place, device: str, report: Callable[[int, int], None]
) -> Outcome:
    def stages() -> (
        Result
    ):  # the next cell begins with as many threads as a process of its own would
        with threads(), console.muted(report):
            run = train.run(
                replace(
                    cell.train, data=source, device=device, work=place.work, resume=True, wait=True
                )
            )
        if cell.evaluate is None:
            return run
        with threads(), console.muted():
            return evaluate.run(replace(cell.evaluate, run=run, device=device, work=place.work))

    return _tried(cell, stages, place.debug)


def _one_by_one(
    cells: Iterable[tuple[Cell, Path] | None], place: Place, board: Board
) -> Iterator[Outcome]:
    for task in cells:
        if task is None:
            time.sleep(POLL)
        else:
            yield board.end(
                _play(*task, place, place.devices[0], partial(board.played_round, task[0]))
            )


def _side_by_side(
    cells: Iterable[tuple[Cell, Path] | None], place: Place, board: Board
) -> Iterator[Outcome]:
    tasks = (task and (*task, place) for task in cells)
    with contextlib.closing(
        one_each(_play, tasks, place.devices, preload=__name__, pause=POLL)
    ) as messages:
        for (cell, *_), message in messages:
            if isinstance(message, Ended):
                sentence = f"its process ended without a result (code {message.code})"
                killed = Outcome(
                    cell, None, sentence, "it may have run out of memory; give fewer --jobs"
                )
                yield board.end(message.value or killed)
            else:
                board.played_round(cell, *message)
