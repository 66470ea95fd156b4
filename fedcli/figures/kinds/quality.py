"""Image quality by client, class or group: a histogram of each measure.

Its lowest and its highest image are shown too.
"""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy import ndarray
from pandas import DataFrame

from ...data import image_places, quality_by_site
from ...data.quality import BINS, MEASURES, shown
from ...data.quality_by_site import SITES
from ..drawing import MOST_LINES, Axes, Looks, Panel, Picture, short
from ..figure import Figure, register
from ..shapes import line, looks_of, picture, titled
from .counts import dataset_of, partition_of
from .errors import show_image

WIDE = 5  # the largest value over the smallest one, from which 1, 2 and 5 are enough numbers
ABOUT = (
    "Share of the images in each of 64 bins, and the images with the lowest and the highest value."
)


def frame(
    path: Path, *, by: Annotated[str, "an attribute, or class; the default is clients"] = ""
) -> DataFrame:
    """measure, site, value (of the middle of a bin), share in percent.

    attrs hold the most extreme images.
    path: a partition or corruption, or a run of one.
    """
    source = partition_of(path)
    measured = quality_by_site.of_manifest(source, by)
    middles = np.arange(BINS) + 0.5
    lines = []
    sites = list(measured.histograms.items())
    caption = ABOUT
    if len(sites) > MOST_LINES:
        caption += f" Histograms are of the first {MOST_LINES} of {len(sites)}."
    for site, counts in sites[:MOST_LINES]:
        totals = counts.sum(1, keepdims=True)
        shares = 100 * counts / totals
        for measure, row in zip(MEASURES, shares, strict=True):
            for value, share in zip(measure.values(middles), row):
                lines.append((measure.name, site, value, share))
    table = DataFrame(lines, columns=["measure", "site", "value", "share"])
    grouping = by or SITES
    title = f"Image quality by {grouping}: {dataset_of(source)}"
    return titled(
        table,
        title,
        caption,
        len(measured.rows),
        cases=_extremes(measured),
    )


def _extremes(measured: Any) -> list[tuple[str, ndarray]]:
    """Words and pixels of the lowest and the highest image of each measure."""
    names = measured.pool.id[measured.rows]
    files = []
    texts = []
    for end, position_of in (("lowest", np.argmin), ("highest", np.argmax)):
        for measure, values in zip(MEASURES, measured.values.T, strict=True):
            position = position_of(values)
            files.append(measured.files[position])
            value = shown(values[position])
            size = f"{value} {measure.unit}"
            name = short(str(names[position]))
            texts.append(f"{end} {measure.title}\n{name}\n{size}")
    return list(zip(texts, image_places.pixels(files), strict=True))


def draw(table: DataFrame) -> Picture:
    looks = looks_of(table, "site")
    panels = []
    for measure in MEASURES:
        part = table[table["measure"] == measure.name]
        title = f"{measure.title} ({measure.unit})"
        draw_panel = partial(_panel, part, looks, measure.log)
        panels.append(Panel(title, draw_panel))
    for words, image in table.attrs["cases"]:
        panels.append(Panel(words, partial(show_image, image)))
    return picture(table, panels, looks, size=(2.5, 2.3), columns=len(MEASURES))


def _panel(
    part: DataFrame,
    looks: Looks,
    log: bool,
    axes: Axes,
) -> None:
    from matplotlib.ticker import LogLocator, MaxNLocator

    for name, curve in part.groupby("site", sort=False):
        points = curve[["value", "share"]].to_numpy(float)
        look = looks[str(name)] | {"marker": ""}
        line(axes, points, **look)
    values = part[part["share"] > 0]["value"]
    low = values.min()
    high = values.max()
    axes.set(ylabel="images (%)")
    if log:
        axes.set_xscale("log")
        is_wide = high > WIDE * low
        locator = LogLocator(subs=(1, 2, 5)) if is_wide else MaxNLocator(3)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")
        low *= 0.9
        high *= 1.1
    axes.set_xlim(low, high + 1e-9)


QUESTION = "How good are the images of each client, class or group?"
register(Figure("quality", QUESTION, "data", frame, draw))
