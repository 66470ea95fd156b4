"""--precision auto: the precision that takes a local step in the least time on this machine.

A CPU without bf16 instructions is slower under autocast, one with them up to six times faster;
small networks gain nothing on either. On a GPU there is tf32 between them. So a few steps of each
are measured on images of the run's size, on a GPU recorded as those of most methods are, and the
choice is kept with the run: where such a run exists already, in any of them, it is continued and
nothing is measured.
"""

import statistics
import time
from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F

from ..federation.graphs import CudaGraph
from ..models.network import Network
from . import resources

Precision = Literal["fp32", "tf32", "bf16"]
STEPS = 5  # of each, in turns, after one that does not count
GAIN = 1.05  # times faster must a less exact one be: a draw goes to the more exact one


def choices(device: str) -> tuple[Precision, ...]:
    """The precisions of a device, the most exact first."""
    return ("fp32", "tf32", "bf16") if device.startswith("cuda") else ("fp32", "bf16")


def fastest(
    build: Callable[[str], Network], images: torch.Tensor
) -> tuple[Precision, dict[Precision, float]]:
    """The precision, and the median seconds of a step in each.

    build: precision -> a network on the images' device, of which nothing is kept.
    images: one batch as the network takes it, float32 [B, C, H, W]; what they show does not matter.
    """
    names = choices(str(images.device))
    steps = {name: _step(build(name).train(), images, name) for name in names}
    times: dict[Precision, list[float]] = {name: [] for name in names}
    for turn in range(STEPS + 1):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            if images.is_cuda:
                torch.cuda.synchronize()
            if turn:
                times[name].append(time.perf_counter() - start)
    seconds = {name: statistics.median(values) for name, values in times.items()}
    best = names[0]
    for name in names:
        if seconds[best] > GAIN * seconds[name]:
            best = name
    return best, seconds


def _step(net: Network, images: torch.Tensor, name: Precision) -> Callable[[], None]:
    """A step of training; a recorded one keeps the kernels of its precision."""
    y = torch.zeros(len(images), dtype=torch.int64, device=images.device)

    def step() -> None:
        net.zero_grad(set_to_none=True)
        F.cross_entropy(net(images), y).backward()

    if not images.is_cuda:
        return step
    resources.be_deterministic(str(images.device), 0, name)
    graph = CudaGraph(torch.cuda.Stream(images.device))
    graph.capture(step)
    return graph.replay
