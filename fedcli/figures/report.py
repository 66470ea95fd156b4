"""The figures of a report: every registered one that its systems have, and their files."""

import re
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from .. import console, extensions
from ..errors import UsageError
from ..io.files import write_text
from ..metrics import title
from ..scores.parts import MODELS
from ..scores.scores import MADE_UP
from .drawing import Picture, write
from .figure import Figure, NothingToDraw, Subject
from .kinds import FIGURES, find
from .system import System

FORMATS = "svg", "pdf", "png"
CAPTIONS = "captions.md"
EVERY = "all"  # asks for every figure


class PlannedFigure(NamedTuple):
    """A figure to be drawn. name: of its files."""

    name: str
    figure: Figure
    subject: System | Sequence[System]
    options: dict[str, str]


def of_systems(systems: Sequence[System], draw: Sequence[str] = ()) -> list[tuple[str, Picture]]:
    """Name and picture of the usual figures: of all systems together, then of the first run of
    each.

    draw: "all" for every figure, or texts, for those with one of them in their names.
    Raises UsageError where there is none, and NothingToDraw where the systems have nothing that
    those show.
    """
    planned = list(_planned(systems, draw))
    if draw:
        planned = _selected(planned, draw)
    pictures: list[tuple[str, Picture]] = []
    frames: list[Any] = []
    reasons = []
    for name, figure, subject, options in console.progress(
        planned, label="drawing", total=len(planned)
    ):
        try:
            frame = of_sample(figure.frame(subject, **options), systems)
            equal = None if draw else _position(frame, frames)
            if equal is not None:  # of the data that several systems share
                pictures[equal] = figure.name, pictures[equal][1]
                continue
            pictures.append((name, figure.draw(frame)))
            frames.append(frame)
        # of a version or an attribute that it was not scored by
        except (NothingToDraw, UsageError) as reason:
            reasons.append(reason)
    if draw and reasons and not pictures:
        raise reasons[0]
    return pictures


def check(systems: Sequence[System], draw: Sequence[str]) -> None:
    """Refuse texts that are in no figure's name, before anything is drawn. Raises UsageError."""
    if draw:
        with console.muted():  # what is left out is said where it is drawn
            _selected(list(_planned(systems, draw)), draw)


def _selected(planned: list[PlannedFigure], draw: Sequence[str]) -> list[PlannedFigure]:
    """The figures with one of these texts in their names. Raises UsageError where there is none."""
    if EVERY in draw:
        return planned
    selected = []
    for plan in planned:
        if any(text in plan.name for text in draw):
            selected.append(plan)
    if not selected:
        texts = " or ".join(map(repr, draw))
        names = ", ".join(plan.name for plan in planned)
        hint = f"{EVERY}, or {names}"[:300]
        raise UsageError(f"no figure has {texts} in its name", hint)
    return selected


def _position(frame: Any, frames: list[Any]) -> int | None:
    """The position of the first equal frame."""
    for position, other in enumerate(frames):
        if frame.equals(other):
            return position
    return None


def _planned(systems: Sequence[System], draw: Sequence[str]) -> Iterator[PlannedFigure]:
    for figure in _figures("systems", draw):
        for name, options in _named(figure, systems[0], usual=not draw):
            yield PlannedFigure(name, figure, systems, options)
    for system, file_name in zip(systems, _short(systems), strict=True):
        if not system.versions:
            console.warn(f"{system.run_name}: {system.why_no_images}; no curves of them are drawn")
        for figure in _figures("system", draw):
            for name, options in _named(figure, system, usual=not draw):
                if file_name:
                    name = f"{name}-{file_name}"
                yield PlannedFigure(name, figure, system, options)


def _figures(subject: Subject, draw: Sequence[str]) -> Iterator[Figure]:
    """The figures of fedcli, and those of installed packages that are named."""
    figures = dict(FIGURES)
    for name in draw:
        if name not in (*figures, EVERY) and extensions.offered("figures", name):
            figures[name] = find(name)
    for figure in figures.values():
        if figure.of == subject and (figure.usual or draw):
            yield figure


def _named(
    figure: Figure,
    system: System,
    *,
    usual: bool,
) -> Iterator[tuple[str, dict[str, str]]]:
    """Name and options of each picture of a figure.

    One for every value of the options that its frame takes, or the usual one, which is by the
    first attribute.
    """
    parameters = figure.parameters
    values: dict[str, Sequence[str]] = {}
    if "by" in parameters:
        values["by"] = system.groupings or [""]
    if usual:
        first_choices = {name: choices[0] for name, choices in values.items()}
        yield figure.name, first_choices
        return
    if "metric" in parameters:
        values["metric"] = system.scores.usual
    if "version" in parameters and parameters["version"].default:  # else one picture has them all
        scored_versions = system.scores.versions
        values["version"] = [version for version in MODELS if version in scored_versions]
    for chosen in product(*values.values()):
        named_values = (figure.name, *chosen)
        words = [title(value).partition(",")[0] for value in named_values if value]
        options = dict(zip(values, chosen, strict=True))
        yield "-".join(map(_slug, words)), options


def of_sample(frame: Any, systems: Sequence[System]) -> Any:
    """A frame whose title says so where its scores are of a made-up sample."""
    if "title" in frame.attrs and any(system.scores.sample for system in systems):
        frame.attrs["title"] += f", {MADE_UP}"
    return frame


def _short(systems: Sequence[System]) -> list[str]:
    """The names of systems in those of files: labels, with a number where several have the same."""
    if len(systems) == 1:
        return [""]
    labels = [_slug(system.scores.name) for system in systems]
    names = []
    for k, label in enumerate(labels):
        number = labels[:k].count(label) + 1
        names.append(f"{label}-{number}" if labels.count(label) > 1 else label)
    return names


def write_all(
    systems: Sequence[System],
    folder: Path,
    formats: Sequence[str],
    draw: Sequence[str] = (),
) -> list[Path]:
    """Write the usual figures, or those of draw, in each format, and captions.md; their paths.

    captions.md explains the marks in names too. Raises UsageError.
    """
    written: list[Path] = []
    lines = ["# Figures", ""]
    for name, picture in of_systems(systems, draw):
        files = [folder / f"{name}.{suffix}" for suffix in formats]
        write(picture, *files)
        written += files
        sentence = f"**{name}.** {picture.title}. {picture.caption}"
        lines += [sentence, ""]
    for system in systems:
        if system.mark:
            lines += [f"{system.mark} {system.differs}", ""]
    captions = folder / CAPTIONS
    write_text(captions, "\n".join(lines))
    return [*written, captions]


def _slug(name: str) -> str:
    slug = re.sub(r"[^\w+=.-]+", "-", name)
    return slug.strip("-").lower()[:60] or "system"
