"""Clocks, energy and memory of every round, which are told in timing.jsonl and promise no equal bytes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .. import console
from ..federation.server import Played
from . import energy, resources
from .assembly import PlannedFederation

WORD_EVERY = 30  # seconds without a word, while a round lasts


class Clocks:
    """The clocks of one training.

    Attributes:
        seconds: of all rounds that this process played.
        of_round: of the one at hand.
    """

    def __init__(self, federation: PlannedFederation):
        self.federation, self.energy = federation, energy.Meter(federation.device)
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
            "peak_bytes": resources.peak(self.federation.device),
            **self.energy.line(),
        }

    def _images(self, played: Played) -> int:
        """Images that clients trained on; the loss of one that did not train is NaN."""
        trained = [client for client, loss in zip(played.clients, played.losses.tolist(), strict=True) if loss == loss]
        return self.federation.plan.epochs * sum(len(self.federation.data.train[client]) for client in trained)
