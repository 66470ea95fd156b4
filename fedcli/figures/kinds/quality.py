"""Image quality by client, class or group: a histogram of each measure, and its lowest and its highest image."""

from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
from pandas import DataFrame

from ...data import manifest, quality_by_site
from ...data.quality import BINS, MEASURES, shown
from ...data.quality_by_site import SITES
from ..drawing import MOST_LINES, Axes, Panel, Picture
from ..figure import Figure, register
from ..shapes import line, looks_of, picture, titled
from .counts import partition_of
from .errors import show_image

TITLES = {of.name: f"{of.title} ({of.unit})" for of in MEASURES}


def frame(
    path: Path, *, by: Annotated[str, "an attribute, or class; the default is clients"] = ""
) -> DataFrame:
    """measure, site, value (of the middle of a bin), share in percent; attrs hold the most extreme images.

    path: a partition or corruption, or a run of one.
    """
    source = partition_of(path)
    measured = quality_by_site.of_manifest(source, by)
    lines = [
        (of.name, site, value, share)
        for site, counts in list(measured.histograms.items())[:MOST_LINES]
        for of, row in zip(MEASURES, 100 * counts / counts.sum(1, keepdims=True), strict=True)
        for value, share in zip(of.values(np.arange(BINS) + 0.5), row, strict=True)
    ]
    places, texts, names = [], [], measured.pool.id[measured.rows]
    for end, place_of in (("lowest", np.argmin), ("highest", np.argmax)):
        for of, values in zip(MEASURES, measured.values.T, strict=True):
            places.append(at := place_of(values))
            texts.append(f"{end} {of.title}\n{names[at]}\n{shown(values[at])} {of.unit}")
    cases = list(
        zip(texts, quality_by_site.pixels([measured.files[at] for at in places]), strict=True)
    )
    body = manifest.read(source).body
    about = body["dataset"] + ", SYNTHETIC data" * bool(body.get("sample"))
    table = DataFrame(lines, columns=["measure", "site", "value", "share"])
    words = "Share of the images in each of 64 bins, and the images with the lowest and the highest value."
    return titled(
        table, f"Image quality by {by or SITES}: {about}", words, len(measured.rows), cases=cases
    )


def draw(table: DataFrame) -> Picture:
    looks = looks_of(table, "site")
    parts = {of: table[table["measure"] == of.name] for of in MEASURES}
    panels = [
        Panel(TITLES[of.name], partial(_panel, part, looks, of.log)) for of, part in parts.items()
    ]
    panels += [Panel(words, partial(show_image, image)) for words, image in table.attrs["cases"]]
    return picture(table, panels, looks, size=(2.5, 2.3), columns=len(MEASURES))


def _panel(part: DataFrame, looks: dict, log: bool, axes: Axes) -> None:
    seen = part[part["share"] > 0]["value"]
    for name, curve in part.groupby("site", sort=False):
        line(axes, curve[["value", "share"]].to_numpy(float), **looks[str(name)] | {"marker": ""})
    axes.set(ylabel="images (%)", xscale="log" if log else "linear")
    if log:
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")
    axes.set_xlim(seen.min() * (0.9 if log else 1), seen.max() * (1.1 if log else 1) + 1e-9)


register(
    Figure(
        "quality", "How good are the images of each client, class or group?", "path", frame, draw
    )
)
