"""Time and memory that runs took, by the clocks beside each run.

timing.jsonl has a line per round; of a round that was played again after a stop, the last one counts. A run that was
stopped may lack the line of a round, or have half of one: then its time is not known. Clocks are no part of any promise
of equal bytes.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..data import manifest

KINDS = "flops", "bytes"  # with a limit each, see bench.limits
Line = dict[str, float]  # numbers by name
Lines = list[Line]  # of rounds
PARTS = {
    "clients": "client_",
    "evaluation": "evaluation_",
    "writing": "writing_",
}  # of a round's time
MOST = 1e100  # what no clock reaches
ENERGIES = {"processors": "joules", "GPU": "gpu_joules"}  # whose -> key of a round's line


class Clocks(NamedTuple):
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

    minutes: float | None
    images_per_second: float | None
    evaluation: float | None
    peak_bytes: float | None
    compute: float | None
    traffic: float | None
    watt_hours: float | None = None
    gpu_watt_hours: float | None = None


def of_runs(scores: Sequence[Path]) -> Clocks | None:
    """The mean over the runs behind some scores.json; None where one of them lacks the clock of a round."""
    clocks = [clock for path in scores if (clock := _of_run(path))]
    if len(clocks) < len(scores):
        return None
    numbers = np.array(clocks, float)  # [runs, fields], NaN of None
    most = numbers[:, Clocks._fields.index("peak_bytes")].max()
    return Clocks(*map(_number, numbers.mean(0)))._replace(peak_bytes=_number(most))


def seconds(run: Path) -> float:
    """The time that the rounds of a run in this folder took; 0 where it is not known."""
    rounds, _ = _read(run / "timing.jsonl")
    return sum(line["seconds"] for line in rounds.values())


def speed(run: Path) -> str:
    """Sentences on the speed of a finished run in this folder, where its limits were measured; else nothing."""
    rounds, limits = _read(run / "timing.jsonl")
    lines = list(rounds.values())
    if not (shares := _shares(lines, limits)):
        return ""
    products, moved = ((limits[f"{kind}_per_second"], shares[kind]) for kind in KINDS)
    total, *parts = (
        float(_column(lines, f"{what}seconds").sum()) for what in ("", *PARTS.values())
    )
    spent = dict(zip(PARTS, parts)) | {"server": total - sum(parts)}
    time = ", ".join(
        f"{what} {100 * max(seconds, 0) / total:.0f} %" for what, seconds in spent.items()
    )
    taken = {whose: _watt_hours(lines, key) for whose, key in ENERGIES.items()}
    energy = " and ".join(
        f"{hours:.2f} Wh by the {whose}" for whose, hours in taken.items() if hours is not None
    )
    return (
        f"Speed: {_images(lines).sum() / spent['clients']:,.0f} images a second while clients train. "
        f"This uses {100 * products[1]:.0f} % of the arithmetic that a large matrix product reaches here "
        f"({products[0] / 1e9:,.0f} GFLOP/s) and {100 * moved[1]:.0f} % of the bandwidth of a large copy "
        f"({moved[0] / 1e9:,.0f} GB/s). Time: {time}."
        + (f" Energy: {energy}, including all other programs." if energy else "")
    )


def _of_run(scores: Path) -> Clocks | None:
    run = manifest.parent(scores, "run")
    if not run:
        return None
    lines: Lines = []
    first, limits = _read(run.parent / "timing.jsonl")
    while run:  # and the runs that it began with
        rounds, _ = _read(run.parent / "timing.jsonl")
        body = manifest.read(run).body
        if not rounds.keys() >= set(range(1, body.get("stopped_after", body["rounds"]) + 1)):
            return None
        lines += rounds.values()
        run = manifest.parent(run, "run")
    seconds, scored = _column(lines, "seconds").sum(), _column(lines, "evaluation_seconds").sum()
    shares = _shares(list(first.values()), limits)
    return Clocks(
        seconds / 60,
        _ratio(_images(lines).sum(), seconds - scored),
        _ratio(scored, seconds),
        _number(_column(lines, "peak_bytes").max(initial=0)) or None,
        *(shares.get(kind) for kind in KINDS),
        *(_watt_hours(lines, key) for key in ENERGIES.values()),
    )


def _shares(lines: Lines, limits: Line) -> dict[str, float]:
    """The share of each limit while clients trained; {} where it was not measured."""
    known = np.array([_column(lines, f"{part}seconds") for part in PARTS.values()])
    pace = _ratio(_images(lines).sum(), known[0].sum())
    if np.isnan(known).any() or pace is None:
        return {}
    names = {kind: (f"{kind}_per_image", f"{kind}_per_second") for kind in KINDS}
    if not all(limits.get(name) for pair in names.values() for name in pair):
        return {}
    return {kind: pace * limits[image] / limits[second] for kind, (image, second) in names.items()}


def _images(lines: Lines) -> np.ndarray:
    return _column(lines, "images_per_second") * (
        _column(lines, "seconds") - _column(lines, "evaluation_seconds")
    )


def _watt_hours(lines: Lines, key: str) -> float | None:
    return _number(_column(lines, key).sum() / 3600)


def _column(lines: Lines, name: str) -> np.ndarray:
    return np.array([line.get(name, np.nan) for line in lines])


def _ratio(part: float, whole: float) -> float | None:
    return _number(part / whole) if whole else None


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _read(file: Path) -> tuple[dict[int, Line], Line]:
    """The known numbers of each round, and the limits that were measured at the end."""
    lines = []
    for text in file.read_bytes().splitlines() if file.is_file() else []:
        with suppress(ValueError, AttributeError):  # a damaged line
            found = json.loads(text).items()
            lines.append(
                {name: x for name, x in found if isinstance(x, int | float) and 0 <= x < MOST}
            )
    limits = [line for line in lines if "flops_per_image" in line]
    rounds = {int(line["round"]): line for line in lines if line.get("round") and "seconds" in line}
    return rounds, limits[-1] if limits else {}
