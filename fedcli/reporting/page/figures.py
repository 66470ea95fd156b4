"""Figures as inline SVG in the colours of the page: matplotlib draws in placeholder colours that become CSS variables.

Each system has a colour of Okabe and Ito, and dashes where those are used up; clients, whose dashes say that they are
corrupted, have three colours more. Text stays text, in the page's font. Nothing in them depends on a clock or on what
was drawn before: equal data give equal bytes.
"""

import hashlib
import io
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from ..drawing import COLOURS, INK, look, rounds_axis
from ..drawing import STYLE as SHARED
from ..graphics.graphic import Graphic
from .systems import System

if TYPE_CHECKING:
    from matplotlib.axes import Axes

QUIET, GRID = "#040506", "#070809"  # placeholders that nothing else is drawn in
NAMED = {INK: "var(--ink)", QUIET: "var(--quiet)", GRID: "var(--line)"}
MANY = (*COLOURS, "#8C6D46", "#4B4AA0", "#7F8C1F")
NAMED |= {colour.lower(): f"var(--c{place})" for place, colour in enumerate(MANY)}
PATTERN = {"-": "none", "--": "6 3", ":": "1.5 2.5", "-.": "7 3 1.5 3"}
PANEL = 4.3, 2.7  # inches of 72 px
STYLE = SHARED | {
    "axes.edgecolor": QUIET, "axes.labelcolor": QUIET, "axes.linewidth": 0.8, "grid.color": GRID, "grid.linewidth": 0.8,
    "svg.fonttype": "none", "text.color": INK, "xtick.color": QUIET, "xtick.labelcolor": INK, "xtick.major.size": 0,
    "ytick.color": QUIET, "ytick.labelcolor": INK, "ytick.major.size": 0,
}  # fmt: skip


@dataclass(frozen=True)
class Figure:
    """A picture and what it shows, which is its alternative text too; as inline svg or as a data URI."""

    caption: str
    svg: str = ""
    image: str = ""
    about: str = ""


@dataclass(frozen=True)
class Key:
    """A line of a legend. pattern: of dashes, "" where there is no line; mark: the path of a marker, "" for none."""

    name: str
    colour: str
    pattern: str = "none"
    mark: str = ""


@dataclass(frozen=True)
class Panels:
    """Figures side by side under one legend.

    layout: "" for a grid of drawings, "wide" for one picture below the other, "strip" for small pictures that are named
    below, whose `about` is for screen readers alone.
    """

    title: str
    figures: Sequence[Figure]
    keys: Sequence[Key] = ()
    legend: str = ""
    layout: str = ""


def keys(compared: list[System]) -> list[Key]:
    """Whose colour is which; a single system needs no legend."""
    return [key(system.name, system.place) for system in compared] if len(compared) > 1 else []


def key(name: str, place: int) -> Key:
    return Key(name, f"var(--c{place % len(COLOURS)})", PATTERN[look(place)["linestyle"]])


def figure(
    draw: Callable[["Axes"], None], caption: str, *, about: str = "", size: tuple[float, float] = PANEL
) -> Figure:
    """A picture that `draw` makes on a pair of axes. size: in inches."""
    import matplotlib.style
    from matplotlib.figure import Figure as Canvas

    out = io.StringIO()
    with warnings.catch_warnings(), matplotlib.style.context(["default", STYLE]):
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # measured only; the browser draws it
        canvas = Canvas(size, layout="constrained")
        canvas.get_layout_engine().set(w_pad=0.04, h_pad=0.04)
        axes = canvas.add_subplot()
        draw(axes)
        plain = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        canvas.savefig(out, format="svg", transparent=True, metadata=plain)
    return Figure(caption, svg=_inline(out.getvalue(), f"{caption}. {about}" if about else caption), about=about)


def of_graphic(graphic: Graphic) -> Panels:
    """A figure for print, in the colours of the page."""
    drawn = [figure(panel.draw, panel.title or graphic.title, size=graphic.size) for panel in graphic.panels]
    keys = [_key(name, **graphic.look(place)) for name, place in graphic.legend.items()]
    return Panels(graphic.title, drawn, keys, graphic.caption)


def _key(name: str, color: str, linestyle: str, marker: str = "", **_: float) -> Key:
    return Key(name, NAMED[color.lower()], PATTERN.get(linestyle, ""), _mark(marker) if marker else "")


def _mark(marker: str) -> str:
    """The outline of one of matplotlib's markers in the middle of a legend's line, of 26 by 10."""
    from matplotlib.markers import MarkerStyle

    shape = MarkerStyle(marker)
    outlines = shape.get_path().transformed(shape.get_transform()).to_polygons()
    size = 4.5 / max(np.abs(outline).max() for outline in outlines)
    drawn = [outline * (size, -size) + (13, 5) for outline in outlines]
    return " ".join("M" + " ".join(f"{x:.1f},{y:.1f}" for x, y in outline) + "Z" for outline in drawn)


def over_rounds(axes: "Axes") -> None:
    axes.set_xlabel("round")
    rounds_axis(axes)
    axes.grid(axis="x", visible=False)


def dots(points: dict[int, dict[str, tuple[float, float, float]]], caption: str, about: str) -> Figure:
    """A score and its interval per group, one below the other, and a dot per system.

    points: system's place -> group -> (score, low, high), shares; NaN where there is no interval.
    """
    groups = list(dict.fromkeys(group for scores in points.values() for group in scores))
    step = 0.8 / max(len(points), 1)

    def draw(axes: "Axes") -> None:
        for k, (place, scores) in enumerate(points.items()):
            y = np.array([groups.index(group) for group in scores]) + (k - (len(points) - 1) / 2) * step
            score, low, high = 100 * np.array(list(scores.values())).reshape(-1, 3).T
            colour = look(place)["color"]
            axes.hlines(y, low, high, color=colour, linewidth=2.2, alpha=0.45)
            axes.plot(score, y, "o" if place < len(COLOURS) else "s", color=colour, markersize=5.5)
        axes.set_yticks(range(len(groups)), [_short(group) for group in groups])
        axes.set_ylim(len(groups) - 0.5, -0.5)
        axes.set_xlabel("%")
        axes.grid(axis="y", visible=False)
        for edge in np.arange(len(groups) - 1) + 0.5:
            axes.axhline(edge, color=GRID, linewidth=0.8)

    many = len(points) * len(groups)
    return figure(draw, caption, about=about, size=(PANEL[0], 0.7 + max(0.32 * len(groups), 0.13 * many, 1.0)))


def _short(name: str) -> str:
    return name if len(name) <= 24 else name[:23] + "…"


def _inline(svg: str, alternative: str) -> Markup:
    """The svg element alone, in the page's colours and font, sized by the page; its ids are like no other figure's."""
    mark = hashlib.sha256((alternative + svg).encode()).hexdigest()[:6]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", svg[svg.index("<svg") :], flags=re.S)
    head = re.search(r'viewBox="[\d. ]+"', svg)[0]
    svg = f'<svg role="img" {head} xmlns="http://www.w3.org/2000/svg">' + svg[svg.index(">") + 1 :]
    svg = svg.replace("xlink:href", "href")
    used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', svg))
    svg = re.sub(r' id="([^"]*)"', lambda match: match[0] if match[1] in used else "", svg)
    svg = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>f{mark}-", svg)
    svg = re.sub(r"font: (?:\d+ )?([\d.]+px) [^;\"]*", r"font-size: \1", re.sub(r" font-family: [^;\"]*;?", "", svg))
    for placeholder, name in NAMED.items():
        svg = svg.replace(placeholder, name)
    label = Markup('<svg aria-label="{}" ').format(alternative)
    return Markup(re.sub(r"\s*\n\s*", "\n", svg).strip().replace("<svg ", label, 1))
