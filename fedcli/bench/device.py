"""Whether training on a GPU is what it should be there, and how fast it is: `fedcli bench --device cuda`.

Every method plays the toy federation on the device: with its steps recorded and without, several clients at once,
resumed from disk, and on the CPU. Then plain training of a few networks is timed, step by step, recorded and compiled.
"""

import statistics
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from .. import console
from ..data.shard import Shard
from ..federation import state as states
from ..federation.client import Training
from ..federation.engines.in_process import Engine, InProcess
from ..federation.engines.streams import Streams
from ..federation.graphs import Graph, local_steps, no_graph_reason
from ..federation.server import Federation
from ..federation.state import RunState
from ..methods import METHODS, resolve
from ..methods.registry import Method
from ..runs import resources
from ..runs.resources import be_deterministic
from . import engine, limits
from .measuring import wait
from .toy import ROSTER, toy_federation, toy_shard

ROUNDS = 3
TRAINING = Training(optimizer="sgd", lr=0.1, momentum=0.9, weight_decay=0.01, epochs=2, batch_size=8)
COUNTS = {"north": 9, "south": 18, "east": 16, "west": 5}  # last batches of one and two, two whole ones, no whole one
FARTHEST = 0.01  # of the way that training went, between the model of the CPU and that of the device
NETWORKS = {("cnn", 32): 2048, ("resnet18", 64): 1024, ("resnet18", 224): 256, ("clip-vit-b16", 224): 128}
CLIENTS = 4
DROPOUT = 0.2  # but for the comparison with the CPU, which draws other numbers
SECONDS = 4.0  # for each way of training each network, once it is warm
MOST = 420.0  # seconds after which nothing else is begun, so that all of it takes eight minutes
LATE = "not begun: the time was over"


@dataclass(frozen=True)
class Proof:
    """What came of a method's checks on a device.

    Attributes:
        recorded: whether its steps were.
        failed: of each check that does not hold, why.
        seconds: that all of them took.
    """

    method: str
    recorded: bool
    failed: dict[str, str]
    seconds: float


@dataclass(frozen=True)
class Speed:
    """Rounds of plain training of a network.

    Attributes:
        images_per_second: from the median round; None where it could not run.
        share: of the device's matrix speed in this precision.
        peak_bytes: held at most.
        why: it could not run.
    """

    network: str
    size: int
    way: str
    images_per_second: float | None
    share: float | None = None
    peak_bytes: int | None = None
    why: str = ""


def proofs(device: str, graph: Callable[[], Graph] | None = None) -> Iterator[Proof]:
    """Every method on the device, one after another.

    graph: makes what records a step, where it is no CUDA graph.
    """
    be_deterministic(device, 1)
    for name in console.progress(list(METHODS), label=f"methods on {device}", total=len(METHODS)):
        begin, method = time.perf_counter(), resolve(name)
        failed = failures(method, device, graph)
        yield Proof(name, not no_graph_reason(method.local), failed, round(time.perf_counter() - begin, 2))


def failures(method: Method, device: str, graph: Callable[[], Graph] | None = None) -> dict[str, str]:
    """Why a method does not hold, by check; {} where it holds all. An error in one is the answer of that one."""
    failed: dict[str, str] = {}
    try:
        played = _OnDevice(method, device, graph)
    except Exception as error:
        return {"it trains": _in_words(error)}
    for check in CHECKS:
        try:
            why = check(played)
        except Exception as error:
            why = _in_words(error)
        if why:
            failed[check.__name__.replace("_", " ")] = why
    return failed


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"


class _OnDevice:
    """A method's toy federation on a device, played once with its steps recorded where they can be."""

    def __init__(self, method: Method, device: str, graph: Callable[[], Graph] | None):
        self.method, self.device, self.graph = method, device, graph
        self.clients = self.prepared(device)
        self.states, self.held = deque[RunState](maxlen=2), list[int]()  # what is held beside these
        for state in self.play(self.clients):
            self.states.append(state)
            self.held.append(resources.in_use(device) - _bytes([vars(kept) for kept in self.states]))

    def prepared(self, device: str, dropout: float = DROPOUT) -> InProcess:
        """The clients, with their network and images on a device."""
        shards = toy_clients(device)
        federation = toy_federation(self.method, shards=shards, training=TRAINING, dropout=dropout, device=device)
        clients = federation.clients
        if self.graph and device == self.device:
            steps = local_steps(self.method, clients.net, clients.layout, TRAINING.optimizer, self.graph)
            return replace(clients, steps=steps)
        return clients

    def play(
        self, clients: InProcess, engine: Engine | None = None, state: RunState | None = None
    ) -> Iterator[RunState]:
        """The state after each round."""
        federation = Federation(clients, ROUNDS, seed=1)
        state = state or federation.first()
        while state.round < ROUNDS:
            state = federation.play(state, ROSTER, engine or clients).state
            yield state


def recorded_steps_are_ordinary_steps(played: _OnDevice) -> str:
    clients = played.prepared(played.device)
    *_, last = played.play(clients, limits.unrecorded(clients))
    return _difference(last, played.states[-1])


def clients_at_once_change_nothing(played: _OnDevice) -> str:
    clients = played.prepared(played.device)
    *_, last = played.play(clients, Streams.of(clients, 2))
    return _difference(last, played.states[-1])


def a_resumed_training_is_the_same(played: _OnDevice) -> str:
    with tempfile.TemporaryDirectory() as folder:
        states.save(Path(folder), played.states[-2], ROSTER)
        restored = states.restore(states.saved(Path(folder))[-1], ROSTER, played.device)
    *_, last = played.play(played.prepared(played.device), state=restored)
    return _difference(last, played.states[-1])


def the_cpu_comes_close(played: _OnDevice) -> str:
    clients = played.prepared("cpu", dropout=0.0)
    start = clients.layout.read()
    *_, last = played.play(clients)
    *_, there = played.play(played.prepared(played.device, dropout=0.0))
    distance, way = ((theta.cpu() - last.theta).norm() for theta in (there.theta, start))
    share = float(distance / way) if way else float(distance)
    return "" if share <= FARTHEST else f"its model is {100 * share:.1f} % of the way of training from the device's"


def memory_does_not_grow(played: _OnDevice) -> str:
    _, second, last = played.held
    grew = last - second
    return f"{grew:,} bytes more after the last round" if played.device != "cpu" and grew > 0 else ""


def _bytes(*values: Any) -> int:
    """That a GPU gave for the tensors in nests of mappings and lists: pieces of 512, and a shared one once."""
    pieces: dict[int, int] = {}
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, torch.Tensor) and value.is_cuda:
            storage = value.untyped_storage()
            pieces[storage.data_ptr()] = -(-storage.nbytes() // 512) * 512
    return sum(pieces.values())


CHECKS = (
    recorded_steps_are_ordinary_steps, clients_at_once_change_nothing, a_resumed_training_is_the_same,
    the_cpu_comes_close, memory_does_not_grow,
)  # fmt: skip


def toy_clients(device: str, kind: str = "none") -> dict[str, Shard]:
    """The toy clients over one pool on a device, as a run has them; a graph reads one pool."""
    parts = {client: toy_shard(client, count) for client, count in COUNTS.items()}
    pool, start, made = torch.cat([part.images for part in parts.values()]).to(device), 0, {}
    for client, part in parts.items():
        rows = torch.arange(start, start := start + len(part), device=device)
        groups = {name: codes.to(device) for name, codes in part.groups.items()}
        made[client] = Shard(pool, rows, part.y.to(device), part.ids, groups, part.classes, part.channels, kind)
    return made


def speeds(
    device: str, networks: dict[tuple[str, int], int] | None = None, until: float = float("inf")
) -> Iterator[Speed]:
    """FedAvg over a few clients, for each network and way of training.

    networks: (name, side in pixels) -> images of a client. until: when by time.perf_counter() nothing else is begun.
    """
    peaks = matrix_speeds(device)
    for way, (precision, prepare) in WAYS.items():
        be_deterministic(device, 0, precision)
        for (model, size), images in (networks or NETWORKS).items():
            if time.perf_counter() > until:
                yield Speed(model, size, way, None, why=LATE)
                continue
            console.say(f"{model} at {size} px, {way}")
            resources.restart(device)
            try:
                pace, flops = _timed(device, model, size, images, precision, prepare)
            except Exception as error:  # a compiler that is missing, or memory that is short, ends no other row
                yield Speed(model, size, way, None, why=_in_words(error))
                continue
            share = pace * flops / peaks[precision] if peaks[precision] else None
            yield Speed(model, size, way, pace, share, resources.peak(device))
    be_deterministic(device, 0)


def matrix_speeds(device: str) -> dict[str, float | None]:
    """Floating-point operations per second in each precision; None where the memory is too small to measure it."""
    made: dict[str, float | None] = {}
    for precision in dict.fromkeys(precision for precision, _ in WAYS.values()):
        be_deterministic(device, 0, precision)
        try:
            made[precision] = limits.matrix_speed(device, precision)
        except torch.cuda.OutOfMemoryError:
            made[precision] = None
    return made


def _recorded(clients: InProcess) -> Engine:
    return clients


def _compiled(clients: InProcess) -> Engine:
    """Ordinary steps, whose forward and backward pass a compiler makes."""
    clients.net.forward = torch.compile(clients.net.forward)  # type: ignore[method-assign]
    return limits.unrecorded(clients)


WAYS: dict[str, tuple[str, Callable[[InProcess], Engine]]] = {
    "step by step": ("fp32", limits.unrecorded),
    "recorded": ("fp32", _recorded),
    "recorded, tf32": ("tf32", _recorded),
    "recorded, bf16": ("bf16", _recorded),
    "compiled": ("fp32", _compiled),
}


def _timed(
    device: str, model: str, size: int, images: int, precision: str, prepare: Callable[[InProcess], Engine]
) -> tuple[float, float]:
    """Images per second of the median round, and operations of an image."""
    federation = engine.plain_federation(model, size, CLIENTS, images, device, precision=precision)
    flops, _ = limits.counted(lambda: federation.play(federation.first(), engine=limits.unrecorded(federation.clients)))
    played = prepare(federation.clients)
    state = federation.play(federation.first(), engine=played).state
    seconds: list[float] = []
    while not seconds or sum(seconds) < SECONDS:
        wait(device)
        begin = time.perf_counter()
        federation.play(state, engine=played)
        wait(device)
        seconds.append(time.perf_counter() - begin)
    return CLIENTS * images / statistics.median(seconds), flops / (CLIENTS * images)


def report(device: str) -> dict[str, Any]:
    """All of it, as one JSON object."""
    until = time.perf_counter() + MOST
    checked = [asdict(proof) for proof in proofs(device)]
    return {
        "device": torch.cuda.get_device_name(device) if device.startswith("cuda") else resources.processor(),
        "torch": torch.__version__,
        "methods": checked,
        "failed": sum(bool(each["failed"]) for each in checked),
        "matrix_flops_per_second": matrix_speeds(device),
        "speeds": [asdict(speed) for speed in speeds(device, until=until)],
    }


def _difference(made: RunState, wanted: RunState) -> str:
    """ "" where two states are equal to the bit."""
    for part in ("theta", "shared", "server", "clients"):
        if not states.equal(getattr(made, part), getattr(wanted, part)):
            return f"{part} differs after {made.round} rounds"
    return ""
