"""What all pictures share, those of files and those of the page: style, panels, axes, curves, colours and legends.

Equal figures give equal bytes. The colours are those of Okabe and Ito, which colour-blind readers can distinguish, but
for yellow, which is faint on white, and black, which is for what belongs to no client: a wine red replaces them.
"""

import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..io.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255"
INK = "#010203"  # of text and of lines that belong to nobody; on a page the colour of its text
DASHES = "-", "--", ":"  # the colours again, once they are used up
LONG = 28  # characters of a line in the legend
LINES = 3  # of a name in the legend; what needs more is named by its folder
FAR = 20  # the largest value over the smallest one, from which an axis is logarithmic
VERY_FAR = 1000  # the same where some values are 0, which then stands beside a logarithmic axis
PANEL = 4.1, 2.7  # inches
DOTS = 40  # rounds; shorter curves have a dot at each
STYLE = {
    "axes.axisbelow": True, "axes.formatter.useoffset": False, "axes.grid": True, "axes.spines.right": False,
    "axes.spines.top": False, "font.size": 10, "lines.linewidth": 1.6, "lines.markersize": 4, "svg.hashsalt": "fedcli",
    "text.parse_math": False,
}  # fmt: skip
IN_FILES = STYLE | {
    "axes.titlesize": 11, "axes.titleweight": "bold", "figure.titlesize": 13, "grid.alpha": 0.25,
    "legend.frameon": False, "savefig.dpi": 150,
}  # fmt: skip


def draw(make: Callable[[], "Figure"], *files: Path, title: str = "", caption: str = "") -> None:
    """Make a figure in the style of all pictures and write it, with its caption, into .png, .svg or .pdf files."""
    import matplotlib.style

    with warnings.catch_warnings(), matplotlib.style.context(IN_FILES, after_reset=True):
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # a name in another script: boxes
        figure = make()
        if len(files) > 1:  # else the panels are arranged anew for every file
            figure.draw_without_rendering()
            figure.set_layout_engine("none")
        for out in files:
            _write(figure, out, title, caption)


def _write(figure: "Figure", out: Path, title: str, caption: str) -> None:
    """Whole or not at all, and without a clock."""
    out.parent.mkdir(parents=True, exist_ok=True)
    kind = out.suffix[1:].lower()
    name = {"pdf": "Subject"}.get(kind, "Description")
    about = {"Title": title, name: caption} if title else {}
    clocks = {"svg": {"Date": None}, "png": {"Software": None}, "pdf": {"CreationDate": None, "Producer": None}}
    with replacing(out) as file:
        figure.savefig(file, format=kind, metadata=clocks[kind] | about)


def name_all(figure: "Figure", legend: dict[str, Any]) -> None:
    """Put a legend beside all panels; name -> what stands for it."""
    if legend:
        figure.legend(legend.values(), map(wrapped, legend), loc="outside right upper")


def panels(
    count: int, title: str, size: tuple[float, float] = PANEL, *, one_axis: bool = True, columns: int = 0
) -> tuple["Figure", list["Axes"]]:
    """A figure of so many empty panels, each so many inches, under one title. one_axis: they share that below them.

    columns: of panels; 0 for as many as make it square, up to three.
    """
    from matplotlib.figure import Figure

    columns = min(count, columns) or min(3, int(np.ceil(np.sqrt(count))))
    rows = -(-count // columns)
    figure = Figure((columns * size[0] + 2.2, rows * size[1] + 0.6), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.1)
    letters = int((columns * size[0] - 0.7) / 0.105)  # that fit beside the legend, each so many inches wide
    figure.suptitle("\n".join(textwrap.fill(line, letters) for line in title.splitlines()), x=0.015, ha="left")
    for place in range(count):
        figure.add_subplot(rows, columns, place + 1, sharex=figure.axes[0] if place and one_axis else None)
    return figure, figure.axes


def lowest(axes: list["Axes"]) -> list["Axes"]:
    """The panels that have nothing below them."""
    columns = axes[0].get_gridspec().ncols
    return axes[-columns:]


def stretch(axes: "Axes", values: np.ndarray) -> None:
    """A logarithmic axis where values spread far; 0 has no place on it but beside it."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    if not (scale := spread_far(values)):
        return
    axes.set_yscale(scale, **({"linthresh": float(values[values > 0].min())} if scale == "symlog" else {}))
    if scale == "log" and values[values > 0].max() / values[values > 0].min() < VERY_FAR:
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}".replace("e-0", "e-")))
    axes.yaxis.set_minor_locator(NullLocator())


def spread_far(values: np.ndarray) -> str:
    """The axis for these values: "log", "symlog" where some are 0, "" for an even one."""
    positive, zeros = values[values > 0], bool((values == 0).any())
    if (values < 0).any() or not len(positive) or positive.max() / positive.min() <= (VERY_FAR if zeros else FAR):
        return ""
    return "symlog" if zeros else "log"


def rounds_axis(axes: "Axes") -> None:
    """Whole numbers below curves over rounds."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1, steps=[1, 2, 5, 10]))
    axes.margins(x=0.03)


def line(axes: "Axes", curve: np.ndarray, **look: Any) -> Any:
    """A curve [T, 2]; a value between two gaps would be invisible without a dot."""
    finite = np.isfinite(curve[:, 1])
    beside = np.pad(finite, 1)
    alone = finite & ~beside[:-2] & ~beside[2:]
    dots = finite if len(curve) <= DOTS else alone
    return axes.plot(*curve.T, **{"marker": "o", "markevery": np.flatnonzero(dots).tolist()} | look)[0]


def band(axes: "Axes", x: Any, low: np.ndarray, high: np.ndarray, place: int) -> None:
    """What surrounds the line of this place."""
    axes.fill_between(x, low, high, color=look(place)["color"], alpha=0.15, linewidth=0)


def line_in_band(axes: "Axes", curve: np.ndarray, place: int) -> Any:
    """A mean over runs in the band of its spread, see curves.over_runs [4, T]."""
    rounds, mean, low, high = curve
    if np.isfinite(low).any():
        band(axes, rounds, low, high, place)
    return line(axes, np.stack([rounds, mean], 1), **look(place))


def look(place: int) -> dict[str, str]:
    """Colour and dashes of the line at this place."""
    dashes = DASHES[place // len(COLOURS) % len(DASHES)]
    return {"color": COLOURS[place % len(COLOURS)], "linestyle": dashes}


def short(name: str) -> str:
    """A name as the legend can print it; matplotlib hides one that begins with an underscore."""
    name = _printable(name)
    return name if len(name) <= LONG else name[: LONG - 1] + "…"


def wrapped(name: str) -> str:
    """A name on as many lines as it needs, up to LINES."""
    name = _printable(name)
    return name if len(name) <= LONG else textwrap.fill(name, LONG, max_lines=LINES, placeholder="…")


def _printable(name: str) -> str:
    name = "".join(c if c.isprintable() else "?" for c in name)
    return f" {name}" if name.startswith("_") else name
