"""Pictures: their panels, legend and caption, what their axes, curves and colours share, and their files.

Equal pictures give equal bytes. The colours are those of Okabe and Ito, which colour-blind readers can distinguish, but
for yellow, which is faint on white, and black, which is for what belongs to no client: a wine red replaces them.
"""

import os
import tempfile
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..io.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
else:
    Axes = Any  # matplotlib is loaded where something is drawn

DATE = "SOURCE_DATE_EPOCH"  # a variable for files that have a date
COLOURS = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255"
MANY = (
    *COLOURS,
    "#8C6D46",
    "#4B4AA0",
    "#7F8C1F",
)  # of clients, whose dashes say that they are corrupted
INK = "#010203"  # of text and of lines that belong to nobody; on a page the colour of its text
DASHES = "-", "--", ":", "-."  # beside the colours, so that lines differ in print without colours
MARKERS = "osD^vPX*"
QUIET = "#888888"  # of a band in the legend, whatever its line
ALL, OF_ALL = "all images", -1  # the line of all images, and its place
MOST_LINES, MOST_CLASSES = (
    7,
    6,
)  # of a figure; further groups and classes are left out, which its caption says
LONG = 28  # characters of a line in the legend
LINES = 3  # of a name in the legend; what needs more is named by its folder
PANEL, SQUARE = (4.1, 2.7), (4.1, 3.6)  # inches
SMALL = 4.0  # inches of width, below which a panel has small words above it
STYLE = {
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 10,
    "lines.linewidth": 1.6,
    "lines.markersize": 4,
    "svg.hashsalt": "fedcli",
    "text.parse_math": False,
}
IN_FILES = STYLE | {
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "figure.titlesize": 13,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "savefig.dpi": 150,
}


Look = dict[str, Any]  # how a line is drawn, in words of matplotlib
BAND: Look = {"color": QUIET, "alpha": 0.3, "linewidth": 8, "linestyle": "-"}  # in a legend


@dataclass(frozen=True)
class Panel:
    """One pair of axes, and what `draw` puts onto it. about: smaller words behind the title, on a page."""

    title: str
    draw: Callable[[Axes], object]
    about: str = ""


@dataclass(frozen=True)
class Picture:
    """A figure drawn, for files and for the page.

    Attributes:
        legend: name -> how what it names looks. caption: what is shown and how.
        size: of a panel, in inches. columns: of panels; 0 for as many as make it square, up to three.
        below: what stands below the lowest panels alone, which share that axis; "" where each has its own.
    """

    title: str
    panels: Sequence[Panel]
    legend: Mapping[str, Look] = field(default_factory=dict)
    caption: str = ""
    size: tuple[float, float] = PANEL
    columns: int = 0
    below: str = ""


def write(picture: Picture, *files: Path) -> None:
    """Draw a picture into .png, .svg or .pdf files, with its caption among what they say of themselves."""
    with styled(IN_FILES):
        figure = drawn(picture)
        if len(files) > 1:  # else the panels are arranged anew for every file
            figure.draw_without_rendering()
            figure.set_layout_engine("none")
        for out in files:
            _save(figure, out, picture)


def picture_bytes(picture: Picture, suffix: str) -> bytes:
    """The bytes of the file that write() makes. suffix: .png, .svg or .pdf."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"figure{suffix}"
        write(picture, path)
        return path.read_bytes()


@contextmanager
def styled(style: Mapping[str, Any]) -> Iterator[None]:
    """This style in place of what the user's own settings say."""
    import matplotlib.style

    date = os.environ.pop(
        DATE, None
    )  # which matplotlib reads as a number, also where a file is to have no date
    try:
        with warnings.catch_warnings(), matplotlib.style.context(dict(style), after_reset=True):
            warnings.filterwarnings(
                "ignore", message="Glyph .* missing from font"
            )  # a name in another script
            yield
    finally:
        os.environ |= {DATE: date} if date is not None else {}


def drawn(picture: Picture) -> "Figure":
    """All panels in one figure of matplotlib."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.lines import Line2D

    count, (wide, high) = len(picture.panels), picture.size
    columns = min(count, picture.columns) or min(3, int(np.ceil(np.sqrt(count))))
    rows = -(-count // columns)
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1)
    figure = Figure((columns * wide + 2.2, rows * high + 0.6), layout=layout)
    letters = int(
        (columns * wide - 0.7) / 0.105
    )  # that fit beside the legend, each so many inches wide
    figure.suptitle(
        "\n".join(textwrap.fill(line, letters) for line in picture.title.splitlines()),
        x=0.015,
        ha="left",
    )
    for place in range(count):
        figure.add_subplot(
            rows, columns, place + 1, sharex=figure.axes[0] if place and picture.below else None
        )
    small: Look = {"fontsize": 9} if wide < SMALL else {}
    for place, (panel, axes) in enumerate(zip(picture.panels, figure.axes, strict=True)):
        panel.draw(axes)
        axes.set_title(panel.title, loc="left", **small)
        if picture.below and place >= count - columns:
            axes.set_xlabel(picture.below)
    if picture.legend:
        handles = [Line2D([], [], **look) for look in picture.legend.values()]
        figure.legend(handles, map(wrapped, picture.legend), loc="outside right upper")
    return figure


def _save(figure: "Figure", out: Path, picture: Picture) -> None:
    """Whole or not at all, and without a clock."""
    out.parent.mkdir(parents=True, exist_ok=True)
    kind = out.suffix[1:].lower()
    name = {"pdf": "Subject"}.get(kind, "Description")
    about = {"Title": picture.title, name: picture.caption} if picture.caption else {}
    clocks = {
        "svg": {"Date": None},
        "png": {"Software": None},
        "pdf": {"CreationDate": None, "Producer": None},
    }
    with replacing(out) as file:
        figure.savefig(file, format=kind, metadata=clocks[kind] | about)


def look(place: int) -> dict[str, Any]:
    """Colour and dashes of the line at this place; that of all images is in the colour of text."""
    if place == OF_ALL:
        return {"color": INK, "linestyle": "-", "linewidth": 2.2}
    return {"color": COLOURS[place % len(COLOURS)], "linestyle": DASHES[place % len(DASHES)]}


def marked(place: int) -> dict[str, Any]:
    """The same of a line with a marker at each point."""
    return look(place) | {"marker": MARKERS[place % len(MARKERS)]}


def point(place: int) -> dict[str, Any]:
    """Colour and marker of a single point."""
    return marked(place) | {"linestyle": "", "markersize": 7}


def short(name: str) -> str:
    """A name as the legend can print it; matplotlib hides one that begins with an underscore."""
    name = _printable(name)
    return name if len(name) <= LONG else name[: LONG - 1] + "…"


def wrapped(name: str) -> str:
    """A name on as many lines as it needs, up to LINES."""
    name = _printable(name)
    return (
        name if len(name) <= LONG else textwrap.fill(name, LONG, max_lines=LINES, placeholder="…")
    )


def _printable(name: str) -> str:
    name = "".join(c if c.isprintable() else "?" for c in name)
    return f" {name}" if name.startswith("_") else name
