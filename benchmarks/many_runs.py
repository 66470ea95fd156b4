"""Time of a report, and of its page, over many scored runs, beside reading and hashing their
files.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from math import ceil
from pathlib import Path
from statistics import median
from typing import Annotated

import typer
from shell import Command, Spent, fedcli, own_images, run, show, temporary_folder, timed

from fedcli import console
from fedcli.system.processes import cores

SEEDS = 5  # runs of a system
TEST = 0.9  # share of the images, the most that prepare takes
CLIENTS = 4
RECIPE = """title = "Runs for a report"
paper = "none: made by benchmarks/many_runs.py"
seeds = {seeds}

[data.made]
title = "Images that a benchmark made"
dataset = "images"
prepare = {{ size = {side}, patient = "patient", group = ["sex"], split = "image", test = {test} }}
partition = {{ iid = true, clients = {clients} }}
corrupt = {{ kind = "gaussian", ratio = 0.5 }}
evaluate = {{ by = ["sex"] }}

[train]
rounds = 5
threads = 1

[[row]]
name = "FedProx"
method = "fedprox"
vary = {{ "set.mu" = {strengths} }}

[[column]]
name = "balanced accuracy"
score = "versions/clean/balanced_accuracy"
"""


@dataclass(frozen=True)
class Reported:
    """Seconds of each repetition: of a command, and of reading and hashing what lies under the
    runs' folder.
    """

    what: str
    spent: list[Spent]
    bare: list[float]

    @property
    def ratios(self) -> list[float]:
        return [each.clock / bare for each, bare in zip(self.spent, self.bare, strict=True)]

    def row(self) -> list[str]:
        clock, processor = (
            [getattr(each, name) for each in self.spent] for name in ("clock", "processor")
        )
        spread = f"{min(clock):.2f} to {max(clock):.2f} s"
        ratios = f"{median(self.ratios):.2f}", f"{min(self.ratios):.2f} to {max(self.ratios):.2f}"
        return [self.what, f"{median(clock):.2f} s", spread, f"{median(processor):.2f} s", *ratios]

    def body(self) -> dict[str, object]:
        clock, processor = (
            [getattr(each, name) for each in self.spent] for name in ("clock", "processor")
        )
        return {
            "what": self.what,
            "seconds": clock,
            "processor_seconds": processor,
            "bare_seconds": self.bare,
            "ratio": median(self.ratios),
        }


COLUMNS = [
    "what",
    "by the clock",
    "lowest to highest",
    "of processors",
    "beside reading",
    "lowest to highest",
]


def report(
    runs: int,
    images: int,
    repeats: int,
    command: Command = fedcli,
    side: int = 8,
) -> list[Reported]:
    """Rows for `fedcli report` as a table and as a page over so many runs, SEEDS of each system.

    images: of the test part. command: what runs a command.
    """
    with _scored(runs, images, side, command) as work:
        asked = "report", "--by", "sex", "--work", work, "--quiet"
        ways: dict[str, Callable[[], object]] = {
            "report": lambda: command(*asked),
            "report --format html": lambda: command(
                *asked, "--format", "html", "--out", work / "page.html"
            ),
        }
        made = [Reported(f"{name}, {runs} runs, {images:,} images", [], []) for name in ways]
        for turn in range(repeats):
            for each, way in zip(made, ways.values(), strict=True):
                console.say(f"{each.what}: {turn + 1} of {repeats}")
                each.bare.append(timed(lambda: _read(work / "runs")).clock)
                each.spent.append(timed(way))
        return made


@contextmanager
def _scored(
    runs: int,
    images: int,
    side: int,
    command: Command,
) -> Iterator[Path]:
    """A work folder with so many runs of one federation, trained and scored by a recipe."""
    systems = -(-runs // SEEDS)
    with temporary_folder() as work:
        own_images(work / "raw", ceil(images / TEST), side)
        recipe = RECIPE.format(
            seeds=list(range(min(SEEDS, runs))),
            side=side,
            test=TEST,
            clients=CLIENTS,
            strengths=[round(0.01 * (k + 1), 2) for k in range(systems)],
        )
        (work / "runs.toml").write_text(recipe, encoding="utf-8")
        console.say(
            f"training and scoring {runs} runs for a report, each on {images:,} test images, once"
        )
        command(
            "reproduce",
            work / "runs.toml",
            "--raw",
            work / "raw",
            "--work",
            work,
            "--jobs",
            min(cores(), runs),
            "--quiet",
        )
        yield work


def _read(folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            sha256(path.read_bytes()).digest()


def main(
    runs: Annotated[int, typer.Option(min=2, help=f"{SEEDS} of each system")] = 100,
    images: Annotated[int, typer.Option(min=2, help="test images")] = 10_000,
    repeats: Annotated[int, typer.Option(min=1, help="reports and pages")] = 3,
    json: Annotated[bool, typer.Option("--json")] = False,
) -> None:
    """Time `fedcli report` and its page over many runs, which are trained and scored first. Takes
    long.
    """
    show(COLUMNS, report(runs, images, repeats), json)


if __name__ == "__main__":
    run(main)
