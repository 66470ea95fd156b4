"""A dataset's reader: raw folder -> rows, and row -> pixels."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from ...errors import UsageError
from ...io.files import may_pass
from ..pool import Row
from ..prepare_options import PrepareOptions


class Unreadable(Exception):
    """One raw file that cannot be read; its text says why. prepare skips the file or refuses it."""


def unreadable(error: Exception, path: Path) -> Unreadable:
    """The reason why a library could not read path, without the folders above it.

    Raises an error that may pass.
    """
    if may_pass(error):
        raise error
    short_text = str(error).replace(str(path), path.name)
    text = short_text.strip().rstrip(".")
    name = type(error).__name__
    return Unreadable(f"{name}: {text}" if text else name)


def check_regular(path: Path) -> None:
    """Raises Unreadable for what is no regular file: a pipe would be waited for."""
    if not os.path.isfile(path):  # noqa: PTH113 - as fast as can be
        raise Unreadable("not a regular file" if path.exists() else "no such file")


def stamp(path: Path) -> tuple[int, int]:
    """Time and size of a file that stays open or in memory.

    They differ where it was written anew.
    """
    status = path.stat()
    return status.st_mtime_ns, status.st_size


def middles(depth: int, count: int) -> ndarray:
    """Slices [count] of a volume that become channels: the middles of parts of equal depth."""
    odd_numbers = np.arange(count) * 2 + 1
    return odd_numbers * depth // (2 * count)


def checked_channels(
    count: int,
    choices: PrepareOptions,
    noun: str = "slices",
) -> int:
    """A number of channels itself. Raises UsageError where that are more than --fit clahe takes."""
    if choices.clahe and count > 3:
        sentence = f"--fit clahe takes grey or colour images, not {count} {noun}"
        raise UsageError(sentence, "leave clahe out")
    return count


@dataclass(frozen=True)
class Listing:
    """The content of a raw folder, before any pixel is read."""

    rows: list[Row]  # every usable image, in the pool's order; Row.source is a path relative to raw
    # name -> values; Row.groups holds places in these lists
    attributes: dict[str, list[str]] = field(default_factory=dict)
    patient: str | None = None  # what Row.patient names: the column or kind of id, None if nothing
    # files, relative to raw, whose contents decided the rows
    tables: list[str] = field(default_factory=list)
    # (file relative to raw, why), for files already known to be unusable
    skipped: list[tuple[str, str]] = field(default_factory=list)
    classes: list[str] | None = None  # their names where the card cannot know them; else None
    channels: int | None = None  # 1 or 3 where the card cannot know; else None
    # the attribute whose values are the hospitals where the card cannot know; else None
    sites: str | None = None
    # labels.MULTI_LABEL where the files say that images have several labels; None for the card's
    task: str | None = None


@dataclass(frozen=True)
class Source:
    """One dataset: functions of modules, so that worker processes can receive them.

    Attributes:
        rows: (raw, choices) -> Listing. Raises FedcliError where the folder is not as the card
            says.
        decode: (raw, row, choices) -> uint8 [H, W, C] in the file's own size. Raises Unreadable.
        sample: writes a tiny synthetic raw folder; None for data made or embedded here, which has
            no raw folder.
        usual_sample: the same of as many images as the usual number of clients needs, where
            `sample` has too few.
        reads: it reads a raw folder although it has no sample.
        per_file: every image is a file of its own, named by Row.source, so that decode() reads any
            file of that kind.
    """

    rows: Callable[
        [Any, PrepareOptions], Listing
    ]  # raw is a Path where there is a sample, else None
    decode: Callable[[Any, Row, PrepareOptions], ndarray]
    sample: Callable[[Path], None] | None = None
    usual_sample: Callable[[Path], None] | None = None
    reads: bool = False
    per_file: bool = False

    @property
    def files(self) -> bool:
        """Tell whether it is read from a raw folder."""
        return self.reads or self.sample is not None
