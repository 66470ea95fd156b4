"""Facts before cells run: which are trained again and why, and time and memory of those that are still to be trained.

Time and memory are those of a few measured steps of each kind of training, kept in the work folder; the time of one
whose steps take too long to measure is reckoned from its operations.
"""

import contextlib
import hashlib
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

import fedcli

from .. import console
from ..bench.estimate import SECONDS, Estimate, estimate, span
from ..bench.measuring import threads
from ..data import manifest
from ..errors import FedcliError
from ..io.files import write_text
from ..methods import resolve
from ..runs import resources, settings
from ..runs.rules import check
from ..runs.settled import settled
from ..runs.train_options import TrainOptions
from ..stages.train import resolved
from .expand import Cell
from .jobs import Place, fitting
from .plan import costs_of, passes_of, per_image, this_machine
from .record import Results
from .shared import Sources, images

MOST_SECONDS = 60.0  # for measuring, after which kinds of training that are left count as the mean of the others
LEAST_SECONDS = 1.0  # for one kind
STEPS = 10  # that measuring plays at least
MOST_NAMED = 4  # kinds of training
SILENT = 10.0  # seconds that need no words beforehand
OF_DATA = "corruption", "partition", "dataset"


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
        """One sentence for a person; runs that share a machine take longer than the one that was measured."""
        about, each = (
            ("at least", f"{processes} at a time")
            if processes > 1
            else ("about", "one after another")
        )
        return (
            f"{console.counted(self.cells, 'run', 'runs')} to train: {about} {span(self.seconds / processes)}, {each}, "
            + (
                f"with up to {self.bytes / 2**30:.1f} GiB of memory for each"
                if self.bytes
                else "memory not measured"
            )
            + (
                f" ({self.kinds[1]} of {self.kinds[0]} kinds of training measured)"
                if len({*self.kinds}) > 1
                else ""
            )
        )


def announce(cells: list[Cell], sources: Sources, place: Place) -> Place:
    """Say on stderr how long the cells that are left will take, and warn where memory will not do.

    Returns the place with as many processes on each GPU as its memory holds.
    """
    total = forecast(cells, sources, place)
    if not total.seconds:
        return place
    place = fitting(place, total.bytes, total.free)
    processes = min(len(place.devices), total.cells)
    console.say(total.sentence(processes))
    if place.devices[0] == "cpu" and total.free and total.bytes * processes > total.free:
        console.warn(f"only {total.free / 2**30:.1f} GiB are free; give fewer --jobs")
    return place


def forecast(cells: list[Cell], sources: Sources, place: Place, *, keep: bool = True) -> Forecast:
    """Measure each kind of training once, on the first data it has; on other data its time goes with the images.

    What cannot be measured is left out: its cells say why when they are run. keep: whether measurements are written.
    """
    asked = _asked({cell.work: cell for cell in cells}.values(), sources, place)
    left = [(_cost(plan), (cell, plan, source)) for cell, plan, source, done in asked if not done]
    kinds = dict(reversed(left))  # the first cell of each
    slow = {
        cost: _reckoned(plan, source)
        for cost, (_, plan, source) in kinds.items()
        if place.devices[0] == "cpu"
    }
    slow = {cost: each for cost, each in slow.items() if STEPS * each[1] > MOST_SECONDS}
    kept = _Kept(
        place, {cost: source for cost, (_, _, source) in kinds.items() if cost not in slow}
    )
    new = _in_turn(
        {
            cost: kinds[cost][1]
            for cost in reversed(kinds)
            if cost not in slow and cost not in kept.known
        }
    )
    limit, begin = (
        max(LEAST_SECONDS, min(SECONDS, MOST_SECONDS / max(len(new), 1))),
        time.perf_counter(),
    )
    _say_beforehand([kinds[cost][0].row for cost in new], len(slow), limit)
    measured: dict[str, Estimate | None] = {**kept.known}
    for number, cost in enumerate(new, 1):
        if number > 1 and time.perf_counter() - begin > MOST_SECONDS:
            break
        cell, plan, source = kinds[cost]
        console.status(f"[{number}/{len(new)}] measuring a few steps of {cell.row}")
        measured[cost] = _measured(source, plan, cell, place, limit)
        if keep:
            kept.add(cost, measured[cost])
    estimates = {cost: one for cost, one in measured.items() if one}
    of_image = {cost: one.total_seconds / images(kinds[cost][2]) for cost, one in estimates.items()}
    of_image |= {cost: each for cost, (each, _) in slow.items()}
    if not of_image:
        return Forecast(0, 0.0, 0, 0)
    mean = sum(of_image.values()) / len(of_image)
    counted = [
        (cost, images(source))
        for cost, (*_, source) in left
        if cost in of_image or cost not in measured
    ]
    seconds = [of_image.get(cost, mean) * count for cost, count in counted]
    largest = max((one.peak_bytes for one in estimates.values()), default=0)
    free = min((one.free_bytes for one in estimates.values()), default=0)
    return Forecast(len(seconds), sum(seconds), largest, free, (len(kinds), len(measured)))


def _in_turn(plans: dict[str, TrainOptions]) -> list[str]:
    """Kinds of training, one of each method before the second of any: the time may be over before all are measured."""
    methods = [plan.method for plan in plans.values()]
    before = {cost: methods[:place].count(methods[place]) for place, cost in enumerate(plans)}
    return sorted(plans, key=lambda cost: before[cost])


def _say_beforehand(rows: list[str], slow: int, limit: float) -> None:
    if len(rows) * limit > SILENT:
        kinds = (
            console.listed(rows) if len(rows) <= MOST_NAMED else f"{len(rows)} kinds of training"
        )
        console.say(
            f"measuring a few steps of {kinds}, {span(min(len(rows) * limit, MOST_SECONDS))} at most"
        )
    if slow:
        kinds = console.counted(slow, "kind", "kinds")
        console.say(
            f"{kinds} of training with steps too long to measure: time by operations, at half the matrix speed"
        )


def _reckoned(plan: TrainOptions, source: Path) -> tuple[float, float]:
    """Seconds of an image in a whole training, and of a step, by operations; 0 for a network that nobody counted."""
    body = manifest.read(source).body
    network = costs_of(plan.model, body["size"][0], body["channels"])
    speed = this_machine()["flops"] * this_machine()["share"]
    if network is None:
        return 0.0, 0.0
    operations, _ = per_image(network, passes_of(resolve(plan.method or "")), plan.epochs)
    return operations * plan.rounds * plan.participation / speed, plan.batch_size * network[
        "step"
    ] / speed


class _Kept:
    """Measurements of an earlier start: on this machine, by this code, of the same training and data.

    Attributes:
        known: kind of training -> what was measured.
    """

    def __init__(self, place: Place, kinds: dict[str, Path]):
        package = Path(fedcli.__file__).parent
        code = [
            (path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(package.rglob("*.py"))
        ]
        where = [resources.processor(), place.devices[0], len(place.devices) > 1, code]
        self.keys = {
            cost: hashlib.sha256(repr([cost, manifest.sha256(source), *where]).encode()).hexdigest()
            for cost, source in kinds.items()
        }
        self.path, self.body = place.work / "forecasts.json", dict[str, Any]()
        with contextlib.suppress(
            OSError, ValueError
        ):  # absent, or changed by somebody: measured again
            known = TypeAdapter(dict[str, Estimate]).validate_json(self.path.read_bytes())
            self.body = {
                key: asdict(one) for key, one in known.items() if isfinite(one.total_seconds)
            }
        self.known = {
            cost: Estimate(**self.body[key]) for cost, key in self.keys.items() if key in self.body
        }

    def add(self, cost: str, one: Estimate | None) -> None:
        """Keep a measurement."""
        if one:
            self.body[self.keys[cost]] = asdict(one)
            write_text(self.path, json.dumps(self.body, indent=1))


def _asked(
    cells: Iterable[Cell], sources: Sources, place: Place
) -> Iterator[tuple[Cell, TrainOptions, Path, bool]]:
    """Each cell that has data with the options of its run, the data, and whether it is done."""
    runs = [manifest.read(path) for path in sorted(place.work.glob("runs/*/run.json"))]
    for cell in cells:
        if isinstance(source := sources[cell.chain], Path):
            plan = _plan(cell.train, source)
            yield cell, plan, source, is_done(plan, source, runs)


def _plan(options: TrainOptions, source: Path) -> TrainOptions:
    plan = resolved(options)
    return settled(plan, check(plan), manifest.read(source).body)


def _cost(plan: TrainOptions) -> str:
    """Plans that take equally long: those that differ in the seed, the learning rate or a number of the method."""
    words = {
        key: value for key, value in plan.set.items() if not str(value).replace(".", "").isdigit()
    }
    return repr(replace(plan, seed=0, set=words, lr=1.0).decided())


def _measured(
    source: Path, plan: TrainOptions, cell: Cell, place: Place, limit: float
) -> Estimate | None:
    engine = (
        "in-process" if len(place.devices) > 1 else None
    )  # as train() chooses for a process that is one of several
    plan = replace(plan, seed=cell.seed, device=place.devices[0], engine=engine)
    try:
        with threads():
            return estimate(source, plan, limit=limit)
    except FedcliError:
        return None


def is_done(plan: TrainOptions, source: Path, runs: list[manifest.Manifest]) -> bool:
    """Tell whether a finished run has these very options and data; starting weights and teachers are not looked at."""
    asked, data = _settled(plan), manifest.sha256(source)
    return any(data in run.parents.values() and _settled(run.options) == asked for run in runs)


def _settled(asked: TrainOptions | dict[str, Any]) -> dict[str, Any]:
    """The options of a run as they are recorded, of a plan or of a run's manifest, without files."""
    options = (
        settings.options(asked, check(asked), None) if isinstance(asked, TrainOptions) else asked
    )
    return {name: value for name, value in options.items() if name not in ("weights", "teacher")}


def announce_again(cells: list[Cell], sources: Sources, place: Place, folder: Path) -> None:
    """Say on stderr which cells that were done are trained again, and what they have now that they had not then.

    folder: of the reproduction, with the results of the last time.
    """
    before = _last_scores(folder / "results.json")
    for cell, plan, source, done in _asked(cells, sources, place) if before else ():
        old = before.get((cell.row, f"{cell.data}, seed {cell.seed}"))
        if old and not done:
            with contextlib.suppress(
                FedcliError
            ):  # the old result was removed in part: nothing to compare with
                if changes := _changes(plan, source, manifest.inside(place.work, old)):
                    console.say(f"{cell.name} is trained again: {', '.join(changes)}")


def _last_scores(results: Path) -> dict[tuple[str, str], str]:
    """(row, data and seed) -> scores.json of the last time, below the work folder."""
    try:
        rows = Results.read(results).rows if results.is_file() else []
    except FedcliError:
        console.warn(
            f"{results} cannot be read: it is written again, without saying what has changed since"
        )
        return {}
    return {(row.name, at): path for row in rows for at, path in row.scores.items()}


def _changes(plan: TrainOptions, source: Path, scores: Path) -> list[str]:
    """Differences, such as "lr is 0.001, was 0.003". Raises FedcliError where they cannot be seen."""
    run = manifest.above(scores, "run")
    changes = _unlike(_settled(plan), _settled(manifest.read(run).options))
    for stage in OF_DATA:
        now = source if manifest.read(source).kind == stage else manifest.parent(source, stage)
        if now and (then := manifest.parent(run, stage)):
            changes += _unlike(manifest.read(now).options, manifest.read(then).options)
    return changes


def _unlike(now: dict[str, Any], then: dict[str, Any]) -> list[str]:
    changes = []
    for key in sorted(now.keys() | then.keys()):
        value, other = now.get(key), then.get(key)
        if isinstance(value, dict) and isinstance(other, dict):
            changes += _unlike(value, other)
        elif value != other:
            changes.append(f"{key} is {value}, was {other}")
    return changes
