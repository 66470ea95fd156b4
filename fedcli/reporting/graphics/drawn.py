"""All figures of the systems of a report, and their files."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ... import console
from ...errors import UsageError
from ...io.files import write_text
from .. import drawing
from ..rows import Row
from . import cases, curves, flow, groups
from .graphic import Graphic
from .seen import seen

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = "svg", "pdf", "png"
CAPTIONS = "captions.md"


def of_systems(rows: Sequence[Row], draw: Sequence[str] = ()) -> list[Graphic]:
    """Every figure of these rows but for their views: of the first run of each system, then of all together.

    draw: only figures with one of these texts in their names. Raises UsageError where there is none.
    """
    made = list(_of_systems(rows))
    chosen = [graphic for graphic in made if not draw or any(text in graphic.name for text in draw)]
    if draw and not chosen:
        names = ", ".join(graphic.name for graphic in made)
        raise UsageError(f"no figure has {' or '.join(map(repr, draw))} in its name", f"there are {names}"[:300])
    return chosen


def _of_systems(rows: Sequence[Row]) -> Iterator[Graphic]:
    own = [row for row in rows if not row.is_view]
    for row in own:
        folder = f"{_slug(row.name)}-" if len(own) > 1 else ""
        for graphic in _of_row(row):
            yield replace(graphic, name=f"{folder}{graphic.name}")
    yield from groups.plane([(row.name, row.qualities) for row in own])


def _of_row(row: Row) -> Iterator[Graphic]:
    name = row.name if row.runs == 1 else f"{row.name}, {row.scored[0].which}"
    path, scores = row.paths[0], row.scores
    versions = seen(path, scores)
    if not versions:
        console.warn(f"{name}: no single model answers for single images, so no curves of them are drawn")
    for images in versions:
        yield from curves.graphics(name, scores, images)
        yield from groups.confusion(name, images)
        yield from cases.graphics(name, path, scores, images)
    yield from groups.forest(name, scores)
    yield from groups.severities(name, scores)
    yield from flow.graphics(name, path, scores)


def write(rows: Sequence[Row], folder: Path, formats: Sequence[str], draw: Sequence[str] = ()) -> list[Path]:
    """Write every figure, or those of draw, in each format, and captions.md; returns the paths. Raises UsageError."""
    written: list[Path] = []
    lines = ["# Figures", ""]
    made = of_systems(rows, draw)
    for graphic in console.progress(made, label="drawing", total=len(made)):
        files = [folder / f"{graphic.name}.{kind}" for kind in formats]
        drawing.draw(partial(figure, graphic), *files, title=graphic.title, caption=graphic.caption)
        written += files
        lines += [f"**{graphic.name}.** {graphic.title}. {graphic.caption}", ""]
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / CAPTIONS, "\n".join(lines))
    return [*written, folder / CAPTIONS]


def figure(graphic: Graphic) -> "Figure":
    from matplotlib.lines import Line2D

    made, axes = drawing.panels(
        len(graphic.panels), graphic.title, graphic.size, one_axis=False, columns=graphic.columns
    )
    for panel, at in zip(graphic.panels, axes, strict=True):
        panel.draw(at)
        at.set_title(panel.title, loc="left", fontsize=9)
    drawing.name_all(made, {name: Line2D([], [], **graphic.look(place)) for name, place in graphic.legend.items()})
    return made


def _slug(name: str) -> str:
    return re.sub(r"[^\w+=.-]+", "-", name).strip("-")[:60] or "system"
