"""Time and memory of the cells that are still to be trained, from a few measured steps of each row."""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .. import console
from ..bench.estimate import SECONDS, Estimate, estimate, span
from ..data import manifest
from ..errors import FedcliError
from ..runs import record
from ..runs.rules import check
from ..runs.train_options import Execution, TrainOptions
from ..stages.train import resolved
from .expand import Cell
from .jobs import Outcome, Place, own_threads

MOST_SECONDS = 60.0  # for measuring, after which kinds of training that are left count as the mean of the others
LEAST_SECONDS = 1.0  # for one kind


@dataclass(frozen=True)
class Forecast:
    """Time and memory that the cells that are left will need.

    Attributes:
        seconds: of all processes together.
        bytes: of the largest cell.
        free: bytes that are free, 0 where unknown.
        kinds: of training among them, and how many were measured.
    """

    cells: int
    seconds: float
    bytes: int
    free: int
    kinds: tuple[int, int] = (1, 1)

    def sentence(self, processes: int) -> str:
        """One sentence for a person."""
        each = f"{processes} at a time" if processes > 1 else "one after another"
        return (
            f"{console.counted(self.cells, 'cell', 'cells')} to train: about {span(self.seconds / processes)}, {each}, "
            f"with up to {self.bytes / 2**30:.1f} GiB of memory for each"
            + (f" ({self.kinds[1]} of {self.kinds[0]} kinds of training measured)" if len({*self.kinds}) > 1 else "")
        )


def announce(cells: list[Cell], sources: dict[tuple, Path | Outcome], place: Place) -> None:
    """Say on stderr how long the cells that are left will take, and warn where memory will not do."""
    total = forecast(cells, sources, place)
    if not total.seconds:
        return
    processes = min(len(place.devices), total.cells)
    console.say(total.sentence(processes))
    beside_each_other = processes if place.devices[0] == "cpu" else max(map(place.devices.count, place.devices))
    if total.free and total.bytes * beside_each_other > total.free:
        console.warn(f"only {total.free / 2**30:.1f} GiB are free; give fewer --jobs")


def forecast(cells: list[Cell], sources: dict[tuple, Path | Outcome], place: Place) -> Forecast:
    """Measure each kind of training once, on the first data it has; on other data its time goes with the images.

    What cannot be measured is left out: its cells say why when they are run.
    """
    runs = begun(place.work)
    data = {chain: source for chain, source in sources.items() if isinstance(source, Path)}
    distinct = {cell.work: cell for cell in cells if cell.chain in data}.values()
    left = [(cell, asked) for cell in distinct if not is_done(asked := resolved(cell.train), data[cell.chain], runs)]
    kinds = {_cost(asked): (cell, asked) for cell, asked in reversed(left)}  # the first cell of each
    limit, begin = max(LEAST_SECONDS, min(SECONDS, MOST_SECONDS / max(len(kinds), 1))), time.perf_counter()
    measured: dict[str, tuple[Estimate, int] | None] = {}
    for cost, (cell, asked) in reversed(kinds.items()):
        if measured and time.perf_counter() - begin > MOST_SECONDS:
            break
        console.status(f"measuring a few steps of {cell.row}")
        estimated = _measured(data[cell.chain], asked, cell, place, limit)
        measured[cost] = (estimated, _images(data[cell.chain])) if estimated else None
    known = [one for one in measured.values() if one]
    if not known:
        return Forecast(0, 0.0, 0, 0)
    mean = sum(one.total_seconds / images for one, images in known) / len(known)  # of an image of the data
    count, seconds = 0, 0.0
    for cell, asked in left:
        if one := measured.get(cost := _cost(asked)):
            count, seconds = count + 1, seconds + one[0].total_seconds * _images(data[cell.chain]) / one[1]
        elif cost not in measured:
            count, seconds = count + 1, seconds + mean * _images(data[cell.chain])
    largest, free = max(one.peak_bytes for one, _ in known), min(one.free_bytes for one, _ in known)
    return Forecast(count, seconds, largest, free, (len(kinds), len(measured)))


def _cost(plan: TrainOptions) -> str:
    """Plans that take equally long: those that differ in the seed, the learning rate or a number of the method."""
    words = {key: value for key, value in plan.set.items() if not str(value).replace(".", "").isdigit()}
    return repr(replace(plan, seed=0, set=words, lr=1.0).decided())


def _measured(source: Path, plan: TrainOptions, cell: Cell, place: Place, limit: float) -> Estimate | None:
    engine = "in-process" if len(place.devices) > 1 else None  # as train() chooses for a process that is one of several
    execution = Execution(place.devices[0], cell.train.threads, engine)
    try:
        with own_threads():
            return estimate(source, replace(plan, seed=cell.seed), execution, limit=limit)
    except FedcliError:
        return None


def _images(source: Path) -> int:
    return sum(client["train"] for client in manifest.read(source).body["roster"])


def begun(work: Path) -> list[manifest.Manifest]:
    """The finished runs of a work folder."""
    return [manifest.read(path) for path in sorted(work.glob("runs/*/run.json"))]


def is_done(plan: TrainOptions, source: Path, runs: list[manifest.Manifest]) -> bool:
    """Tell whether a finished run has these very options and data; starting weights and teachers are not looked at."""
    asked, data = settled(plan), manifest.sha256(source)
    return any(data in run.parents.values() and settled(run.options) == asked for run in runs)


def settled(asked: TrainOptions | dict[str, Any]) -> dict[str, Any]:
    """The options of a run as they are recorded, of a plan or of a run's manifest, without files."""
    options = record.options(asked, check(asked), None) if isinstance(asked, TrainOptions) else asked
    return {name: value for name, value in options.items() if name not in ("weights", "teacher")}
