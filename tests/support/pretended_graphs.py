"""CUDA graphs of the pretended GPU (pretend.py)."""

from functools import cache

import torch
from pretended_streams import (
    HOST,
    Fault,
    Place,
    T,
    current,
    key,
    local,
    on,
    places,
    synchronize,
    tensors_of,
    there,
    workspaces,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map


@cache
def about(func):
    """An operation's name, and whether it writes into what it is given."""
    return func.overloadpacket.__name__, func._schema.is_mutable


class Graph(TorchDispatchMode):
    """torch.cuda.CUDAGraph: keeps the operations on the device, with what they read from the host as it was."""

    captures = 0

    def __init__(self):
        super().__init__()
        self.operations = []
        self.read = {}
        self.written = {}
        self.workspace = None

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        inputs = tensors_of([*args, *kwargs.values()], [])
        outputs = tensors_of([out], [])
        if not (inputs or outputs) or any(map(there, [*inputs, *outputs])):
            self.operations.append(
                (func, tree_map(_baked, args), tree_map(_baked, kwargs), outputs)
            )
            read = {number: places[number] for number in map(key, inputs) if number in places}
            new = {number: places[number] for number in map(key, outputs) if number in places}
            self.read |= read
            self.written |= (
                new
                if about(func)[1]
                else {number: new[number] for number in new.keys() - read.keys()}
            )
        return out

    def replay(self):
        """On the current stream; matrix products use the workspace of the stream that they were recorded on."""
        stream = current()
        if not stream.knows(self.workspace):
            raise Fault(
                "two streams replay graphs that share a workspace, and neither waits for the other"
            )
        if not all(map(stream.knows, self.read.values())):
            raise Fault("a replay reads on a stream that did not wait for the one that wrote it")
        with torch.no_grad(), torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            for func, args, kwargs, out in self.operations:
                for old, new in zip(out, tensors_of([func(*args, **kwargs)], [])):
                    if old.data_ptr() != new.data_ptr():
                        old.copy_(new)  # where the operations after it look
        for block in (self.workspace, *self.written.values()):
            block.written()

    def pool(self):
        return 0, 1


def _baked(value):
    if isinstance(value, T) and not there(value):
        with torch._C._DisableTorchDispatch():
            return value.detach().clone()
    return value


class capture:  # noqa: N801 - as torch.cuda.graph
    def __init__(self, graph, pool=None, stream=None, capture_error_mode="global"):
        self.graph, self.stream = graph, stream

    def __enter__(self):
        synchronize()
        self.on = on(self.stream)
        self.on.__enter__()
        local.graph = self.graph
        Graph.captures += 1
        self.graph.workspace = workspaces.setdefault(self.stream, Place())
        self.graph.__enter__()

    def __exit__(self, *error):
        self.graph.__exit__(*error)
        local.graph = None
        HOST.wait_stream(self.stream)  # on a GPU nothing has run
        self.on.__exit__(*error)
