"""Cells run one after another or side by side, here and in other processes; one that fails is
reported.

A stage that is done is found by its own command, so the same command goes on wherever the last one
was killed.
"""

import contextlib
import time
import traceback
from collections import Counter
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
from ..options import Options
from ..runs.resources import check_device, side_by_side
from ..stages import corrupt, evaluate, partition, prepare, train
from ..stages.options import TrainOptions
from ..stages.results import Result
from ..system import interrupts
from ..system.processes import Ended, one_each
from .expand import RecipeCell, stages_of
from .shared import HELD, Board, Outcome, Shared, Sources

# stages that make data
RUN: dict[str, Any] = {
    "prepare": prepare.run,
    "partition": partition.run,
    "corrupt": corrupt.run,
}
CONTEXT = 2**29  # bytes that a process holds on a GPU beside its tensors
POLL = 1.0  # seconds between two looks at what other processes hold

Task = tuple[RecipeCell, Path]  # a cell, and the manifest of its data


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
    device: str,
    jobs: int | None,
    cells: list[RecipeCell],
    at_once: int | None = None,
) -> tuple[str, ...]:
    """The device of each process that plays cells.

    `cuda` spreads over all GPUs, at_once processes on each (one unless it or jobs says otherwise),
    and the CPU has a process on each core where every training is of one thread. Raises as
    check_device() does, before anything is trained; UsageError for at_once on the CPU.
    """
    if at_once and device == "cpu":
        raise UsageError("--at-once is about cells on one GPU", "give --jobs, or add --device cuda")
    check_device(device)
    if not jobs and device == "cpu":
        jobs = _at_once(cells)
    return spread(device, jobs, at_once)


def spread(
    device: str,
    jobs: int | None,
    at_once: int | None = None,
) -> tuple[str, ...]:
    """The device of each of so many processes, of one on each GPU where no number is given."""
    gpus = max(torch.cuda.device_count(), 1) if device == "cuda" else 1
    jobs = jobs or (at_once or 1) * gpus
    if gpus == 1:
        return (device,) * jobs
    return tuple(f"cuda:{k % gpus}" for k in range(jobs))


def fitting(workplace: Place, needed_bytes: int, free_bytes: int) -> Place:
    """The place with as many processes on each GPU as its memory holds, at least one.

    needed_bytes: of the largest cell; free_bytes: those that a GPU has. 0 where unknown.
    """
    if workplace.devices[0] == "cpu" or not (needed_bytes and free_bytes):
        return workplace
    limit = max(1, free_bytes // (needed_bytes + CONTEXT))
    counts: Counter[str] = Counter()
    devices = []
    for device in workplace.devices:
        if counts[device] < limit:
            counts[device] += 1
            devices.append(device)
    if len(devices) < len(workplace.devices):
        needed_gib = needed_bytes >> 30
        free_gib = free_bytes >> 30
        console.say(
            f"Cells at a time on each GPU: {limit}; one takes up to {needed_gib} of {free_gib} GiB"
        )
    return replace(workplace, devices=tuple(devices))


def _at_once(cells: list[RecipeCell]) -> int:
    """The number of processes on the CPU: as many as there are cores and GiB of free memory.

    One, which then has all cores, for a large network, and for code that another process does not
    have.
    """
    for cell in cells:
        if _needs_all_cores(train.resolved(cell.train)):
            return 1
    return side_by_side(len({cell.work for cell in cells}))


def _needs_all_cores(plan: TrainOptions) -> bool:
    if plan.engine or plan.jobs or plan.sites:
        return True
    if resolve(plan.method or "").module == "__main__":
        return True
    return (plan.threads or models.describe(plan.model).threads) != 1


def make_data(cells: list[RecipeCell], workplace: Place) -> Sources:
    """The manifest of every chain's data, made where it is missing by one process alone; a failed
    stage is reported once.

    Raises FedcliError where no cell has data.
    """
    sources: Sources = {}
    with Claims(workplace.work / HELD) as claims:
        for cell, chain in stages_of(cells):
            above = sources.get(chain[:-1])
            if isinstance(above, Outcome):
                sources[chain] = above
                continue
            folder: dict[str, Any] = {"work": workplace.work}
            options = chain[-1].reading(above) if above else chain[-1]
            into_folder = replace(options, **folder)
            outcome = _made(
                cell,
                into_folder,
                claims,
                debug=workplace.debug,
            )
            sources[chain] = outcome.scores or outcome
    failed = [source for source in sources.values() if isinstance(source, Outcome)]
    faults = {outcome.sentence: outcome for outcome in failed}
    if faults and all(isinstance(sources[cell.chain], Outcome) for cell in cells):
        hints = [fault.hint for fault in faults.values()]
        raise FedcliError("; ".join(faults), hints[0])
    for fault in faults.values():
        console.fail(f"data of {fault.cell.name}: {fault.sentence}", fault.hint)
    return sources


def _made(
    cell: RecipeCell,
    options: Options,
    claims: Claims,
    *,
    debug: bool,
) -> Outcome:
    """The outcome of a stage that makes data, after a process that makes the same has ended."""
    name = manifest.identity({"data": options.argv()}, [])
    while not claims.take(name):
        console.status(
            f"another process makes the data of {cell.name} ({options.stage}): waiting for it"
        )
        time.sleep(POLL)
    outcome = _tried(cell, partial(RUN[options.stage], options), debug)
    claims.give_back(name)
    return outcome


def run(
    shared: Shared,
    workplace: Place,
    number: Callable[[Outcome], str] = lambda _: "",
) -> list[Outcome] | None:
    """Train and score every cell, in their order and beside other processes; cells of equal work
    are run once.

    number: what is said of a cell that has ended well. Returns None, and says what was done here,
    where other processes still play some, or are to play those of their parts: whoever is last gets
    all. Raises KeyboardInterrupt with everything saved, and in the latter case FedcliError where a
    cell failed here.
    """
    board = Board(shared, number)
    play = _one_by_one if len(workplace.devices) == 1 else _side_by_side
    played: dict[RecipeCell, Outcome] = {}
    for outcome in play(_claimed(shared, board), workplace, board):
        shared.end(outcome)
        played[outcome.cell] = outcome
    board.look()
    if not shared.wait and (len(board.ended) < len(shared.cells) or not shared.joins()):
        _say_unfinished(len(played), len(board.ended), len(shared.cells))
        refuse_failed(list(played.values()), "cell", "cells")
        return None
    failed = [outcome for outcome in board.ended.values() if not outcome.scores]
    outcomes = {outcome.cell.work: outcome for outcome in [*failed, *played.values()]}
    rest = [(cell, shared.data[cell]) for cell in shared.cells if cell.work not in outcomes]
    for outcome in play(rest, workplace, board):
        outcomes[outcome.cell.work] = outcome
    ends = []
    for cell in shared.every_cell:
        end = outcomes.get(cell.work) or shared.sources[cell.chain]
        assert isinstance(end, Outcome), cell.name
        ends.append(replace(end, cell=cell))
    return ends


def _say_unfinished(played: int, ended: int, cells: int) -> None:
    who = "another process writes it"
    if ended < cells:
        who = f"{cells - ended} left to other processes; the last one writes it"
    count = console.counted(cells, "cell", "cells")
    console.say(f"{played} of {count} of this table trained here; {who}")


def _claimed(shared: Shared, board: Board) -> Iterator[Task | None]:
    """Cells that this process has taken, one at a time, and None while others have all that are
    left."""
    while True:
        board.look()
        waiting = board.waiting()
        open_cells = [cell for cell in waiting if cell in shared.mine]
        cell = _first_claimed(shared, open_cells)
        if cell and shared.ended(cell):  # at this moment
            shared.give_back(cell)
        elif cell:
            board.playing.add(cell.name)
            yield cell, shared.data[cell]
        elif board.playing:
            yield None
        elif (waiting and shared.wait) or not shared.left_to_others(open_cells):
            names = ", ".join(cell.name for cell in waiting)
            console.status(f"{board.count} waiting for other processes: {names}")
            yield None
        else:
            return


def _first_claimed(shared: Shared, cells: Iterable[RecipeCell]) -> RecipeCell | None:
    """The first cell that no other process has, which this one then has; None where others have
    all."""
    for cell in cells:
        if shared.claim(cell):
            return cell
    return None


def refuse_failed(outcomes: list[Outcome], singular: str, plural: str) -> None:
    """Raise FedcliError where a cell has failed. singular, plural: what a cell is called."""
    failed = [outcome for outcome in outcomes if not outcome.scores]
    if not failed:
        return
    names = failed[0].cell.name
    if len(failed) > 1:
        names += " and others"
    count = console.counted(len(outcomes), singular, plural)
    raise FedcliError(
        f"{len(failed)} of {count} failed: {names}",
        "the reason of each is printed above; repair it and repeat the command: the "
        "others are not redone",
    )


def _tried(
    cell: RecipeCell,
    work: Callable[[], Result],
    debug: bool = False,
) -> Outcome:
    """The outcome of some work: the path of what it makes, or the sentence in which it ended."""
    try:
        return Outcome(cell, Path(work()))
    except Exception as error:
        # one cell's fault is not the next one's: it is reported, and shows in the exit code
        if interrupts.came() or (isinstance(error, FedcliError) and error.code == 130):
            raise KeyboardInterrupt from None
        if debug and not isinstance(error, FedcliError):
            traceback.print_exc()
        fault = as_fault(error)
        return Outcome(cell, None, fault.sentence, fault.hint)


def as_fault(error: Exception) -> FedcliError:
    """An error of any kind as one that a user reads."""
    if isinstance(error, FedcliError):
        return error
    kind = type(error).__name__
    unexpected = FedcliError(f"unexpected {kind}: {error}", "--debug shows where")
    return extensions.fault(error) or of_system(error) or unexpected


def _play(
    cell: RecipeCell,
    source: Path,
    workplace: Place,
    device: str,
    report: Callable[[int, int], None],
) -> Outcome:
    """The outcome of a cell's training and scores. report: called after each round, with the rounds
    done and in all."""
    stages = partial(_run_stages, cell, source, workplace.work, device, report)
    return _tried(cell, stages, workplace.debug)


def _run_stages(
    cell: RecipeCell,
    source: Path,
    work: Path,
    device: str,
    report: Callable[[int, int], None],
) -> Result:
    """The scores of a cell, or its run where it is not scored.

    The next cell begins with as many threads as a process of its own would.
    """
    options = replace(
        cell.train,
        data=source,
        device=device,
        work=work,
        resume=True,
        wait=True,
    )
    with threads(), console.muted(report):
        run = train.run(options)
    if cell.evaluate is None:
        return run
    with threads(), console.muted():
        evaluation = replace(cell.evaluate, run=run, device=device, work=work)
        return evaluate.run(evaluation)


def _one_by_one(
    tasks: Iterable[Task | None],
    workplace: Place,
    board: Board,
) -> Iterator[Outcome]:
    for task in tasks:
        if task is None:
            time.sleep(POLL)
            continue
        cell, source = task
        report = partial(board.played_round, cell)
        yield board.end(_play(cell, source, workplace, workplace.devices[0], report))


def _side_by_side(
    tasks: Iterable[Task | None], workplace: Place, board: Board
) -> Iterator[Outcome]:
    placed = ((*task, workplace) if task else None for task in tasks)
    messages = one_each(
        _play,
        placed,
        workplace.devices,
        preload=__name__,
        pause=POLL,
    )
    with contextlib.closing(messages):
        for (cell, *_), message in messages:
            if isinstance(message, Ended):
                yield board.end(message.value or _killed(cell, message))
            else:
                board.played_round(cell, *message)


def _killed(cell: RecipeCell, message: Ended) -> Outcome:
    sentence = f"its process ended without a result (code {message.code})"
    return Outcome(
        cell,
        None,
        sentence,
        "it may have run out of memory; give fewer --jobs",
    )
