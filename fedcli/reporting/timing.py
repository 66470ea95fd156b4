"""Time and memory that runs took, by the clocks beside each run.

timing.jsonl has a line per round; of a round that was played again after a stop, the last one
counts. A run that was stopped may lack the line of a round, or have half of one: then its time is
not known. Clocks are no part of any promise of equal bytes.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..data import manifest
from ..scores.table import Number

KINDS = "flops", "bytes"  # with a limit each, see bench.limits
Line = dict[str, float]  # numbers by name
Lines = list[Line]  # of rounds
CLIENTS = "client_seconds"
SCORING = "evaluation_seconds"
PARTS = {
    "clients": CLIENTS,
    "evaluation": SCORING,
    "writing": "writing_seconds",
}  # of a round
MOST = 1e100  # what no clock reaches
ENERGIES = {"processors": "joules", "GPU": "gpu_joules"}  # consumer -> key of a round's line


class ClockTimes(NamedTuple):
    """Times, memory and energy of one run or in the mean over several; None for what an older run
    did not record.

    Attributes:
        minutes: of all rounds, those of the runs that it began with among them.
        images_per_second: trained images by the time in which no test or validation image was
            scored.
        evaluation: share of the time in which --eval-every and validation scored images.
        peak_bytes: the most that any run held, in its process or on the GPU.
        compute: while clients trained, their products and convolutions by what one large matrix
            product does in that time; of runs of a few seconds not measured.
        traffic: likewise, bytes that operations read and wrote by those of a large copy.
        watt_hours: of the machine's processors and their memory in all rounds, where the system
            tells.
        gpu_watt_hours: likewise of the GPU's board.
    """

    minutes: Number
    images_per_second: Number
    evaluation: Number
    peak_bytes: Number
    compute: Number
    traffic: Number
    watt_hours: Number = None
    gpu_watt_hours: Number = None


def of_runs(scores: Sequence[Path]) -> ClockTimes | None:
    """The mean over the runs behind some scores.json; None if one of them lacks the clock of a
    round.
    """
    clocks = [_of_run(path) for path in scores]
    if None in clocks:
        return None
    table = np.array(clocks, float)  # [runs, fields], NaN of None
    peak_bytes = table[:, ClockTimes._fields.index("peak_bytes")].max()
    return ClockTimes(*map(_number, table.mean(0)))._replace(peak_bytes=_number(peak_bytes))


def seconds(run: Path) -> float:
    """The time that the rounds of a run in this folder took; 0 where it is not known."""
    rounds, _ = _read(run / "timing.jsonl")
    return sum(line["seconds"] for line in rounds.values())


def speed(run: Path) -> str:
    """Sentences on the speed of a finished run in this folder, where its limits were measured; else
    nothing.
    """
    rounds, limits = _read(run / "timing.jsonl")
    lines = list(rounds.values())
    shares = _shares(lines, limits)
    if not shares:
        return ""
    total = _sum(lines, "seconds")
    seconds_of = {part: _sum(lines, key) for part, key in PARTS.items()}
    seconds_of["server"] = total - sum(seconds_of.values())
    times = []
    for part, time in seconds_of.items():
        times.append(f"{part} {100 * max(time, 0) / total:.0f} %")
    products = f"({limits['flops_per_second'] / 1e9:,.0f} GFLOP/s)"
    traffic = f"({limits['bytes_per_second'] / 1e9:,.0f} GB/s)"
    sentences = [
        f"Speed: {_images(lines) / _sum(lines, CLIENTS):,.0f} images a second while clients train.",
        f"This uses {100 * shares['flops']:.0f} % of the arithmetic that a large matrix product "
        f"reaches here {products}",
        f"and {100 * shares['bytes']:.0f} % of the bandwidth of a large copy {traffic}.",
        f"Time: {', '.join(times)}.",
    ]
    energies = []
    for consumer, key in ENERGIES.items():
        hours = _watt_hours(lines, key)
        if hours is not None:
            energies.append(f"{hours:.2f} Wh by the {consumer}")
    if energies:
        sentences.append(f"Energy: {' and '.join(energies)}, including all other programs.")
    return " ".join(sentences)


def _of_run(scores: Path) -> ClockTimes | None:
    run = manifest.parent(scores, "run")
    if not run:
        return None
    lines: Lines = []
    last_part, limits = _read(run.parent / "timing.jsonl")
    while run:  # and the runs that it began with
        rounds, _ = _read(run.parent / "timing.jsonl")
        body = manifest.read(run).body
        rounds_done = body.get("stopped_after", body["rounds"])
        if not rounds.keys() >= set(range(1, rounds_done + 1)):
            return None
        lines += rounds.values()
        run = manifest.parent(run, "run")
    total = _sum(lines, "seconds")
    scoring = _sum(lines, SCORING)
    shares = _shares(list(last_part.values()), limits)
    return ClockTimes(
        total / 60,
        _ratio(_images(lines), total - scoring),
        _ratio(scoring, total),
        _number(_column(lines, "peak_bytes").max(initial=0)) or None,
        shares.get("flops"),
        shares.get("bytes"),
        *[_watt_hours(lines, key) for key in ENERGIES.values()],
    )


def _shares(lines: Lines, limits: Line) -> dict[str, float]:
    """The share of each limit while clients trained; {} where it was not measured."""
    has_times = all(line.keys() >= set(PARTS.values()) for line in lines)
    pace = _ratio(_images(lines), _sum(lines, CLIENTS))
    if not has_times or pace is None:
        return {}
    shares = {}
    for kind in KINDS:
        per_image = limits.get(f"{kind}_per_image")
        per_second = limits.get(f"{kind}_per_second")
        if not per_image or not per_second:
            return {}
        shares[kind] = pace * per_image / per_second
    return shares


def _images(lines: Lines) -> float:
    """The number of trained images."""
    training = _column(lines, "seconds") - _column(lines, SCORING)
    return float((_column(lines, "images_per_second") * training).sum())


def _watt_hours(lines: Lines, key: str) -> Number:
    return _number(_sum(lines, key) / 3600)


def _sum(lines: Lines, name: str) -> float:
    return float(_column(lines, name).sum())


def _column(lines: Lines, name: str) -> np.ndarray:
    return np.array([line.get(name, np.nan) for line in lines])


def _ratio(part: float, total: float) -> Number:
    return _number(part / total) if total else None


def _number(value: float) -> Number:
    return None if np.isnan(value) else float(value)


def _read(file: Path) -> tuple[dict[int, Line], Line]:
    """The known numbers of each round, and the limits that were measured at the end."""
    rounds: dict[int, Line] = {}
    limits: Line = {}
    for text in file.read_bytes().splitlines() if file.is_file() else []:
        line: Line = {}
        with suppress(ValueError, AttributeError):  # a damaged line
            for name, value in json.loads(text).items():
                if isinstance(value, int | float) and 0 <= value < MOST:
                    line[name] = value
        if line.get("round") and "seconds" in line:
            rounds[int(line["round"])] = line
        if "flops_per_image" in line:
            limits = line
    return rounds, limits
