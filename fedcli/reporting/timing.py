"""Time and memory that runs took, by the clocks beside each run.

timing.jsonl has a line per round; of a round that was played again after a stop, the last one counts. A run that was
stopped may lack the line of a round, or have half of one: then its time is not known. Clocks are no part of any promise
of equal bytes.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, TypeVar

from ..data import manifest

T = TypeVar("T")
KINDS = "flops", "bytes"  # with a limit each, see bench.limits
ENERGIES = {"processors": "joules", "GPU": "gpu_joules"}  # whose -> key of a round's line


@dataclass(frozen=True)
class Clocks:
    """Of one run or the mean over several; None for what an older run did not record.

    Attributes:
        minutes: of all rounds, those of the runs that it began with among them.
        images_per_second: trained images by the time in which no test or validation image was scored.
        evaluation: share of the time in which --eval-every and validation scored images.
        peak_bytes: the most that any run held, in its process or on the GPU.
        compute: while clients trained, their products and convolutions by what one large matrix product does in that
            time; of runs of a few seconds not measured.
        traffic: likewise, bytes that operations read and wrote by those of a large copy.
        watt_hours: of the machine's processors and their memory in all rounds, where the system tells.
        gpu_watt_hours: likewise of the GPU's board.
    """

    minutes: float
    images_per_second: float | None
    evaluation: float | None
    peak_bytes: int | None
    compute: float | None
    traffic: float | None
    watt_hours: float | None = None
    gpu_watt_hours: float | None = None


def of_runs(scores: Sequence[Path]) -> Clocks | None:
    """The mean over the runs behind some scores.json; None where one of them lacks the clock of a round."""
    clocks = _all(_of_run(path) for path in scores)
    if clocks is None:
        return None
    peaks = _all(clock.peak_bytes for clock in clocks)
    return Clocks(
        sum(clock.minutes for clock in clocks) / len(clocks),
        _mean([clock.images_per_second for clock in clocks]),
        _mean([clock.evaluation for clock in clocks]),
        max(peaks) if peaks else None,
        _mean([clock.compute for clock in clocks]),
        _mean([clock.traffic for clock in clocks]),
        _mean([clock.watt_hours for clock in clocks]),
        _mean([clock.gpu_watt_hours for clock in clocks]),
    )


def speed(run: Path) -> str:
    """A sentence on the speed of a finished run in this folder, where its limits were measured; else nothing."""
    lines, limits = _read(run / "timing.jsonl")
    shares = _shares(list(lines.values()), limits)
    if not shares:
        return ""
    trained = sum(line["client_seconds"] for line in lines.values())
    products, moved = ((limits[f"{kind}_per_second"], shares[kind]) for kind in KINDS)
    total = sum(line["seconds"] for line in lines.values())
    spent = {"clients": trained} | {
        what: sum(line[f"{what}_seconds"] for line in lines.values()) for what in ("evaluation", "writing")
    }
    spent["server"] = total - sum(spent.values())
    time = ", ".join(f"{what} {100 * max(seconds, 0) / total:.0f} %" for what, seconds in spent.items())
    return (
        f"speed: {_images(lines.values()) / trained:,.0f} images/s while clients train, "
        f"{100 * products[1]:.0f} % of this machine's matrix speed ({products[1] * products[0] / 1e9:,.0f} of "
        f"{products[0] / 1e9:,.0f} GFLOP/s) and "
        f"{100 * moved[1]:.0f} % of its memory speed ({moved[0] / 1e9:,.0f} GB/s); time: {time}"
        + _energy(lines.values())
    )


def _energy(lines: Iterable[dict[str, Any]]) -> str:
    """The end of that sentence; "" where the system does not tell."""
    taken = {whose: _watt_hours(list(lines), key) for whose, key in ENERGIES.items()}
    known = [f"{hours:.2f} Wh of the {whose}" for whose, hours in taken.items() if hours is not None]
    return f"; energy: {' and '.join(known)}, with all that ran there" if known else ""


def _watt_hours(lines: list[dict[str, Any]], key: str = "joules") -> float | None:
    joules = _all(_known(line, key) for line in lines)
    return None if joules is None else sum(joules) / 3600


def _shares(lines: list[dict[str, Any]], limits: dict[str, Any]) -> dict[str, float]:
    """The share of each limit while clients trained; {} where it was not measured."""
    names = [f"{kind}_per_{per}" for kind in KINDS for per in ("image", "second")]
    clocks = [
        _known(line, name) for line in lines for name in ("client_seconds", "evaluation_seconds", "writing_seconds")
    ]
    if not all(_known(limits, name) for name in names) or None in clocks or _pace(lines) is None:
        return {}
    trained = sum(line["client_seconds"] for line in lines)
    if not trained:
        return {}
    pace = _images(lines) / trained
    return {kind: pace * limits[f"{kind}_per_image"] / limits[f"{kind}_per_second"] for kind in KINDS}


def _images(lines: Iterable[dict[str, Any]]) -> float:
    """Trained images of all rounds."""
    return sum(line["images_per_second"] * (line["seconds"] - line["evaluation_seconds"]) for line in lines)


def _of_run(scores: Path) -> Clocks | None:
    lines: list[dict[str, Any]] = []
    run = manifest.parent(scores, "run")
    if not run:
        return None
    own, limits = _read(run.parent / "timing.jsonl")
    shares = _shares(list(own.values()), limits)
    while run:  # and the runs that it began with
        rounds, _ = _read(run.parent / "timing.jsonl")
        body = manifest.read(run).body
        if not rounds.keys() >= set(range(1, body.get("stopped_after", body["rounds"]) + 1)):
            return None
        lines += rounds.values()
        run = manifest.parent(run, "run")
    seconds = sum(line["seconds"] for line in lines)
    scored, peaks = (_all(_known(line, name) for line in lines) for name in ("evaluation_seconds", "peak_bytes"))
    return Clocks(
        seconds / 60,
        _pace(lines),
        sum(scored) / seconds if seconds and scored is not None else None,
        int(max(peaks)) if peaks else None,
        *(shares.get(kind) for kind in KINDS),
        *(_watt_hours(lines, key) for key in ENERGIES.values()),
    )


def _read(file: Path) -> tuple[dict[int, dict[str, Any]], dict[str, Any]]:
    """A line for each round whose line is whole, and the limits that were measured at the end."""
    lines = file.read_bytes().splitlines() if file.is_file() else []
    parsed = [_parsed(line) for line in lines]
    known = [line for line in parsed if _known(line, "round") and _known(line, "seconds") is not None]
    limits = [line for line in parsed if "flops_per_image" in line]
    return {line["round"]: line for line in known}, limits[-1] if limits else {}


def _parsed(line: bytes) -> dict[str, Any]:
    """The content of a line; {} of a damaged one."""
    try:
        parsed = json.loads(line)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _known(line: dict[str, Any], name: str) -> float | None:
    value = line.get(name)
    return value if isinstance(value, int | float) and 0 <= value < inf else None


def _pace(lines: list[dict[str, Any]]) -> float | None:
    """Images per second over all rounds, each by its time."""
    scored, paces = (_all(_known(line, name) for line in lines) for name in ("evaluation_seconds", "images_per_second"))
    if scored is None or paces is None:
        return None
    times = [line["seconds"] - spent for line, spent in zip(lines, scored, strict=True)]
    return sum(pace * time for pace, time in zip(paces, times, strict=True)) / sum(times) if sum(times) else None


def _mean(values: list[float | None]) -> float | None:
    known = _all(values)
    return None if known is None else sum(known) / len(known)


def _all(values: Iterable[T | None]) -> list[T] | None:
    """The values, or None where one of them is not known."""
    given = list(values)
    known = [value for value in given if value is not None]
    return known if len(known) == len(given) else None
