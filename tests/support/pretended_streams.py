"""Streams of the pretended GPU (pretend.py): where a tensor is, what wrote it last, and who has waited for that."""

import threading
from contextlib import contextmanager

import torch
from torch.multiprocessing.reductions import StorageWeakRef

T = torch.Tensor
STREAMS = 8  # that streams are taken from in turn, as torch does of 32
PIECE = 512  # bytes, to which the allocator rounds up


class Fault(AssertionError):
    """An operation that a GPU would refuse, or compute wrongly without an error."""


class Stream:
    """A queue of work. clock: of its own work; seen: how far it has waited for others."""

    made = 0
    pool = []

    def __new__(cls, *_):
        cls.made += 1
        if len(cls.pool) < STREAMS:
            cls.pool.append(super().__new__(cls))
            cls.pool[-1].clock = 0
            cls.pool[-1].seen = {}
            return cls.pool[-1]
        return cls.pool[(cls.made - 1) % STREAMS]

    def wait_stream(self, other):
        for stream, clock in [*other.seen.items(), (other, other.clock)]:
            self.seen[stream] = max(self.seen.get(stream, 0), clock)

    def synchronize(self):
        HOST.wait_stream(self)

    def knows(self, block):
        return (
            self is block.stream
            or max(self.seen.get(block.stream, 0), HOST.seen.get(block.stream, 0)) >= block.clock
        )


class Place:
    """The last write to a storage of the device."""

    def __init__(self, storage=None):
        self.ref = StorageWeakRef(storage) if storage is not None else None
        self.bytes = -(-storage.nbytes() // PIECE) * PIECE if storage is not None else 0
        self.written()

    def written(self):
        self.stream = current()
        self.stream.clock += 1
        self.clock = self.stream.clock


places: dict[
    int, Place
] = {}  # storage -> where it was written; its weak reference keeps the number from another one
page_locked: dict[int, StorageWeakRef] = {}
workspaces: dict[Stream, Place] = {}  # of matrix products, one for each stream
local = threading.local()
HOST = object.__new__(Stream)
DEFAULT = object.__new__(Stream)  # the host waits as a stream does, and starts after all


def begin():
    """Nothing is there, and no stream was made."""
    for table in (places, page_locked, workspaces, Stream.pool):
        table.clear()
    Stream.made = 0
    for stream in (HOST, DEFAULT):
        stream.clock = 0
        stream.seen = {}


def synchronize(*_):
    for stream in [DEFAULT, *Stream.pool]:
        HOST.wait_stream(stream)


def current(*_):
    return getattr(local, "stream", DEFAULT)


@contextmanager
def on(stream):
    before = current()
    local.stream = stream
    try:
        yield
    finally:
        local.stream = before


def capturing(*_):
    return getattr(local, "graph", None) is not None


def waits(name):
    """The host waits for the current stream."""
    if capturing():
        raise Fault(f"{name} waits for the GPU within a recorded step")
    current().synchronize()


def key(tensor):
    with torch._C.DisableTorchFunction():
        while torch._C._functorch.is_functorch_wrapped_tensor(tensor):  # within vmap
            tensor = torch._C._functorch.get_unwrapped(tensor)
        return tensor.untyped_storage()._cdata


def there(tensor):
    return key(tensor) in places


def tag(tensor):
    with torch._C.DisableTorchFunction():
        while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            tensor = torch._C._functorch.get_unwrapped(tensor)
        storage = tensor.untyped_storage()
        block = places.get(storage._cdata)
        if block is None:
            if len(places) % 4096 == 0:
                held()
            places[storage._cdata] = Place(storage)
        else:
            block.written()
    return tensor


def held(*_):
    """Bytes of all that is there."""
    for gone in [number for number, block in places.items() if block.ref.expired()]:
        del places[gone]
    return sum(block.bytes for block in places.values())


def tensors_of(values, out):
    """Tensors in nests of lists, tuples and dicts are added to a list, which is returned."""
    for value in values:
        if isinstance(value, T):
            out.append(value)
        elif isinstance(value, list | tuple):
            tensors_of(value, out)
        elif isinstance(value, dict):
            tensors_of(value.values(), out)
    return out
