"""Checks of every corruption on drawn images: `fedcli check NAME` and tests/data/test_kinds.py run
them.

A check is a function of a kind's name that raises CheckFailed, with a sentence on what does not
hold.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from ..data.corruption.kinds import SEVERITIES, named
from ..errors import FedcliError
from .checks import CheckFailed, Verdict

SIDE = 64
IMAGES = 6
SLACK = 0.03  # of the distance, by which a higher severity may be nearer


def picture(channels: int, side: int = SIDE, number: int = 0) -> np.ndarray:
    """A drawn image of 8 bits: smooth shapes, an edge and fine texture, away from the ends."""
    y, x = np.mgrid[:side, :side] / side
    stream = np.random.default_rng(number)
    grain = stream.normal(0, 0.05, (side, side))
    disc = np.hypot(y - 0.5, x - 0.45) < 0.22
    levels = []
    for channel in range(channels):
        waves = np.sin(5 * y + channel + number) + np.cos(7 * x - channel)
        levels.append(0.55 + 0.12 * waves - 0.2 * disc + grain)
    return (255 * np.clip(np.stack(levels, -1), 0.1, 0.9)).astype(np.uint8)


def _channels(name: str) -> tuple[int, ...]:
    return (3,) if named(name).needs_colour else (1, 3)


def _distances(name: str, channels: int) -> list[float]:
    """The mean distance to the clean images, in grey levels, of each severity."""
    distances = []
    for severity in SEVERITIES:
        changes = []
        for number in range(IMAGES):
            clean = picture(channels, number=number)
            changed = named(name).apply(clean, f"image {number}", severity, 0)
            changes.append(np.abs(changed.astype(float) - clean).mean())
        distances.append(float(np.mean(changes)))
    return distances


def same_bytes(name: str) -> None:
    for channels in _channels(name):
        clean = picture(channels)
        first, second = [named(name).apply(clean, "a", 3, 7).tobytes() for _ in range(2)]
        if first != second:
            raise CheckFailed("the same image, id, severity and seed give other bytes")


def keeps_form(name: str) -> None:
    for channels in _channels(name):
        clean = picture(channels, side=SIDE + 8)[:SIDE]  # wider than high
        before = clean.tobytes()
        changed = named(name).apply(clean, "a", 5, 0)
        if changed.shape != clean.shape or changed.dtype != clean.dtype:
            raise CheckFailed(f"{clean.shape} {clean.dtype} become {changed.shape} {changed.dtype}")
        if clean.tobytes() != before:
            raise CheckFailed("it writes into the image that it is given")


def changes_images(name: str) -> None:
    for channels in _channels(name):
        if _distances(name, channels)[-1] == 0:
            raise CheckFailed(f"severity 5 changes no image of {channels} channels")


def severities_rise(name: str) -> None:
    for channels in _channels(name):
        distances = _distances(name, channels)
        for lower, higher in pairwise(distances):
            if higher < (1 - SLACK) * lower:
                shown = ", ".join(f"{distance:.2f}" for distance in distances)
                sentence = f"the distances to the clean image are {shown} grey levels"
                raise CheckFailed(f"{sentence}, and a higher severity should not be nearer")


def any_size(name: str) -> None:
    side = named(name).smallest
    for channels in _channels(name):
        named(name).apply(picture(channels, side=max(side, 8)), "a", 5, 0)


CHECKS: dict[str, Callable[[str], None]] = {
    "same seed, same bytes": same_bytes,
    "shape, type and range kept": keeps_form,
    "changes images": changes_images,
    "severities rise": severities_rise,
    "smallest images": any_size,
}


def verdicts(name: str) -> list[Verdict]:
    """The verdict of each check."""
    results = []
    for about, check in CHECKS.items():
        why = ""
        try:
            check(name)
        except CheckFailed as failure:
            why = str(failure)
        except FedcliError as error:
            why = error.sentence
        results.append(Verdict(check.__name__, about, why))
    return results
