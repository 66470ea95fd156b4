"""Checks of every method on a GPU: `python benchmarks/gpu_checks.py`.

Every method plays the toy federation on the device: with its steps recorded and without, several
clients at once, resumed from disk, and on the CPU. Then a network with several numbers of classes
trains in every precision: its batch norms read vectors that begin at every offset in theta.
"""

import copy
import itertools
import json as encoder
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from shell import run
from torch.nn import functional

from fedcli import console, models
from fedcli.bench import limits
from fedcli.bench.device import in_words, name_of
from fedcli.bench.toy import ROSTER, toy_federation, toy_shard
from fedcli.data import transforms
from fedcli.data.shard import Shard
from fedcli.federation import state as states
from fedcli.federation.client import Training
from fedcli.federation.engines.in_process import Engine, InProcess
from fedcli.federation.engines.streams import Streams
from fedcli.federation.graphs import CudaGraph, local_steps, no_graph_reason
from fedcli.federation.server import Federation
from fedcli.federation.state import RunState
from fedcli.methods import METHODS, resolve
from fedcli.methods.mixins import SubsetTraining
from fedcli.methods.registry import Method
from fedcli.models.layout import Layout
from fedcli.runs import resources
from fedcli.runs.resources import be_deterministic
from fedcli.system import terminal

ROUNDS = 3
COMPARED = 3  # of these, the round whose models are compared: the last or the one before it
TRAINING = Training(
    optimizer="sgd",
    lr=0.1,
    momentum=0.9,
    weight_decay=0.01,
    epochs=2,
    batch_size=8,
)
COUNTS = {
    "north": 9,
    "south": 18,
    "east": 16,
    "west": 5,
}  # last batches of one and two, two whole ones, no whole one
FARTHEST = (
    0.01  # of the way that training went, between the model of the CPU and that of the device
)
# a relative difference that other kernels may make, by precision
ROUNDING = {"fp32": 0.01, "tf32": 0.05, "bf16": 0.1}
CLASS_COUNTS = 5, 6, 7, 8  # statistics then begin 4, 8, 12 and 0 bytes behind a read of cuDNN
DROPOUT = 0.2  # but for the comparison with the CPU, which draws other numbers


def main(
    device: Annotated[str, typer.Option(help="cuda or cuda:N")] = "cuda",
    json: Annotated[bool, typer.Option("--json")] = False,
) -> None:
    """Check every method on a GPU. Exits with 1 where a check fails."""
    resources.check_device(device)
    checked = [asdict(proof) for proof in proofs(device)]
    offsets = failing_offsets(device)  # last, since a GPU may end the process there
    failed = sum(bool(proof["failed"]) for proof in checked) + len(offsets)
    if json:
        report = {
            "device": name_of(device),
            "torch": torch.__version__,
            "methods": checked,
            "offsets": offsets,
            "failed": failed,
        }
        print(encoder.dumps(report, indent=1))
    else:
        rows = [
            [
                proof["method"],
                "yes" if proof["recorded"] else "no",
                "; ".join(proof["failed"].values()) or "holds",
            ]
            for proof in checked
        ]
        terminal.table(["method", "steps recorded", "checks"], rows)
        for network, why in offsets.items():
            print(f"{network}: {why}")
    if failed:
        raise typer.Exit(1)


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


def proofs(device: str, graph: Callable[[], CudaGraph] | None = None) -> Iterator[Proof]:
    """Every method on the device, one after another.

    graph: makes what records a step, where it is no CUDA graph.
    """
    be_deterministic(device, 1)
    for name in console.progress(list(METHODS), label=f"methods on {device}", total=len(METHODS)):
        begin, method = time.perf_counter(), resolve(name)
        failed = failures(method, device, graph)
        yield Proof(
            name, not no_graph_reason(method.local), failed, round(time.perf_counter() - begin, 2)
        )


def failures(
    method: Method, device: str, graph: Callable[[], CudaGraph] | None = None
) -> dict[str, str]:
    """Why a method does not hold, by check; {} where it holds all. An error in one is the answer of
    that one.
    """
    failed: dict[str, str] = {}
    try:
        played = _OnDevice(method, device, graph)
    except Exception as error:
        return {"it trains": in_words(error)}
    for check in CHECKS:
        try:
            why = check(played)
        except Exception as error:
            why = in_words(error)
        if why:
            failed[check.__name__.replace("_", " ")] = why
    return failed


class _OnDevice:
    """A method's toy federation on a device, played once with its steps recorded where they can
    be.
    """

    def __init__(
        self,
        method: Method,
        device: str,
        graph: Callable[[], CudaGraph] | None,
    ):
        self.method, self.device, self.graph = method, device, graph
        self.clients = self.prepared(device)
        self.states, self.held = deque[RunState](maxlen=2), list[int]()  # what is held beside these
        for state in self.play(self.clients):
            self.states.append(state)
            self.held.append(
                resources.in_use(device) - _bytes([vars(kept) for kept in self.states])
            )

    def prepared(self, device: str, dropout: float = DROPOUT) -> InProcess:
        """The clients, with their network and images on a device."""
        shards = toy_clients(device)
        federation = toy_federation(
            self.method,
            shards=shards,
            training=TRAINING,
            dropout=dropout,
            device=device,
        )
        clients = federation.clients
        if self.graph and device == self.device:
            steps = local_steps(
                self.method,
                clients.net,
                clients.layout,
                TRAINING.optimizer,
                self.graph,
            )
            return replace(clients, steps=steps)
        return clients

    def play(
        self,
        clients: InProcess,
        engine: Engine | None = None,
        state: RunState | None = None,
        until: int = ROUNDS,
    ) -> Iterator[RunState]:
        """The state after each round, until that one."""
        federation = Federation(clients, ROUNDS, seed=1)
        state = state or federation.first()
        while state.round < until:
            state = federation.play(state, ROSTER, engine or clients).state
            yield state


def failing_offsets(device: str) -> dict[str, str]:
    """Why a network does not train, by precision and number of classes; {} where all do."""
    failed: dict[str, str] = {}
    for precision, classes in itertools.product(ROUNDING, CLASS_COUNTS):
        be_deterministic(device, 1, precision)
        try:
            why = _offset_failure(device, precision, classes)
        except Exception as error:
            why = in_words(error)
        if why:
            failed[f"{precision}, {classes} classes"] = why
    be_deterministic(device, 1)
    return failed


def _offset_failure(device: str, precision: str, classes: int) -> str:
    """Compare a step of the small CNN as views of theta with one of tensors of its own."""
    inputs = models.Inputs(3, classes, 32)
    separate = models.build("cnn", inputs, seed=0, precision=precision).to(device).train()
    viewed = copy.deepcopy(separate)
    layout = Layout(viewed)
    images = torch.rand(8, 3, 32, 32, generator=torch.Generator().manual_seed(0)).to(device)
    x = transforms.to_input(images, channels=3)
    y = torch.arange(8, device=device) % classes
    loss = functional.cross_entropy(viewed(x), y)
    loss.backward()
    expected = functional.cross_entropy(separate(x), y)
    separate_gradients = torch.autograd.grad(expected, list(separate.parameters()))
    gradients = torch.cat([gradient.flatten() for gradient in separate_gradients])
    distance = (layout.grad - gradients).norm() / gradients.norm()
    apart = max(float(distance), float((loss / expected - 1).abs().detach()))
    if apart <= ROUNDING[precision]:
        return ""
    return f"differs by {100 * apart:.1f} % from a network whose vectors begin elsewhere"


def recorded_steps_are_ordinary_steps(played: _OnDevice) -> str:
    clients = played.prepared(played.device)
    *_, last = played.play(clients, limits.unrecorded(clients), until=COMPARED)
    return _difference(last, played.states[COMPARED - ROUNDS - 1])


def clients_at_once_change_nothing(played: _OnDevice) -> str:
    clients = played.prepared(played.device)
    *_, last = played.play(clients, Streams.of(clients, 2), until=COMPARED)
    return _difference(last, played.states[COMPARED - ROUNDS - 1])


def a_resumed_training_is_the_same(played: _OnDevice) -> str:
    with tempfile.TemporaryDirectory() as folder:
        states.save(Path(folder), played.states[-2], ROSTER)
        restored = states.restore(
            states.saved(Path(folder))[-1],
            ROSTER,
            played.device,
        )
    *_, last = played.play(played.prepared(played.device), state=restored)
    return _difference(last, played.states[-1])


def the_cpu_comes_close(played: _OnDevice) -> str:
    clients = played.prepared("cpu", dropout=0.0)
    start = clients.layout.read()
    *_, last = played.play(clients, until=COMPARED)
    *_, there = played.play(played.prepared(played.device, dropout=0.0), until=COMPARED)
    distance, way = ((theta.cpu() - last.theta).norm() for theta in (there.theta, start))
    share = float(distance / way) if way else float(distance)
    return (
        ""
        if share <= FARTHEST
        else f"its model is {100 * share:.1f} % of the way of training from the device's"
    )


def memory_does_not_grow(played: _OnDevice) -> str:
    _, second, last = played.held
    grew = last - second
    if isinstance(played.method.aggregator, SubsetTraining):
        return ""  # a client that trains first in the last round begins to keep something
    return (
        f"{grew:,} bytes more after the last round" if played.device != "cpu" and grew > 0 else ""
    )


def _bytes(*values: Any) -> int:
    """That a GPU gave for the tensors in nests of mappings and lists: pieces of 512, and a shared
    one once.
    """
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
    recorded_steps_are_ordinary_steps,
    clients_at_once_change_nothing,
    a_resumed_training_is_the_same,
    the_cpu_comes_close,
    memory_does_not_grow,
)


def toy_clients(device: str, kind: str = "none") -> dict[str, Shard]:
    """The toy clients over one pool on a device, as a run has them; a graph reads one pool."""
    parts = {client: toy_shard(client, count) for client, count in COUNTS.items()}
    pool, start, made = torch.cat([part.images for part in parts.values()]).to(device), 0, {}
    for client, part in parts.items():
        rows = torch.arange(start, start := start + len(part), device=device)
        groups = {name: codes.to(device) for name, codes in part.groups.items()}
        made[client] = Shard(
            pool,
            rows,
            part.y.to(device),
            part.ids,
            groups,
            part.classes,
            part.channels,
            kind,
        )
    return made


def _difference(made: RunState, wanted: RunState) -> str:
    """ "" where two states are equal to the bit."""
    for part in ("theta", "shared", "server", "clients"):
        if not states.equal(getattr(made, part), getattr(wanted, part)):
            return f"{part} differs after {made.round} rounds"
    return ""


if __name__ == "__main__":
    run(main)
