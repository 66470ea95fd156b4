"""Speed of training on a GPU, step by step, recorded and compiled: `fedcli bench --device cuda`."""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import torch

from .. import console
from ..federation.engines.in_process import Engine, InProcess
from ..runs import resources
from ..runs.resources import be_deterministic
from . import engine, limits
from .measuring import seconds_of

NETWORKS = {
    ("cnn", 32): 2048,
    ("resnet18", 64): 1024,
    ("resnet18", 224): 256,
    ("clip-vit-b16", 224): 128,
}
CLIENTS = 4
SECONDS = 4.0  # for each way of training each network, once it is warm
MOST = 420.0  # seconds after which nothing else is begun, so that all of it takes eight minutes
LATE = "not begun: the time was over"


@dataclass(frozen=True)
class Speed:
    """Rounds of plain training of a network."""

    network: str
    size: int
    way: str
    images_per_second: float | None  # from the median round; None where it could not run
    share: float | None = None  # of the device's matrix speed in this precision
    peak_bytes: int | None = None  # held at most
    why: str = ""  # it could not run


def in_words(error: Exception) -> str:
    lines = str(error).splitlines() or [""]
    name = type(error).__name__
    return f"{name}: {lines[0][:200]}"


def speeds(
    device: str,
    networks: dict[tuple[str, int], int] | None = None,
    until: float = float("inf"),
) -> Iterator[Speed]:
    """FedAvg over a few clients, for each network and way of training.

    networks: (name, side in pixels) -> images of a client.
    until: when by time.perf_counter() nothing else is begun.
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
                pace, flops = _timed(
                    device,
                    model,
                    size,
                    images,
                    precision,
                    prepare,
                )
            # a compiler that is missing, or memory that is short, ends no other row
            except Exception as error:
                yield Speed(model, size, way, None, why=in_words(error))
                continue
            peak = peaks[precision]
            share = pace * flops / peak if peak else None
            yield Speed(model, size, way, pace, share, resources.peak(device))
    be_deterministic(device, 0)


def matrix_speeds(device: str) -> dict[str, float | None]:
    """Floating-point operations per second in each precision.

    None where the memory is too small to measure it.
    """
    speeds: dict[str, float | None] = {}
    for precision, _ in WAYS.values():
        if precision in speeds:
            continue
        be_deterministic(device, 0, precision)
        speeds[precision] = None
        with suppress(torch.cuda.OutOfMemoryError):
            speeds[precision] = limits.matrix_speed(device, precision)
    return speeds


def _compiled(clients: InProcess) -> Engine:
    """Ordinary steps, whose forward and backward pass a compiler makes."""
    clients.net.forward = torch.compile(clients.net.forward)  # type: ignore[method-assign]
    return limits.unrecorded(clients)


WAYS: dict[str, tuple[str, Callable[[InProcess], Engine]]] = {
    "step by step": ("fp32", limits.unrecorded),
    "recorded": ("fp32", lambda clients: clients),
    "recorded, tf32": ("tf32", lambda clients: clients),
    "recorded, bf16": ("bf16", lambda clients: clients),
    "compiled": ("fp32", _compiled),
}


def _timed(
    device: str,
    model: str,
    size: int,
    images: int,
    precision: str,
    prepare: Callable[[InProcess], Engine],
) -> tuple[float, float]:
    """Images per second of the median round, and operations of an image."""
    federation = engine.plain_federation(
        model,
        size,
        CLIENTS,
        images,
        device,
        precision=precision,
    )
    plain = limits.unrecorded(federation.clients)
    flops, _ = limits.counted(lambda: federation.play(federation.first(), engine=plain))
    prepared = prepare(federation.clients)
    state = federation.play(federation.first(), engine=prepared).state
    seconds: list[float] = []
    while not seconds or sum(seconds) < SECONDS:
        seconds.append(seconds_of(lambda: federation.play(state, engine=prepared), device))
    image_count = CLIENTS * images
    return image_count / statistics.median(seconds), flops / image_count


def report(device: str) -> dict[str, Any]:
    """All of it, as one JSON object."""
    until = time.perf_counter() + MOST
    return {
        "device": name_of(device),
        "torch": torch.__version__,
        "matrix_flops_per_second": matrix_speeds(device),
        "speeds": [asdict(speed) for speed in speeds(device, until=until)],
    }


def name_of(device: str) -> str:
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    return resources.processor()
