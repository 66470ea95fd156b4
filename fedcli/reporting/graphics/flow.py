"""The flow of images as boxes, one below the other."""

import textwrap
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ...scores.scores import Scores
from ..drawing import INK
from ..flow import Step, steps
from .graphic import Graphic, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HIGH, GAP = 1.0, 0.45  # of a box and of what lies between two, in units of the axes
LETTERS = 46  # of a line beside a box


def graphics(system: str, path: Path, scores: Scores) -> Iterator[Graphic]:
    known = steps(path, scores)
    if known:
        yield Graphic(
            "flow", f"Flow of images: {system}",
            "Images after each step, from the manifests; beside a box what was left out or how it was divided.",
            known[0].images, [Panel("", partial(_boxes, known))], size=(6.2, 0.2 + 0.62 * len(known)),
        )  # fmt: skip


def _boxes(known: Sequence[Step], axes: "Axes") -> None:
    axes.set_axis_off()
    axes.set(xlim=(0, 10), ylim=(-len(known) * (HIGH + GAP) + GAP / 2, 0.2))
    for place, step in enumerate(known):
        top = -place * (HIGH + GAP)
        left = 0.6 if step.part else 0.1
        axes.fill_between([left, 4.1], top - HIGH, top, facecolor="none", edgecolor=INK, linewidth=1.0)
        axes.text(
            (left + 4.1) / 2,
            top - HIGH / 2,
            f"{step.name}\n{step.images:,}",
            ha="center",
            va="center",
            fontsize=9,
            color=INK,
        )
        about = textwrap.fill(step.about, LETTERS, max_lines=3, placeholder="…")
        axes.text(4.4, top - HIGH / 2, about, ha="left", va="center", fontsize=8, color=INK)
        if place and not step.part:
            axes.annotate(
                "", (2.1, top), (2.1, top + GAP), arrowprops={"arrowstyle": "->", "color": INK, "linewidth": 1.0}
            )
