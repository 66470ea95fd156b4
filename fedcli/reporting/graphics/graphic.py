"""A figure for print and for the page: its panels, its legend and its caption."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..drawing import COLOURS, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ALL, OF_ALL = "all images", -1  # the line of all images, and its place
MARKERS = "osD^vPX*"
DASHES = "-", "--", ":", "-."  # beside the colours, so that lines differ in print without colours
CURVE = 3.3, 2.9  # inches of a panel with an even scale both ways
MOST_LINES, MOST_CLASSES = 7, 6  # of a figure; further groups and classes are left out, which its caption says


def style(place: int) -> dict[str, Any]:
    """Colour and dashes of a line; that of all images is in the colour of text."""
    if place == OF_ALL:
        return {"color": INK, "linestyle": "-", "linewidth": 2.2}
    return {"color": COLOURS[place % len(COLOURS)], "linestyle": DASHES[place % len(DASHES)]}


def marked(place: int) -> dict[str, Any]:
    """The same of a line with a marker at each point."""
    return style(place) | {"marker": MARKERS[place % len(MARKERS)]}


def point(place: int) -> dict[str, Any]:
    """Colour and marker of a single point."""
    return marked(place) | {"linestyle": "", "markersize": 7}


@dataclass(frozen=True)
class Panel:
    """One pair of axes, and what `draw` puts onto it."""

    title: str
    draw: "Callable[[Axes], None]"


@dataclass(frozen=True)
class Graphic:
    """A figure.

    Attributes:
        name: of its file, without the ending.
        about: what is shown and how; intervals: how they were made, "" where there are none. images: behind it all.
        legend: name -> place of its look; look: of what stands at a place, in the panels and in the legend.
        size: of a panel, in inches. columns: of panels; 0 for as many as fit.
    """

    name: str
    title: str
    about: str
    images: int
    panels: Sequence[Panel]
    intervals: str = ""
    legend: dict[str, int] = field(default_factory=dict)
    look: Callable[[int], dict[str, Any]] = style
    size: tuple[float, float] = CURVE
    columns: int = 0

    @property
    def caption(self) -> str:
        return " ".join(filter(None, [self.about, self.intervals, f"n = {self.images:,} images."]))
