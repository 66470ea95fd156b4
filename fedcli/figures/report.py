"""The figures of a report: every registered one that its systems have, and their files."""

import re
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

from .. import console
from ..errors import UsageError
from ..io.files import write_text
from ..scores.parts import MODELS
from .drawing import Picture, write
from .figure import Figure, NothingToDraw
from .kinds import FIGURES
from .system import System, usual

FORMATS = "svg", "pdf", "png"
CAPTIONS = "captions.md"
Asked = tuple[str, Figure, System | Sequence[System], dict[str, str]]  # name of a picture's files; what is drawn


def of_systems(systems: Sequence[System], draw: Sequence[str] = ()) -> list[tuple[str, Picture]]:
    """Name and picture of every figure: of the first run of each system, then of all together.

    draw: only those with one of these texts in their names. Raises UsageError where there is none, and NothingToDraw
    where the systems have nothing that those show.
    """
    asked = list(_asked(systems))
    chosen = [one for one in asked if not draw or any(text in one[0] for text in draw)]
    if draw and not chosen:
        names = ", ".join(name for name, *_ in asked)
        raise UsageError(f"no figure has {' or '.join(map(repr, draw))} in its name", f"there are {names}"[:300])
    pictures, reasons = [], []
    for name, figure, subject, options in console.progress(chosen, label="drawing", total=len(chosen)):
        try:
            pictures.append((name, figure.picture(subject, **options)))
        except (NothingToDraw, UsageError) as reason:  # of a version or an attribute that it was not scored by
            reasons.append(reason)
    if draw and not pictures:
        raise reasons[0]
    return pictures


def _asked(systems: Sequence[System]) -> Iterator[Asked]:
    for system in systems:
        if not system.versions:
            console.warn(f"{system.one}: no single model answers for single images, so no curves of them are drawn")
        folder = f"{_slug(system.name)}-" if len(systems) > 1 else ""
        for figure in (figure for figure in FIGURES.values() if figure.of == "system"):
            yield from ((folder + name, figure, system, options) for name, options in _named(figure, system))
    for figure in (figure for figure in FIGURES.values() if figure.of == "systems"):
        yield from ((name, figure, systems, options) for name, options in _named(figure, systems[0]))


def _named(figure: Figure, system: System) -> Iterator[tuple[str, dict[str, str]]]:
    """Name and options of each picture of a figure, one for every value of the options that its frame takes."""
    values: dict[str, Sequence[str]] = {
        "by": system.groupings or ("",),
        "metric": usual(system.scores),
        "version": [version for version in MODELS if version in system.scores.versions],
    }
    taken = list(figure.parameters)
    for chosen in product(*(values[name] for name in reversed(taken))):
        options = dict(zip(taken, reversed(chosen), strict=True))
        yield "-".join(filter(None, [figure.name, *options.values()])), options


def write_all(
    systems: Sequence[System], folder: Path, formats: Sequence[str], draw: Sequence[str] = ()
) -> list[Path]:  # fmt: skip
    """Write every figure, or those of draw, in each format, and captions.md; returns the paths. Raises UsageError."""
    written: list[Path] = []
    lines = ["# Figures", ""]
    for name, picture in of_systems(systems, draw):
        files = [folder / f"{name}.{kind}" for kind in formats]
        write(picture, *files)
        written += files
        lines += [f"**{name}.** {picture.title}. {picture.caption}", ""]
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / CAPTIONS, "\n".join(lines))
    return [*written, folder / CAPTIONS]


def _slug(name: str) -> str:
    return re.sub(r"[^\w+=.-]+", "-", name).strip("-")[:60] or "system"
