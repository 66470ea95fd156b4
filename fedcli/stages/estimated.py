"""An estimate of a training as a person reads it."""

from dataclasses import dataclass

from .. import console
from ..bench.estimate import Estimate, span
from ..reporting.table import Table
from .shown import Shown


@dataclass(frozen=True, repr=False)
class Estimated(Shown, Estimate):
    """Time and memory that a training will need, with the name of its method."""

    method: str

    def tables(self) -> list[Table]:
        """Seconds by what takes them, and memory."""
        total, rounds = self.total_seconds, console.counted(self.rounds, "round", "rounds")
        parts = [(name, seconds, f"{100 * seconds / total:.0f} %") for name, seconds in self.seconds.items()]
        parts += [("total", total, "100 %"), ("one round", self.seconds_per_round, "")]
        times = [[name, f"{seconds:,.2f}", share] for name, seconds, share in parts]
        sizes = {**self.bytes, "peak": self.peak_bytes, "free": self.free_bytes}
        memory = [[name, f"{size / 1e6:,.1f}" if size else "-"] for name, size in sizes.items()]
        heads = [f"{self.method}, {rounds}", "seconds", "share"]
        return [Table.of("", heads, times), Table.of("", ["memory", "MB"], memory)]

    def words(self) -> list[str]:
        """The time in words."""
        on = f" on {self.processes} processes" if self.processes > 1 else ""
        steps = f"from {self.measured_steps} measured steps"
        return [f"about {span(self.total_seconds)}{on}, {steps}; nothing was written"]
