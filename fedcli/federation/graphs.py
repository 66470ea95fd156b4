"""Local steps on a GPU: recorded once as a CUDA graph, then replayed for every batch, client and round.

In one launch a graph gathers, augments and normalises a batch, computes the method's gradient and updates the weights.
It reads fixed addresses in memory, so every tensor of a client's round is copied into a slot of its own before the
first step, and what the method gathers in scratch is copied back after the last. A graph keeps the numbers it was
recorded with; so it is recorded anew when a number that a step reads changes (for some methods the round), or a
tensor's shape does. A client's last batch, if smaller, is an ordinary step.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..data.shard import Batch
from ..errors import FedcliError
from ..methods.contract import ClientRound, Local, Tensors
from ..methods.registry import Method
from ..models.layout import Layout
from ..models.network import Network
from .steps import Steps, Turns, with_own

KEPT = (
    3  # recordings of a network: clients that differ, such as those of a first visit, may alternate
)
WARM_UP = 2  # steps before a recording, in which libraries choose kernels and make their workspaces
OWN = "per_image/"
FIELDS = (
    "theta",
    "offset",
    "class_weights",
    "shared",
    "memory",
    "scratch",
)  # of a client's round, that a step may read


def no_graph_reason(local: Local) -> str:
    """Why the steps of a local half cannot be recorded once and replayed for other clients; "" where they can.

    One from outside fedcli is recorded only if its own class says `recordable`: a step that reads a changing number, or
    waits for the device, would replay wrong without any error.
    """
    kind = type(local)
    if vars(kind).get("recordable") or kind.__module__.startswith("fedcli.methods."):
        return local.not_recorded
    return "it is not one of fedcli's own, and nothing says that its step may be recorded"


class CudaGraph:
    """A step recorded as a CUDA graph.

    stream: to record on. Graphs of one stream share the workspace of matrix products, and torch has 32 streams which it
    gives out again and again; so a network's graphs, of which one is replayed at a time, have one for themselves.
    """

    def __init__(self, stream: torch.cuda.Stream) -> None:
        self.graph, self.stream = torch.cuda.CUDAGraph(), stream

    def capture(self, step: Callable[[], None], beside: "CudaGraph | None" = None) -> None:
        """Warm up on a stream of its own, then record. Both change what the step writes to.

        beside: a graph whose memory it may use, since nothing in there is read after a replay.
        """
        seed = torch.cuda.get_rng_state()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(WARM_UP):
                step()
        torch.cuda.current_stream().wait_stream(self.stream)
        pool = beside.graph.pool() if beside else None
        with torch.cuda.graph(
            self.graph, pool=pool, stream=self.stream, capture_error_mode="thread_local"
        ):
            step()
        torch.cuda.set_rng_state(seed)

    def replay(self) -> None:
        self.graph.replay()


@dataclass
class Recorded:
    """A recorded step and the slots it reads."""

    round: int | None  # that its step reads; None where it reads none
    client: ClientRound  # its tensors in slots
    total: Tensor  # the sum of losses, a scalar
    batch: Tensors = field(
        default_factory=dict
    )  # slots of a batch, as of _of_batch(); none until the first step
    graph: CudaGraph | None = None  # None until the first step


def local_steps(
    method: Method,
    net: Network,
    layout: Layout,
    optimizer: str,
    graph: Callable[[], CudaGraph] | None = None,
) -> Steps:
    """The steps of a method on a network, recorded where that is on a GPU and the method's steps can be.

    graph: makes what records them, a CUDA graph by default.
    """
    if layout.flat.is_cuda:
        graph = graph or partial(CudaGraph, torch.cuda.Stream(layout.flat.device))
    if graph is None or no_graph_reason(method.local):
        return Steps(method.local, net, layout, optimizer)
    return RecordedSteps(method.local, net, layout, optimizer, graph)


class RecordedSteps(Steps):
    """Records the step of its network, and trains clients by replaying it."""

    def __init__(
        self,
        local: Local,
        net: Network,
        layout: Layout,
        optimizer: str,
        graph: Callable[[], CudaGraph],
    ):
        super().__init__(local, net, layout, optimizer)
        self.graph, self.captures = graph, 0  # how often a step was recorded
        self._recorded: dict[
            tuple, Recorded
        ] = {}  # by what a recording assumes, the last used last

    def along(self, client: ClientRound, turns: Turns, batch_size: int) -> Tensor:
        """As of Steps, where the client has no whole batch, or its images elsewhere: a graph does not copy them."""
        shard = client.shard
        there = not shard.on_cpu and shard.images.device == client.theta.device
        if client.private or not there or len(shard) < batch_size:
            return super().along(client, turns, batch_size)
        recorded = self._slots(client, batch_size)
        for at, chance in turns:
            if len(at) == batch_size:
                self._replay(recorded, at, chance, client)
            else:
                self.step(
                    recorded.client, with_own(shard.batch(at, chance), client), recorded.total
                )
            client.steps = recorded.client.steps = client.steps + 1
        client.scratch = _mapped(
            recorded.client.scratch, torch.clone
        )  # what was in it may be other clients' too
        return recorded.total.clone()

    def _slots(self, client: ClientRound, batch_size: int) -> Recorded:
        """The round's tensors in the slots of the recorded step, or in new ones where that does not fit."""
        numbers = client.rounds, client.momentum, client.label_smoothing, client.focal, batch_size
        fields = {name: getattr(client, name) for name in FIELDS}
        images = {
            name: values[:0] for name, values in client.per_image.items()
        }  # their number is no part of it
        shard = client.shard
        key = (
            id(shard.images),
            shard.kind,
            shard.channels,
            numbers,
            *_signature({**fields, "per_image": images}),
        )
        round = client.round if self.local.reads_round else None
        recorded = self._recorded.pop(key, None)
        if recorded is None or recorded.round != round:
            recorded = None  # first, so that its memory is free for the next
            for oldest in [*self._recorded][: len(self._recorded) + 1 - KEPT]:
                del self._recorded[oldest]
            recorded = self._new(client, fields, round)
        self._recorded[key] = recorded
        slots_of = {name: getattr(recorded.client, name) for name in FIELDS}
        for (_, slot), (_, real) in zip(_leaves(slots_of), _leaves(fields), strict=True):
            if isinstance(slot, Tensor):
                slot.copy_(real)
        for name in ("name", "row", "round", "lr", "shard", "val", "steps"):
            setattr(recorded.client, name, getattr(client, name))
        recorded.total.zero_()
        return recorded

    def _new(self, client: ClientRound, fields: dict[str, Any], round: int | None) -> Recorded:
        """Slots for a step, recorded with the first batch. Raises FedcliError for what it never sees change."""
        device = client.theta.device
        for path, value in _leaves([client.scratch, client.per_image]):
            if isinstance(value, Tensor) and value.device != device:
                what = f"{type(self.local).__name__} keeps {path[-1]!r} of a client's round in the CPU's memory"
                what += ", where a recorded step never sees it change"
                raise FedcliError(what, "put it on client.theta.device")
        slots = {
            name: _mapped(value, partial(Tensor.to, device=device, copy=True))
            for name, value in fields.items()
        }
        kept = replace(
            client, **slots, report={}, per_image={}
        )  # nothing else of a client that leaves
        return Recorded(round, kept, torch.zeros((), device=device))

    def _replay(
        self, recorded: Recorded, at: Tensor, chance: Tensor | None, client: ClientRound
    ) -> None:
        batch = _of_batch(client, at, chance)
        if recorded.graph is None:
            recorded.batch = _mapped(batch, torch.clone)
            recorded.graph = self._record(recorded, list(client.per_image))
        for name, slot in recorded.batch.items():
            slot.copy_(batch[name])
        recorded.graph.replay()

    def _record(self, recorded: Recorded, per_image: list[str]) -> CudaGraph:
        shard, live, slots = recorded.client.shard, [*self._live(recorded)], recorded.batch
        kept = [tensor.clone() for tensor in live]

        def step() -> None:
            x = shard.look(slots["rows"], slots.get("chance"))
            batch = Batch(
                x, slots["y"], slots["at"], {name: slots[OWN + name] for name in per_image}
            )
            self.step(recorded.client, batch, recorded.total)

        graph = self.graph()
        graph.capture(
            step, next((other.graph for other in self._recorded.values() if other.graph), None)
        )
        for tensor, value in zip(live, kept, strict=True):
            tensor.copy_(value)
        self.captures += 1
        return graph

    def _live(self, recorded: Recorded) -> Iterator[Tensor]:
        yield from self.layout.all_tensors
        yield from self.optimizer.state
        never = [module for module in (*self.layout.frozen, self.net.teacher) if module is not None]
        still = {
            id(buffer) for module in never for buffer in module.buffers()
        }  # other networks may share these
        counters = (buffer for buffer in self.net.buffers() if not buffer.is_floating_point())
        yield from (buffer for buffer in counters if id(buffer) not in still)
        yield from (
            slot for _, slot in _leaves(recorded.client.scratch) if isinstance(slot, Tensor)
        )
        yield recorded.total


def _of_batch(client: ClientRound, at: Tensor, chance: Tensor | None) -> Tensors:
    """Rows of the pool [B], labels, places in the shard [B], draws of augmentation [B, 4], and what each image has."""
    own = {OWN + name: values[at] for name, values in client.per_image.items()}
    drawn = {} if chance is None else {"chance": chance}
    return {"rows": client.shard.rows[at], "y": client.shard.y[at], "at": at, **drawn, **own}


def _leaves(value: Any, path: tuple = ()) -> Iterator[tuple[tuple, Any]]:
    """Every value in nested dicts, lists and tuples, with the way to it."""
    if isinstance(value, dict):
        for name in sorted(value):
            yield from _leaves(value[name], (*path, name))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index))
    else:
        yield path, value


def _mapped(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, dict):
        return {name: _mapped(item, change) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_mapped(item, change) for item in value)
    return change(value) if isinstance(value, Tensor) else value


def _signature(fields: dict[str, Any]) -> Iterator[tuple]:
    """Facts that a recorded step assumes: names, shapes and kinds of tensors, and all other values."""
    for path, value in _leaves(fields):
        if isinstance(value, Tensor):
            yield path, tuple(value.shape), value.dtype
        else:
            yield path, value if isinstance(value, int | float | str | bool | None) else id(value)
