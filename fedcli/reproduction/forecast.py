"""Facts before cells run: which are trained again and why, and time and memory of those that are
still to be trained.

Time and memory are those of a few measured steps of each kind of training, kept in the work folder;
the time of one whose steps take too long to measure is reckoned from its operations.
"""

import contextlib
import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter

import fedcli

from .. import console
from ..bench.estimate import SECONDS, Estimate, estimate, span
from ..bench.measuring import threads
from ..bench.passes import passes_of
from ..data import manifest
from ..errors import FedcliError
from ..io.files import write_text
from ..methods import resolve
from ..runs import resources, settings
from ..runs.rules import check
from ..runs.settled import settled
from ..runs.train_options import TrainOptions
from ..stages.train import resolved
from .expand import RecipeCell
from .jobs import Place, fitting
from .plan import costs_of, per_image, this_machine
from .record import Results
from .shared import Sources, images

# for measuring, after which kinds of training that are left count as the mean of the others
MOST_SECONDS = 60.0
SHARE = 0.05  # of the time that the cells will take, after which it is the same
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
        """One sentence for a person; runs that share a machine take longer than the one that was
        measured."""
        runs = console.counted(self.cells, "run", "runs")
        time_text = f"about {span(self.seconds / processes)}, one after another"
        if processes > 1:
            time_text = f"at least {span(self.seconds / processes)}, {processes} at a time"
        memory = "memory not measured"
        if self.bytes:
            gibibytes = self.bytes / 2**30
            memory = f"with up to {gibibytes:.1f} GiB of memory for each"
        sentence = f"{runs} to train: {time_text}, {memory}"
        kinds, measured = self.kinds
        if measured != kinds:
            sentence += f" ({measured} of {kinds} kinds of training measured)"
        return sentence


class PlannedTraining(NamedTuple):
    """A cell with the options of its run, its data, and whether the run is done."""

    cell: RecipeCell
    plan: TrainOptions
    source: Path
    is_done: bool


def announce(
    cells: list[RecipeCell],
    sources: Sources,
    workplace: Place,
) -> Place:
    """Say on stderr how long the cells that are left will take, and warn where memory will not do.

    Returns the place with as many processes on each GPU as its memory holds.
    """
    total = forecast(cells, sources, workplace)
    if not total.seconds:
        return workplace
    workplace = fitting(workplace, total.bytes, total.free)
    processes = min(len(workplace.devices), total.cells)
    console.say(total.sentence(processes))
    if workplace.devices[0] == "cpu" and total.free and total.bytes * processes > total.free:
        free_gibibytes = total.free / 2**30
        console.warn(f"only {free_gibibytes:.1f} GiB are free; give fewer --jobs")
    return workplace


def forecast(
    cells: list[RecipeCell],
    sources: Sources,
    workplace: Place,
    *,
    keep: bool = True,
) -> Forecast:
    """Measure each kind of training once, on the first data it has; on other data its time goes
    with the images.

    What cannot be measured is left out: its cells say why when they are run. keep: whether the
    cells are run afterwards, so that measurements are written and take a SHARE of the time at most.
    """
    unlike = {cell.work: cell for cell in cells}
    planned = _planned(unlike.values(), sources, workplace)
    # still to be played, each with its kind
    trainings = [(_kind(training.plan), training) for training in planned if not training.is_done]
    kinds: dict[str, PlannedTraining] = {}  # the first cell of each, in the order of the last
    for kind, training in trainings:
        kinds[kind] = kinds.pop(kind, training)
    slow = _slow(kinds) if workplace.devices[0] == "cpu" else {}
    if slow:
        _say_reckoned(len(slow))
    quick = {kind: training for kind, training in kinds.items() if kind not in slow}

    def predicted(measured: set[str], estimates: dict[str, Estimate]) -> list[float]:
        """Seconds of each cell; of those whose kind was measured in vain none."""
        seconds_of_image = dict(slow)
        for kind, measurement in estimates.items():
            count = images(kinds[kind].source)
            seconds_of_image[kind] = measurement.total_seconds / count
        if not seconds_of_image:
            return []
        mean = sum(seconds_of_image.values()) / len(seconds_of_image)
        return [
            seconds_of_image.get(kind, mean) * images(training.source)
            for kind, training in trainings
            if kind in seconds_of_image or kind not in measured
        ]

    def seconds_to_measure(measured: set[str], estimates: dict[str, Estimate]) -> float:
        """Seconds that measuring may take in all, as far as the time of the cells is known."""
        if not keep:
            return MOST_SECONDS
        processes = min(len(workplace.devices), len(trainings))
        seconds = sum(predicted(measured, estimates)) / processes
        return min(MOST_SECONDS, SHARE * seconds)

    counts = Counter(kind for kind, _ in trainings)
    by_count = sorted(quick, key=counts.__getitem__, reverse=True)
    order = _in_turn({kind: quick[kind].plan for kind in by_count})
    in_order = {kind: quick[kind] for kind in order}
    measured, estimates = _estimates(in_order, workplace, seconds_to_measure, keep=keep)
    seconds_of_cell = predicted(measured, estimates)
    peaks = [measurement.peak_bytes for measurement in estimates.values()]
    free = [measurement.free_bytes for measurement in estimates.values()]
    return Forecast(
        cells=len(seconds_of_cell),
        seconds=sum(seconds_of_cell),
        bytes=max(peaks, default=0),
        free=min(free, default=0),
        kinds=(len(kinds), len(measured)),
    )


def _slow(kinds: dict[str, PlannedTraining]) -> dict[str, float]:
    """Kind of training whose steps take too long to measure -> seconds of an image in the whole of
    it."""
    slow = {}
    for kind, training in kinds.items():
        of_image, of_step = _reckoned(training.plan, training.source)
        if STEPS * of_step > MOST_SECONDS:
            slow[kind] = of_image
    return slow


def _estimates(
    kinds: dict[str, PlannedTraining],
    workplace: Place,
    seconds_to_measure: Callable[[set[str], dict[str, Estimate]], float],
    *,
    keep: bool,
) -> tuple[set[str], dict[str, Estimate]]:
    """The kinds of training that were measured, now or before, and the estimates of those that
    could be.

    kinds: in the order in which they are measured, the first one in any case.
    seconds_to_measure: (what this returns, so far) -> seconds that measuring may take in all.
    """
    sources_by_kind = {kind: training.source for kind, training in kinds.items()}
    measurements = _Kept(workplace, sources_by_kind)
    new = [kind for kind in kinds if kind not in measurements.estimates]
    begin = time.perf_counter()
    estimates = dict(measurements.estimates)
    measured = set(estimates)
    is_announced = False
    for number, kind in enumerate(new, 1):
        spent = time.perf_counter() - begin
        seconds_left = seconds_to_measure(measured, estimates) - spent
        if number > 1 and seconds_left <= 0:
            break
        rows = [kinds[later].cell.row for later in new[number - 1 :]]
        limit = max(LEAST_SECONDS, min(SECONDS, seconds_left / len(rows)))
        if not is_announced and limit * len(rows) > SILENT:
            is_announced = True
            _say_beforehand(rows, limit)
        training = kinds[kind]
        console.status(f"[{number}/{len(new)}] measuring a few steps of {training.cell.row}")
        measured.add(kind)
        of_kind = _measured(
            training.source,
            training.plan,
            training.cell,
            workplace,
            limit,
        )
        if of_kind:
            estimates[kind] = of_kind
            if keep:
                measurements.add(kind, of_kind)
    return measured, estimates


def _in_turn(plans: dict[str, TrainOptions]) -> list[str]:
    """Kinds of training, one of each method before the second of any: the time may be over before
    all are measured."""
    counts: Counter[str | None] = Counter()
    turn = {}
    for kind, plan in plans.items():
        turn[kind] = counts[plan.method]
        counts[plan.method] += 1
    return sorted(plans, key=lambda kind: turn[kind])


def _say_beforehand(rows: list[str], limit: float) -> None:
    kinds = f"{len(rows)} kinds of training"
    if len(rows) <= MOST_NAMED:
        kinds = console.listed(rows)
    at_most = span(min(len(rows) * limit, MOST_SECONDS))
    console.say(f"measuring a few steps of {kinds}, {at_most} at most")


def _say_reckoned(slow_count: int) -> None:
    kinds = console.counted(slow_count, "kind", "kinds")
    console.say(
        f"{kinds} of training with steps too long to measure: time by operations, at half the "
        "matrix speed"
    )


def _reckoned(plan: TrainOptions, source: Path) -> tuple[float, float]:
    """Seconds of an image in a whole training, and of a step, by operations; 0 for a network that
    nobody counted."""
    body = manifest.read(source).body
    side = body["size"][0]
    network = costs_of(plan.model, side, body["channels"])
    speed = this_machine()["flops"] * this_machine()["share"]
    if network is None:
        return 0.0, 0.0
    passes = passes_of(resolve(plan.method or "", dict(plan.set)))
    operations, _ = per_image(
        network,
        passes,
        plan.epochs,
    )
    operations_in_all = operations * plan.rounds * plan.participation
    of_image = operations_in_all / speed
    of_step = plan.batch_size * network["step"] / speed
    return of_image, of_step


class _Kept:
    """Measurements of an earlier start: on this machine, by this code, of the same training and
    data.

    Attributes:
        estimates: kind of training -> what was measured.
    """

    def __init__(self, workplace: Place, kinds: dict[str, Path]):
        several = len(workplace.devices) > 1
        where = [resources.processor(), workplace.devices[0], several, _code()]
        self.path = workplace.work / "forecasts.json"
        self.body = _read(self.path)
        self.keys: dict[str, str] = {}
        self.estimates: dict[str, Estimate] = {}
        for kind, source in kinds.items():
            text = repr([kind, manifest.sha256(source), *where])
            key = hashlib.sha256(text.encode()).hexdigest()
            self.keys[kind] = key
            if key in self.body:
                self.estimates[kind] = Estimate(**self.body[key])

    def add(self, kind: str, of_kind: Estimate) -> None:
        """Keep a measurement."""
        self.body[self.keys[kind]] = asdict(of_kind)
        write_text(self.path, json.dumps(self.body, indent=1))


def _code() -> list[tuple[int, int]]:
    """The time and size of each file of the package."""
    package = Path(fedcli.__file__).parent
    stats = [path.stat() for path in sorted(package.rglob("*.py"))]
    return [(stat.st_mtime_ns, stat.st_size) for stat in stats]


def _read(path: Path) -> dict[str, Any]:
    """The measurements of a file; none where it is absent or was changed by somebody: they are made
    again."""
    try:
        adapter = TypeAdapter(dict[str, Estimate])
        estimates = adapter.validate_json(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return {
        key: asdict(measurement)
        for key, measurement in estimates.items()
        if isfinite(measurement.total_seconds)
    }


def _planned(
    cells: Iterable[RecipeCell], sources: Sources, workplace: Place
) -> Iterator[PlannedTraining]:
    """The training of each cell that has data."""
    runs = []
    for path in sorted(workplace.work.glob("runs/*/run.json")):
        with contextlib.suppress(FedcliError):  # one that cannot be read is no run that is done
            runs.append(manifest.read(path))
    for cell in cells:
        source = sources[cell.chain]
        if isinstance(source, Path):
            plan = _plan(cell.train, source)
            yield PlannedTraining(cell, plan, source, is_done(plan, source, runs))


def _plan(options: TrainOptions, source: Path) -> TrainOptions:
    plan = resolved(options)
    return settled(plan, check(plan), manifest.read(source).body)


def _kind(plan: TrainOptions) -> str:
    """Plans that take equally long: those that differ in the seed, the learning rate or a number of
    the method."""
    words = {name: value for name, value in plan.set.items() if not _is_number(value)}
    plain_plan = replace(plan, seed=0, set=words, lr=1.0)
    return repr(plain_plan.decided())


def _is_number(value: Any) -> bool:
    return str(value).replace(".", "").isdigit()


def _measured(
    source: Path,
    plan: TrainOptions,
    cell: RecipeCell,
    workplace: Place,
    limit: float,
) -> Estimate | None:
    # as train() chooses for a process that is one of several
    engine = "in-process" if len(workplace.devices) > 1 else None
    plan = replace(
        plan,
        seed=cell.seed,
        device=workplace.devices[0],
        engine=engine,
    )
    try:
        with threads():
            return estimate(source, plan, limit=limit)
    except FedcliError:
        return None


def is_done(
    plan: TrainOptions,
    source: Path,
    runs: list[manifest.Manifest],
) -> bool:
    """Tell whether a finished run has these very options and data; starting weights and teachers
    are not looked at."""
    options = _of_plan(plan)
    data = manifest.sha256(source)
    of_data = [run for run in runs if data in run.parents.values()]
    return any(_without_files(run.options) == options for run in of_data)


def _of_plan(plan: TrainOptions) -> dict[str, Any]:
    """The options of a plan as a run's manifest records them, without files."""
    return _without_files(settings.options(plan, check(plan), None))


def _without_files(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in ("weights", "teacher")}


def announce_again(
    cells: list[RecipeCell], sources: Sources, workplace: Place, folder: Path
) -> None:
    """Say on stderr which cells that were done are trained again, and what they have now that they
    had not then.

    folder: of the reproduction, with the results of the last time.
    """
    before = _last_scores(folder / "results.json")
    if not before:
        return
    for training in _planned(cells, sources, workplace):
        cell = training.cell
        data_and_seed = f"{cell.data}, seed {cell.seed}"
        scores = before.get((cell.row, data_and_seed))
        if not scores or training.is_done:
            continue
        # an old result that was removed in part is nothing to compare with
        with contextlib.suppress(FedcliError):
            path = manifest.inside(workplace.work, scores)
            changes = _changes(training.plan, training.source, path)
            if changes:
                changes_text = ", ".join(changes)
                console.say(f"{cell.name} is trained again: {changes_text}")


def _last_scores(results: Path) -> dict[tuple[str, str], str]:
    """(row, data and seed) -> scores.json of the last time, below the work folder."""
    if not results.is_file():
        return {}
    try:
        rows = Results.read(results).rows
    except FedcliError:
        console.warn(
            f"{results} cannot be read: it is written again, without saying what has changed since"
        )
        return {}
    paths = {}
    for row in rows:
        for data_and_seed, path in row.scores.items():
            paths[row.name, data_and_seed] = path
    return paths


def _changes(plan: TrainOptions, source: Path, scores: Path) -> list[str]:
    """Differences, such as "lr is 0.001, was 0.003". Raises FedcliError where they cannot be
    seen."""
    run = manifest.above(scores, "run")
    recorded_options = _without_files(manifest.read(run).options)
    changes = _unlike(_of_plan(plan), recorded_options)
    for stage in OF_DATA:
        now: Path | None = source
        if manifest.read(source).kind != stage:
            now = manifest.parent(source, stage)
        then = manifest.parent(run, stage) if now else None
        if now and then:
            options_now = manifest.read(now).options
            options_then = manifest.read(then).options
            changes += _unlike(options_now, options_then)
    return changes


def _unlike(now: dict[str, Any], then: dict[str, Any]) -> list[str]:
    changes = []
    for key in sorted(now.keys() | then.keys()):
        value = now.get(key)
        other = then.get(key)
        if isinstance(value, dict) and isinstance(other, dict):
            changes += _unlike(value, other)
        elif value != other:
            changes.append(f"{key} is {value}, was {other}")
    return changes
