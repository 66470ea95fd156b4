"""Pictures as inline SVG in the colours of the page.

matplotlib draws in placeholder colours that become CSS variables. Each system has a colour of Okabe
and Ito, and dashes where those are used up; clients, whose dashes say that they are corrupted, have
three colours more. Text stays text, in the page's font. Nothing in them depends on a clock or on
what was drawn before: equal data give equal bytes.
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

QUIET = "#040506"  # a placeholder that nothing else is drawn in
GRID = "#070809"  # another one
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
class Drawing:
    """A panel or an image, as inline svg or as a data URI.

    Attributes:
        caption: what it shows, which is its alternative text too.
        said: lines of three texts below a small picture.
    """

    caption: str
    svg: str = ""
    image: str = ""
    about: str = ""
    said: Sequence[Sequence[str]] = ()


@dataclass(frozen=True)
class Key:
    """A line of a legend. pattern: of dashes, "" where there is no line; mark: the path of a
    marker, "" for none.
    """

    name: str
    colour: str
    pattern: str = "none"
    mark: str = ""


@dataclass(frozen=True)
class Panels:
    """Drawings side by side under one legend.

    layout: "" for a grid of drawings, "wide" for one picture below the other, "strip" for small
    pictures that are named below, whose `about` is for screen readers alone; "cases" for those with
    what models said of them.
    """

    title: str
    figures: Sequence[Drawing]
    keys: Sequence[Key] = ()
    legend: str = ""
    layout: str = ""


def of_picture(picture: Picture) -> Panels:
    """A picture in the colours of the page; one line alone needs no legend."""
    drawings = [_drawing(panel, picture) for panel in picture.panels]
    keys = [_key(name, look) for name, look in picture.legend.items() if look is not BAND]
    if len(keys) == 1:
        keys = []
    return Panels(picture.title, drawings, keys, picture.caption)


def _drawing(panel: Panel, picture: Picture) -> Drawing:
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    svg = io.StringIO()
    with styled(STYLE):
        canvas = Figure(picture.size, layout=ConstrainedLayoutEngine(w_pad=0.04, h_pad=0.04))
        axes = canvas.add_subplot()
        panel.draw(axes)
        if picture.below:
            axes.set_xlabel(picture.below)
            axes.grid(axis="x", visible=False)
        no_metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        canvas.savefig(
            svg,
            format="svg",
            transparent=True,
            metadata=no_metadata,
        )
    caption = panel.title or picture.title
    alternative = caption
    if panel.about:
        alternative = f"{caption}. {panel.about}"
    inline = _inline(svg.getvalue(), alternative)
    return Drawing(caption, svg=inline, about=panel.about)


def _key(name: str, look: Look) -> Key:
    colour = look["color"]
    variable = NAMED.get(colour.lower()) or colour
    pattern = PATTERN.get(look.get("linestyle", "-"), "")
    marker = look.get("marker")
    mark = _mark(marker) if marker else ""
    return Key(name, variable, pattern, mark)


def _mark(marker: str) -> str:
    """The outline of one of matplotlib's markers in the middle of a legend's line, of 26 by 10.

    "" of a mere stroke.
    """
    from matplotlib.markers import MarkerStyle

    shape = MarkerStyle(marker)
    path = shape.get_path().transformed(shape.get_transform())
    outlines = [np.asarray(outline) for outline in path.to_polygons()]
    if not outlines:
        return ""
    reach = np.abs(np.concatenate(outlines)).max()
    size = 4.5 / reach
    marks = []
    for outline in outlines:
        corners = outline * (size, -size) + (13, 5)
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
        marks.append(f"M{points}Z")
    return " ".join(marks)


def _inline(svg: str, alternative: str) -> Markup:
    """The svg element alone, in the page's colours and font, sized by the page.

    Its ids are like no other figure's.
    """
    content = (alternative + svg).encode()
    digest = hashlib.sha256(content).hexdigest()[:6]
    svg = svg[svg.index("<svg") :]
    svg = re.sub(
        r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->",
        "",
        svg,
        flags=re.S,
    )
    view = re.findall(r'viewBox="[\d. ]+"', svg)[0]
    inside = svg[svg.index(">") + 1 :]
    body = inside.replace("xlink:href", "href")
    svg = f'<svg role="img" {view} xmlns="http://www.w3.org/2000/svg">{body}'
    used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', svg))
    svg = re.sub(
        r' id="([^"]*)"',
        lambda match: match[0] if match[1] in used else "",
        svg,
    )
    svg = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>f{digest}-", svg)
    svg = re.sub(r" font-family: [^;\"]*;?", "", svg)
    svg = re.sub(r"font: (?:\d+ )?([\d.]+px) [^;\"]*", r"font-size: \1", svg)
    for placeholder, variable in NAMED.items():
        svg = svg.replace(placeholder, variable)
    svg = re.sub(r"\s*\n\s*", "\n", svg).strip()
    label = Markup('<svg aria-label="{}" ').format(alternative)
    return Markup(svg.replace("<svg ", label, 1))
