"""Memory of whole trainings with many clients, few of which take part in a round.

What grows with every client that ever took part, or with all there are, shows beside a method that
keeps nothing of clients, FedAvg, and beside the same training some rounds earlier.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Annotated

import typer
from shell import Command, fedcli, own_images, run, show, temporary_folder

from fedcli import console, models
from fedcli.errors import UsageError
from fedcli.methods import resolve

METHODS = [
    "fedavg",
    "scaffold",
    "feddyn",
    "fedheal",
    "fedproto",
]  # the first is what the others are set beside
COHORT = 50
TESTED = 100  # images at least
# images that are trained on, beside which so many are the largest part that prepare sets aside
LEAST = 12
PARTS = 6, 2, 1  # a training is looked at after these parts of its rounds


@dataclass(frozen=True)
class Size:
    """clients: in all; of them COHORT take part in a round. images: of each."""

    clients: int = 10_000
    images: int = 2
    rounds: int = 60
    model: str = "cnn"
    side: int = 32


@dataclass(frozen=True)
class Memory:
    """Bytes that the training process held at most up to each of some rounds, one dict of each
    repetition.

    first: the same of the first method, in the same repetitions.
    """

    method: str
    size: Size
    peaks: list[dict[int, int]] = field(default_factory=list)
    first: list[dict[int, int]] = field(default_factory=list)

    @property
    def growth(self) -> list[float]:
        """Of each repetition: after the last round beside the first that is looked at."""
        return [peak[max(peak)] / peak[min(peak)] for peak in self.peaks]

    @property
    def beside_first(self) -> list[float]:
        """Of each repetition: after the last round beside the first method."""
        return [
            peak[max(peak)] / other[max(other)]
            for peak, other in zip(self.peaks, self.first, strict=True)
        ]

    def row(self) -> list[str]:
        held = [
            f"{median(peak[t] for peak in self.peaks) / 1e6:,.0f} MB"
            for t in looked_at(self.size.rounds)
        ]
        return [self.method, *held, *_ratio(self.growth), *_ratio(self.beside_first)]

    def body(self) -> dict[str, object]:
        return {
            "method": self.method,
            "clients": self.size.clients,
            "clients_per_round": min(COHORT, self.size.clients),
            "peak_bytes": self.peaks,
            "growth": self.growth,
            f"beside_{METHODS[0]}": self.beside_first,
        }


def columns(rounds: int) -> list[str]:
    """Heads of the table."""
    first, *more = looked_at(rounds)
    growth = f"round {more[-1]} : round {first}"
    heads = ["method", f"to round {first}", *(f"to {t}" for t in more)]
    return [*heads, growth, "lowest to highest", f"beside {METHODS[0]}", "lowest to highest"]


def looked_at(rounds: int) -> list[int]:
    return sorted({max(1, rounds // part) for part in PARTS})


def memory(
    methods: list[str],
    size: Size,
    repeats: int,
    command: Command = fedcli,
) -> list[Memory]:
    """Train each method so many times, in turn; METHODS[0] is trained in any case.

    Raises UsageError for an unknown network, and for fewer images than a test part can stand
    beside.
    """
    models.describe(size.model)  # before images are made
    if size.clients * size.images < LEAST:
        what = f"{size.clients * size.images} images are too few"
        raise UsageError(what, f"give more --clients or --images: {LEAST} images in all, or more")
    methods = [METHODS[0], *(name for name in methods if name != METHODS[0])]
    first = Memory(methods[0], size)
    made = [first, *(Memory(name, size, first=first.peaks) for name in methods[1:])]
    with temporary_folder() as work:
        data = _federation(work, size, command)
        for turn in range(repeats):
            for each in made:
                console.say(
                    f"{each.method}, {size.clients:,} clients, {size.rounds} rounds: {turn + 1} "
                    f"of {repeats}"
                )
                each.peaks.append(
                    _peaks(each.method, data, work / f"{each.method}-{turn}", size, command)
                )
    first.first.extend(first.peaks)
    return made


def _federation(work: Path, size: Size, command: Command) -> str:
    """A partition of images that are made for it; a few more are the test part."""
    trained = size.clients * size.images
    console.say(f"making {trained:,} images; clients: {size.clients:,}")
    own_images(work / "raw", trained + max(TESTED, trained // 49), size.side)
    flags = (
        "--group",
        "sex",
        "--size",
        size.side,
        "--test",
        max(0.01, 1 - trained / _count(work)),
        "--work",
        work,
    )
    dataset = command(
        "prepare",
        "images",
        "--raw",
        work / "raw",
        "--split",
        "image",
        *flags,
        "--quiet",
    )
    return command(
        "partition",
        dataset,
        "--iid",
        "--clients",
        size.clients,
        "--work",
        work,
        "--quiet",
    )


def _count(work: Path) -> int:
    return sum(1 for _ in (work / "raw").glob("*.png"))


def _peaks(
    method: str,
    data: str,
    out: Path,
    size: Size,
    command: Command,
) -> dict[int, int]:
    """In one process, which then holds the clients of a round, the server and all between
    rounds.
    """
    cohort = min(1.0, COHORT / size.clients)
    flags = [
        "--rounds",
        size.rounds,
        "--participation",
        cohort,
        "--model",
        size.model,
        "--engine",
        "in-process",
    ]
    command("train", method, data, *flags, "--out", out, "--quiet")
    lines = [
        json.loads(line) for line in (out / "timing.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    held = {line["round"]: line["peak_bytes"] for line in lines if "round" in line}
    return {t: held[t] for t in looked_at(size.rounds)}


def _ratio(each: list[float]) -> list[str]:
    return [f"{median(each):.3f}", f"{min(each):.3f} to {max(each):.3f}"]


def main(
    method: Annotated[
        list[str] | None, typer.Option(help=f"may be repeated; default: {', '.join(METHODS)}")
    ] = None,
    model: Annotated[str, typer.Option(help="network that is trained")] = "cnn",
    size: Annotated[int, typer.Option(min=8, help="side of the images in pixels")] = 32,
    clients: Annotated[
        int, typer.Option(min=1, help=f"of which {COHORT} take part in a round")
    ] = 10_000,
    images: Annotated[int, typer.Option(min=2, help="of each client")] = 2,
    rounds: Annotated[int, typer.Option(min=6, help="three of them are looked at")] = 60,
    repeats: Annotated[int, typer.Option(min=1, help="trainings of each method")] = 3,
    json: Annotated[bool, typer.Option("--json")] = False,
) -> None:
    """Show the memory that trainings with many clients held, a row for each method."""
    for name in method or ():
        resolve(name)  # refuses a name before anything is trained
    show(
        columns(rounds),
        memory(method or METHODS, Size(clients, images, rounds, model, size), repeats),
        json,
    )


if __name__ == "__main__":
    run(main)
