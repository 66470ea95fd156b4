"""The figures of a report: every registered one that its systems have, and their files."""

import re
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from .. import console
from ..errors import UsageError
from ..io.files import write_text
from ..metrics import title
from ..scores.parts import MODELS
from ..scores.scores import MADE_UP
from .drawing import Picture, write
from .figure import Figure, NothingToDraw
from .kinds import FIGURES
from .system import System

FORMATS = "svg", "pdf", "png"
CAPTIONS = "captions.md"
EVERY = "all"  # asks for every figure
Asked = tuple[
    str, Figure, System | Sequence[System], dict[str, str]
]  # name of a picture's files; what is drawn


def of_systems(systems: Sequence[System], draw: Sequence[str] = ()) -> list[tuple[str, Picture]]:
    """Name and picture of the usual figures: of all systems together, then of the first run of each.

    draw: "all" for every figure, or texts, for those with one of them in their names. Raises UsageError where there is
    none, and NothingToDraw where the systems have nothing that those show.
    """
    asked = list(_asked(systems, usual=not draw))
    chosen = [
        one for one in asked if not draw or EVERY in draw or any(text in one[0] for text in draw)
    ]
    if draw and not chosen:
        names = ", ".join(name for name, *_ in asked)
        raise UsageError(
            f"no figure has {' or '.join(map(repr, draw))} in its name",
            f"{EVERY}, or {names}"[:300],
        )
    pictures: list[tuple[str, Picture]] = []
    frames: list[Any] = []
    reasons = []
    for name, figure, subject, options in console.progress(
        chosen, label="drawing", total=len(chosen)
    ):
        try:
            frame = of_sample(figure.frame(subject, **options), systems)
            alike = [at for at, other in enumerate(frames) if not draw and frame.equals(other)]
            if alike:  # of the data that several systems share
                pictures[alike[0]] = figure.name, pictures[alike[0]][1]
                continue
            pictures.append((name, figure.draw(frame)))
            frames.append(frame)
        except (
            NothingToDraw,
            UsageError,
        ) as reason:  # of a version or an attribute that it was not scored by
            reasons.append(reason)
    if draw and reasons and not pictures:
        raise reasons[0]
    return pictures


def _asked(systems: Sequence[System], *, usual: bool) -> Iterator[Asked]:
    for figure in (
        figure
        for figure in FIGURES.values()
        if figure.of == "systems" and (figure.usual or not usual)
    ):
        yield from (
            (name, figure, systems, options) for name, options in _named(figure, systems[0], usual)
        )
    for system, whose in zip(systems, _short(systems), strict=True):
        if not system.versions:
            console.warn(
                f"{system.one}: no single model answers for single images, so no curves of them are drawn"
            )
        for figure in (
            figure
            for figure in FIGURES.values()
            if figure.of == "system" and (figure.usual or not usual)
        ):
            for name, options in _named(figure, system, usual):
                yield "-".join(filter(None, [name, whose])), figure, system, options


def _named(figure: Figure, system: System, usual: bool) -> Iterator[tuple[str, dict[str, str]]]:
    """Name and options of each picture of a figure: one for every value of the options that its frame takes, or the
    usual one, which is by the first attribute."""
    taken = figure.parameters
    by = {"by": system.groupings or [""]} if "by" in taken else {}
    if usual:
        yield figure.name, {name: each[0] for name, each in by.items()}
        return
    values: dict[str, Sequence[str]] = by | (
        {"metric": system.scores.usual} if "metric" in taken else {}
    )
    if "version" in taken and taken["version"].default:  # else one picture has them all
        values["version"] = [version for version in MODELS if version in system.scores.versions]
    for chosen in product(*values.values()):
        options = dict(zip(values, chosen, strict=True))
        yield (
            "-".join(
                _slug(title(value).partition(",")[0]) for value in [figure.name, *chosen] if value
            ),
            options,
        )


def of_sample(frame: Any, systems: Sequence[System]) -> Any:
    """A frame whose title says so where its scores are of a made-up sample."""
    if any(system.scores.sample for system in systems) and "title" in frame.attrs:
        frame.attrs["title"] += f", {MADE_UP}"
    return frame


def _short(systems: Sequence[System]) -> list[str]:
    """The names of systems in those of files: labels, with a number where several have the same."""
    labels = [_slug(system.scores.name) for system in systems]
    if len(systems) == 1:
        return [""]
    return [
        f"{label}-{labels[:k].count(label) + 1}" if labels.count(label) > 1 else label
        for k, label in enumerate(labels)
    ]


def write_all(
    systems: Sequence[System], folder: Path, formats: Sequence[str], draw: Sequence[str] = ()
) -> list[Path]:
    """Write the usual figures, or those of draw, in each format, and captions.md, which says what the marks in names
    stand for; the paths. Raises UsageError."""
    written: list[Path] = []
    lines = ["# Figures", ""]
    for name, picture in of_systems(systems, draw):
        files = [folder / f"{name}.{kind}" for kind in formats]
        write(picture, *files)
        written += files
        lines += [f"**{name}.** {picture.title}. {picture.caption}", ""]
    for system in systems:
        lines += [f"{system.mark} {system.differs}", ""] if system.mark else []
    write_text(folder / CAPTIONS, "\n".join(lines))
    return [*written, folder / CAPTIONS]


def _slug(name: str) -> str:
    return re.sub(r"[^\w+=.-]+", "-", name).strip("-").lower()[:60] or "system"
