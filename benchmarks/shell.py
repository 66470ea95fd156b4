"""Whole commands as a user types them, each in a process of its own, and a folder of images for
them.
"""

import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer

from fedcli.errors import FedcliError, UsageError
from fedcli.seeds import derive
from fedcli.system import terminal

CLASSES = 4

Command = Callable[..., str]  # the words after fedcli -> what the command prints


@dataclass(frozen=True)
class Spent:
    """Seconds of a command: by the clock, and of processors."""

    clock: float
    processor: float


def fedcli(*words: object) -> str:
    """What a command prints. Raises FedcliError where it fails."""
    return python("-m", "fedcli", *words)


def python(*words: object) -> str:
    """What Python prints with these words. Raises FedcliError where it fails."""
    command, pipe = [sys.executable, *map(str, words)], subprocess.PIPE
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True
    ) as ran:
        try:
            out, err = ran.communicate()
        except (
            KeyboardInterrupt
        ):  # killed, it would leave processes of its own, which write into a removed folder
            try:
                ran.terminate()
                ran.communicate()
            finally:
                ran.kill()
            raise
    if ran.returncode:
        line = " ".join(map(str, words)).removeprefix("-m ")
        raise FedcliError(f"{line[:200]} failed: {err.strip()[-300:]}")
    return out.strip()


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder of its own; Ctrl-C while it is removed leaves nothing of it."""
    folder = Path(tempfile.mkdtemp())
    try:
        yield folder
    finally:
        try:
            shutil.rmtree(folder)
        except KeyboardInterrupt:
            shutil.rmtree(folder, ignore_errors=True)
            raise


def timed(work: Callable[[], object]) -> Spent:
    """What work takes, with the processes that it starts and waits for."""
    clock, before = time.perf_counter(), os.times()
    work()
    after = os.times()
    return Spent(time.perf_counter() - clock, sum(after[:4]) - sum(before[:4]))


def own_images(folder: Path, count: int, side: int) -> None:
    """A folder with a table: noisy images of four classes, two of each patient, whose sex is
    known.
    """
    from PIL import Image

    folder.mkdir(parents=True)
    rng = np.random.default_rng(derive("bench images", count, side))
    with (folder / "images.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["image", "label", "patient", "sex"])
        for i in range(count):
            label = i // 2 % CLASSES
            noise = rng.integers(0, 192, (side, side, 3), np.uint8)
            Image.fromarray(noise + np.uint8(8 * label)).save(
                folder / f"{i:06d}.png", compress_level=1
            )
            table.writerow([f"{i:06d}.png", "abcd"[label], f"patient-{i // 2}", "fm"[i // 8 % 2]])


def show(columns: list[str], rows: Sequence[Any], as_json: bool) -> None:
    """Print rows, each of which has row() and body(), as a table or as JSON."""
    if as_json:
        print(
            json.dumps([row.body() for row in rows], indent=1, sort_keys=True, ensure_ascii=False)
        )
    else:
        terminal.table(columns, [row.row() for row in rows])


def run(main: Callable[..., None]) -> None:
    """Run a script's main as a command; an error of ours ends it with a sentence."""
    try:
        typer.run(main)
    except FedcliError as error:
        hint = f" ({error.hint})" if error.hint else ""
        print(f"{error}{hint}", file=sys.stderr)
        sys.exit(2 if isinstance(error, UsageError) else 1)
