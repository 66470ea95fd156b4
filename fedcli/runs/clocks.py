"""Clocks, energy and memory of every round, which are told in timing.jsonl and promise no equal bytes."""

import importlib.util
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
        self.federation, self.energy = federation, Meter(federation.plan.device)
        self.seconds = self.of_round = 0.0
        self._begin, self._reported = time.perf_counter(), time.monotonic()
        self._parts: dict[str, float] = {}

    def begin(self) -> None:
        """Begin a round."""
        self._begin, self._parts = time.perf_counter(), {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count what is done within it as a part of the round."""
        begin = time.perf_counter()
        yield
        self._parts[name] = time.perf_counter() - begin
        self.of_round = time.perf_counter() - self._begin

    def arrived(self, round: int, answered: int, asked: int) -> None:
        """Note that a client answered; in a long round, say every half minute how many have."""
        self.energy.update()  # before a counter can have begun again twice
        if time.monotonic() - self._reported > WORD_EVERY and answered < asked:
            console.say(f"round {round} of {self.federation.rounds}: {answered} of {asked} clients")
            self._reported = time.monotonic()

    def line(self, played: Played) -> dict[str, Any]:
        """The line of the round for timing.jsonl."""
        self.seconds += self.of_round
        self._reported = time.monotonic()
        scored = self._parts["evaluation"]
        return {
            "round": played.state.round,
            "seconds": round(self.of_round, 4),
            "client_seconds": round(played.client_seconds, 4),
            "evaluation_seconds": round(scored, 4),
            "writing_seconds": round(self._parts["writing"], 4),
            "images_per_second": round(self._images(played) / (self.of_round - scored), 1),
            "peak_bytes": resources.peak(self.federation.plan.device),
            **self.energy.line(),
        }

    def _images(self, played: Played) -> int:
        """Images that clients trained on; the loss of one that did not train is NaN."""
        trained = [
            client
            for client, loss in zip(played.clients, played.losses.tolist(), strict=True)
            if loss == loss
        ]
        return self.federation.plan.epochs * sum(
            len(self.federation.data.train[client]) for client in trained
        )


class Meter:
    """Joules since this was made, in steps, where the system tells.

    Of processors: the counters that Linux keeps under /sys/class/powercap, of whole packages and of their memory (Intel
    RAPL, which AMD's processors have too), so all that runs on the machine is in them. Many systems let only root read
    them, and most virtual machines have none. Of a GPU: the counter of its board, which NVIDIA's driver keeps from
    Volta on and the package nvidia-ml-py reads; all that runs on this GPU is in it.
    """

    def __init__(self, device: str = "cpu", counters: Path = COUNTERS):
        self._zones = [
            zone
            for zone in sorted(counters.glob("*:*"))
            if _counts(zone) and _number(zone / ENERGY) is not None
        ]
        self._before = [_number(zone / ENERGY) for zone in self._zones]
        self._joules = 0.0
        self._board = _board(device)
        self._board_before = self._board() if self._board else None

    def update(self) -> None:
        """Read the counters, which begin again at zero every few minutes or hours."""
        for k, zone in enumerate(self._zones):
            now, before = _number(zone / ENERGY), self._before[k]
            if now is not None and before is not None:
                most = _number(zone / "max_energy_range_uj")
                self._joules += ((now - before) % (2**63 if most is None else most + 1)) / 1e6
            self._before[k] = now

    def line(self) -> dict[str, float]:
        """The joules since the last line, as timing.jsonl has them; {} where nothing can be read."""
        self.update()
        joules, self._joules = self._joules, 0.0
        line = {"joules": round(joules, 3)} if self._zones and None not in self._before else {}
        before, self._board_before = self._board_before, self._board() if self._board else None
        if before is not None and self._board_before is not None:
            line["gpu_joules"] = (self._board_before - before) / 1000
        return line


def _board(device: str) -> Callable[[], int | None] | None:
    """A reader of the millijoules of a GPU since its driver was loaded; None for a CPU or without nvidia-ml-py."""
    if not device.startswith("cuda") or importlib.util.find_spec("pynvml") is None:
        return None
    import pynvml
    import torch

    def read() -> int | None:
        try:
            pynvml.nvmlInit()  # counted by the library: a second time costs nothing
            board = pynvml.nvmlDeviceGetHandleByUUID(
                f"GPU-{torch.cuda.get_device_properties(device).uuid}"
            )
            return int(pynvml.nvmlDeviceGetTotalEnergyConsumption(board))
        except (
            pynvml.NVMLError,
            TypeError,
            AttributeError,
        ):  # no such counter, a part of a GPU, another pynvml
            return None

    return read


def _counts(zone: Path) -> bool:
    """Tell whether a counter is of a package, or of the memory at one; others are parts of these or hold them."""
    return (name := _text(zone / "name")).startswith("package") or name == "dram"


def _number(file: Path) -> int | None:
    """None where it may not be read."""
    return int(text) if (text := _text(file)).isdecimal() else None


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""
