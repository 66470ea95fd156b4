"""Scores of the test set over the rounds: the mean of each system's runs, in a band of one standard deviation.

A panel per score. Runs that differ in nothing but the seed are one system; several of them give the band.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated

import numpy as np
import pandas
from pandas import DataFrame

from ...errors import FedcliError
from .. import drawing
from ..drawing import Axes, Panel, Picture
from ..figure import Figure, register
from ..series import Record, over_runs
from .curves import heading

USUAL = "balanced_accuracy", "balanced_accuracy_macro", "auc_macro"  # the first that some run recorded
SPREAD = "mean ± std over runs"


def frame(
    runs: Mapping[str, list[Record]], *,
    metric: Annotated[str, "of the test set; default: balanced_accuracy"] = "",
    version: Annotated[str, "of the test images: clean or corrupted; default: all"] = "",
) -> DataFrame:  # fmt: skip
    """A line per series, system and round, as of_series() makes them. Raises FedcliError where no run recorded it."""
    tested = [name for record in _every(runs) for name, series in record.series.items() if series.tested]
    metric = metric or next((one for one in USUAL if any(name.endswith(f" {one}") for name in tested)), USUAL[0])
    wanted = f"{version} {metric}".lstrip()
    names = [name for name in tested if name == wanted or (not version and name.endswith(f" {metric}"))]
    if not names:
        hint = "train with --eval-every 1 to record test curves"
        if tested:
            hint = f"known: {', '.join(dict.fromkeys(tested))}"
        raise FedcliError(f"no run recorded {wanted} over its rounds", hint)
    return of_series(runs, names)


def of_series(runs: Mapping[str, list[Record]], names: Sequence[str]) -> DataFrame:
    """A line per series, system and round: its place among the systems, the mean over runs, low and high; nothing of
    a system without a finite value."""
    parts = {}
    for name in dict.fromkeys(names):
        for place, (system, records) in enumerate(runs.items()):
            having = [record.series[name] for record in records if name in record.series]
            if having and np.isfinite((curve := over_runs(having))["value"]).any():
                about = {"place": place, "title": having[0].title, "unit": having[0].unit}
                parts[name, system] = curve.assign(**about)
    if not parts:
        return DataFrame(columns=["series", "system", "round", "value", "low", "high", "place", "title", "unit"])
    table = pandas.concat(parts, names=["series", "system"]).reset_index(["series", "system"]).reset_index(drop=True)
    table.attrs["title"] = heading(_every(runs))
    return table


def _every(runs: Mapping[str, list[Record]]) -> list[Record]:
    return [record for records in runs.values() for record in records]


def draw(table: DataFrame) -> Picture:
    panels = [
        Panel(part["title"].iloc[0], partial(_panel, part)) for _, part in table.groupby("series", sort=False)
    ]  # fmt: skip
    places = table.drop_duplicates("system").set_index("system")["place"]
    legend = {str(system): drawing.look(place) for system, place in places.items()}
    banded = {SPREAD: drawing.BAND} if table["low"].notna().any() else {}
    return Picture(table.attrs["title"], panels, legend | banded, below="round")


def _panel(part: DataFrame, axes: Axes) -> None:
    axes.set_ylabel(part["unit"].iloc[0])
    drawing.rounds_axis(axes)
    for place, curve in part.groupby("place", sort=False):
        look = drawing.look(place)
        if curve["low"].notna().any():
            drawing.band(axes, curve["round"], curve["low"], curve["high"], look)
        drawing.line(axes, curve[["round", "value"]].to_numpy(float), **look)


register(Figure("convergence", "How fast did methods learn?", "methods", frame, draw, every=True))
