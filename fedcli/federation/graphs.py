"""Local steps on a GPU: recorded once as a CUDA graph, then replayed for every batch and client.

In one launch a graph gathers, augments and normalises a batch, computes the method's gradient and
updates the weights. It reads fixed addresses in memory, so every tensor of a client's round is
copied into a slot of its own before the first step, and the tensors that the method gathers in
scratch are copied back after the last. A graph keeps the numbers it was recorded with; so it is
recorded anew when a number that a step reads changes (for some methods the round), or a tensor's
shape does. A client's last batch, if smaller, is an ordinary step.
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

# recordings of a network: clients that differ, such as those of a first visit, may alternate
RECORDINGS = 3
WARM_UP = 2  # steps before a recording, in which libraries choose kernels and make their workspaces
PER_IMAGE = "per_image/"
# tensors of a client's round that a step may read
FIELDS = ("theta", "offset", "class_weights", "shared", "memory", "scratch")
# all else of a client's round that differs from client to client
FACTS = ("name", "row", "round", "lr", "shard", "val", "steps")


def no_graph_reason(local: Local) -> str:
    """The reason why the steps of a local half cannot be recorded and replayed; "" where they can.

    One from outside fedcli is recorded only if its own class sets `recordable`: a step that reads a
    changing number, or waits for the device, would replay wrong without any error.
    """
    kind = type(local)
    if vars(kind).get("recordable") or kind.__module__.startswith("fedcli.methods."):
        return local.not_recorded
    return "it is not one of fedcli's own, and nothing says that its step may be recorded"


class CudaGraph:
    """A step recorded as a CUDA graph.

    stream: to record on. Graphs of one stream share the workspace of matrix products, and torch has
        32 streams which it gives out again and again; so a network's graphs, of which one is
        replayed at a time, have one for themselves.
    """

    def __init__(self, stream: torch.cuda.Stream) -> None:
        self.graph = torch.cuda.CUDAGraph()
        self.stream = stream

    def capture(
        self,
        step: Callable[[], None],
        beside: "CudaGraph | None" = None,
        may_draw: bool = True,
    ) -> bool:
        """Warm up on a stream of its own, then record. Both change the tensors that a step writes.

        Returns False, and records nothing, where the step draws random numbers on the GPU and may
        not.

        beside: a graph whose memory it may use, since nothing in it is read after a replay.
        """
        seed = torch.cuda.get_rng_state()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(WARM_UP):
                step()
        torch.cuda.current_stream().wait_stream(self.stream)
        if not may_draw and not torch.equal(torch.cuda.get_rng_state(), seed):
            torch.cuda.set_rng_state(seed)
            return False
        pool = beside.graph.pool() if beside else None
        recording = torch.cuda.graph(
            self.graph,
            pool=pool,
            stream=self.stream,
            capture_error_mode="thread_local",
        )
        with recording:
            step()
        torch.cuda.set_rng_state(seed)
        return True

    def replay(self) -> None:
        self.graph.replay()


@dataclass
class Recorded:
    """A recorded step and the slots it reads."""

    round: int | None  # that its step reads; None where it reads none
    client: ClientRound  # its tensors in slots
    total: Tensor  # the sum of losses, a scalar
    # slots of a batch, as of _tensors_of_batch(); none until the first step
    batch: Tensors = field(default_factory=dict)
    graph: CudaGraph | None = None  # None until the first step


def local_steps(
    method: Method,
    net: Network,
    layout: Layout,
    optimizer: str,
    graph: Callable[[], CudaGraph] | None = None,
    may_draw: bool = True,
) -> Steps:
    """The steps of a method on a network, recorded on a GPU where the method's steps can be.

    graph: makes what records them, a CUDA graph by default.
    may_draw: whether steps that draw random numbers on the GPU are recorded too.
    """
    if layout.flat.is_cuda:
        graph = graph or partial(CudaGraph, torch.cuda.Stream(layout.flat.device))
    if graph is None or no_graph_reason(method.local):
        return Steps(method.local, net, layout, optimizer)
    return RecordedSteps(method.local, net, layout, optimizer, graph, may_draw)


class RecordedSteps(Steps):
    """Records the step of its network, and trains clients by replaying it."""

    def __init__(
        self,
        local: Local,
        net: Network,
        layout: Layout,
        optimizer: str,
        graph: Callable[[], CudaGraph],
        may_draw: bool = True,
    ):
        super().__init__(local, net, layout, optimizer)
        self.graph = graph
        self.may_draw = may_draw
        self.records = True  # until a step drew random numbers that it may not
        self.captures = 0  # how often a step was recorded
        self._recorded: dict[tuple, Recorded] = {}  # by what a recording assumes, last used last

    def along(
        self,
        client: ClientRound,
        turns: Turns,
        batch_size: int,
    ) -> Tensor:
        """Take the steps as Steps does, recorded where the client has a whole batch on the device.

        A graph does not copy images that are elsewhere.
        """
        shard = client.shard
        on_device = not shard.on_cpu and shard.images.device == client.theta.device
        if client.private or not on_device or len(shard) < batch_size or not self.records:
            return super().along(client, turns, batch_size)
        recorded = self._slots(client, batch_size)
        for indices, chance in turns:
            is_whole = len(indices) == batch_size
            if not (is_whole and self._replay(recorded, indices, chance, client)):
                batch = with_own(shard.batch(indices, chance), client)
                self.step(recorded.client, batch, recorded.total)
            client.steps += 1
            recorded.client.steps = client.steps
        # its slots may hold those of other clients later
        client.scratch = _mapped(recorded.client.scratch, torch.clone)
        return recorded.total.clone()

    def _slots(self, client: ClientRound, batch_size: int) -> Recorded:
        """The round's tensors in the slots of the recorded step, or in new ones."""
        fields = {name: getattr(client, name) for name in FIELDS}
        key = _key(client, fields, batch_size)
        round = client.round if self.local.reads_round else None
        recorded = self._recorded.pop(key, None)
        if recorded is None or recorded.round != round:
            recorded = None  # first, so that its memory is free for the next
            surplus = max(0, len(self._recorded) + 1 - RECORDINGS)
            for oldest in [*self._recorded][:surplus]:
                del self._recorded[oldest]
            recorded = self._new(client, fields, round)
        self._recorded[key] = recorded
        slots = {name: getattr(recorded.client, name) for name in FIELDS}
        for (_, slot), (_, value) in zip(_leaves(slots), _leaves(fields), strict=True):
            if isinstance(slot, Tensor):
                slot.copy_(value)
        for name in FACTS:
            setattr(recorded.client, name, getattr(client, name))
        recorded.total.zero_()
        return recorded

    def _new(
        self,
        client: ClientRound,
        fields: dict[str, Any],
        round: int | None,
    ) -> Recorded:
        """Slots for a step, which is recorded with the first batch.

        Raises FedcliError for a tensor whose changes the recorded step would not see.
        """
        device = client.theta.device
        for path, value in _leaves([client.scratch, client.per_image]):
            if isinstance(value, Tensor) and value.device != device:
                local = type(self.local).__name__
                raise FedcliError(
                    f"{local} keeps {path[-1]!r} of a client's round in the CPU's memory, "
                    "where a recorded step never sees it change",
                    "put it on client.theta.device",
                )
        copy = partial(Tensor.to, device=device, copy=True)
        slots = {name: _mapped(value, copy) for name, value in fields.items()}
        # nothing else of a client that leaves
        of_slots = replace(client, **slots, report={}, per_image={})
        return Recorded(round, of_slots, torch.zeros((), device=device))

    def _replay(
        self,
        recorded: Recorded,
        indices: Tensor,
        chance: Tensor | None,
        client: ClientRound,
    ) -> bool:
        """Take a step by its graph; returns False where it is not recorded."""
        if not self.records:
            return False
        batch = _tensors_of_batch(client, indices, chance)
        if recorded.graph is None:
            recorded.batch = _mapped(batch, torch.clone)
            recorded.graph = self._record(recorded, list(client.per_image))
        if recorded.graph is None:
            self.records = False
            return False
        for name, slot in recorded.batch.items():
            slot.copy_(batch[name])
        recorded.graph.replay()
        return True

    def _record(self, recorded: Recorded, per_image: list[str]) -> CudaGraph | None:
        """A graph of the step, which leaves every tensor as it was; None where it may not be
        recorded.
        """
        shard = recorded.client.shard
        slots = recorded.batch
        live = list(self._live(recorded))
        before = [tensor.clone() for tensor in live]

        def step() -> None:
            x = shard.look(slots["rows"], slots.get("chance"))
            values = {name: slots[PER_IMAGE + name] for name in per_image}
            batch = Batch(x, slots["y"], slots["at"], values)
            self.step(recorded.client, batch, recorded.total)

        graph = self.graph()
        was_recorded = graph.capture(step, self._other_graph(), self.may_draw)
        for tensor, value in zip(live, before, strict=True):
            tensor.copy_(value)
        if not was_recorded:
            return None
        self.captures += 1
        return graph

    def _other_graph(self) -> CudaGraph | None:
        for other in self._recorded.values():
            if other.graph:
                return other.graph
        return None

    def _live(self, recorded: Recorded) -> Iterator[Tensor]:
        """The tensors that a step may write."""
        yield from self.layout.all_tensors
        yield from self.optimizer.state
        frozen_buffers: set[int] = set()  # by id; other networks may share these
        for module in (*self.layout.frozen, self.net.teacher):
            if module is not None:
                frozen_buffers.update(id(buffer) for buffer in module.buffers())
        for buffer in self.net.buffers():
            if not buffer.is_floating_point() and id(buffer) not in frozen_buffers:
                yield buffer
        for _, slot in _leaves(recorded.client.scratch):
            if isinstance(slot, Tensor):
                yield slot
        yield recorded.total


def _tensors_of_batch(
    client: ClientRound,
    indices: Tensor,
    chance: Tensor | None,
) -> Tensors:
    """Rows of the pool [B], labels, indices in the shard [B], and the values that each image has.

    With augmentation also its draws [B, 4].
    """
    shard = client.shard
    tensors = {
        "rows": shard.rows[indices],
        "y": shard.y[indices],
        "at": indices,
    }
    if chance is not None:
        tensors["chance"] = chance
    for name, values in client.per_image.items():
        tensors[PER_IMAGE + name] = values[indices]
    return tensors


def _key(client: ClientRound, fields: dict[str, Any], batch_size: int) -> tuple:
    """Facts that a recorded step assumes, beside the round."""
    shard = client.shard
    pool = (id(shard.images), shard.kind, shard.channels)
    numbers = (client.rounds, client.momentum, client.label_smoothing, client.focal, batch_size)
    # the number of images is no part of it
    per_image = {name: values[:0] for name, values in client.per_image.items()}
    return (pool, numbers, *_signature({**fields, "per_image": per_image}))


def _leaves(value: Any, path: tuple = ()) -> Iterator[tuple[tuple, Any]]:
    """Every value in nested dicts, lists and tuples, with its path."""
    if isinstance(value, dict):
        for name in sorted(value):
            yield from _leaves(value[name], (*path, name))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index))
    else:
        yield path, value


def _mapped(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """A copy of nested dicts, lists and tuples with every tensor changed."""
    if isinstance(value, dict):
        return {name: _mapped(item, change) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_mapped(item, change) for item in value)
    if isinstance(value, Tensor):
        return change(value)
    return value


def _signature(fields: dict[str, Any]) -> Iterator[tuple]:
    """Names, shapes and types of tensors, and all other values."""
    for path, value in _leaves(fields):
        if isinstance(value, Tensor):
            yield path, tuple(value.shape), value.dtype
        else:
            is_plain = isinstance(value, int | float | str | bool | None)
            yield path, value if is_plain else id(value)
