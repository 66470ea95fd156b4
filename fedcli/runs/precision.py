"""--precision auto: whichever of fp32 and bf16 takes a local step in less time on this machine.

A CPU without bf16 instructions is slower under autocast, one with them up to six times faster;
small networks gain nothing on either. So a few steps of each are measured on images of the run's
size, and the choice is recorded with the run: where such a run exists already, in either precision,
it is continued and nothing is measured.
"""

import statistics
import time
from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F

from ..models.network import Network

Precision = Literal["fp32", "bf16"]
CHOICES: tuple[Precision, ...] = ("fp32", "bf16")
STEPS = 5  # of each, in turns, after one that does not count
GAIN = 1.05  # times faster must bf16 be: a draw is fp32's


def fastest(
    build: Callable[[str], Network], images: torch.Tensor
) -> tuple[Precision, dict[str, float]]:
    """The precision, and the median seconds of a step in each.

    build: precision -> a network on the images' device, of which nothing is kept.
    images: one batch as the network takes it, float32 [B, C, H, W]; what they show does not matter.
    """
    nets = {name: build(name).train() for name in CHOICES}
    y = torch.zeros(len(images), dtype=torch.int64, device=images.device)
    times: dict[str, list[float]] = {name: [] for name in CHOICES}
    for turn in range(STEPS + 1):
        for name, net in nets.items():
            start = time.perf_counter()
            net.zero_grad(set_to_none=True)
            F.cross_entropy(net(images), y).backward()
            if images.is_cuda:
                torch.cuda.synchronize()
            if turn:
                times[name].append(time.perf_counter() - start)
    seconds = {name: statistics.median(values) for name, values in times.items()}
    is_faster = seconds["fp32"] > GAIN * seconds["bf16"]
    return "bf16" if is_faster else "fp32", seconds
