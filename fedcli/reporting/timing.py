"""How long runs trained and how much memory they took, by the clocks beside each run.

timing.jsonl has a line per round; of a round that was played again after a stop, the last one counts. A run that was
stopped may lack the line of a round, or have half of one: then its time is not known. Clocks are no part of any promise
of equal bytes.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from ..data import manifest


@dataclass(frozen=True)
class Clocks:
    """Of one run or the mean over several; None for what an older run did not record.

    Attributes:
        minutes: of all rounds, those of the runs that it began with among them.
        images_per_second: trained images by the time in which no test or validation image was scored.
        evaluation: share of the time in which --eval-every and validation scored images.
        peak_bytes: the most that any run held, in its process or on the GPU.
    """

    minutes: float
    images_per_second: float | None
    evaluation: float | None
    peak_bytes: int | None


def of_runs(scores: Sequence[Path]) -> Clocks | None:
    """The mean over the runs behind some scores.json; None where one of them lacks the clock of a round."""
    clocks = [_of_run(path) for path in scores]
    if None in clocks:
        return None
    peaks = [clock.peak_bytes for clock in clocks]
    return Clocks(
        sum(clock.minutes for clock in clocks) / len(clocks),
        _mean([clock.images_per_second for clock in clocks]),
        _mean([clock.evaluation for clock in clocks]),
        None if None in peaks else max(peaks),
    )


def _of_run(scores: Path) -> Clocks | None:
    lines, run = [], manifest.parent(scores, "run")
    if not run:
        return None
    while run:  # and the runs that it began with
        rounds = _rounds(run.parent / "timing.jsonl")
        body = manifest.read(run).body
        if not rounds.keys() >= set(range(1, body.get("stopped_after", body["rounds"]) + 1)):
            return None
        lines += rounds.values()
        run = manifest.parent(run, "run")
    seconds = sum(line["seconds"] for line in lines)
    scored, peaks = ([_known(line, name) for line in lines] for name in ("evaluation_seconds", "peak_bytes"))
    return Clocks(
        seconds / 60,
        _pace(lines),
        sum(scored) / seconds if seconds and None not in scored else None,
        max(peaks) if peaks and None not in peaks else None,
    )


def _rounds(file: Path) -> dict[int, dict[str, Any]]:
    """A line for each round whose line is whole."""
    lines = file.read_bytes().splitlines() if file.is_file() else []
    known = [line for line in map(_parsed, lines) if _known(line, "round") and _known(line, "seconds") is not None]
    return {line["round"]: line for line in known}


def _parsed(line: bytes) -> dict[str, Any]:
    """What a line says; {} of a damaged one."""
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
    scored, paces = ([_known(line, name) for line in lines] for name in ("evaluation_seconds", "images_per_second"))
    if None in scored or None in paces:
        return None
    times = [line["seconds"] - spent for line, spent in zip(lines, scored, strict=True)]
    return sum(pace * time for pace, time in zip(paces, times, strict=True)) / sum(times) if sum(times) else None


def _mean(values: list[float | None]) -> float | None:
    return None if None in values else sum(values) / len(values)
