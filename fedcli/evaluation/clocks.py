"""How long runs trained and how much memory they took, by the clocks beside each run.

timing.jsonl has a line per round; of a round that was played again after a stop, the last one counts. Clocks are no part
of any promise of equal bytes.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
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
    """The mean over the runs behind some scores.json; None where one of them has no clocks."""
    found = [_of_run(path) for path in scores]
    if None in found:
        return None
    peaks = [one.peak_bytes for one in found]
    return Clocks(
        sum(one.minutes for one in found) / len(found),
        _mean([one.images_per_second for one in found]),
        _mean([one.evaluation for one in found]),
        None if None in peaks else max(peaks),
    )


def _of_run(scores: Path) -> Clocks | None:
    lines, run = [], manifest.parent(scores, "run")
    if not run:
        return None
    while run:  # and the runs that it began with
        file = run.parent / "timing.jsonl"
        if not file.is_file():
            return None
        lines += _rounds(file)
        run = manifest.parent(run, "run")
    seconds = sum(line["seconds"] for line in lines)
    scored, peaks = ([line.get(name) for line in lines] for name in ("evaluation_seconds", "peak_bytes"))
    return Clocks(
        seconds / 60,
        _pace(lines),
        sum(scored) / seconds if seconds and None not in scored else None,
        max(peaks) if peaks and None not in peaks else None,
    )


def _rounds(file: Path) -> list[dict[str, Any]]:
    """One line per round; a run that was killed may have left half of one at the end."""
    text = file.read_text(encoding="utf-8")
    lines = map(json.loads, text[: text.rfind("\n") + 1].splitlines())
    return list({line["round"]: line for line in lines}.values())


def _pace(lines: list[dict[str, Any]]) -> float | None:
    """Images per second over all rounds, each by its time."""
    times = [line["seconds"] - line.get("evaluation_seconds", 0) for line in lines]
    paces = [line.get("images_per_second") for line in lines]
    if None in paces or not sum(times):
        return None
    return sum(pace * time for pace, time in zip(paces, times, strict=True)) / sum(times)


def _mean(values: list[float | None]) -> float | None:
    return None if None in values else sum(values) / len(values)
