"""Pictures: their panels, legend and caption, the style of axes, curves and colours, their files.

Equal pictures give equal bytes. The colours are those of Okabe and Ito, which colour-blind readers
can distinguish, but for yellow, which is faint on white, and black, which is for what belongs to no
client: a wine red replaces them.
"""

import os
import re
import tempfile
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import console
from ..errors import FedcliError
from ..io.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
else:
    Axes = Any  # matplotlib is loaded where something is drawn

FURTHER_FONTS = (  # of other scripts, used for letters that matplotlib's own font does not have
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Source Han Sans",
    "WenQuanYi Micro Hei",
    "Hiragino Sans",
    "PingFang SC",
    "Apple SD Gothic Neo",
    "Yu Gothic",
    "Microsoft YaHei",
    "Malgun Gothic",
    "Arial Unicode MS",
)
NO_GLYPH = r"Glyph (\d+) .*missing from font"  # what matplotlib warns of
DATE = "SOURCE_DATE_EPOCH"  # a variable for files that have a date
COLOURS = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255"
MANY = (*COLOURS, "#8C6D46", "#4B4AA0", "#7F8C1F")  # of clients; their dashes mean: corrupted
INK = "#010203"  # of text and of lines that belong to nobody; on a page the colour of its text
DASHES = "-", "--", ":", "-."  # beside the colours, so that lines differ in print without colours
MARKERS = "osD^vPX*"
QUIET = "#888888"  # of a band in the legend, whatever its line
ALL = "all images"  # the name of the line of all images
OF_ALL = -1  # its position
MOST_LINES = 7  # of a figure; further groups are left out, which its caption says
MOST_CLASSES = 6  # of a figure, likewise
MOST_SYSTEMS = 12  # that a reader can tell apart by colours and markers
LONG = 28  # characters of a line in the legend
LINES = 3  # of a name in the legend; what needs more is named by its folder
PANEL = 4.1, 2.7  # inches
SQUARE = 4.1, 3.6  # inches
SMALL = 4.0  # inches of width, below which a panel has small words above it
BESIDE = 2.2  # inches of the legend beside the panels
LINE = 0.22  # inches of a line of the legend, at least
ABOVE = 0.6  # inches of the title above them
MARGIN = 0.7  # inches beside the title
LETTER = 0.105  # inches of a letter of the title
OF_TICK = 0.085  # inches of a letter beside an axis
OF_TURNED = 0.075  # inches of a letter of a name that is turned below a matrix, or of a small one
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
WITHOUT_CLOCK: dict[str, Any] = {  # metadata by the kind of a file
    "svg": {"Date": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Producer": None},
}

Look = dict[str, Any]  # how something is drawn, in words of matplotlib
Looks = dict[str, Look]  # of systems, groups or clients, by name
BAND: Look = {"color": QUIET, "alpha": 0.3, "linewidth": 8, "linestyle": "-"}  # in a legend


@dataclass(frozen=True)
class Panel:
    """One pair of axes, and what `draw` puts onto it.

    about: smaller words behind the title, on a page.
    """

    title: str
    draw: Callable[[Axes], object]
    about: str = ""


@dataclass(frozen=True)
class Picture:
    """A drawn figure, for files and for the page.

    Attributes:
        legend: name -> the look of what it names. caption: what is shown and how.
        size: of a panel, in inches.
        columns: of panels; 0 for as many as make it square, up to three.
        below: words below the lowest panels alone, which share that axis; "" where each has its
            own.
    """

    title: str
    panels: Sequence[Panel]
    legend: Mapping[str, Look] = field(default_factory=dict)
    caption: str = ""
    size: tuple[float, float] = PANEL
    columns: int = 0
    below: str = ""


def write(picture: Picture, *files: Path) -> None:
    """Draw a picture into .png, .svg or .pdf files, with its caption among their metadata."""
    with styled(IN_FILES):
        figure = drawn(picture)
        if len(files) > 1:  # else the panels are arranged anew for every file
            figure.draw_without_rendering()
            figure.set_layout_engine("none")
        for file in files:
            _save(figure, file, picture)


def picture_bytes(picture: Picture, suffix: str) -> bytes:
    """The bytes of the file that write() makes. suffix: .png, .svg or .pdf."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"figure{suffix}"
        write(picture, path)
        return path.read_bytes()


@contextmanager
def styled(style: Mapping[str, Any]) -> Iterator[None]:
    """Draw in this style, and not in that of the user's own settings.

    Letters that no installed font has are said, but for a page, where browsers have fonts.
    """
    import matplotlib.style
    from matplotlib.font_manager import get_font_names

    installed = get_font_names()
    families = ["sans-serif", *(name for name in FURTHER_FONTS if name in installed)]
    letters: set[str] = set()

    # matplotlib reads it as a number, also where a file is to have no date
    date = os.environ.pop(DATE, None)
    try:
        whole_style = {"font.family": families, **style}
        in_style = matplotlib.style.context(whole_style, after_reset=True)
        with warnings.catch_warnings(), in_style:
            warnings.filterwarnings("always", message=NO_GLYPH)
            show = warnings.showwarning

            def show_or_keep(message: Any, *words: Any, **options: Any) -> None:
                glyph = re.match(NO_GLYPH, str(message))
                if glyph:
                    letters.add(chr(int(glyph[1])))
                else:
                    show(message, *words, **options)

            warnings.showwarning = show_or_keep
            yield
    finally:
        if date is not None:
            os.environ[DATE] = date
    if letters and "svg.fonttype" not in style:
        _warn_of("".join(sorted(letters)))


@cache
def _warn_of(letters: str) -> None:
    """Say once which letters are boxes in files."""
    font = FURTHER_FONTS[0]
    sentence = f"figures show boxes in place of {letters}, which no installed font has"
    console.warn(f"{console.shortened(sentence)}; install one, such as {font}")


def drawn(picture: Picture) -> "Figure":
    """All panels in one figure of matplotlib. Raises FedcliError where there is none."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    wide, high = picture.size
    panel_count = len(picture.panels)
    if not panel_count:
        hint = "its scores may all be unknown; see rounds.jsonl, or draw another figure"
        raise FedcliError("no number is there to draw", hint)
    columns = picture.columns or min(3, int(np.ceil(np.sqrt(panel_count))))
    columns = min(panel_count, columns)
    rows = -(-panel_count // columns)
    width = columns * wide
    height = rows * high
    is_inside = panel_count < rows * columns and len(picture.legend) * LINE <= high
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1)
    beside = BESIDE if picture.legend and not is_inside else 0
    size = (width + beside, height + ABOVE)
    figure = Figure(size, layout=layout)
    margin = MARGIN if beside else MARGIN / 3
    letters = int((width - margin) / LETTER)  # that fit beside the legend
    title_lines = picture.title.splitlines()
    title = [textwrap.fill(line, letters) for line in title_lines]
    figure.suptitle("\n".join(title), x=0.015, ha="left")
    shared = None
    for position in range(1, panel_count + 1):
        axes = figure.add_subplot(rows, columns, position, sharex=shared)
        if picture.below and not shared:
            shared = axes
    _draw_panels(picture, figure.axes, panel_count - columns)
    if picture.legend:
        free = figure.add_subplot(rows, columns, rows * columns) if is_inside else None
        _draw_legend(picture, figure, free)
    return figure


def _draw_panels(
    picture: Picture,
    axes_of_panels: Sequence[Axes],
    lowest: int,
) -> None:
    """Draw every panel. lowest: position from which nothing is below a panel."""
    words: Look = {}
    if picture.size[0] < SMALL:
        words["fontsize"] = 9
    for position, panel in enumerate(picture.panels):
        axes = axes_of_panels[position]
        panel.draw(axes)
        axes.set_title(panel.title, loc="left", **words)
        if picture.below and position >= lowest:
            axes.set_xlabel(picture.below)


def _draw_legend(picture: Picture, figure: "Figure", free: Axes | None) -> None:
    """Explain the looks in the free place among the panels, or else beside them."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], **look) for look in picture.legend.values()]
    names = [wrapped(name) for name in picture.legend]
    if free is None:
        figure.legend(handles, names, loc="outside right upper")
    else:
        free.set_axis_off()
        free.legend(handles, names, loc="upper left")


def _save(figure: "Figure", file: Path, picture: Picture) -> None:
    """Save a figure whole or not at all, and without a clock."""
    file.parent.mkdir(parents=True, exist_ok=True)
    kind = file.suffix[1:].lower()
    metadata = dict(WITHOUT_CLOCK[kind])
    if picture.caption:
        metadata["Title"] = picture.title
        caption = "Subject" if kind == "pdf" else "Description"
        metadata[caption] = picture.caption
    with replacing(file) as temporary:
        figure.savefig(temporary, format=kind, metadata=metadata)


def look(position: int) -> Look:
    """Colour and dashes of the line at a position; that of all images is in the colour of text."""
    if position == OF_ALL:
        return {"color": INK, "linestyle": "-", "linewidth": 2.2}
    colour = COLOURS[position % len(COLOURS)]
    dashes = DASHES[position % len(DASHES)]
    return {"color": colour, "linestyle": dashes}


def marked(position: int) -> Look:
    """The look of a line with a marker at each point."""
    marker = MARKERS[position % len(MARKERS)]
    return look(position) | {"marker": marker}


def point(position: int) -> Look:
    """Colour and marker of a single point."""
    return marked(position) | {"linestyle": "", "markersize": 7}


def short(name: str, letters: int = LONG) -> str:
    """A name as the legend can print it; matplotlib hides one that begins with an underscore."""
    name = _printable(name)
    if len(name) <= letters:
        return name
    return name[: letters - 1] + "…"


def distinct(names: Sequence[Any]) -> list[str]:
    """Short names, longer where several different ones would become the same."""
    texts = list(map(str, names))
    most = max(map(len, texts), default=0)
    short_names = list(map(short, texts))
    letters = LONG
    while len(set(short_names)) < len(set(texts)) and letters < most:
        letters += 1
        short_names = [short(text, letters) for text in texts]
    return short_names


def longest(names: Sequence[Any]) -> int:
    """The letters of the longest name that distinct() makes of some."""
    return max(map(len, distinct(names)), default=0)


def wrapped(name: str) -> str:
    """A name on as many lines as it needs, up to LINES."""
    name = _printable(name)
    if len(name) <= LONG:
        return name
    return textwrap.fill(name, LONG, max_lines=LINES, placeholder="…")


def _printable(name: str) -> str:
    name = "".join(letter if letter.isprintable() else "?" for letter in name)
    return f" {name}" if name.startswith("_") else name
