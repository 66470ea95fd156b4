"""Recorded steps without a GPU: a stand-in for a CUDA graph, and the toy federation played with it."""

import torch
from conftest import ROSTER, play, toy_shard
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fedcli.data.shard import Shard
from fedcli.federation.client import Training
from fedcli.federation.engines import in_process
from fedcli.federation.graphs import local_steps, no_graph_reason
from fedcli.methods import METHODS

TRAINING = Training(
    optimizer="sgd", lr=0.1, momentum=0.9, weight_decay=0.01, epochs=2, batch_size=8
)
# One method for each half that runs at a client: methods that differ at the server alone take the same local steps.
AT_CLIENTS = list({repr(method.local): name for name, method in reversed(METHODS.items())}.values())
RECORDED = [name for name, method in METHODS.items() if not no_graph_reason(method.local)]
HOST = (
    "_local_scalar_dense",
    "nonzero",
    "masked_select",
    "unique",
    "bincount",
    "lift_fresh",
)  # what waits for numbers


class Tape(TorchDispatchMode):
    """Stands in for a CUDA graph: notes every operation of a step, and repeats them on the same tensors.

    As in a graph, no line of Python runs again, so that numbers and tensors are those of the step that was recorded.
    """

    def __init__(self):
        super().__init__()
        self.operations = []

    def capture(self, step, beside=None, may_draw=True):
        with torch.random.fork_rng(devices=[]):
            step()  # as a warm-up does: what it moves must be put back
            self.record(step)
        return True

    def record(self, step):
        with self:
            step()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.operations.append((func, args, kwargs or {}, out))
        return out

    @torch.no_grad()
    def replay(self):
        for func, args, kwargs, out in self.operations:
            for old, new in zip(tree_leaves(out), tree_leaves(func(*args, **kwargs))):
                if isinstance(old, torch.Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)  # where the operations after it look


class Strict(Tape):
    """Refuses a step in which the host would wait for the device, or send it numbers."""

    def record(self, step):
        with NoHost():
            super().record(step)


class NoHost(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        assert name not in HOST, f"{name} waits for the device"
        assert name != "index" or all(
            index is None or index.dtype is not torch.bool for index in args[1]
        ), "an index by bools waits"
        return func(*args, **(kwargs or {}))


def federation(kind="none") -> dict[str, Shard]:
    """The toy clients over one pool, as a run has them: a last batch of one or two images, no whole batch, two."""
    counts = {"north": 9, "south": 18, "east": 16, "west": 5}
    parts = {client: toy_shard(client, counts[client]) for client in ROSTER}
    pool = torch.cat([part.images for part in parts.values()])
    start = 0
    out = {}
    for client, part in parts.items():
        rows = torch.arange(start, start := start + len(part))
        out[client] = Shard(pool, rows, part.y, part.ids, part.groups, part.classes, 1, kind)
    return out


def recorded(monkeypatch, graph, spec, **options):
    """Play with every step recorded; the state, and how often a step was recorded."""
    steps = []

    def on(method, net, layout, optimizer):
        steps.append(local_steps(method, net, layout, optimizer, graph))
        return steps[-1]

    with monkeypatch.context() as patch:
        patch.setattr(in_process, "local_steps", on)
        state = play(spec, **{"training": TRAINING, **options})
    return state, steps[0].captures
