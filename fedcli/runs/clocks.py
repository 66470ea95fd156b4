"""Clocks, energy and memory of every round, for timing.jsonl, which promises no equal bytes."""

import importlib.util
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .. import console
from ..federation.server import Played
from . import resources
from .assembly import PlannedFederation

COUNTERS = Path("/sys/class/powercap")
ENERGY = "energy_uj"  # in the folder of a counter
WORD_EVERY = 30  # seconds without a word, while a round lasts


class Clocks:
    """The clocks of one training.

    Attributes:
        seconds: of all rounds that this process played.
        of_round: of the one at hand.
    """

    def __init__(self, federation: PlannedFederation):
        self.federation = federation
        self.energy = Meter(federation.plan.device)
        self.seconds = 0.0
        self.of_round = 0.0
        self._begin = time.perf_counter()
        self._reported = time.monotonic()
        self._parts: dict[str, float] = {}

    def begin(self) -> None:
        """Begin a round."""
        self._begin = time.perf_counter()
        self._parts = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count what is done within it as a part of the round."""
        begin = time.perf_counter()
        yield
        self._parts[name] = time.perf_counter() - begin
        self.of_round = time.perf_counter() - self._begin

    def arrived(self, round: int, answered: int, clients: int) -> None:
        """Note that a client answered; in a long round, report every half minute how many have."""
        self.energy.update()  # before a counter can have begun again twice
        is_silent = time.monotonic() - self._reported > WORD_EVERY
        if is_silent and answered < clients:
            rounds = self.federation.rounds
            console.say(f"round {round} of {rounds}: {answered} of {clients} clients")
            self._reported = time.monotonic()

    def line(self, played: Played) -> dict[str, Any]:
        """The line of the round for timing.jsonl."""
        self.seconds += self.of_round
        self._reported = time.monotonic()
        evaluation = self._parts["evaluation"]
        speed = self._images(played) / (self.of_round - evaluation)
        return {
            "round": played.state.round,
            "seconds": round(self.of_round, 4),
            "client_seconds": round(played.client_seconds, 4),
            "evaluation_seconds": round(evaluation, 4),
            "writing_seconds": round(self._parts["writing"], 4),
            "images_per_second": round(speed, 1),
            "peak_bytes": resources.peak(self.federation.plan.device),
            **self.energy.line(),
        }

    def _images(self, played: Played) -> int:
        """Images that clients trained on; the loss of one that did not train is NaN."""
        images = 0
        for client, loss in zip(played.clients, played.losses.tolist(), strict=True):
            if not math.isnan(loss):
                images += len(self.federation.data.train[client])
        return self.federation.plan.epochs * images


class Meter:
    """Joules since this was made, in steps, where the system counts them.

    Of processors: the counters that Linux keeps under /sys/class/powercap, of whole packages and of
    their memory (Intel RAPL, which AMD's processors have too), so all that runs on the machine is
    in them. Many systems let only root read them, and most virtual machines have none. Of a GPU:
    the counter of its board, which NVIDIA's driver keeps from Volta on and the package
    nvidia-ml-py reads; all that runs on this GPU is in it.
    """

    def __init__(self, device: str = "cpu", counters: Path = COUNTERS):
        zones = [zone for zone in sorted(counters.glob("*:*")) if _counts(zone)]
        self._zones = [zone for zone in zones if _number(zone / ENERGY) is not None]
        self._before = [_number(zone / ENERGY) for zone in self._zones]
        self._joules = 0.0
        self._board = _board(device)
        self._board_before = self._board_now()

    def update(self) -> None:
        """Read the counters, which begin again at zero every few minutes or hours."""
        for index, zone in enumerate(self._zones):
            now = _number(zone / ENERGY)
            before = self._before[index]
            if now is not None and before is not None:
                largest = _number(zone / "max_energy_range_uj")
                period = 2**63 if largest is None else largest + 1
                self._joules += ((now - before) % period) / 1e6
            self._before[index] = now

    def line(self) -> dict[str, float]:
        """The joules since the last line, for timing.jsonl; {} where nothing can be read."""
        self.update()
        line = {}
        if self._zones and None not in self._before:
            line["joules"] = round(self._joules, 3)
        self._joules = 0.0
        before = self._board_before
        now = self._board_now()
        self._board_before = now
        if before is not None and now is not None:
            line["gpu_joules"] = (now - before) / 1000
        return line

    def _board_now(self) -> int | None:
        return self._board() if self._board else None


def _board(device: str) -> Callable[[], int | None] | None:
    """A reader of the millijoules of a GPU since its driver was loaded.

    None for a CPU or without nvidia-ml-py.
    """
    if not device.startswith("cuda") or importlib.util.find_spec("pynvml") is None:
        return None
    import pynvml
    import torch

    def read() -> int | None:
        try:
            pynvml.nvmlInit()  # counted by the library: a second time costs nothing
            uuid = torch.cuda.get_device_properties(device).uuid
            board = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
            return int(pynvml.nvmlDeviceGetTotalEnergyConsumption(board))
        # no such counter, a part of a GPU, another pynvml
        except (pynvml.NVMLError, TypeError, AttributeError):
            return None

    return read


def _counts(zone: Path) -> bool:
    """Tell whether a counter is of a package or of its memory; others overlap with these."""
    name = _text(zone / "name")
    return name == "dram" or name.startswith("package")


def _number(file: Path) -> int | None:
    """The number in a file; None where it may not be read."""
    text = _text(file)
    return int(text) if text.isdecimal() else None


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""
