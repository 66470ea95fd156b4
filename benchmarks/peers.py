"""The same federated training by fedcli, other frameworks and plain loops, timed alternately.

Source: Granqvist et al., pfl-research, NeurIPS 2024, arXiv 2404.06430; Beutel et al., Flower, 2020,
arXiv 2007.14390.

Every side trains the same clients on the same batches in the same order from the same start: one
epoch of plain SGD a round, models averaged by image count. They differ only in what happens around
the steps: how the data is kept, how the model is set, read, sent and averaged. Every side has all
cores and uses them as its makers mean it to; fedcli as it does by default. A ratio is given only
where both sides end at the same weights. What it takes to start, until a side has trained once, is
measured separately.
"""

import importlib.util
import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Annotated, Any

import blaze
import typer
from frameworks import run_flower, run_pfl
from loops import run_processes, run_released
from problem import BATCH, LEARNING_RATE, Problem, Train, weights
from shell import run, show
from torch import Tensor

from fedcli import console, models
from fedcli.bench import engine
from fedcli.bench.measuring import threads
from fedcli.errors import FedcliError, UsageError
from fedcli.federation.client import Training
from fedcli.federation.engines import Engine, open_engine, side_by_side
from fedcli.federation.engines.in_process import InProcess
from fedcli.federation.server import Federation
from fedcli.methods import resolve
from fedcli.models.layout import Layout

# distance of two final models as a share of that from the start; rounding of a cnn leaves 2e-4
TOLERANCE = 3e-3
INSTALL = "pip install 'fedcli[peers]'"
COLUMNS = [*engine.COLUMNS, "to start and train once"]  # each side, its processes included


@dataclass(frozen=True)
class Compared:
    """A comparison of one peer with fedcli.

    Attributes:
        timing: with fedcli as ours and the peer as bare.
        start_seconds: until fedcli and until the peer had trained once, processes included.
    """

    peer: str
    timing: engine.Timing
    start_seconds: tuple[float, float]

    def row(self) -> list[str]:
        own, other = self.start_seconds
        return [*self.timing.row(), f"{own:.1f} s, {other:.1f} s"]

    def body(self) -> dict[str, Any]:
        return {**self.timing.body(), "start_seconds": self.start_seconds}


@dataclass(frozen=True)
class Peer:
    """A framework to compare with.

    Attributes:
        about: how it runs here, for the row's name; {cores} stands for their number.
        package: its name in pip; "" for a plain loop.
        modules: which must be importable.
        run: calls its second argument with a Train while the framework is up. Flower needs it: all
            that is measured runs inside its server.
    """

    about: str
    package: str
    modules: tuple[str, ...]
    run: Callable[[Problem, Callable[[Train], None]], None]

    @property
    def installed(self) -> bool:
        return all(importlib.util.find_spec(module) for module in self.modules)


def named(asked: Iterable[str] | None) -> list[str]:
    """The peers whose names begin as one of those asked for does, in whatever case; None or none
    asked for: all.

    Raises UsageError where none does.
    """
    for part in asked or ():
        if not any(_begins(name, part) for name in PEERS):
            raise UsageError(
                f"--beside {part}: no peer's name begins so", f"there are: {'; '.join(PEERS)}"
            )
    return [name for name in PEERS if not asked or any(_begins(name, part) for part in asked)]


def _begins(name: str, part: str) -> bool:
    return bool(part) and name.lower().startswith(part.lower())


def compare(name: str, problem: Problem, repeats: int) -> Compared:
    """Train by fedcli and by a peer in turns. Raises FedcliError where they end at different
    weights.
    """
    results: list[Compared] = []
    before = time.perf_counter()
    with fedcli_side(problem) as own_training:
        own_training()
        own_start, begin = time.perf_counter() - before, time.perf_counter()

        def measure(train: Train) -> None:
            train()
            starts = own_start, time.perf_counter() - begin
            results.append(
                Compared(name, _alternately(name, problem, own_training, train, repeats), starts)
            )

        PEERS[name].run(problem, measure)
    return results[0]


def _alternately(
    name: str,
    problem: Problem,
    own_training: Train,
    peer_training: Train,
    repeats: int,
) -> engine.Timing:
    """Times of all rounds; the final models of every repetition must agree."""
    start = weights(problem.net())
    final: dict[str, list[Tensor]] = {"fedcli": [], name: []}

    def keep(side: str, train: Train) -> None:
        final[side].append(train())

    seconds = engine.alternate(
        lambda: keep("fedcli", own_training),
        lambda: keep(name, peer_training),
        repeats,
    )
    ends = list(zip(*final.values(), strict=True))
    far = max(_distance(start, ours, theirs) for ours, theirs in ends)
    allowed = TOLERANCE if far < TOLERANCE else max(TOLERANCE, 2 * _rounding(problem, start))
    for ours, theirs in ends:
        check_same_model(name, start, ours, theirs, allowed)
    peer, images = PEERS[name], problem.rounds * problem.clients * problem.images
    about = peer.about.format(cores=problem.cores)
    shown = f"{name} {version(peer.package)}" if peer.package else name
    what = f"fedavg beside {shown} ({about}), {problem.model}, {problem.size} px, sgd"
    return engine.Timing(what, *seconds, images=images)


def _distance(start: Tensor, ours: Tensor, theirs: Tensor) -> float:
    """The distance of two trained weights [T] as a share of that from the start; NaN where nothing
    has moved.

    Norms alone would agree where neither has moved far.
    """
    moved = float((ours - start).norm())
    return float((ours - theirs).norm()) / moved if moved else math.nan


def _rounding(problem: Problem, start: Tensor) -> float:
    """How far apart fedcli itself ends on one and on all threads, which differ by rounding alone.

    In large networks a rounded gradient is off by half a percent, and steps make more of it.
    """
    ends = []
    for count in (1, max(2, problem.cores)):
        with threads(count):
            ends.append(fedcli_training(problem)())
    return _distance(start, *ends)


def check_same_model(
    name: str,
    start: Tensor,
    ours: Tensor,
    theirs: Tensor,
    allowed: float = TOLERANCE,
) -> None:
    """Raise FedcliError unless both trained weights [T] are the same but for rounding.

    allowed: their distance, as a share of that from the start.
    """
    distance = _distance(start, ours, theirs)
    if distance < allowed:  # false for NaN
        return
    raise FedcliError(
        f"{name} did not train as fedcli did: the norm of the final parameters is "
        f"{float(theirs.norm()):.6f}, fedcli's is {float(ours.norm()):.6f}; their distance is "
        f"{distance:.2g} of that from the start",
        f"no ratio is given, it would compare different work: {INSTALL} gets the {name} fedcli "
        "was tested with",
    )


def fedcli_clients(
    problem: Problem, remake: Callable[[str, int, int], InProcess] | None = None
) -> InProcess:
    """What trains the problem's clients; remake: the same in another process."""
    net = problem.net()
    training = Training(
        optimizer="sgd",
        lr=LEARNING_RATE,
        momentum=0.0,
        weight_decay=0.0,
        batch_size=BATCH,
    )
    return InProcess(
        resolve("fedavg"),
        net,
        Layout(net),
        problem.shards(),
        training,
        remake=remake,
    )


@contextmanager
def fedcli_side(problem: Problem) -> Iterator[Train]:
    """fedcli's side, on the engine and the threads that a run has by default."""
    together = side_by_side(None, problem.clients, "cpu")
    count = models.describe(problem.model).threads or (1 if together else problem.cores)
    with (
        threads(count),
        open_engine(None, clients := fedcli_clients(problem), problem.clients) as opened,
    ):
        train = fedcli_training(problem, clients, opened)

        def with_threads() -> Tensor:
            with threads(count):  # a peer in this process has its own
                return train()

        yield with_threads


def fedcli_training(
    problem: Problem,
    clients: InProcess | None = None,
    opened: Engine | None = None,
) -> Train:
    """All rounds from the start, in this process unless an engine is given."""
    federation = Federation(clients or fedcli_clients(problem), rounds=problem.rounds)
    start = federation.first()

    def train() -> Tensor:
        state = start
        for _ in range(problem.rounds):
            state = federation.play(state, engine=opened).state
        return state.theta[: federation.layout.trainable].clone()

    return train


PEERS = {
    "pfl-research": Peer("torchrun, {cores} processes of a thread", "pfl", ("pfl",), run_pfl),
    "pfl-research, one process": Peer(
        "{cores} threads", "pfl", ("pfl",), partial(run_pfl, processes=1)
    ),
    "Flower": Peer("ray, {cores} workers", "flwr", ("flwr", "ray"), run_flower),
    "BlazeFL": Peer(
        "{cores} processes of a thread", "blazefl", ("blazefl", "tqdm"), blaze.run_processes
    ),
    "BlazeFL, threads": Peer("{cores} threads", "blazefl", ("blazefl", "tqdm"), blaze.run_threads),
    "a plain loop": Peer("{cores} processes of a thread", "", ("torch",), run_processes),
    "a loop as papers release it": Peer(
        "files, {cores} loaders, {cores} threads", "", ("albumentations",), run_released
    ),
}


def main(
    beside: Annotated[
        list[str] | None,
        typer.Option(
            help="one whose name begins so, such as flower; may be repeated; default: all"
        ),
    ] = None,
    model: Annotated[str, typer.Option(help="network that is trained")] = "cnn",
    size: Annotated[int, typer.Option(min=8, help="side of the images in pixels")] = 32,
    clients: Annotated[int, typer.Option(min=1)] = 20,
    images: Annotated[int, typer.Option(min=2, help="of each client")] = 256,
    rounds: Annotated[int, typer.Option(min=1)] = 3,
    repeats: Annotated[
        int, typer.Option(min=1, help="times each side runs; the median counts")
    ] = 7,
    json: Annotated[bool, typer.Option("--json")] = False,
) -> None:
    """Time fedcli beside pfl-research, Flower, BlazeFL and plain loops, each on all cores, in a row
    for each.
    """
    show(
        COLUMNS,
        list(rows(beside, Problem(model, size, clients, images, rounds), repeats)),
        json,
    )


def rows(
    beside: Iterable[str] | None,
    problem: Problem,
    repeats: int,
) -> Iterator[Compared]:
    """A comparison with every peer that is asked for and installed, in which the peer is the bare
    side.
    """
    for name in named(beside):
        if not PEERS[name].installed:
            console.say(f"no row for {name}: it is not installed, {INSTALL}")
            continue
        console.say(f"fedcli beside {name}: {repeats} runs each")
        yield compare(name, problem, repeats)


if __name__ == "__main__":
    run(main)
