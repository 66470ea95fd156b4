"""Whole commands as a user types them, each in a process of its own, and a folder of images for them."""

import csv
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import FedcliError
from ..seeds import derive

CLASSES = 4

Command = Callable[..., str]  # the words after fedcli -> what the command prints


@dataclass(frozen=True)
class Spent:
    """Seconds of a command: by the clock, and of processors."""

    clock: float
    processor: float


def fedcli(*words: object) -> str:
    """What a command prints. Raises FedcliError where it fails."""
    ran = subprocess.run(
        [sys.executable, "-m", "fedcli", *map(str, words)], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    if ran.returncode:
        raise FedcliError(f"fedcli {' '.join(map(str, words))[:200]} failed: {ran.stderr.strip()[-300:]}")
    return ran.stdout.strip()


def timed(work: Callable[[], object]) -> Spent:
    """What work takes, with the processes that it starts and waits for."""
    clock, before = time.perf_counter(), os.times()
    work()
    after = os.times()
    return Spent(time.perf_counter() - clock, sum(after[:4]) - sum(before[:4]))


def own_images(folder: Path, count: int, side: int) -> None:
    """A folder with a table: noisy images of four classes, two of each patient, whose sex is known."""
    from PIL import Image

    folder.mkdir(parents=True)
    rng = np.random.default_rng(derive("bench images", count, side))
    with (folder / "images.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["image", "label", "patient", "sex"])
        for i in range(count):
            label = i // 2 % CLASSES
            noise = rng.integers(0, 192, (side, side, 3), np.uint8)
            Image.fromarray(noise + np.uint8(8 * label)).save(folder / f"{i:06d}.png", compress_level=1)
            table.writerow([f"{i:06d}.png", "abcd"[label], f"patient-{i // 2}", "fm"[i // 8 % 2]])
