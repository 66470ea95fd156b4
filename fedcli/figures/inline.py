"""Pictures as inline SVG in the colours of the page: matplotlib draws in placeholder colours that become CSS variables.

Each system has a colour of Okabe and Ito, and dashes where those are used up; clients, whose dashes say that they are
corrupted, have three colours more. Text stays text, in the page's font. Nothing in them depends on a clock or on what
was drawn before: equal data give equal bytes.
"""

import hashlib
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from .drawing import BAND, INK, MANY, Look, Panel, Picture, styled
from .drawing import STYLE as SHARED

QUIET, GRID = "#040506", "#070809"  # placeholders that nothing else is drawn in
NAMED = {INK: "var(--ink)", QUIET: "var(--quiet)", GRID: "var(--line)"}
NAMED |= {colour.lower(): f"var(--c{place})" for place, colour in enumerate(MANY)}
PATTERN = {"-": "none", "--": "6 3", ":": "1.5 2.5", "-.": "7 3 1.5 3"}
STYLE = SHARED | {
    "axes.edgecolor": QUIET,
    "axes.labelcolor": QUIET,
    "axes.linewidth": 0.8,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "svg.fonttype": "none",
    "text.color": INK,
    "xtick.color": QUIET,
    "xtick.labelcolor": INK,
    "xtick.major.size": 0,
    "ytick.color": QUIET,
    "ytick.labelcolor": INK,
    "ytick.major.size": 0,
}


@dataclass(frozen=True)
class Figure:
    """A picture and what it shows, which is its alternative text too; as inline svg or as a data URI. said: lines of
    three texts below a small picture."""

    caption: str
    svg: str = ""
    image: str = ""
    about: str = ""
    said: Sequence[Sequence[str]] = ()


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
    below, whose `about` is for screen readers alone; "cases" for those with what models said of them.
    """

    title: str
    figures: Sequence[Figure]
    keys: Sequence[Key] = ()
    legend: str = ""
    layout: str = ""


def of_picture(picture: Picture) -> Panels:
    """A figure in the colours of the page; one line alone needs no legend."""
    drawn = [_figure(panel, picture) for panel in picture.panels]
    keys = [_key(name, look) for name, look in picture.legend.items() if look is not BAND]
    return Panels(picture.title, drawn, keys if len(keys) > 1 else [], picture.caption)


def _figure(panel: Panel, picture: Picture) -> Figure:
    from matplotlib.figure import Figure as Canvas
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    out = io.StringIO()
    with styled(STYLE):
        canvas = Canvas(picture.size, layout=ConstrainedLayoutEngine(w_pad=0.04, h_pad=0.04))
        axes = canvas.add_subplot()
        panel.draw(axes)
        if picture.below:
            axes.set_xlabel(picture.below)
            axes.grid(axis="x", visible=False)
        plain = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        canvas.savefig(out, format="svg", transparent=True, metadata=plain)
    caption = panel.title or picture.title
    words = f"{caption}. {panel.about}" if panel.about else caption
    return Figure(caption, svg=_inline(out.getvalue(), words), about=panel.about)


def _key(name: str, look: Look) -> Key:
    colour, pattern = (
        NAMED.get(look["color"].lower()) or look["color"],
        PATTERN.get(look.get("linestyle", "-"), ""),
    )
    return Key(name, colour, pattern, _mark(look["marker"]) if look.get("marker") else "")


def _mark(marker: str) -> str:
    """The outline of one of matplotlib's markers in the middle of a legend's line, of 26 by 10; "" of a mere stroke."""
    from matplotlib.markers import MarkerStyle

    shape = MarkerStyle(marker)
    path = shape.get_path().transformed(shape.get_transform())
    outlines = [np.asarray(outline) for outline in path.to_polygons()]
    if not outlines:
        return ""
    size = 4.5 / max(np.abs(outline).max() for outline in outlines)
    drawn = [outline * (size, -size) + (13, 5) for outline in outlines]
    return " ".join(
        "M" + " ".join(f"{x:.1f},{y:.1f}" for x, y in outline) + "Z" for outline in drawn
    )


def _inline(svg: str, alternative: str) -> Markup:
    """The svg element alone, in the page's colours and font, sized by the page; its ids are like no other figure's."""
    mark = hashlib.sha256((alternative + svg).encode()).hexdigest()[:6]
    svg = re.sub(
        r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->",
        "",
        svg[svg.index("<svg") :],
        flags=re.S,
    )
    head = re.findall(r'viewBox="[\d. ]+"', svg)[0]
    svg = f'<svg role="img" {head} xmlns="http://www.w3.org/2000/svg">' + svg[svg.index(">") + 1 :]
    svg = svg.replace("xlink:href", "href")
    used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', svg))
    svg = re.sub(r' id="([^"]*)"', lambda match: match[0] if match[1] in used else "", svg)
    svg = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>f{mark}-", svg)
    svg = re.sub(
        r"font: (?:\d+ )?([\d.]+px) [^;\"]*",
        r"font-size: \1",
        re.sub(r" font-family: [^;\"]*;?", "", svg),
    )
    for placeholder, name in NAMED.items():
        svg = svg.replace(placeholder, name)
    label = Markup('<svg aria-label="{}" ').format(alternative)
    return Markup(re.sub(r"\s*\n\s*", "\n", svg).strip().replace("<svg ", label, 1))
