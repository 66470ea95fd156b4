"""The figures of a report: every registered one that its systems have, and their files."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from .. import console
from ..errors import UsageError
from ..io.files import write_text
from .drawing import Picture, write
from .figure import Figure, Options
from .kinds import FIGURES
from .system import System

FORMATS = "svg", "pdf", "png"
CAPTIONS = "captions.md"
Asked = tuple[str, Figure, Sequence[System], Options]  # name of a picture's files, and what is drawn


def of_systems(systems: Sequence[System], draw: Sequence[str] = ()) -> list[tuple[str, Picture]]:
    """Name and picture of every figure: of the first run of each system, then of all together.

    draw: only those with one of these texts in their names. Raises UsageError where there is none.
    """
    asked = list(_asked(systems))
    chosen = [one for one in asked if not draw or any(text in one[0] for text in draw)]
    if draw and not chosen:
        names = ", ".join(name for name, *_ in asked)
        raise UsageError(f"no figure has {' or '.join(map(repr, draw))} in its name", f"there are {names}"[:300])
    bar = console.progress(chosen, label="drawing", total=len(chosen))
    return [(name, figure.picture(of, **options)) for name, figure, of, options in bar]


def _asked(systems: Sequence[System]) -> Iterator[Asked]:
    of_reports = [figure for figure in FIGURES.values() if figure.variants]
    for system in systems:
        if not system.versions:
            console.warn(f"{system.one}: no single model answers for single images, so no curves of them are drawn")
        folder = f"{_slug(system.name)}-" if len(systems) > 1 else ""
        for figure in (figure for figure in of_reports if figure.alone):
            yield from ((folder + _name(figure, options), figure, [system], options) for options in _of(figure, system))
    for figure in (figure for figure in of_reports if not figure.alone):
        yield from ((_name(figure, options), figure, systems, options) for options in _of(figure, systems))


def _of(figure: Figure, subject: object) -> Iterator[Options]:
    return iter(figure.variants(subject)) if figure.variants else iter(())


def _name(figure: Figure, options: Options) -> str:
    return "-".join(filter(None, [figure.name, *options.values()]))


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
