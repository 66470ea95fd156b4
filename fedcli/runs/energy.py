"""Energy that the processors took, where the system tells: the counters that Linux keeps under /sys/class/powercap.

They are those of whole processor packages and of their memory (Intel RAPL, which AMD's processors have too), so all
that runs on the machine is in them. Many systems let only root read them, and most virtual machines have none.
"""

from pathlib import Path

COUNTERS = Path("/sys/class/powercap")


class Meter:
    """Joules since this was made, in steps."""

    def __init__(self, counters: Path = COUNTERS):
        self._zones = [zone for zone in sorted(counters.glob("*:*")) if _counts(zone) and _read(zone) is not None]
        self._before = [_read(zone) for zone in self._zones]
        self._joules = 0.0

    def update(self) -> None:
        """Read the counters, which begin again at zero every few minutes or hours."""
        for k, zone in enumerate(self._zones):
            now, before = _read(zone), self._before[k]
            if now is not None and before is not None:
                self._joules += ((now - before) % _range(zone)) / 1e6
            self._before[k] = now

    def line(self) -> dict[str, float]:
        """The joules since the last line, as timing.jsonl has them; {} where nothing can be read."""
        self.update()
        joules, self._joules = self._joules, 0.0
        return {"joules": round(joules, 3)} if self._zones and None not in self._before else {}


def _counts(zone: Path) -> bool:
    """Whether a counter is of a package, or of the memory at one; others are parts of these or hold them."""
    try:
        name = (zone / "name").read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return False
    return name.startswith("package") or name == "dram"


def _read(zone: Path) -> int | None:
    """Microjoules; None where they may not be read."""
    try:
        return int((zone / "energy_uj").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _range(zone: Path) -> int:
    """How many microjoules a counter counts before it begins again."""
    try:
        return int((zone / "max_energy_range_uj").read_text(encoding="utf-8")) + 1
    except (OSError, ValueError):
        return 2**63
